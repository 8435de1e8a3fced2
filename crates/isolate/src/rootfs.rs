//! The root of a sandbox, built by init in a mount namespace of its own.
//!
//! ```text
//! W   one tmpfs with the sandbox's size and inodes; all that is written lies here
//! ├─ r/    the root's own directories, bound over itself as `s`, and pivoted to
//! ├─ l/N   a shown directory, attached
//! └─ u/N   what was changed in it, w/N the overlay's scratch
//! ```
//!
//! Everything but `s` is gone from sight after the pivot. Invariants: nothing of the host is shown
//! but what the plan names; no set-user-id bit and, but for the nodes of /dev, no device means
//! anything; /proc is the commands' own and masked.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, chmod, chown, mkdir, openat, symlink};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use rustix::process::{Gid, Uid};
use sandshell_sys::mounts::{self, Limits};

use crate::plan::{Ids, RootPlan, SANDBOX_UID};
use crate::stage::Step;

/// Nodes that programs expect; all of them harmless.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

const DEVICE_LINKS: &[(&str, &str)] = &[
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
    ("dev/ptmx", "pts/ptmx"),
];

/// Files of /proc that tell of the host or act on it.
const MASKED_FILES: &[&str] = &[
    "kcore",
    "keys",
    "key-users",
    "kallsyms",
    "kmsg",
    "kpagecount",
    "kpageflags",
    "kpagecgroup",
    "latency_stats",
    "sched_debug",
    "sysrq-trigger",
    "timer_list",
    "timer_stats",
    "config.gz",
    "vmallocinfo",
    "slabinfo",
    "modules",
];

/// Directories of /proc that can be looked at only.
const READ_ONLY: &[&str] = &["bus", "fs", "irq", "sys"];

/// Directories of /proc that are not to be seen at all.
const MASKED_DIRECTORIES: &[&str] = &["acpi", "asound", "scsi", "driver"];

/// Modes of directories that a sandbox has, whatever else it is shown, and whether they are the
/// sandbox user's own.
const DIRECTORIES: &[(&str, u32, bool)] = &[
    ("home", 0o755, false),
    ("home/sandbox", 0o755, true),
    ("workspace", 0o755, true),
    ("root", 0o700, false),
    ("tmp", 0o1777, false),
    ("run", 0o755, false),
    ("var", 0o755, false),
    ("var/tmp", 0o1777, false),
    ("var/lib", 0o755, false),
    ("var/cache", 0o755, false),
    ("var/log", 0o755, false),
    ("etc", 0o755, false),
    ("mnt", 0o755, false),
    ("opt", 0o755, false),
    ("srv", 0o755, false),
    ("proc", 0o555, false),
    ("dev", 0o755, false),
    ("dev/pts", 0o755, false),
    ("dev/shm", 0o1777, false),
];

/// Builds the root and makes it ours. `trees` are copies of the shown directories, in the plan's
/// order. To be called with all rights over a fresh mount namespace in
/// which nothing is shared.
pub(crate) fn enter(plan: &RootPlan, ids: Ids, trees: &[OwnedFd]) -> Result<(), Step> {
    let nodes = open_devices()?;
    // Somewhere to stand; what it hides is of no use any more.
    let place = c"/tmp";
    let size = plan.size_bytes.to_string();
    let inodes = plan.inodes.to_string();
    let options = [
        (c"size", size.as_str()),
        (c"nr_inodes", inodes.as_str()),
        (c"mode", "0755"),
    ];
    let limits = Limits {
        read_only: false,
        ..Limits::SHOWN
    };
    let writable =
        mounts::fresh(c"tmpfs", &options, limits).map_err(Step::at("the writable layer"))?;
    mounts::attach(&writable, CWD, place).map_err(Step::at("the writable layer"))?;
    rustix::process::chdir(place).map_err(Step::at("the writable layer"))?;
    for name in ["r", "s", "l", "u", "w"] {
        mkdir(name, Mode::from_raw_mode(0o755)).map_err(Step::at("the writable layer"))?;
    }
    mount_bind("r", "s").map_err(Step::at("the root"))?;
    show(plan, trees)?;
    make_directories(ids)?;
    for (name, target) in &plan.links {
        match symlink(target.as_str(), format!("s/{name}")) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(Step::at("a link in the root")(errno)),
        }
    }
    for (name, content) in &plan.files {
        write_file(name, content).map_err(Step::at("a file of the root"))?;
    }
    make_devices(&nodes).map_err(Step::at("/dev"))?;
    make_proc().map_err(Step::at("/proc"))?;
    rustix::process::chdir("s").map_err(Step::at("the root"))?;
    pivot()
}

