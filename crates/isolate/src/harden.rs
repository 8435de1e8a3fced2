//! What init gives up for itself and for all it will start, and what each program gives up besides.
//!
//! Most of it is done once, on init, just before it serves: every program inherits it, and a start
//! costs a few microseconds instead of a hundred.
//!
//! ```text
//! init     no_new_privs ─► bounding set, capabilities ─► Landlock ─► the large filter
//! program  (its own part of it all, see sys::rights) + clone3 is answered with ENOSYS
//! ```
//!
//! `clone3` passes its flags in memory, where a filter cannot look, so programs must do with `clone`;
//! init itself needs it to start programs in their control groups. That is the one difference.
//!
//! This module owns the policy. It does not own the namespaces and mounts around it: it is written so
//! that each wall stands also where another one is missing. Whether it does is not believed but
//! probed, see `probe`.

pub mod calls;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sandshell_sys::capability::{self, Capabilities, Capability, Sets};
use sandshell_sys::landlock::{Ruleset, access};
use sandshell_sys::rights::Rights;

pub use calls::Filters;

/// What a program may hold that runs as root of its sandbox: enough for package managers, `su` and
/// ports below 1024, and of no use outside.
pub const COMMAND_ROOT: Capabilities = Capabilities::of(&[
    Capability::Chown,
    Capability::DacOverride,
    Capability::Fowner,
    Capability::Fsetid,
    Capability::Kill,
    Capability::Setgid,
    Capability::Setuid,
    Capability::Setpcap,
    Capability::NetBindService,
    Capability::SysChroot,
    Capability::Setfcap,
]);

/// The devices that may be commanded; a terminal is no use otherwise.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];
/// Where terminals lie.
const TERMINALS: &[&str] = &["/dev/pts", "/dev/ptmx"];

/// What init is told about its hardening.
#[derive(Debug, Clone, Copy)]
pub struct InitHardening<'a> {
    /// Compiled once by whoever starts init, and inherited.
    pub filters: &'a Filters,
    /// The directory below which the sessions' channels lie, on a mount of its own.
    pub channels: Option<BorrowedFd<'a>>,
    /// Directories below which files may be written; absent, everywhere the mounts allow it.
    pub writable: Option<&'a [PathBuf]>,
    /// Which devices may be commanded.
    pub devices: Devices,
    /// Capabilities that init itself keeps beyond those of a program of root.
    pub keep: Capabilities,
}

/// Which devices programs may command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Devices {
    /// Those that every sandbox has.
    Usual,
    /// All that are there: whoever made the place gave them, graphics processors and the like.
    Given,
}

/// A hardened init, and the rights of the programs it starts.
#[derive(Debug)]
pub struct Hardened<'a> {
    /// The version of Landlock that holds, or why none does.
    pub landlock: Result<u32, Errno>,
    /// Whether the filter holds, or why not.
    pub filter: Result<(), Errno>,
    root: Rights<'a>,
    ordinary: Rights<'a>,
}

impl Hardened<'_> {
    /// Fails unless each wall stands that this kernel can build.
    pub(crate) fn complete(self) -> Result<Self, Errno> {
        let (landlock, filter) = (self.landlock.err(), self.filter.err());
        match landlock.or(filter) {
            None | Some(Errno::NOSYS | Errno::OPNOTSUPP) => Ok(self),
            Some(errno) => Err(errno),
        }
    }

    /// The rights of a program of this user.
    pub fn rights(&self, uid: u32) -> &Rights<'_> {
        if uid == 0 { &self.root } else { &self.ordinary }
    }
}

/// Limits that init sets for itself and so for all it starts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ceilings {
    /// Most processes. Set before the inner user namespace is made, it is a ceiling over all users of
    /// the sandbox.
    pub(crate) pids: Option<u64>,
    /// Most open files of each process.
    pub(crate) open_files: Option<u64>,
}

impl Ceilings {
    pub(crate) fn set(self) -> Result<(), Errno> {
        if let Some(pids) = self.pids {
            let limit = Rlimit {
                current: Some(pids),
                maximum: Some(pids),
            };
            setrlimit(Resource::Nproc, limit)?;
        }
        limit_files(self.open_files)
    }
}

