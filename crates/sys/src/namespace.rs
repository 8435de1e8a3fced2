//! Namespaces: being born in new ones, and what is set up once inside.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::UnshareFlags;

use crate::spawn::{CLONE_INTO_CGROUP, CloneArgs, Spawned};

/// Namespaces to be born in, as the kernel's flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespaces(u64);

impl Namespaces {
    /// None but those one is in.
    pub const NONE: Self = Self(0);
    /// Mounts.
    pub const MOUNT: Self = Self(libc::CLONE_NEWNS as u64);
    /// Processes.
    pub const PID: Self = Self(libc::CLONE_NEWPID as u64);
    /// Users and capabilities.
    pub const USER: Self = Self(libc::CLONE_NEWUSER as u64);
    /// System V objects and message queues.
    pub const IPC: Self = Self(libc::CLONE_NEWIPC as u64);
    /// Host name.
    pub const UTS: Self = Self(libc::CLONE_NEWUTS as u64);

    /// Both of them.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The kernel's flags.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// Splits this single-threaded process in two; the child, which gets `None`, is born in these
/// namespaces and in this cgroup.
///
/// Only for a process with one thread and no runtime: what another thread held would stay held in the
/// child. libc does not hear of this fork; it keeps nothing for a process but the thread id it
/// remembers, which it uses for nothing that Rust's own locks are made of.
#[allow(
    unsafe_code,
    reason = "no wrapper forks into namespaces and a cgroup at once"
)]
pub fn fork_into(
    namespaces: Namespaces,
    group: Option<BorrowedFd<'_>>,
) -> Result<Option<Spawned>, Errno> {
    let mut pidfd: RawFd = -1;
    let mut args = CloneArgs {
        flags: libc::CLONE_PIDFD as u64 | namespaces.bits(),
        pidfd: (&raw mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    if let Some(group) = group {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = u64::from(group.as_raw_fd().cast_unsigned());
    }
    // SAFETY: without CLONE_VM and without a stack this is a fork: the child continues here on a copy
    // of this stack. The arguments name live memory of the right size. The caller is single-threaded.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    match pid {
        ..0 => Err(last_errno()),
        0 => Ok(None),
        pid => Ok(Some(Spawned {
            pid: i32::try_from(pid).map_err(|_| Errno::SRCH)?,
            // SAFETY: the kernel put a fresh descriptor there, which nobody else owns.
            pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) },
        })),
    }
}

/// Leaves the cgroup namespace for a fresh one, whose roots are the groups this process is in.
#[allow(
    unsafe_code,
    reason = "unshare is unsafe for descriptors, which stay shared"
)]
pub fn unshare_cgroup() -> Result<(), Errno> {
    // SAFETY: the flag does not change what descriptors or memory mean.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWCGROUP) }
}

/// Leaves the network namespace for a fresh one. For a process with one thread.
#[allow(
    unsafe_code,
    reason = "unshare is unsafe for descriptors, which stay shared"
)]
pub fn unshare_network() -> Result<(), Errno> {
    // SAFETY: the flag does not change what descriptors or memory mean.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
}

/// Leaves the user namespace for a fresh one. For a process with one thread.
#[allow(
    unsafe_code,
    reason = "unshare is unsafe for descriptors, which stay shared"
)]
pub fn unshare_user() -> Result<(), Errno> {
    // SAFETY: the flag does not change what descriptors or memory mean.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) }
}

/// Closes every descriptor from 3 on but these. For a forked child that never returns to where they are
/// owned, and ends without running destructors.
#[allow(unsafe_code, reason = "closes descriptors that others own by type")]
pub fn close_all_but(kept: &[BorrowedFd<'_>]) {
    let mut kept: Vec<u32> = kept
        .iter()
        .map(|fd| fd.as_raw_fd().cast_unsigned())
        .collect();
    kept.sort_unstable();
    let mut first = 3;
    let mut close = |until: u32| {
        if let Some(last) = until.checked_sub(1)
            && first <= last
        {
            // SAFETY: by the contract above nobody in this process uses, or drops, what owned them.
            unsafe {
                libc::syscall(libc::SYS_close_range, first, last, 0);
            }
        }
        first = first.max(until.saturating_add(1));
    };
    kept.into_iter().for_each(&mut close);
    close(u32::MAX);
}

/// Starts the loopback device of this network namespace.
pub fn loopback_up() -> Result<(), Errno> {
    let up = libc::__c_anonymous_ifr_ifru {
        ifru_flags: (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short,
    };
    set_interface(b"lo", libc::SIOCSIFFLAGS, up)
}

/// Gives the loopback device of this network namespace one more address.
#[allow(
    unsafe_code,
    reason = "the kernel takes an address of any kind as bytes"
)]
pub fn loopback_address(address: Ipv4Addr) -> Result<(), Errno> {
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr {
            s_addr: u32::from(address).to_be(),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: both are plain bytes of the same size, made to be seen as one another.
    let address = unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(address) };
    let address = libc::__c_anonymous_ifr_ifru { ifru_addr: address };
    set_interface(b"lo:1", libc::SIOCSIFADDR, address)
}

#[allow(unsafe_code, reason = "rustix does not set up interfaces")]
fn set_interface(
    name: &[u8],
    what: libc::c_ulong,
    value: libc::__c_anonymous_ifr_ifru,
) -> Result<(), Errno> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: value,
    };
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        // Signed on some processors, not on others.
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    // SAFETY: the kernel reads one ifreq, which lives here.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), what as _, &raw const request) };
    if done < 0 { Err(last_errno()) } else { Ok(()) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
