//! The rights of one thread: whose files it may touch.
//!
//! The kernel keeps credentials for each thread; libc's wrappers change them for all threads at
//! once. These are the bare calls, so that one thread of a privileged agent can act with the rights
//! of a sandbox user while the others keep their own.

use rustix::io::Errno;

use crate::spawn::Identity;

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;
const CAP_SETGID: u32 = 6;
const CAP_SETUID: u32 = 7;
const MAY_SWITCH: u64 = (1 << CAP_SETGID) | (1 << CAP_SETUID);
/// What root may do with files: `CAP_CHOWN`, `CAP_DAC_OVERRIDE`, `CAP_FOWNER` and `CAP_FSETID`.
const FILES: u64 = (1 << 0) | (1 << 1) | (1 << 3) | (1 << 4);

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilityHalf {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives this thread a working directory and umask of its own. Where that is forbidden, as in most
/// containers, all threads get this umask.
#[allow(
    unsafe_code,
    reason = "unshare is unsafe for descriptors, which stay shared"
)]
pub fn own_file_context(umask: u32) -> Result<(), Errno> {
    // SAFETY: CLONE_FS only parts the working directory, root and umask of this thread from those
    // of the others; nothing in this program depends on their being shared.
    match unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FS) } {
        Ok(()) | Err(Errno::PERM | Errno::NOSYS) => {}
        Err(errno) => return Err(errno),
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
    Ok(())
}

/// From now on this thread opens, makes and removes files as this user would, with no capability but
/// that of becoming another one and, as root, those over files. `None` gives it back the rights of the process, without its
/// supplementary groups. Only for a process that may do so: one of root, or with `CAP_SETUID` and
/// `CAP_SETGID`.
pub fn assume(identity: Option<&Identity>) -> Result<(), Errno> {
    let own = Identity {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: Vec::new(),
    };
    let permitted = permitted()?;
    // Whoever was assumed before could be left only with these.
    set_effective(permitted & MAY_SWITCH)?;
    let wanted = identity.unwrap_or(&own);
    set_groups(&wanted.groups)?;
    set_file_ids(wanted.uid, wanted.gid)?;
    // The kernel drops capabilities by itself only when the thread's uid was 0 and the new one is
    // not; said outright it holds for every agent.
    let effective = match identity {
        None => permitted,
        // The root of a sandbox, taken on by an agent that is somebody else.
        Some(Identity { uid: 0, .. }) => permitted & (MAY_SWITCH | FILES),
        Some(_) => permitted & MAY_SWITCH,
    };
    set_effective(effective)
}

#[allow(unsafe_code, reason = "no wrapper calls setgroups for one thread")]
fn set_groups(groups: &[u32]) -> Result<(), Errno> {
    // SAFETY: the pointer and length describe a live slice of gid_t, which the kernel only reads.
    let result = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if result < 0 {
        Err(last_errno())
    } else {
        Ok(())
    }
}

#[allow(unsafe_code, reason = "no wrapper calls setfsuid for one thread")]
fn set_file_ids(uid: u32, gid: u32) -> Result<(), Errno> {
    // SAFETY: plain numbers in and out. The calls give the former id and no error, so asking with
    // an id that cannot be is the way to learn whether they worked.
    let now = unsafe {
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
        [
            libc::syscall(libc::SYS_setfsuid, u32::MAX),
            libc::syscall(libc::SYS_setfsgid, u32::MAX),
        ]
    };
    if now == [i64::from(uid), i64::from(gid)] {
        Ok(())
    } else {
        Err(Errno::PERM)
    }
}

/// What this thread may have.
#[allow(
    unsafe_code,
    reason = "no wrapper reads the capabilities of one thread"
)]
fn permitted() -> Result<u64, Errno> {
    let mut header = CapabilityHeader {
        version: CAPABILITY_VERSION_3,
        pid: 0,
    };
    let mut halves = [CapabilityHalf::default(); 2];
    // SAFETY: version 3 fills exactly two halves; both pointers are to live values.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, halves.as_mut_ptr()) };
    if result < 0 {
        return Err(last_errno());
    }
    let [low, high] = halves;
    Ok(u64::from(low.permitted) | (u64::from(high.permitted) << 32))
}

#[allow(unsafe_code, reason = "no wrapper sets the capabilities of one thread")]
fn set_effective(effective: u64) -> Result<(), Errno> {
    let permitted = permitted()?;
    let mut header = CapabilityHeader {
        version: CAPABILITY_VERSION_3,
        pid: 0,
    };
    let half = |shift: u32| CapabilityHalf {
        effective: (effective >> shift) as u32,
        permitted: (permitted >> shift) as u32,
        inheritable: 0,
    };
    let halves = [half(0), half(32)];
    // SAFETY: version 3 reads exactly two halves; both pointers are to live values.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, halves.as_ptr()) };
    if result < 0 {
        Err(last_errno())
    } else {
        Ok(())
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A thread that has become nobody cannot read what is root's, the thread beside it can, and it
    /// can be root again.
    #[test]
    fn rights_are_those_of_one_thread() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        std::fs::write(&file, "x").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&file, mode).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), mode).unwrap();
        let there = file.clone();
        std::thread::spawn(move || {
            let nobody = Identity {
                uid: 65534,
                gid: 65534,
                groups: vec![65534],
            };
            assume(Some(&nobody)).unwrap();
            assert!(std::fs::read(&there).is_err());
            assume(None).unwrap();
            assert!(std::fs::read(&there).is_ok());
            assume(Some(&nobody)).unwrap();
            assert!(std::fs::read(&there).is_err());
        })
        .join()
        .unwrap();
        assert!(std::fs::read(&file).is_ok());
    }
}