/// Makes the current directory, a mount, the root, and lets go of the old one.
pub(crate) fn pivot() -> Result<(), Step> {
    rustix::process::pivot_root(".", ".").map_err(Step::at("pivot_root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(Step::at("leaving the old root"))?;
    rustix::process::chdir("/").map_err(Step::at("the root"))
}

/// Cuts every mount off from those it was copied from, in both directions.
pub(crate) fn privatise() -> Result<(), Errno> {
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
}

fn show(plan: &RootPlan, trees: &[OwnedFd]) -> Result<(), Step> {
    for (n, (shown, tree)) in plan.shown.iter().zip(trees).enumerate() {
        let place = format!("s/{}", shown.place);
        make_parents(&shown.place).map_err(Step::at("a shown directory"))?;
        if shown.writable {
            let layer = |kind: &str| format!("{kind}/{n}");
            for kind in ["l", "u", "w"] {
                mkdir(layer(kind), Mode::from_raw_mode(0o755)).map_err(Step::at("a layer"))?;
            }
            mounts::attach(tree, CWD, layer("l")).map_err(Step::at("a layer"))?;
            let options = format!(
                "lowerdir={},upperdir={},workdir={},userxattr",
                layer("l"),
                layer("u"),
                layer("w")
            );
            let options =
                std::ffi::CString::new(options).map_err(|_| Step::at("a layer")(Errno::INVAL))?;
            mount(
                "overlay",
                place.as_str(),
                "overlay",
                MountFlags::NOSUID | MountFlags::NODEV,
                Some(options.as_c_str()),
            )
            .map_err(Step::at("a copy-on-write layer"))?;
        } else {
            mounts::limit(tree, Limits::SHOWN).map_err(Step::at("a shown directory"))?;
            mounts::attach(tree, CWD, place.as_str()).map_err(Step::at("a shown directory"))?;
        }
    }
    Ok(())
}

fn make_parents(place: &str) -> Result<(), Errno> {
    let mut path = "s".to_owned();
    for name in place.split('/').filter(|name| !name.is_empty()) {
        path = format!("{path}/{name}");
        make_directory(&path, 0o755)?;
    }
    Ok(())
}

fn make_directory(path: &str, mode: u32) -> Result<(), Errno> {
    match mkdir(path, Mode::from_raw_mode(mode)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn make_directories(ids: Ids) -> Result<(), Step> {
    for (name, mode, users) in DIRECTORIES {
        let path = format!("s/{name}");
        match mkdir(path.as_str(), Mode::from_raw_mode(*mode)) {
            Ok(()) => {}
            // An image has its own idea of it.
            Err(Errno::EXIST) => continue,
            Err(errno) => return Err(Step::at("the root's directories")(errno)),
        }
        if *users && matches!(ids, Ids::Range(_)) {
            let (uid, gid) = (Uid::from_raw(SANDBOX_UID), Gid::from_raw(SANDBOX_UID));
            chown(path.as_str(), Some(uid), Some(gid))
                .map_err(Step::at("the root's directories"))?;
        }
        if mode & 0o1000 != 0 {
            chmod(path.as_str(), Mode::from_raw_mode(*mode))
                .map_err(Step::at("the root's directories"))?;
        }
    }
    Ok(())
}

/// The host's nodes, before its /dev is out of sight.
fn open_devices() -> Result<Vec<OwnedFd>, Step> {
    DEVICES
        .iter()
        .map(|name| mounts::copy_of(format!("/dev/{name}"), false).map_err(Step::at("/dev")))
        .collect()
}

fn make_devices(nodes: &[OwnedFd]) -> Result<(), Errno> {
    for (name, node) in DEVICES.iter().zip(nodes) {
        let place = format!("s/dev/{name}");
        make_file(&place)?;
        mounts::attach(node, CWD, place)?;
    }
    for (name, target) in DEVICE_LINKS {
        symlink(*target, format!("s/{name}"))?;
    }
    let options = [(c"ptmxmode", "0666"), (c"mode", "0620")];
    let limits = Limits {
        read_only: false,
        no_devices: false,
        no_programs: true,
    };
    let terminals = mounts::fresh(c"devpts", &options, limits)?;
    mounts::attach(terminals, CWD, "s/dev/pts")
}

fn write_file(name: &str, content: &str) -> Result<(), Errno> {
    let failed = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    if let Some((parent, _)) = name.rsplit_once('/') {
        make_parents(parent)?;
    }
    let path = format!("s/{name}");
    std::fs::write(&path, content).map_err(failed)?;
    chmod(path, Mode::from_raw_mode(0o644))
}

fn make_file(path: &str) -> Result<(), Errno> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::from_raw_mode(0o644)).map(drop)
}

/// The commands' /proc, with what tells of the host, or acts on it, out of reach.
fn make_proc() -> Result<(), Errno> {
    let proc = mounts::fresh(c"proc", &[], OF_PROC)?;
    let empty = mounts::fresh(c"tmpfs", &[(c"mode", "0555")], SEEN_OF_PROC)?;
    let mut covers = Vec::new();
    for name in MASKED_FILES.iter().filter(|name| is_there(&proc, name)) {
        covers.push((*name, mounts::copy_of(c"s/dev/null", false)?));
    }
    for name in MASKED_DIRECTORIES
        .iter()
        .filter(|name| is_there(&proc, name))
    {
        covers.push((*name, mounts::copy_at(empty.as_fd(), c".", false)?));
    }
    put_proc(&proc, "s/proc", covers)
}

/// A /proc of this process's own PID namespace in the place of the commands', in a copy of their mounts.
/// Called with the rights of whoever built the root, but when commands may have changed it: so nothing
/// is looked up in it but the one thing they could not move, the old /proc with its covers.
pub(crate) fn replace_proc() -> Result<(), Errno> {
    let proc = mounts::fresh(c"proc", &[], OF_PROC)?;
    let mut covers = Vec::new();
    let masked = MASKED_FILES.iter().chain(MASKED_DIRECTORIES);
    for name in masked.filter(|name| is_there(&proc, name)) {
        covers.push((*name, mounts::copy_of(format!("/proc/{name}"), false)?));
    }
    unmount("/proc", UnmountFlags::DETACH)?;
    put_proc(&proc, "/proc", covers)
}

const OF_PROC: Limits = Limits {
    read_only: false,
    no_devices: true,
    no_programs: true,
};
const SEEN_OF_PROC: Limits = Limits {
    read_only: true,
    ..OF_PROC
};

fn put_proc(proc: &OwnedFd, place: &str, covers: Vec<(&str, OwnedFd)>) -> Result<(), Errno> {
    mounts::attach(proc, CWD, place)?;
    for name in READ_ONLY {
        if let Some(copy) = copy_if_there(proc, name)? {
            mounts::limit(&copy, SEEN_OF_PROC)?;
            mounts::attach(&copy, proc, *name)?;
        }
    }
    for (name, cover) in covers {
        mounts::attach(cover, proc, name)?;
    }
    Ok(())
}

fn is_there(proc: &OwnedFd, name: &str) -> bool {
    rustix::fs::statat(proc, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

fn copy_if_there(proc: &OwnedFd, name: &str) -> Result<Option<OwnedFd>, Errno> {
    match mounts::copy_at(proc, name, false) {
        Ok(copy) => Ok(Some(copy)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}
