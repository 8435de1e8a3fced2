//! The root of a sandbox, built by init in a mount namespace of its own.
//!
//! ```text
//! W   one tmpfs with the sandbox's size and inodes; all that is written lies here
//! ├─ r/    the root's own directories, bound over itself as `s`, and pivoted to
//! ├─ d/    /dev, where the image has one of its own
//! ├─ e/    nothing: what covers the directories of /proc that are out of reach
//! ├─ l/N   a shown directory, attached
//! └─ u/N   what was changed in it, w/N the overlay's scratch
//! ```
//!
//! Everything but `s` is gone from sight after the pivot. An image is shown as the whole of `s`: a
//! copy-on-write layer over it.
//!
//! Invariants: nothing of the host is shown but what the plan names; no set-user-id bit and, but for
//! the nodes of /dev, no device means anything; /proc is the commands' own and masked. While the host's
//! files can still be reached nothing in `s` is opened by a path, for whoever made an image chose its
//! links: [`Building`] resolves names beneath `s` alone.

use std::io::Write as _;
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, chownat, mkdir, mkdirat, openat, openat2,
    statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use rustix::process::{Gid, Uid};
use sandshell_sys::mounts::{self, Limits};

use crate::plan::{HOSTNAME_FILE, HOSTS_FILE, Ids, RootPlan, SANDBOX_UID, hosts};
use crate::stage::Step;

/// Nodes that programs expect; all of them harmless.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

const DEVICE_LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
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
];

/// Directories of an image in which something is made, and which may belong to nobody we can be.
const ENTERED: &[&str] = &["etc", "home", "var"];

/// For a file that must not be there yet.
const FRESH: OFlags = OFlags::CREATE
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::WRONLY)
    .union(OFlags::CLOEXEC);

const FILE_MODE: Mode = Mode::from_raw_mode(0o644);

/// Terminals of one sandbox: twice as many as the API opens, and a part of the machine's, which has 4,096 for all.
const MOST_TERMINALS: &str = "512";

/// Builds the root and makes it ours. `trees` are copies of the shown directories, in the plan's
/// order. To be called with all rights over a fresh mount namespace in
/// which nothing is shared.
pub(crate) fn enter(
    plan: &RootPlan,
    hostname: &str,
    ids: Ids,
    trees: &[OwnedFd],
) -> Result<(), Step> {
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
    for name in ["r", "s", "d", "e", "l", "u", "w"] {
        mkdir(name, Mode::from_raw_mode(0o755)).map_err(Step::at("the writable layer"))?;
    }
    mount_bind("r", "s").map_err(Step::at("the root"))?;
    let files = [
        (HOSTNAME_FILE.to_owned(), format!("{hostname}\n")),
        (HOSTS_FILE.to_owned(), hosts(hostname)),
    ];
    let files: Vec<_> = plan.files.iter().chain(&files).collect();
    let files = show(plan, files, ids, trees)?;
    let building = Building::open().map_err(Step::at("the root"))?;
    building
        .make_directories(plan, ids)
        .map_err(Step::at("the root's directories"))?;
    for (name, target) in &plan.links {
        match symlinkat(target.as_str(), &building.root, name.as_str()) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(Step::at("a link in the root")(errno)),
        }
    }
    for (name, content) in files {
        building
            .write_file(name, content)
            .map_err(Step::at("a file of the root"))?;
    }
    let dev = building.make_devices(&nodes).map_err(Step::at("/dev"))?;
    building.make_proc(&dev).map_err(Step::at("/proc"))?;
    rustix::process::fchdir(&building.root).map_err(Step::at("the root"))?;
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

/// A file of the sandbox: its place, its content.
type Written = (String, String);

