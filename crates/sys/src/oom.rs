//! Whom the kernel ends first when memory has run out.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// The earliest there is.
const FIRST: i32 = 1000;

/// Has a process ended earlier than its size alone would have it: as if it used so many thousandths more
/// of the memory that ran out. So will be what it starts.
///
/// The process must be a child that nobody has waited for, or the pid may be another's by now. It needs no
/// right but the one to write the file, which is the process's own user's.
pub fn end_earlier(pid: i32, thousandths: i32) -> io::Result<()> {
    let path = format!("/proc/{pid}/oom_score_adj");
    let file = File::options().read(true).write(true).open(path)?;
    let mut text = [0; 16];
    let read = file.read_at(&mut text, 0)?;
    let text = String::from_utf8_lossy(text.get(..read).unwrap_or_default());
    let now: i32 = text.trim().parse().map_err(io::Error::other)?;
    let then = (now + thousandths).min(FIRST);
    file.write_all_at(then.to_string().as_bytes(), 0)
}
