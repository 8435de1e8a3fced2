//! The control groups of a hub's sandboxes, among those of everybody else on the machine.
//!
//! A group has the name of its sandbox's place, which is also the name of a directory of the hub's. The
//! kernel tells of every such directory, however short its life, so that the groups of all can be looked
//! for at the end.

use std::collections::BTreeSet;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context as _, Result};
use rustix::fs::inotify;
use rustix::io::Errno;

const HIERARCHIES: &str = "/sys/fs/cgroup";

/// Groups that have processes, somewhere below them at least, and those that have none: an agent keeps some
/// for its next commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    pub(crate) occupied: usize,
    pub(crate) empty: usize,
}

impl Groups {
    pub(crate) fn all(self) -> usize {
        self.occupied + self.empty
    }
}

pub(crate) struct Places {
    inotify: OwnedFd,
    seen: BTreeSet<String>,
}

impl Places {
    /// Begins to note the places of a hub that has none yet.
    pub(crate) fn watch(state_dir: &Path) -> Result<Self> {
        let directory = state_dir.join(super::traces::SANDBOXES);
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let inotify = inotify::init(flags)?;
        let made = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
        inotify::add_watch(&inotify, &directory, made)
            .with_context(|| directory.display().to_string())?;
        Ok(Self {
            inotify,
            seen: BTreeSet::new(),
        })
    }

    /// How many groups there are of all sandboxes ever, with those below them.
    pub(crate) fn groups(&mut self) -> Result<Groups> {
        self.drain()?;
        let mut groups = Groups::default();
        self.count(Path::new(HIERARCHIES), false, &mut groups);
        Ok(groups)
    }

    /// How many sandboxes there have been.
    pub(crate) fn sandboxes(&self) -> usize {
        self.seen.len()
    }

    fn drain(&mut self) -> Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            match events.next() {
                Ok(event) => {
                    anyhow::ensure!(
                        !event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW),
                        "places were missed"
                    );
                    let name = event.file_name().map(|name| name.to_string_lossy());
                    self.seen.extend(name.map(std::borrow::Cow::into_owned));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Adds what is below a directory; gives whether a process is there.
    fn count(&self, directory: &Path, ours: bool, groups: &mut Groups) -> bool {
        // Groups of others come and go while we look.
        let Ok(entries) = fs::read_dir(directory) else {
            return false;
        };
        let members = fs::read(directory.join("cgroup.procs"));
        let mut occupied = members.is_ok_and(|members| !members.is_empty());
        for entry in entries.filter_map(Result::ok) {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = entry.file_name();
                let place = name
                    .to_str()
                    .and_then(|name| name.strip_prefix("sandshell-"));
                let ours = ours || place.is_some_and(|place| self.seen.contains(place));
                occupied |= self.count(&entry.path(), ours, groups);
            }
        }
        groups.occupied += usize::from(ours && occupied);
        groups.empty += usize::from(ours && !occupied);
        occupied
    }
}
