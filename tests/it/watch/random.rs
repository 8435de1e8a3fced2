//! Random work in a watched tree: replayed from the events, it is the tree on the disk.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use sandshell_testkit::Agent;

use super::replay::{Replay, Shape, on_disk};
use super::{open, request, told, tree};

/// Levels of directories, or the tree would become a chain.
const DEEPEST: usize = 12;

/// A small generator, the same everywhere (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }
}

/// Does random things below a directory and knows what is there.
struct Worker {
    random: Random,
    root: PathBuf,
    outside: PathBuf,
    dirs: Vec<PathBuf>,
    files: Vec<PathBuf>,
    next: usize,
    /// Files whose last change was a write.
    written: BTreeSet<PathBuf>,
}

impl Worker {
    fn new(seed: u64, root: &Path, outside: &Path) -> Self {
        Self {
            random: Random(seed),
            root: root.to_owned(),
            outside: outside.to_owned(),
            dirs: vec![root.to_owned()],
            files: Vec::new(),
            next: 0,
            written: BTreeSet::new(),
        }
    }

    fn name(&mut self) -> String {
        self.next += 1;
        // Few names, so that the same one means one thing and then another.
        format!("n{}", self.random.below(40))
    }

    fn dir(&mut self) -> PathBuf {
        let n = self.random.below(self.dirs.len());
        self.dirs[n].clone()
    }

    fn file(&mut self) -> Option<PathBuf> {
        if self.files.is_empty() {
            return None;
        }
        let n = self.random.below(self.files.len());
        Some(self.files[n].clone())
    }

    /// A path at which there is nothing.
    fn free(&mut self) -> Option<PathBuf> {
        let path = self.dir().join(self.name());
        if path.components().count() > self.root.components().count() + DEEPEST {
            return None;
        }
        (fs::symlink_metadata(&path).is_err()).then_some(path)
    }

    fn forget(&mut self, path: &Path) {
        self.dirs.retain(|dir| !is_within(dir, path));
        self.files.retain(|file| !is_within(file, path));
        self.written.retain(|file| !is_within(file, path));
    }

    /// Learns what lies at a path.
    fn learn(&mut self, path: &Path) {
        if fs::symlink_metadata(path).unwrap().is_dir() {
            self.dirs.push(path.to_owned());
            for (path, is_dir) in on_disk(path) {
                if is_dir {
                    self.dirs.push(path);
                } else {
                    self.files.push(path);
                }
            }
        } else {
            self.files.push(path.to_owned());
        }
    }

    /// One random change; false when the dice asked for something impossible.
    fn step(&mut self) -> bool {
        match self.random.below(100) {
            0..14 => self.make_dirs(),
            14..40 => self.make_file(),
            40..60 => self.write(),
            60..72 => self.rename_file(),
            72..82 => self.rename_dir(),
            82..90 => self.remove_file(),
            90..93 => self.remove_dir(),
            93..95 => self.move_out(),
            95..97 => self.move_in(),
            _ => self.exchange(),
        }
    }

    fn make_dirs(&mut self) -> bool {
        let Some(path) = self.free() else {
            return false;
        };
        let mut deep = path.clone();
        for _ in 0..self.random.below(4) {
            deep.push(self.name());
        }
        fs::create_dir_all(&deep).unwrap();
        // Something at the bottom at once, before anyone can have looked.
        fs::write(deep.join("first"), "").unwrap();
        self.learn(&path);
        true
    }

    fn make_file(&mut self) -> bool {
        let Some(path) = self.free() else {
            return false;
        };
        fs::write(&path, "").unwrap();
        self.files.push(path);
        true
    }

    fn write(&mut self) -> bool {
        let Some(path) = self.file() else {
            return false;
        };
        let file = fs::OpenOptions::new().append(true).open(&path);
        file.unwrap().write_all(b"more").unwrap();
        self.written.insert(path);
        true
    }

    fn rename_file(&mut self) -> bool {
        let Some(from) = self.file() else {
            return false;
        };
        // Onto another file as often as not.
        let to = match self.random.below(2) {
            0 => self.free(),
            _ => self.file(),
        };
        let Some(to) = to.filter(|to| *to != from) else {
            return false;
        };
        fs::rename(&from, &to).unwrap();
        self.forget(&from);
        self.forget(&to);
        self.files.push(to);
        true
    }

