//! The system calls that change something outside the process which makes them, and their names.
//!
//! A name is the call and what it is about, without what differs from one run to the next: `pwrite64
//! s/hub.db-wal`, `rename s/sandboxes/PLACE`, `sendmsg socket`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use nix::libc;
use regex::Regex;

/// What the argument of a call is.
#[derive(Debug, Clone, Copy)]
enum About {
    /// A descriptor.
    Descriptor,
    /// A path.
    Path,
    /// A directory's descriptor and a path.
    PathAt,
    /// The same, of a file that is made if it is not there.
    Made,
    /// Where something is moved to.
    Target,
    /// The same, as a directory's descriptor and a path.
    TargetAt,
    /// Nothing that has a name.
    Nothing,
}

const CALLS: &[(libc::c_long, &str, About)] = &[
    (libc::SYS_write, "write", About::Descriptor),
    (libc::SYS_pwrite64, "pwrite64", About::Descriptor),
    (libc::SYS_writev, "writev", About::Descriptor),
    (libc::SYS_sendto, "sendto", About::Descriptor),
    (libc::SYS_sendmsg, "sendmsg", About::Descriptor),
    (libc::SYS_recvmsg, "recvmsg", About::Descriptor),
    (libc::SYS_fsync, "fsync", About::Descriptor),
    (libc::SYS_fdatasync, "fdatasync", About::Descriptor),
    (libc::SYS_ftruncate, "ftruncate", About::Descriptor),
    (libc::SYS_fchmod, "fchmod", About::Descriptor),
    (libc::SYS_fchown, "fchown", About::Descriptor),
    (libc::SYS_flock, "flock", About::Descriptor),
    (libc::SYS_accept4, "accept4", About::Descriptor),
    (libc::SYS_connect, "connect", About::Descriptor),
    (libc::SYS_bind, "bind", About::Descriptor),
    (libc::SYS_listen, "listen", About::Descriptor),
    (libc::SYS_openat, "openat", About::Made),
    (libc::SYS_mkdirat, "mkdirat", About::PathAt),
    (libc::SYS_unlinkat, "unlinkat", About::PathAt),
    (libc::SYS_fchmodat, "fchmodat", About::PathAt),
    (libc::SYS_fchownat, "fchownat", About::PathAt),
    (libc::SYS_renameat2, "renameat2", About::TargetAt),
    (libc::SYS_linkat, "linkat", About::TargetAt),
    (libc::SYS_symlinkat, "symlinkat", About::Path),
    (libc::SYS_clone, "clone", About::Nothing),
    (libc::SYS_clone3, "clone3", About::Nothing),
    (libc::SYS_memfd_create, "memfd_create", About::Nothing),
    (
        libc::SYS_pidfd_send_signal,
        "pidfd_send_signal",
        About::Nothing,
    ),
    (libc::SYS_kill, "kill", About::Nothing),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, "mkdir", About::Path),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rmdir, "rmdir", About::Path),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_unlink, "unlink", About::Path),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, "rename", About::Target),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_link, "link", About::Target),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, "chmod", About::Path),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_vfork, "vfork", About::Nothing),
];

/// Reads what a process is about to do.
#[derive(Debug)]
pub(super) struct Reader {
    pid: i32,
    /// What paths are told relative to.
    dir: PathBuf,
    memory: Option<File>,
    varying: Vec<(Regex, &'static str)>,
}

impl Reader {
    pub(super) fn new(pid: i32, dir: PathBuf) -> Self {
        let pattern = |text: &str| Regex::new(text).unwrap();
        Self {
            pid,
            dir,
            memory: None,
            varying: vec![
                (pattern(r"\b[0-9a-f]{12}\b"), "PLACE"),
                (pattern(r"\betc/\d+"), "etc/N"),
                (pattern(r":\[\d+\]"), ""),
                (pattern(r"\.(tmp|new)[-.]?\w+"), ".$1"),
                (pattern(r"\.\d+$"), ".N"),
                (pattern(r"\d{5,}|[0-9a-f]{16,}"), "N"),
            ],
        }
    }

    /// The name of the call that a thread stands before, if it has an effect.
    pub(super) fn effect(&mut self, thread: i32) -> Option<String> {
        let text = fs::read_to_string(format!("/proc/{}/task/{thread}/syscall", self.pid)).ok()?;
        let mut words = text.split_ascii_whitespace();
        let number: libc::c_long = words.next()?.parse().ok()?;
        let (_, name, about) = CALLS.iter().find(|(known, ..)| *known == number)?;
        let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        let args: Vec<u64> = words.filter_map(hex).collect();
        let arg = |n: usize| args.get(n).copied().unwrap_or_default();
        let what = match about {
            About::Descriptor => self.descriptor(arg(0))?,
            About::Path => self.text(arg(0))?,
            About::PathAt => self.path_at(arg(0), arg(1))?,
            About::Made => {
                let creates = u64::from(libc::O_CREAT.unsigned_abs());
                if arg(2) & creates == 0 {
                    return None;
                }
                self.path_at(arg(0), arg(1))?
            }
            About::Target => self.text(arg(1))?,
            About::TargetAt => self.path_at(arg(2), arg(3))?,
            About::Nothing => String::new(),
        };
        // The runtime wakes its own threads so, and what is said of it is not what it does.
        if what.contains("eventfd") || what.ends_with("hub.log") || what.starts_with("/dev/pts") {
            return None;
        }
        let what = what.replace(&*self.dir.to_string_lossy(), "");
        let what = what.trim_start_matches('/');
        let steady = self
            .varying
            .iter()
            .fold(what.to_owned(), |text, (from, to)| {
                from.replace_all(&text, *to).into_owned()
            });
        Some(format!("{name} {steady}").trim_end().to_owned())
    }

    fn descriptor(&self, fd: u64) -> Option<String> {
        let link = fs::read_link(format!("/proc/{}/fd/{}", self.pid, fd as i32)).ok()?;
        Some(link.to_string_lossy().into_owned())
    }

    fn path_at(&mut self, dir: u64, path: u64) -> Option<String> {
        let path = self.text(path)?;
        let above = match dir as i32 {
            _ if path.starts_with('/') => None,
            libc::AT_FDCWD => None,
            _ => self.descriptor(dir),
        };
        Some(above.map_or(path.clone(), |above| format!("{above}/{path}")))
    }

    /// A string in its memory.
    fn text(&mut self, at: u64) -> Option<String> {
        if self.memory.is_none() {
            self.memory = File::open(format!("/proc/{}/mem", self.pid)).ok();
        }
        let mut bytes = [0; 256];
        let n = self.memory.as_ref()?.read_at(&mut bytes, at).ok()?;
        let end = bytes[..n].iter().position(|byte| *byte == 0).unwrap_or(n);
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}
