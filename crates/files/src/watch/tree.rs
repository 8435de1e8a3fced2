//! What lies below a watched path, as far as it has been told.
//!
//! Owns names and which kernel watch belongs to which directory; asks no file system. Invariant: this
//! is exactly what whoever replays the events has, so whatever differs from the disk is still to be
//! told.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// A directory in the tree. The watched path itself is [`ROOT`].
pub(super) type DirId = u64;

/// The watched path itself.
pub(super) const ROOT: DirId = 0;

/// What is known by a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// Anything but a directory.
    File,
    Dir(DirId),
}

#[derive(Debug)]
struct Dir {
    parent: DirId,
    name: Box<OsStr>,
    /// The kernel's number for its watch, while it has one.
    watch: Option<i32>,
    known: HashMap<Box<OsStr>, Entry>,
}

#[derive(Debug)]
pub(super) struct Tree {
    dirs: HashMap<DirId, Dir>,
    by_watch: HashMap<i32, DirId>,
    next: DirId,
    entries: usize,
}

impl Tree {
    pub(super) fn new() -> Self {
        let root = Dir {
            parent: ROOT,
            name: OsStr::new("").into(),
            watch: None,
            known: HashMap::new(),
        };
        Self {
            dirs: HashMap::from([(ROOT, root)]),
            by_watch: HashMap::new(),
            next: ROOT + 1,
            entries: 0,
        }
    }

    pub(super) fn has(&self, dir: DirId) -> bool {
        self.dirs.contains_key(&dir)
    }

    /// Names there are.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// Directories that are watched.
    pub(super) fn watched(&self) -> usize {
        self.by_watch.len()
    }

    pub(super) fn of_watch(&self, watch: i32) -> Option<DirId> {
        self.by_watch.get(&watch).copied()
    }

    pub(super) fn watch_of(&self, dir: DirId) -> Option<i32> {
        self.dirs.get(&dir)?.watch
    }

    /// Gives a directory its watch; the former one, if there was another.
    pub(super) fn attach(&mut self, dir: DirId, watch: i32) -> Option<i32> {
        let former = self.detach(dir).filter(|former| *former != watch);
        if let Some(found) = self.dirs.get_mut(&dir) {
            found.watch = Some(watch);
            self.by_watch.insert(watch, dir);
        }
        former
    }

    /// Takes a directory's watch away; gives it back.
    pub(super) fn detach(&mut self, dir: DirId) -> Option<i32> {
        let watch = self.dirs.get_mut(&dir)?.watch.take()?;
        self.by_watch.remove(&watch);
        Some(watch)
    }

    pub(super) fn get(&self, dir: DirId, name: &OsStr) -> Option<Entry> {
        self.dirs.get(&dir)?.known.get(name).copied()
    }

    /// Names of a directory.
    pub(super) fn names(&self, dir: DirId) -> Vec<Box<OsStr>> {
        let found = self.dirs.get(&dir);
        found.map_or_else(Vec::new, |dir| dir.known.keys().cloned().collect())
    }

    /// Enters a name that is not known yet.
    pub(super) fn insert(&mut self, parent: DirId, name: &OsStr, directory: bool) -> Entry {
        let entry = if directory {
            let id = self.next;
            self.next += 1;
            let dir = Dir {
                parent,
                name: name.into(),
                watch: None,
                known: HashMap::new(),
            };
            self.dirs.insert(id, dir);
            Entry::Dir(id)
        } else {
            Entry::File
        };
        self.place(parent, name, entry);
        entry
    }

    fn place(&mut self, parent: DirId, name: &OsStr, entry: Entry) {
        if let Some(parent) = self.dirs.get_mut(&parent)
            && parent.known.insert(name.into(), entry).is_none()
        {
            self.entries += 1;
        }
    }

    fn take(&mut self, parent: DirId, name: &OsStr) -> Option<Entry> {
        let entry = self.dirs.get_mut(&parent)?.known.remove(name)?;
        self.entries -= 1;
        Some(entry)
    }

    /// Forgets a name with everything below it; gives the watches that went with it.
    pub(super) fn remove(&mut self, parent: DirId, name: &OsStr) -> Option<(Entry, Vec<i32>)> {
        let entry = self.take(parent, name)?;
        let mut watches = Vec::new();
        let mut todo = Vec::new();
        if let Entry::Dir(id) = entry {
            todo.push(id);
        }
        while let Some(id) = todo.pop() {
            let Some(dir) = self.dirs.remove(&id) else {
                continue;
            };
            if let Some(watch) = dir.watch {
                self.by_watch.remove(&watch);
                watches.push(watch);
            }
            self.entries -= dir.known.len();
            todo.extend(dir.known.into_values().filter_map(|entry| match entry {
                Entry::Dir(id) => Some(id),
                Entry::File => None,
            }));
        }
        Some((entry, watches))
    }

    /// Gives something another place, where nothing may be known.
    pub(super) fn rename(&mut self, from: (DirId, &OsStr), to: (DirId, &OsStr)) {
        let Some(entry) = self.take(from.0, from.1) else {
            return;
        };
        self.place(to.0, to.1, entry);
        if let Entry::Dir(id) = entry
            && let Some(dir) = self.dirs.get_mut(&id)
        {
            dir.parent = to.0;
            dir.name = to.1.into();
        }
    }

    /// Whether one directory is another, or lies below it.
    pub(super) fn is_within(&self, mut dir: DirId, above: DirId) -> bool {
        loop {
            if dir == above {
                return true;
            }
            if dir == ROOT {
                return false;
            }
            match self.dirs.get(&dir) {
                Some(found) => dir = found.parent,
                None => return false,
            }
        }
    }

    /// The path of a directory below the watched one; empty for that itself.
    pub(super) fn path(&self, dir: DirId) -> PathBuf {
        let mut names = Vec::new();
        let mut at = dir;
        while at != ROOT
            && let Some(found) = self.dirs.get(&at)
        {
            names.push(&found.name);
            at = found.parent;
        }
        let mut path = Vec::new();
        for name in names.into_iter().rev() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
        }
        OsString::from_vec(path).into()
    }
}
