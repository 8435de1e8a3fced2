//! The rights a program is started with, taken up by the child between clone and exec.
//!
//! Everything is worked out beforehand; the child only makes system calls. The order matters:
//!
//! ```text
//! no_new_privs, Landlock ─► (descriptors, limits) ─► bounding set ─► (user and groups)
//!     ─► capabilities ─► (working directory) ─► filter ─► exec
//! ```
//!
//! Landlock comes first because its descriptor is closed with all others; the bounding set needs a
//! capability that the new user has not; the working directory is entered with the user's own rights.

use std::ffi::c_long;
use std::os::fd::AsFd as _;

use rustix::io::Errno;

use crate::capability::{self, Capabilities, Sets};
use crate::landlock::{self, Ruleset};
use crate::seccomp::Filter;
use crate::spawn::{Identity, errno, last_errno};

/// Rights that stay with a program; nothing it executes gives it more.
#[derive(Debug)]
pub struct Rights<'a> {
    capabilities: Capabilities,
    leave_bounding: Capabilities,
    landlock: Option<&'a Ruleset>,
    filter: Option<&'a Filter>,
}

impl<'a> Rights<'a> {
    /// For programs that this process starts: of the given capabilities those it has itself, no
    /// core file, and what the ruleset and the filter leave. `bounding` is the set of this process. To
    /// be made anew when this process loses rights of its own.
    pub fn new(
        capabilities: Capabilities,
        bounding: Capabilities,
        landlock: Option<&'a Ruleset>,
        filter: Option<&'a Filter>,
    ) -> Result<Self, Errno> {
        let capabilities = capabilities.and(Sets::current()?.permitted);
        Ok(Self {
            capabilities,
            leave_bounding: bounding.without(capabilities),
            landlock,
            filter,
        })
    }

    /// Takes them up in a forked process that will not execute a program, as this user.
    pub fn take_up(&self, identity: Option<&Identity>) -> Result<(), Errno> {
        let done = |result: c_long| match result {
            0.. => Ok(()),
            _ => Err(last_errno()),
        };
        done(self.give_up_gains())?;
        done(self.lower_ceiling())?;
        if let Some(identity) = identity {
            done(identity.become_raw())?;
        }
        done(self.drop_capabilities())?;
        done(self.filter_calls())
    }

    /// Before descriptors are closed.
    pub(crate) fn give_up_gains(&self) -> c_long {
        if capability::no_new_privs_raw() < 0 {
            return -1;
        }
        match self.landlock {
            Some(ruleset) => landlock::restrict_self_raw(ruleset.as_fd()),
            None => 0,
        }
    }

    /// With the rights of the parent still.
    pub(crate) fn lower_ceiling(&self) -> c_long {
        // Without SETPCAP neither can be done. Then the program gets nothing from them either:
        // `no_new_privs` is set, and what is not permitted now cannot come back.
        for result in [
            capability::usual_securebits_raw(),
            capability::drop_from_bounding_raw(self.leave_bounding),
        ] {
            if result < 0 && errno() != libc::EPERM {
                return result;
            }
        }
        no_core_file()
    }

    /// As the new user.
    pub(crate) fn drop_capabilities(&self) -> c_long {
        Sets::exactly(self.capabilities).apply_raw()
    }

    /// Just before the exec.
    pub(crate) fn filter_calls(&self) -> c_long {
        self.filter.map_or(0, Filter::install_raw)
    }
}

/// A crash leaves no file, wherever the host's pattern would put it.
#[allow(unsafe_code, reason = "a bare system call")]
fn no_core_file() -> c_long {
    let none = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit is live and only read.
    unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            libc::RLIMIT_CORE,
            &raw const none,
            std::ptr::null_mut::<libc::rlimit64>(),
        )
    }
}