/// The usual limit, whatever that of the hub is: programs that close all they might have open take time
/// for each. One that was asked for cannot be raised again.
fn limit_files(most: Option<u64>) -> Result<(), Errno> {
    const USUAL: u64 = 1024;
    let hard = most.or(getrlimit(Resource::Nofile).maximum);
    let soft = most.unwrap_or(hard.map_or(USUAL, |hard| hard.min(USUAL)));
    let limit = Rlimit {
        current: Some(soft),
        maximum: hard,
    };
    setrlimit(Resource::Nofile, limit)
}

/// A step that must not fail anywhere did.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {errno}")]
pub struct HardenError {
    /// Which.
    pub step: &'static str,
    /// Why.
    pub errno: Errno,
}

/// Hardens this process, which must have one thread and its final root directory. What the kernel
/// does not offer is said in the result; it is for the caller to judge.
pub fn on_init<'a>(hardening: &InitHardening<'a>) -> Result<Hardened<'a>, HardenError> {
    let failed = |step| move |errno| HardenError { step, errno };
    rustix::thread::set_no_new_privs(true).map_err(failed("no_new_privs"))?;
    let bounding = drop_capabilities(hardening.keep).map_err(failed("capabilities"))?;
    let landlock = restrict_files(hardening);
    let filter = hardening.filters.init.install();
    let program = |capabilities| {
        let tiny = filter.is_ok().then_some(&hardening.filters.command);
        Rights::new(capabilities, bounding, None, tiny).map_err(failed("capabilities of programs"))
    };
    Ok(Hardened {
        root: program(COMMAND_ROOT)?,
        ordinary: program(Capabilities::NONE)?,
        landlock,
        filter,
    })
}

/// Leaves programs no more than those of root may have, and init what it needs beyond. Says what is
/// left in the bounding set.
fn drop_capabilities(keep: Capabilities) -> Result<Capabilities, Errno> {
    let held = Sets::current()?;
    let mut bounding = capability::bounding();
    let setpcap = Capabilities::of(&[Capability::Setpcap]);
    // Without SETPCAP the bounding set stays; with `no_new_privs` nobody can gain by it.
    if !held.effective.and(setpcap).is_empty() {
        capability::drop_from_bounding(bounding.without(COMMAND_ROOT))?;
        bounding = bounding.and(COMMAND_ROOT);
    }
    Sets::exactly(held.permitted.and(COMMAND_ROOT.or(keep))).apply()?;
    Ok(bounding)
}

fn restrict_files(hardening: &InitHardening<'_>) -> Result<u32, Errno> {
    let ruleset = files_ruleset(hardening)?;
    ruleset.restrict_self()?;
    Ok(ruleset.abi())
}

/// The rules on files: everything that the mounts and modes allow, but no device is made, none is
/// commanded except those of every sandbox, and nothing is written outside `writable` if that is
/// given. Mounts can no longer be changed, whatever capabilities there are.
fn files_ruleset(hardening: &InitHardening<'_>) -> Result<Ruleset, Errno> {
    let mut ruleset = Ruleset::new()?;
    let mut harmless = access::all(ruleset.abi()) & !(access::MAKE_CHAR | access::MAKE_BLOCK);
    if hardening.devices == Devices::Usual {
        harmless &= !access::IOCTL_DEV;
    }
    let root = open(Path::new("/"))?;
    match hardening.writable {
        None => ruleset.allow(&root, harmless)?,
        Some(places) => {
            ruleset.allow(&root, access::READING)?;
            for place in places {
                ruleset.allow(open(place)?, harmless)?;
            }
        }
    }
    let of_device = access::READ_FILE | access::WRITE_FILE | access::IOCTL_DEV;
    // What is not there, or hidden by a program that may change the root, is not to be had.
    for device in DEVICES.iter().chain(TERMINALS) {
        if let Ok(device) = open(Path::new(device)) {
            ruleset.allow(device, of_device)?;
        }
    }
    if let Some(channels) = hardening.channels {
        let of_channel = access::READ_FILE | access::WRITE_FILE | access::TRUNCATE;
        ruleset.allow(channels, of_channel)?;
    }
    Ok(ruleset)
}

fn open(path: &Path) -> Result<OwnedFd, Errno> {
    openat(
        rustix::fs::CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

#[cfg(test)]
mod tests;
