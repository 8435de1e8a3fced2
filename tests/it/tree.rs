//! Trees for tests: random ones, and what a tree looks like from outside.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// Numbers that look random and are the same in every run.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Everything that must come back: kind and mode, time, content or target, and which names are one file.
pub(crate) type Shape = BTreeMap<Vec<u8>, (String, i64, i64, Vec<u8>)>;

/// What is below a directory; the directory itself has the empty name.
pub(crate) fn shape(top: &Path) -> Shape {
    let mut shape = Shape::new();
    let mut inodes = BTreeMap::new();
    let mut todo = vec![top.to_owned()];
    while let Some(path) = todo.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(top).unwrap().as_os_str().as_bytes();
        let kind = meta.file_type();
        let (what, content) = if kind.is_dir() {
            todo.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            ("dir", Vec::new())
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            ("link", target.into_os_string().into_vec())
        } else if kind.is_file() {
            ("file", fs::read(&path).unwrap())
        } else {
            ("other", Vec::new())
        };
        let mode = if kind.is_symlink() {
            0
        } else {
            meta.mode() & 0o7777
        };
        let mut what = format!("{what} {mode:04o}");
        if kind.is_file() && meta.nlink() > 1 {
            let next = inodes.len();
            let number = *inodes.entry(meta.ino()).or_insert(next);
            what = format!("{what} same {number}");
        }
        shape.insert(
            name.to_vec(),
            (what, meta.mtime(), meta.mtime_nsec(), content),
        );
    }
    // Numbers of files depend on the order of the walk; the set of names does not.
    let mut same: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for (name, (what, ..)) in &shape {
        if what.contains("same") {
            same.entry(what.clone()).or_default().push(name.clone());
        }
    }
    for names in same.values() {
        let first = String::from_utf8_lossy(&names[0]).into_owned();
        for name in names {
            let what = &mut shape.get_mut(name).unwrap().0;
            let cut = what.find("same").unwrap();
            what.replace_range(cut.., &format!("same as {first}"));
        }
    }
    shape
}

/// The shape without the directory itself, whose attributes may stay.
pub(crate) fn inner_shape(top: &Path) -> Shape {
    let mut shape = shape(top);
    shape.remove(&Vec::new());
    shape
}

/// Makes a tree with everything an archive can hold.
pub(crate) fn grow(top: &Path, seed: u64) {
    let mut numbers = Numbers::new(seed);
    let mut dirs = vec![top.to_owned()];
    let mut files: Vec<PathBuf> = Vec::new();
    for count in 0..40 {
        let pick = usize::try_from(numbers.below(dirs.len() as u64)).unwrap();
        let dir = dirs[pick].clone();
        let path = dir.join(OsStr::from_bytes(&name(&mut numbers, count)));
        match numbers.below(10) {
            0..3 => {
                fs::create_dir(&path).unwrap();
                dirs.push(path);
            }
            3 => {
                let targets = [
                    "/etc/passwd",
                    "../..//x/./y",
                    "nowhere",
                    &"long/".repeat(50),
                ];
                let pick = usize::try_from(numbers.below(4)).unwrap();
                symlink(targets[pick], &path).unwrap();
            }
            4 if !files.is_empty() => {
                let pick = usize::try_from(numbers.below(files.len() as u64)).unwrap();
                fs::hard_link(&files[pick], &path).unwrap();
            }
            _ => {
                let sizes = [0, 1, 511, 512, 513, 1024, 70_000, 300_001];
                let size = sizes[usize::try_from(numbers.below(8)).unwrap()];
                let content: Vec<u8> = (0..size).map(|_| numbers.below(256) as u8).collect();
                fs::write(&path, content).unwrap();
                let mode = [0o644, 0o755, 0o600, 0o444, 0o777, 0o666];
                let mode = mode[usize::try_from(numbers.below(6)).unwrap()];
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                files.push(path);
            }
        }
    }
    age(top, &mut numbers);
    for dir in dirs.iter().skip(1) {
        let mode = [0o755, 0o700, 0o1777, 0o555, 0o775][usize::try_from(numbers.below(5)).unwrap()];
        fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Gives everything a time of its own, children first.
fn age(path: &Path, numbers: &mut Numbers) {
    let meta = fs::symlink_metadata(path).unwrap();
    if meta.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            age(&entry.unwrap().path(), numbers);
        }
    }
    let seconds = i64::try_from(numbers.below(4_000_000_000)).unwrap() - 1_000;
    let nanoseconds = [0, 1, 999_999_999, 500_000_000][usize::try_from(numbers.below(4)).unwrap()];
    set_time(path, seconds, nanoseconds);
}

pub(crate) fn set_time(path: &Path, seconds: i64, nanoseconds: i64) {
    let time = rustix::fs::Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    };
    let times = rustix::fs::Timestamps {
        last_access: time,
        last_modification: time,
    };
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, flags).unwrap();
}

fn name(numbers: &mut Numbers, count: u32) -> Vec<u8> {
    match numbers.below(6) {
        0 => format!("with space {count}").into_bytes(),
        1 => format!("ü-{count}").into_bytes(),
        2 => [b"\xff\xfe-".as_slice(), count.to_string().as_bytes()].concat(),
        3 => format!("{}-{count}", "long".repeat(40)).into_bytes(),
        4 => format!(".hidden{count}").into_bytes(),
        _ => format!("n{count}").into_bytes(),
    }
}

/// Names in a directory that are ours and should not be there.
pub(crate) fn leftovers(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".sandshell-"))
        .collect()
}