/// Attaches what is shown. Files that lie right in a copy-on-write layer are put there before it is one:
/// afterwards each would be a copy and a removal. Gives the others back.
fn show<'a>(
    plan: &RootPlan,
    mut files: Vec<&'a Written>,
    ids: Ids,
    trees: &[OwnedFd],
) -> Result<Vec<&'a Written>, Step> {
    for (n, (shown, tree)) in plan.shown.iter().zip(trees).enumerate() {
        let place = format!("s/{}", shown.place);
        make_parents(&shown.place).map_err(Step::at("a shown directory"))?;
        if shown.writable {
            let layer = |kind: &str| format!("{kind}/{n}");
            for kind in ["l", "u", "w"] {
                mkdir(layer(kind), Mode::from_raw_mode(0o755)).map_err(Step::at("a layer"))?;
            }
            mounts::attach(tree, CWD, layer("l")).map_err(Step::at("a layer"))?;
            let mut written = Ok(());
            files.retain(|(path, content)| match path.rsplit_once('/') {
                Some((above, name)) if above == shown.place => {
                    let file = openat(CWD, format!("u/{n}/{name}"), FRESH, FILE_MODE);
                    written = written.and(file.and_then(|file| write(file, content)));
                    false
                }
                _ => true,
            });
            written.map_err(Step::at("a file of the root"))?;
            if shown.place.is_empty() && ids == Ids::Own {
                take_over(&layer("l"), &layer("u")).map_err(Step::at("a layer"))?;
            }
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
    Ok(files)
}

fn write(file: OwnedFd, content: &str) -> Result<(), Errno> {
    let written = std::fs::File::from(file).write_all(content.as_bytes());
    written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
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

/// Where there is one user only, an image may be another's: directories that something is made in are
/// ours from the start, with what the image has in them.
fn take_over(image: &str, ours: &str) -> Result<(), Errno> {
    for name in ENTERED {
        match statat(CWD, format!("{image}/{name}"), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => {
                let mode = Mode::from_raw_mode(found.st_mode) | Mode::RWXU;
                mkdir(format!("{ours}/{name}"), mode)?;
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
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

/// The root while it is being built. Names are resolved in it as they will be when it is the root.
struct Building {
    root: OwnedFd,
}

impl Building {
    /// What is on top at `s`.
    fn open() -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            root: openat(CWD, "s", flags, Mode::empty())?,
        })
    }

    /// A directory, made with those above it where they are missing.
    fn directory(&self, path: &str) -> Result<OwnedFd, Errno> {
        match self.existing(path) {
            Err(Errno::NOENT) => {
                self.make(path, 0o755, None)?;
                self.existing(path)
            }
            found => found,
        }
    }

    fn existing(&self, path: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        loop {
            match openat2(&self.root, path, flags, Mode::empty(), inside) {
                // A rename somewhere on the machine came in between.
                Err(Errno::AGAIN | Errno::INTR) => {}
                opened => return opened,
            }
        }
    }

    /// Does something to a name in its directory, which is made if need be.
    fn in_parent<T>(
        &self,
        path: &str,
        act: impl FnOnce(&OwnedFd, &str) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match path.rsplit_once('/') {
            Some((above, name)) => act(&self.directory(above)?, name),
            None => act(&self.root, path),
        }
    }

    /// Makes a directory unless there is something of that name, which an image may have.
    fn make(&self, path: &str, mode: u32, owner: Option<(u32, u32)>) -> Result<(), Errno> {
        self.in_parent(path, |above, name| {
            match mkdirat(above, name, Mode::from_raw_mode(mode)) {
                Err(Errno::EXIST) => return Ok(()),
                made => made?,
            }
            let Some((uid, gid)) = owner else {
                return Ok(());
            };
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            chownat(above, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
        })
    }

    fn make_directories(&self, plan: &RootPlan, ids: Ids) -> Result<(), Errno> {
        let sandbox = (SANDBOX_UID, SANDBOX_UID);
        let usual = DIRECTORIES
            .iter()
            .map(|(name, mode, users)| (*name, *mode, users.then_some(sandbox)));
        // Where there is one user, everything is that one's.
        let owned = matches!(ids, Ids::Range(_));
        for (path, mode, owner) in usual {
            match self.make(path, mode, owner.filter(|_| owned)) {
                // An image has its own idea of what is above it: a file, or a link to nowhere.
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(errno),
            }
        }
        for path in &plan.own {
            let made = self.make(path, 0o755, Some(plan.owner).filter(|_| owned));
            // Whoever asked for one that cannot be is told by the agent, which has to use it.
            if let Err(errno @ (Errno::NOSPC | Errno::NOMEM)) = made {
                return Err(errno);
            }
        }
        Ok(())
    }

    /// Writes a file in place of whatever has its name.
    fn write_file(&self, path: &str, content: &str) -> Result<(), Errno> {
        let file = self.in_parent(path, |above, name| {
            match unlinkat(above, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
            openat(above, name, FRESH, FILE_MODE)
        })?;
        write(file, content)
    }

    /// A directory in the root itself to mount something on; whatever else an image has there is gone.
    fn mount_point(&self, name: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || openat(&self.root, name, flags, Mode::empty());
        match open() {
            Err(Errno::NOTDIR | Errno::LOOP) => {
                unlinkat(&self.root, name, AtFlags::empty())?;
            }
            Err(Errno::NOENT) => {}
            opened => return opened,
        }
        mkdirat(&self.root, name, Mode::from_raw_mode(0o755))?;
        open()
    }

    /// Our own /dev, over that of an image.
    fn make_devices(&self, nodes: &[OwnedFd]) -> Result<OwnedFd, Errno> {
        let dev = match mkdirat(&self.root, "dev", Mode::from_raw_mode(0o755)) {
            Ok(()) => self.mount_point("dev")?,
            Err(Errno::EXIST) => {
                let ours = mounts::copy_of(c"d", false)?;
                mounts::attach_on(&ours, self.mount_point("dev")?)?;
                ours
            }
            Err(errno) => return Err(errno),
        };
        for (name, node) in DEVICES.iter().zip(nodes) {
            openat(&dev, *name, FRESH, Mode::from_raw_mode(0o644))?;
            mounts::attach(node, &dev, *name)?;
        }
        for (name, target) in DEVICE_LINKS {
            symlinkat(*target, &dev, *name)?;
        }
        mkdirat(&dev, "shm", Mode::from_raw_mode(0o1777))?;
        mkdirat(&dev, "pts", Mode::from_raw_mode(0o755))?;
        let options = [
            (c"ptmxmode", "0666"),
            (c"mode", "0620"),
            (c"max", MOST_TERMINALS),
        ];
        let limits = Limits {
            read_only: false,
            no_devices: false,
            no_programs: true,
        };
        let terminals = mounts::fresh(c"devpts", &options, limits)?;
        mounts::attach(terminals, &dev, "pts")?;
        Ok(dev)
    }

    /// The commands' /proc, with what tells of the host, or acts on it, out of reach.
    fn make_proc(&self, dev: &OwnedFd) -> Result<(), Errno> {
        let proc = mounts::fresh(c"proc", &[], OF_PROC)?;
        mounts::attach_on(&proc, self.mount_point("proc")?)?;
        let mut covers = Vec::new();
        for name in MASKED_FILES.iter().filter(|name| is_there(&proc, name)) {
            covers.push((*name, mounts::copy_at(dev, c"null", false)?));
        }
        for name in MASKED_DIRECTORIES
            .iter()
            .filter(|name| is_there(&proc, name))
        {
            // By its path each time: not every kernel copies what is not attached.
            let empty = mounts::copy_of(c"e", false)?;
            mounts::limit(&empty, SEEN_OF_PROC)?;
            covers.push((*name, empty));
        }
        cover(&proc, covers)
    }
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
    mounts::attach(&proc, CWD, "/proc")?;
    cover(&proc, covers)
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

/// Makes what can be looked at only so, and covers the rest.
fn cover(proc: &OwnedFd, covers: Vec<(&str, OwnedFd)>) -> Result<(), Errno> {
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
    statat(proc, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

fn copy_if_there(proc: &OwnedFd, name: &str) -> Result<Option<OwnedFd>, Errno> {
    match mounts::copy_at(proc, name, false) {
        Ok(copy) => Ok(Some(copy)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}
