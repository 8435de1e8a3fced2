//! Whom the kernel counts a sandbox to.
//!
//! Some things it counts for each user of a user namespace, and for the user who made that namespace with
//! them: inotify instances and watches, for example. If root made all sandboxes, one of them could use up what
//! root has for all, and for its own services. So each is made by a number of its own range.

use rustix::io::Errno;
use rustix::process::{Uid, geteuid, getuid};
use rustix::thread::{
    CapabilitiesSecureBits, capabilities_secure_bits, set_capabilities_secure_bits,
    set_thread_res_uid,
};

use crate::plan::Ids;

/// Who we are again afterwards; nobody else where we stayed ourselves.
#[derive(Debug)]
pub(super) struct Account(Option<Uid>);

impl Account {
    /// Takes on the first number of a sandbox, with all our rights. Where the rights would go with our own number,
    /// the sandbox counts as ours.
    pub(super) fn of(ids: Ids) -> Result<Self, Errno> {
        let Ids::Range(first) = ids else {
            return Ok(Self(None));
        };
        let kept = capabilities_secure_bits()? | CapabilitiesSecureBits::NO_SETUID_FIXUP;
        if set_capabilities_secure_bits(kept).is_err() {
            return Ok(Self(None));
        }
        let ours = geteuid();
        set_thread_res_uid(getuid(), Uid::from_raw(first), ours)?;
        Ok(Self(Some(ours)))
    }

    /// Goes back. Not for the child, which has other numbers by then.
    pub(super) fn leave(self) -> Result<(), Errno> {
        match self.0 {
            Some(ours) => set_thread_res_uid(getuid(), ours, ours),
            None => Ok(()),
        }
    }
}
