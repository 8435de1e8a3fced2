//! The kernel's reports, applied to the tree one by one.

use std::ffi::OsStr;

use rustix::fs::inotify::{self, ReadFlags};
use sandshell_types::{FileChange, WatchEndReason};

use super::lookup::Disk;
use super::{Follower, HalfMove, Report, Stop};
use crate::watch::tree::{DirId, Entry, ROOT};

/// Whether a report on the watched path itself ends the watch.
pub(super) fn reason_of(flags: ReadFlags) -> Option<WatchEndReason> {
    if flags.contains(ReadFlags::MOVE_SELF) {
        Some(WatchEndReason::Moved)
    } else if flags.contains(ReadFlags::UNMOUNT) {
        Some(WatchEndReason::Unmounted)
    } else if flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::IGNORED) {
        Some(WatchEndReason::Removed)
    } else {
        None
    }
}

/// Moves that may be reported between the two halves of an exchange, by other processors.
const LAST_MOVES: usize = 8;

impl Follower {
    pub(super) fn apply(&mut self, disk: &mut Disk<'_>, report: Report) -> Result<(), Stop> {
        let Report {
            watch,
            flags,
            cookie,
            name,
        } = report;
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.overflowed = true;
            return Ok(());
        }
        let second_half = flags.contains(ReadFlags::MOVED_TO)
            && self
                .half_move
                .as_ref()
                .is_some_and(|half| half.cookie == cookie);
        if !second_half {
            // Both halves of a move are reported together; without the other one it left the tree, or
            // another report came in between, and then it comes back as something new.
            self.finish_half_move();
        }
        let Some(dir) = self.tree.of_watch(watch) else {
            if second_half {
                self.finish_half_move();
            }
            return Ok(());
        };
        let Some(name) = name else {
            return self.apply_to_itself(dir, flags);
        };
        let directory = flags.contains(ReadFlags::ISDIR);
        self.search |= directory && !flags.contains(ReadFlags::ATTRIB);
        if flags.contains(ReadFlags::CREATE) {
            self.appear(disk, dir, &name, directory)
        } else if flags.contains(ReadFlags::DELETE) {
            self.vanish(dir, &name);
            self.count()
        } else if flags.contains(ReadFlags::MOVED_FROM) {
            if self.last_moves.iter().any(|to| *to == (dir, name.clone())) {
                self.doubtful.push((dir, name.clone()));
            }
            self.half_move = Some(HalfMove { cookie, dir, name });
            Ok(())
        } else if flags.contains(ReadFlags::MOVED_TO) {
            self.last_moves.truncate(LAST_MOVES - 1);
            self.last_moves.push_front((dir, name.clone()));
            match self.half_move.take() {
                Some(half) => {
                    self.change_place(disk, (half.dir, &half.name), (dir, &name), directory)
                }
                None => self.move_in(disk, dir, &name, directory),
            }
        } else if flags.contains(ReadFlags::MODIFY) {
            if self.tree.get(dir, &name) == Some(Entry::File) {
                self.tell(FileChange::Modified, (dir, &name), false);
            }
            Ok(())
        } else if flags.contains(ReadFlags::ATTRIB) {
            self.attributes_changed(disk, dir, &name)
        } else {
            Ok(())
        }
    }

    /// A report on the watched directory or file itself.
    fn apply_to_itself(&mut self, dir: DirId, flags: ReadFlags) -> Result<(), Stop> {
        if dir != ROOT {
            // Its parent reports what becomes of it; here only that its place must be looked at.
            if flags.contains(ReadFlags::IGNORED) {
                self.tree.detach(dir);
                self.suspects.insert(dir);
            } else if flags.contains(ReadFlags::MOVE_SELF) {
                self.suspects.insert(dir);
            }
            return Ok(());
        }
        if let Some(reason) = reason_of(flags) {
            self.tree.detach(ROOT);
            return Err(Stop::Gone(reason));
        }
        let itself = (ROOT, OsStr::new(""));
        if flags.contains(ReadFlags::MODIFY) {
            self.tell(FileChange::Modified, itself, self.is_dir);
        } else if flags.contains(ReadFlags::ATTRIB) {
            self.tell(FileChange::Attributes, itself, self.is_dir);
        }
        Ok(())
    }

    /// A name was made.
    pub(super) fn appear(
        &mut self,
        disk: &mut Disk<'_>,
        dir: DirId,
        name: &OsStr,
        directory: bool,
    ) -> Result<(), Stop> {
        if !self.tells(dir, name, directory) {
            return Ok(());
        }
        match (self.tree.get(dir, name), directory) {
            // A list had it already.
            (Some(Entry::File), false) => return Ok(()),
            (Some(Entry::Dir(known)), true) => {
                if self.recursive {
                    self.suspects.insert(known);
                }
                return Ok(());
            }
            (Some(_), _) => self.vanish(dir, name),
            (None, _) => {}
        }
        let entry = self.tree.insert(dir, name, directory);
        self.tell(FileChange::Created, (dir, name), directory);
        match entry {
            Entry::Dir(new) if self.recursive => self.attach(disk, new),
            _ => self.count(),
        }
    }

    /// Something came from where nothing is told.
    fn move_in(
        &mut self,
        disk: &mut Disk<'_>,
        dir: DirId,
        name: &OsStr,
        directory: bool,
    ) -> Result<(), Stop> {
        if !directory
            && self.tree.get(dir, name) == Some(Entry::File)
            && self.tells(dir, name, false)
        {
            // It took the place of another file.
            self.tell(FileChange::Modified, (dir, name), false);
            return Ok(());
        }
        self.appear(disk, dir, name, directory)
    }

    /// A name is gone.
    pub(super) fn vanish(&mut self, dir: DirId, name: &OsStr) {
        let Some(entry) = self.tree.get(dir, name) else {
            return;
        };
        self.tell(
            FileChange::Removed,
            (dir, name),
            matches!(entry, Entry::Dir(_)),
        );
        self.forget(dir, name);
    }

    fn forget(&mut self, dir: DirId, name: &OsStr) {
        for watch in self
            .tree
            .remove(dir, name)
            .map_or_else(Vec::new, |(_, watches)| watches)
        {
            // What was removed has lost its watch by itself.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }

    fn change_place(
        &mut self,
        disk: &mut Disk<'_>,
        from: (DirId, &OsStr),
        to: (DirId, &OsStr),
        directory: bool,
    ) -> Result<(), Stop> {
        let Some(entry) = self.tree.get(from.0, from.1) else {
            return self.move_in(disk, to.0, to.1, directory);
        };
        let is_dir = matches!(entry, Entry::Dir(_));
        if from == to {
            return Ok(());
        }
        if is_dir != directory
            || !self.tells(to.0, to.1, directory)
            || (directory && self.filter.depends_on_place())
        {
            self.vanish(from.0, from.1);
            return self.move_in(disk, to.0, to.1, directory);
        }
        if let Entry::Dir(moved) = entry
            && self.tree.is_within(to.0, moved)
        {
            // No file system allows it, so the tree is not what we think: begin anew.
            self.overflowed = true;
            return Ok(());
        }
        if self.tree.get(to.0, to.1).is_some() {
            self.forget(to.0, to.1);
        }
        self.tell_move(FileChange::Moved, Some(from), to, directory);
        self.tree.rename(from, to);
        if let Entry::Dir(moved) = entry
            && self.recursive
            && self.tree.watch_of(moved).is_none()
        {
            self.attach(disk, moved)?;
        }
        self.count()
    }

    fn attributes_changed(
        &mut self,
        disk: &mut Disk<'_>,
        dir: DirId,
        name: &OsStr,
    ) -> Result<(), Stop> {
        let Some(entry) = self.tree.get(dir, name) else {
            return Ok(());
        };
        let is_dir = matches!(entry, Entry::Dir(_));
        self.tell(FileChange::Attributes, (dir, name), is_dir);
        match entry {
            // Perhaps it may be read now.
            Entry::Dir(child) if self.recursive && self.tree.watch_of(child).is_none() => {
                self.attach(disk, child)
            }
            _ => Ok(()),
        }
    }
}
