//! A tree built from events alone, and the same from the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use sandshell_client::WatchStreamEvent;
use sandshell_client::types::{Encoded, FileChange, FileEvent, TextEncoding};

/// Paths below a directory, and whether each is a directory.
pub(super) type Shape = BTreeMap<PathBuf, bool>;

/// What a reader of the events knows.
#[derive(Default)]
pub(super) struct Replay {
    pub(super) tree: Shape,
    /// Files said to have been made, written or moved.
    pub(super) touched: BTreeSet<PathBuf>,
    pub(super) changes: usize,
    pub(super) rescans: usize,
}

impl Replay {
    pub(super) fn from(root: &Path, events: &[WatchStreamEvent]) -> Self {
        let mut replay = Self::default();
        for event in events {
            replay.apply(root, event);
        }
        replay
    }

    pub(super) fn apply(&mut self, root: &Path, event: &WatchStreamEvent) {
        let change = match event {
            WatchStreamEvent::Change(change) => change,
            WatchStreamEvent::Rescan(_) => {
                self.rescans += 1;
                self.tree = on_disk(root);
                return;
            }
            other => panic!("{other:?}"),
        };
        self.changes += 1;
        let FileEvent {
            path,
            path_base64,
            from,
            from_base64,
            directory,
            ..
        } = change;
        let path = exact(path, path_base64.as_ref());
        match change.change {
            FileChange::Created => {
                if self.tree.get(&path) != Some(directory) {
                    self.remove(&path);
                }
                self.tree.insert(path.clone(), *directory);
                self.touched.insert(path);
            }
            FileChange::Removed => {
                self.remove(&path);
            }
            FileChange::Moved => {
                let from = exact(from.as_ref().unwrap(), from_base64.as_ref());
                self.remove(&path);
                for (old, kind) in self.remove(&from) {
                    let below = old.strip_prefix(&from).unwrap();
                    let new = if below.as_os_str().is_empty() {
                        path.clone()
                    } else {
                        path.join(below)
                    };
                    self.tree.insert(new, kind);
                }
                self.touched.insert(path);
            }
            FileChange::Modified => {
                self.touched.insert(path);
            }
            FileChange::Attributes => {}
        }
    }

    /// Removes a path with everything below it.
    fn remove(&mut self, path: &Path) -> Vec<(PathBuf, bool)> {
        let gone: Vec<PathBuf> = self
            .tree
            .range(path.to_owned()..)
            .take_while(|(known, _)| known.starts_with(path))
            .map(|(known, _)| known.clone())
            .collect();
        let take = |known: PathBuf| {
            let kind = self.tree.remove(&known)?;
            Some((known, kind))
        };
        gone.into_iter().filter_map(take).collect()
    }
}

fn exact(text: &str, base64: Option<&String>) -> PathBuf {
    match base64 {
        None => PathBuf::from(text),
        Some(base64) => {
            let bytes = Encoded::decode(base64, TextEncoding::Base64).unwrap();
            PathBuf::from(OsString::from_vec(bytes))
        }
    }
}

/// What there really is.
pub(super) fn on_disk(root: &Path) -> Shape {
    let mut shape = Shape::new();
    let mut todo = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            let is_dir = entry.file_type().unwrap().is_dir();
            if is_dir {
                todo.push(entry.path());
            }
            shape.insert(entry.path(), is_dir);
        }
    }
    shape
}
