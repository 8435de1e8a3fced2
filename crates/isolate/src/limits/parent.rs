//! Our own groups, one in each hierarchy, below which those of sandboxes are made.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sandshell_sys::cgroup::{Controller, Facts, Group, Seat, Version, locate, locate_unified};
use sandshell_sys::procfs;
use serde::{Deserialize, Serialize};

/// Where a process that makes groups goes when its own group is to be divided: version 2 allows
/// members only in groups whose children have no controllers. A service manager may have put us there
/// already (`DelegateSubgroup=` of systemd); then it can also start us again beside what we left running.
const LEAF: &str = "sandshell-self";

/// Our own group in each hierarchy, or why it is not to be had.
#[derive(Debug)]
pub struct Parent {
    pub(super) unified: Result<Group, String>,
    pub(super) memory: Result<Seat, String>,
    pub(super) cpu: Result<Seat, String>,
    pub(super) pids: Result<Seat, String>,
    pub(super) freezer: Result<Seat, String>,
}

/// Where the groups of a [`Parent`] are, for a later process, which may itself be in others: a service that
/// is started by hand is in those of a login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whereabouts {
    unified: Option<PathBuf>,
    memory: Option<Seated>,
    cpu: Option<Seated>,
    pids: Option<Seated>,
    freezer: Option<Seated>,
}

/// Where a controller is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Seated {
    Unified,
    At(PathBuf),
}

impl Seated {
    fn of(seat: &Result<Seat, String>) -> Option<Self> {
        let seat = seat.as_ref().ok()?;
        match seat.version {
            Version::V1 => seat.group.path().map(Self::At),
            Version::V2 => Some(Self::Unified),
        }
    }
}

impl Parent {
    /// Where it is.
    pub fn whereabouts(&self) -> Whereabouts {
        Whereabouts {
            unified: self.unified.as_ref().ok().and_then(Group::path),
            memory: Seated::of(&self.memory),
            cpu: Seated::of(&self.cpu),
            pids: Seated::of(&self.pids),
            freezer: Seated::of(&self.freezer),
        }
    }

    /// What is there; `None` when nothing is any more. Fails where it cannot be seen whether there is.
    pub fn at(whereabouts: &Whereabouts) -> Result<Option<Self>, Errno> {
        let no = || "it was not to be had".to_owned();
        let open = |path: &Path| match Group::open(path) {
            Ok(group) => Ok(group.is_real().then_some(group).ok_or_else(no)),
            Err(errno) if sandshell_sys::is_lack(errno) => Err(errno),
            Err(_) => Ok(Err(no())),
        };
        let unified = match &whereabouts.unified {
            Some(path) => open(path)?,
            None => Err(no()),
        };
        let seat = |seated: &Option<Seated>| {
            let (version, group) = match seated {
                None => return Ok(Err(no())),
                Some(Seated::Unified) => (Version::V2, unified.clone()),
                Some(Seated::At(path)) => (Version::V1, open(path)?),
            };
            Ok(group.map(|group| Seat { version, group }))
        };
        let found = Self {
            memory: seat(&whereabouts.memory)?,
            cpu: seat(&whereabouts.cpu)?,
            pids: seat(&whereabouts.pids)?,
            freezer: seat(&whereabouts.freezer)?,
            unified,
        };
        let is_any = found.groups().next().is_some();
        Ok(is_any.then_some(found))
    }

    /// The groups this process is in. Where the unified hierarchy has controllers, they are passed on
    /// to what is made below; for that this process may move to a group of its own.
    pub fn own() -> Self {
        let facts = match Facts::read() {
            Ok(facts) => facts.above(LEAF),
            Err(reason) => return Self::none(&reason),
        };
        let unified = locate_unified(&facts).and_then(|path| open(&path));
        let seat = |controller: Controller| -> Result<Seat, String> {
            let located = locate(controller, &facts)?;
            let group = match located.version {
                Version::V1 => open(&located.path)?,
                Version::V2 => {
                    let group = unified.clone()?;
                    pass_on(&group, controller)?;
                    group
                }
            };
            Ok(Seat {
                version: located.version,
                group,
            })
        };
        Self {
            memory: seat(Controller::Memory),
            cpu: seat(Controller::Cpu),
            pids: seat(Controller::Pids),
            freezer: match &unified {
                Ok(_) => Err("cgroup v2 freezes".to_owned()),
                Err(_) => seat(Controller::Freezer),
            },
            unified,
        }
    }

