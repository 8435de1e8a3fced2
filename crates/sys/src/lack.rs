//! Which failures say that something is used up for now, and nothing of what was asked for.

use rustix::io::Errno;

/// Whether descriptors or memory ran out: whoever looked saw nothing, so it knows nothing either.
pub fn is_lack(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS
    )
}
