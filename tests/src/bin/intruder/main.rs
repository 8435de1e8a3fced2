//! An intruder: a program to be run inside a sandbox that tries every door, and says of each whether
//! it is open. It does no harm where one is: it asks for things in a way that changes nothing, or only
//! what is its own. Not for use outside walls.
//!
//! ```text
//! intruder sweep                 every system call once, with empty arguments
//! intruder doors                 what no sandbox may do to the kernel, by name
//! intruder sights [WORD=VALUE…]  what no sandbox may see or touch of the host
//! intruder stand MARKER          lays bait of its own, names it, and waits for the end of its input
//! intruder container-filter      a filter such as container engines put on all they run
//! ```
//!
//! One line for each: its name, `open` or `shut`, and what was seen.
#![allow(clippy::print_stdout, reason = "its findings go to standard output")]

mod container;
mod doors;
mod sights;
mod stand;

use sandshell_sys::calls;
use sandshell_sys::knock::{Answer, knock};

/// Beyond the newest call of any kernel.
const HIGHEST: u32 = 600;

fn main() {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("sweep") => sweep(),
        Some("doors") => doors::try_all(),
        Some("sights") => sights::try_all(&words.collect::<Vec<_>>()),
        Some("stand") => stand::wait(&words.next().unwrap_or_default()),
        Some("container-filter") => container::write_filter(),
        _ => std::process::exit(2),
    }
}

/// What a line says.
fn say(name: &str, open: bool, detail: &str) {
    println!("{name}\t{}\t{detail}", if open { "open" } else { "shut" });
}

fn sweep() {
    for number in 0..=HIGHEST {
        let answer = match knock(number, Vec::new()) {
            Ok(answer) => describe(answer),
            Err(errno) => format!("could not be tried: {errno}"),
        };
        println!("{number}\t{}\t{answer}", calls::name(number).unwrap_or("-"));
    }
}

/// An answer in a word: refusals by their number's name.
fn describe(answer: Answer) -> String {
    match answer {
        Answer::Done => "done".to_owned(),
        Answer::Waits => "waits".to_owned(),
        Answer::Killed(signal) => format!("killed by signal {signal}"),
        Answer::Failed(errno) => named(errno.raw_os_error()),
    }
}

fn named(errno: i32) -> String {
    let name = match errno {
        1 => "EPERM",
        2 => "ENOENT",
        3 => "ESRCH",
        9 => "EBADF",
        13 => "EACCES",
        14 => "EFAULT",
        19 => "ENODEV",
        20 => "ENOTDIR",
        22 => "EINVAL",
        25 => "ENOTTY",
        28 => "ENOSPC",
        30 => "EROFS",
        38 => "ENOSYS",
        93 => "EPROTONOSUPPORT",
        94 => "ESOCKTNOSUPPORT",
        95 => "EOPNOTSUPP",
        97 => "EAFNOSUPPORT",
        111 => "ECONNREFUSED",
        _ => return format!("errno {errno}"),
    };
    name.to_owned()
}