    fn rename_dir(&mut self) -> bool {
        let from = self.dir();
        let Some(to) = self.free().filter(|to| !to.starts_with(&from)) else {
            return false;
        };
        if from == self.root {
            return false;
        }
        fs::rename(&from, &to).unwrap();
        self.forget(&from);
        self.learn(&to);
        true
    }

    fn remove_file(&mut self) -> bool {
        let Some(path) = self.file() else {
            return false;
        };
        fs::remove_file(&path).unwrap();
        self.forget(&path);
        true
    }

    fn remove_dir(&mut self) -> bool {
        let path = self.dir();
        // Not the large ones, or there would never be a large tree.
        if path == self.root || on_disk(&path).len() > 30 {
            return false;
        }
        fs::remove_dir_all(&path).unwrap();
        self.forget(&path);
        true
    }

    fn move_out(&mut self) -> bool {
        let path = self.dir();
        if path == self.root || on_disk(&path).len() > 30 {
            return false;
        }
        self.next += 1;
        fs::rename(&path, self.outside.join(format!("o{}", self.next))).unwrap();
        self.forget(&path);
        true
    }

    fn move_in(&mut self) -> bool {
        let Some(entry) = fs::read_dir(&self.outside).unwrap().next() else {
            return false;
        };
        let Some(to) = self.free() else {
            return false;
        };
        fs::rename(entry.unwrap().path(), &to).unwrap();
        self.learn(&to);
        true
    }

    /// Two things change places at once.
    fn exchange(&mut self) -> bool {
        let (a, b) = if self.random.below(2) == 0 {
            (self.dir(), self.dir())
        } else {
            match (self.file(), self.file()) {
                (Some(a), Some(b)) => (a, b),
                _ => return false,
            }
        };
        if a.starts_with(&b) || b.starts_with(&a) {
            return false;
        }
        renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
        for path in [&a, &b] {
            self.forget(path);
        }
        for path in [&a, &b] {
            self.learn(path);
        }
        true
    }
}

/// As `Path::starts_with`, which is slow without optimisation.
fn is_within(path: &Path, above: &Path) -> bool {
    let rest = path
        .as_os_str()
        .as_encoded_bytes()
        .strip_prefix(above.as_os_str().as_encoded_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn difference(told: &Shape, real: &Shape) -> String {
    let missing: Vec<_> = real
        .iter()
        .filter(|(path, _)| !told.contains_key(*path))
        .collect();
    let invented: Vec<_> = told
        .iter()
        .filter(|(path, _)| !real.contains_key(*path))
        .collect();
    format!("missing: {missing:?}\ninvented: {invented:?}")
}

/// Works in rounds, with a look at the tree after each. A round makes fewer reports than the kernel's
/// queue holds, so nothing may be lost.
async fn work(seed: u64, rounds: usize, steps: usize) -> (usize, usize) {
    let agent = Agent::start();
    let client = agent.client();
    let root = tree(&agent);
    let outside = agent.work_dir().join("outside");
    fs::create_dir(&outside).unwrap();
    let asked = request(&root);
    let (mut stream, mut version) = open(&client, &asked).await;
    let mut worker = Worker::new(seed, &root, &outside);
    let mut replay = Replay::default();
    let mut done = 0;
    for round in 0..rounds {
        let target = done + steps;
        let work = tokio::task::spawn_blocking(move || {
            let mut done = done;
            while done < target {
                done += usize::from(worker.step());
            }
            worker
        });
        worker = work.await.unwrap();
        done = target;
        let (events, now) = told(&client, &asked, &mut stream, version).await;
        version = now;
        replay.touched.clear();
        for event in &events {
            replay.apply(&root, event);
        }
        let real = on_disk(&root);
        assert!(
            replay.tree == real,
            "seed {seed}, round {round}: {}",
            difference(&replay.tree, &real)
        );
        let untold: Vec<_> = worker.written.difference(&replay.touched).collect();
        assert!(untold.is_empty(), "seed {seed}, round {round}: {untold:?}");
        worker.written.clear();
    }
    assert_eq!(replay.rescans, 0, "seed {seed}");
    (done, replay.changes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_random_changes_give_the_same_tree() {
    let (done, changes) = work(0x5eed_0001, 20, 1000).await;
    assert!(done == 20_000 && changes > 20_000, "{done} {changes}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_seeds_do_too() {
    for seed in 2..8 {
        work(0x5eed_0000 + seed, 40, 50).await;
    }
}
