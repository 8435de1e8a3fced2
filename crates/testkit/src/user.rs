//! A user without rights, for agents that must not run as root.

use std::os::unix::fs::chown;
use std::path::Path;

/// Neither a system user nor in the range `useradd` hands out, nor in systemd's dynamic range.
const ID: u32 = 61_000;

/// A uid and gid that own nothing.
///
/// It has no passwd entry on purpose: nothing on the machine changes, parallel tests cannot
/// collide, and images without `useradd` work. That is also how many containers are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnprivilegedUser {
    /// Its user id.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
}

impl UnprivilegedUser {
    /// The user; `None` when the test does not run as root and so has no rights to give up.
    pub fn get() -> Option<Self> {
        rustix::process::geteuid()
            .is_root()
            .then_some(Self { uid: ID, gid: ID })
    }

    /// Gives it a file or directory.
    pub fn own(self, path: &Path) {
        chown(path, Some(self.uid), Some(self.gid))
            .unwrap_or_else(|error| panic!("cannot chown {}: {error}", path.display()));
    }
}
