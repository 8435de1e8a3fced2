//! Landlock: rights a process gives up for itself and all it will start, without any privilege.
//!
//! A ruleset names the rights it *handles*; each of them is refused everywhere but at and below the
//! places that rules name. Whoever is under one can no longer change mounts, nor trace a process that
//! is not under the same one. The scopes confine signals and abstract sockets to those who are.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::io::Errno;

use crate::spawn::last_errno;

/// Rights on files, as the kernel numbers them.
pub mod access {
    /// Run a program.
    pub const EXECUTE: u64 = 1;
    /// Open a file for writing.
    pub const WRITE_FILE: u64 = 1 << 1;
    /// Open a file for reading.
    pub const READ_FILE: u64 = 1 << 2;
    /// List a directory.
    pub const READ_DIR: u64 = 1 << 3;
    /// Make a character device.
    pub const MAKE_CHAR: u64 = 1 << 6;
    /// Make a block device.
    pub const MAKE_BLOCK: u64 = 1 << 11;
    /// Cut a file.
    pub const TRUNCATE: u64 = 1 << 14;
    /// Command a device.
    pub const IOCTL_DEV: u64 = 1 << 15;
    /// All that can be done to something that is no directory.
    pub const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
    /// Nothing is changed by these.
    pub const READING: u64 = EXECUTE | READ_FILE | READ_DIR;

    /// All rights that a kernel with this ABI knows.
    pub const fn all(abi: u32) -> u64 {
        let count = match abi {
            0 => 0,
            1 => 13,
            2 => 14,
            3 | 4 => 15,
            _ => 16,
        };
        (1 << count) - 1
    }
}

/// From this ABI on, signals and abstract sockets can be confined.
pub const ABI_WITH_SCOPE: u32 = 6;
const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1;
const SCOPE_SIGNAL: u64 = 1 << 1;
const CREATE_RULESET_VERSION: u32 = 1;
const RULE_PATH_BENEATH: u32 = 1;

#[repr(C)]
struct RulesetAttributes {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

/// The version of Landlock that this kernel offers.
#[allow(unsafe_code, reason = "a raw system call; libc has no wrapper")]
pub fn abi() -> Result<u32, Errno> {
    // SAFETY: with this flag the call takes no pointer and makes nothing.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<RulesetAttributes>(),
            0,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).map_err(|_| last_errno())
}

/// Rules that are being written, or put on processes.
#[derive(Debug)]
pub struct Ruleset {
    fd: OwnedFd,
    abi: u32,
}

impl Ruleset {
    /// Handles every right on files that the kernel knows, and confines signals and abstract sockets
    /// where it can.
    #[allow(unsafe_code, reason = "a raw system call; libc has no wrapper")]
    pub fn new() -> Result<Self, Errno> {
        let abi = abi()?;
        let attributes = RulesetAttributes {
            handled_access_fs: access::all(abi),
            handled_access_net: 0,
            scoped: if abi >= ABI_WITH_SCOPE {
                SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL
            } else {
                0
            },
        };
        // SAFETY: the attributes are live and of the size given; older kernels accept the longer
        // form as long as what they do not know is zero. The result is a fresh descriptor.
        unsafe {
            let fd = libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const attributes,
                size_of::<RulesetAttributes>(),
                0,
            );
            if fd < 0 {
                return Err(last_errno());
            }
            Ok(Self {
                fd: OwnedFd::from_raw_fd(fd as i32),
                abi,
            })
        }
    }

    /// The version it was made for.
    pub fn abi(&self) -> u32 {
        self.abi
    }

    /// Allows these rights at and below a place, which may be open as a path only. Rights that the
    /// kernel does not know are left out.
    #[allow(unsafe_code, reason = "a raw system call; libc has no wrapper")]
    pub fn allow(&mut self, place: impl AsFd, rights: u64) -> Result<(), Errno> {
        let rule = PathBeneath {
            allowed_access: rights & access::all(self.abi),
            parent_fd: place.as_fd().as_raw_fd(),
        };
        // SAFETY: the rule is live and of the type that its number says.
        let result = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.fd.as_raw_fd(),
                RULE_PATH_BENEATH,
                &raw const rule,
                0,
            )
        };
        if result < 0 {
            Err(last_errno())
        } else {
            Ok(())
        }
    }

    /// Puts the rules on this thread and all it will start. Needs `no_new_privs`.
    pub fn restrict_self(&self) -> Result<(), Errno> {
        if restrict_self_raw(self.fd.as_fd()) < 0 {
            return Err(last_errno());
        }
        Ok(())
    }
}

impl AsFd for Ruleset {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Only one bare system call; negative when it failed.
#[allow(unsafe_code, reason = "a raw system call; libc has no wrapper")]
pub(crate) fn restrict_self_raw(ruleset: BorrowedFd<'_>) -> libc::c_long {
    // SAFETY: takes no pointer; it only lessens the rights of the caller.
    unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) }
}
