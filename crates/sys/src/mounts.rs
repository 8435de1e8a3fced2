//! Mounts that are held by descriptor before they are put anywhere.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};
use rustix::path::Arg;

/// How a mount is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Nothing can be changed through it.
    pub read_only: bool,
    /// Device nodes on it are dead.
    pub no_devices: bool,
    /// Nothing on it can be executed.
    pub no_programs: bool,
}

impl Limits {
    /// For files that are shown: set-user-id bits and device nodes mean nothing.
    pub const SHOWN: Self = Self {
        read_only: true,
        no_devices: true,
        no_programs: false,
    };

    fn attributes(self) -> MountAttrFlags {
        let mut flags = MountAttrFlags::MOUNT_ATTR_NOSUID;
        flags.set(MountAttrFlags::MOUNT_ATTR_RDONLY, self.read_only);
        flags.set(MountAttrFlags::MOUNT_ATTR_NODEV, self.no_devices);
        flags.set(MountAttrFlags::MOUNT_ATTR_NOEXEC, self.no_programs);
        flags
    }
}

/// A copy of what is mounted at a path, attached nowhere: `..` from it leads nowhere. `recursive`
/// takes what is mounted below along, which an unprivileged namespace must.
pub fn copy_of(path: impl Arg, recursive: bool) -> Result<OwnedFd, Errno> {
    copy_at(CWD, path, recursive)
}

/// The same below a directory.
pub fn copy_at(dir: impl AsFd, path: impl Arg, recursive: bool) -> Result<OwnedFd, Errno> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    flags.set(OpenTreeFlags::AT_RECURSIVE, recursive);
    open_tree(dir, path, flags)
}

/// A fresh file system of this type, attached nowhere.
pub fn fresh(kind: &CStr, options: &[(&CStr, &str)], limits: Limits) -> Result<OwnedFd, Errno> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, *value)?;
    }
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, limits.attributes())
}

/// Puts a mount that is attached nowhere at a place below a directory.
pub fn attach(mount: impl AsFd, dir: impl AsFd, place: impl Arg) -> Result<(), Errno> {
    move_mount(
        mount,
        c"",
        dir,
        place,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
}

/// The same on a directory or file that is open: no name is looked up, so no link is followed.
pub fn attach_on(mount: impl AsFd, place: impl AsFd) -> Result<(), Errno> {
    let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, c"", place, c"", both)
}

/// Limits a mount that is attached nowhere, with what is mounted below.
pub fn limit(mount: impl AsFd, limits: Limits) -> Result<(), Errno> {
    set_attributes(mount.as_fd(), limits.attributes().bits().into(), None)
}

/// Shows the files of a mount that is attached nowhere under the ids of a user namespace: what
/// belongs to the host's 0 belongs to that namespace's 0. Needs rights over the file system itself.
pub fn map_ids(mount: impl AsFd, namespace: impl AsFd, limits: Limits) -> Result<(), Errno> {
    let flags = u64::from(limits.attributes().bits());
    set_attributes(mount.as_fd(), flags, Some(namespace.as_fd()))
}

#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

#[allow(unsafe_code, reason = "rustix has no mount_setattr")]
fn set_attributes(
    mount: BorrowedFd<'_>,
    set: u64,
    namespace: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let attributes = MountAttributes {
        set: set
            | if namespace.is_some() {
                libc::MOUNT_ATTR_IDMAP
            } else {
                0
            },
        clear: 0,
        propagation: 0,
        user_namespace: namespace.map_or(0, |fd| u64::from(fd.as_raw_fd().cast_unsigned())),
    };
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the kernel reads one structure of the stated size and an empty string, both live.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if done < 0 {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    } else {
        Ok(())
    }
}