    /// No groups, for this reason.
    pub fn none(reason: &str) -> Self {
        let no = || Err(reason.to_owned());
        Self {
            unified: Err(reason.to_owned()),
            memory: no(),
            cpu: no(),
            pids: no(),
            freezer: no(),
        }
    }

    /// A fresh group of the unified hierarchy.
    pub(crate) fn unified_child(&self, name: &str) -> Result<Group, String> {
        make_child(self.unified.as_ref().map_err(Clone::clone)?, name)
    }

    /// Names of groups below that begin so, in whichever hierarchy.
    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        let mut names: Vec<String> = self
            .groups()
            .flat_map(Group::children)
            .filter(|name| name.starts_with(prefix))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Removes the groups of this name if nobody claims them and nothing lives in them.
    pub(crate) fn remove_unclaimed(&self, name: &str) {
        for above in self.groups() {
            if let Ok(left) = above.existing(name)
                && left.claim()
            {
                // The kernel keeps what has members.
                let _ = left.remove_all();
            }
        }
    }

    /// Each group once.
    pub(super) fn groups(&self) -> impl Iterator<Item = &Group> {
        let seats = [&self.memory, &self.cpu, &self.pids, &self.freezer];
        let of_version_1 = seats
            .into_iter()
            .flatten()
            .filter(|seat| seat.version == Version::V1)
            .map(|seat| &seat.group);
        self.unified.iter().chain(of_version_1)
    }
}

fn open(path: &Path) -> Result<Group, String> {
    Group::open(path).map_err(|errno| format!("{}: {errno}", path.display()))
}

/// Makes a group. One that exists was made a moment ago for another controller of the same hierarchy:
/// leftovers of this name are swept before.
pub(super) fn make_child(above: &Group, name: &str) -> Result<Group, String> {
    let made = match above.child(name) {
        Err(Errno::EXIST) => above.existing(name),
        made => made,
    };
    made.map_err(|errno| {
        let place = above.path().unwrap_or_default();
        format!("no group can be made in {}: {errno}", place.display())
    })
}

/// Enables a controller for the groups below.
pub(super) fn enable_below(group: &Group, controller: &str) -> Result<(), Errno> {
    let enabled = group.read("cgroup.subtree_control")?;
    if enabled.split_whitespace().any(|word| word == controller) {
        return Ok(());
    }
    group.write("cgroup.subtree_control", &format!("+{controller}"))
}

/// The same for our own group, which may have to be left first.
fn pass_on(group: &Group, controller: Controller) -> Result<(), String> {
    let name = controller.name();
    let failed = |errno| format!("the {name} controller cannot be passed on: {errno}");
    match enable_below(group, name) {
        Err(Errno::BUSY) => {
            leave(group)?;
            enable_below(group, name).map_err(failed)
        }
        done => done.map_err(failed),
    }
}

/// Moves this process and what it started to a group below. Others are not ours to move.
fn leave(group: &Group) -> Result<(), String> {
    let me = rustix::process::getpid().as_raw_pid();
    let members = group
        .members()
        .map_err(|errno| format!("cannot see who lives in our own group: {errno}"))?;
    // The launcher's hub is ours too.
    let first = procfs::first_of_our_program(me);
    let strange = members
        .iter()
        .any(|pid| *pid != first && procfs::is_below(*pid, first) != Ok(true));
    if strange {
        return Err(
            "others live in our own group too; start us in a group of our own \
             (systemd: `Delegate=yes`)"
                .to_owned(),
        );
    }
    let failed = |errno| format!("cannot move to a group of our own: {errno}");
    let leaf = match group.child(LEAF) {
        Err(Errno::EXIST) => group.existing(LEAF),
        made => made,
    };
    let leaf = leaf.map_err(failed)?;
    for pid in members {
        match leaf.write("cgroup.procs", &pid.to_string()) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    Ok(())
}
