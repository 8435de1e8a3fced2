//! Paths: the resolver against a model of a tree, and what dialects make of the text of a path.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstat};
use rustix::io::Errno;
use sandshell_compat::fuzzing::{unescaped, workspace_path};
use sandshell_compat_e2b::fuzzing::{led_to, query_pairs};
use sandshell_exec::inside::Follow;

use crate::input::Input;
use crate::place::Place;

/// Links that the kernel follows in one path.
const MAX_LINKS: usize = 40;

enum Node {
    Directory(BTreeMap<String, usize>),
    File,
    Link(String),
}

/// A tree as a sandbox sees it; its node 0 is the root.
struct Model {
    nodes: Vec<Node>,
    parents: Vec<usize>,
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "..", "."];

/// A path of the small alphabet, absolute or not, perhaps with slashes too many.
fn path_of(input: &mut Input<'_>) -> String {
    let shape = input.byte();
    let mut path = String::new();
    if shape & 1 == 1 {
        path.push('/');
    }
    for number in 0..shape >> 1 & 7 {
        if number > 0 {
            path.push_str(if shape & 0x40 == 0 { "/" } else { "//" });
        }
        path.push_str(NAMES[usize::from(input.byte()) % NAMES.len()]);
    }
    if shape & 0x80 != 0 {
        path.push('/');
    }
    path
}

impl Model {
    /// Makes the same tree here and on the disk.
    fn build(input: &mut Input<'_>, top: &Path) -> Self {
        let mut model = Self {
            nodes: vec![Node::Directory(BTreeMap::new())],
            parents: vec![0],
        };
        let mut places = vec![(0, top.to_owned())];
        for _ in 0..input.byte() % 16 {
            let (dir, at) = places[usize::from(input.byte()) % places.len()].clone();
            let name = NAMES[usize::from(input.byte() % 4)];
            let here = at.join(name);
            let Node::Directory(names) = &model.nodes[dir] else {
                continue;
            };
            if names.contains_key(name) {
                continue;
            }
            let node = match input.byte() % 3 {
                0 => {
                    std::fs::create_dir(&here).unwrap();
                    places.push((model.nodes.len(), here));
                    Node::Directory(BTreeMap::new())
                }
                1 => {
                    std::fs::write(&here, b"").unwrap();
                    Node::File
                }
                _ => {
                    let target = path_of(input);
                    if target.is_empty() {
                        continue;
                    }
                    std::os::unix::fs::symlink(&target, &here).unwrap();
                    Node::Link(target)
                }
            };
            let id = model.nodes.len();
            model.nodes.push(node);
            model.parents.push(dir);
            if let Node::Directory(names) = &mut model.nodes[dir] {
                names.insert(name.to_owned(), id);
            }
        }
        model
    }

    fn find(&self, path: &str, follow: bool) -> Result<usize, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        self.walk(0, path, follow, &mut 0)
    }

    fn walk(
        &self,
        from: usize,
        path: &str,
        follow: bool,
        links: &mut usize,
    ) -> Result<usize, Errno> {
        let mut at = if path.starts_with('/') { 0 } else { from };
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let directory = path.ends_with('/');
        for (number, part) in parts.iter().enumerate() {
            let last = number + 1 == parts.len();
            let Node::Directory(names) = &self.nodes[at] else {
                return Err(Errno::NOTDIR);
            };
            let next = match *part {
                "." => at,
                ".." => self.parents[at],
                name => *names.get(name).ok_or(Errno::NOENT)?,
            };
            at = match &self.nodes[next] {
                Node::Link(target) if !last || follow || directory => {
                    *links += 1;
                    if *links > MAX_LINKS {
                        return Err(Errno::LOOP);
                    }
                    self.walk(at, target, true, links)?
                }
                _ => next,
            };
        }
        if directory && !matches!(self.nodes[at], Node::Directory(_)) {
            return Err(Errno::NOTDIR);
        }
        Ok(at)
    }

    fn kind(&self, node: usize) -> &'static str {
        match &self.nodes[node] {
            Node::Directory(_) => "directory",
            Node::File => "file",
            Node::Link(_) => "link",
        }
    }

    /// Where a node lies.
    fn path(&self, mut node: usize) -> PathBuf {
        let mut names = Vec::new();
        while node != 0 {
            let parent = self.parents[node];
            if let Node::Directory(all) = &self.nodes[parent] {
                let name = all.iter().find(|(_, id)| **id == node);
                names.push(name.map(|(name, _)| name.clone()).unwrap_or_default());
            }
            node = parent;
        }
        names.iter().rev().collect()
    }
}

/// What the resolver finds is what the model finds, in the tree and nowhere else.
pub(crate) fn resolver(data: &[u8]) {
    let mut input = Input(data);
    let place = Place::new();
    let top = place.path().join("root");
    std::fs::create_dir(&top).unwrap();
    // Names of the tree, to be found by whoever gets out.
    for name in ["a", "b", "c", "d"] {
        std::fs::write(place.path().join(name), b"outside").unwrap();
    }
    let model = Model::build(&mut input, &top);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(&top, flags, Mode::empty()).unwrap();
    let root = sandshell_exec::fuzzing::root(dir).unwrap();
    for _ in 0..8 {
        if input.is_empty() {
            break;
        }
        let path = path_of(&mut input);
        for follow in [Follow::Yes, Follow::No] {
            let found = root.find(Path::new(&path), follow);
            let expected = model.find(&path, follow == Follow::Yes);
            match (found, expected) {
                (Ok(found), Ok(node)) => {
                    let stat = fstat(&found).unwrap();
                    let right = rustix::fs::lstat(top.join(model.path(node))).unwrap();
                    assert_eq!(
                        stat.st_ino,
                        right.st_ino,
                        "{path:?} is a {}",
                        model.kind(node)
                    );
                }
                (Err(found), Err(expected)) => assert_eq!(found, expected, "{path:?}"),
                (found, expected) => panic!("{path:?}: {found:?}, not {expected:?}"),
            }
        }
        if let Ok((parent, name)) = root.find_parent(Path::new(&path)) {
            let inside = path
                .trim_end_matches('/')
                .rsplit_once('/')
                .map_or("", |(above, _)| above);
            let inside = if inside.is_empty() { "/" } else { inside };
            let node = model.find(inside, true).unwrap();
            let right = rustix::fs::lstat(top.join(model.path(node))).unwrap();
            assert_eq!(fstat(&parent).unwrap().st_ino, right.st_ino, "{path:?}");
            assert!(
                !["", ".", ".."].contains(&name.to_str().unwrap())
                    && !name.as_bytes().contains(&b'/')
            );
        }
    }
}

/// A path that was made plain has nothing in it that leads elsewhere, and is plain already.
pub(crate) fn path_text(data: &[u8]) {
    let plain = |path: &[u8]| {
        path.starts_with(b"/")
            && !path[1..]
                .split(|byte| *byte == b'/')
                .any(|part| matches!(part, b"." | b".."))
    };
    if let Some(path) = workspace_path(data) {
        assert!(path == b"/workspace" || path.starts_with(b"/workspace/"));
        assert!(plain(&path) && !path.windows(2).any(|two| two == b"//"));
        assert_eq!(workspace_path(&path), Some(path));
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Some(bytes) = unescaped(text) {
        assert!(bytes.len() <= data.len());
        let escaped: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(unescaped(&escaped), Some(bytes));
    }
    let (link, target) = text.split_once('\n').unwrap_or((text, ""));
    let led = led_to(link, target);
    assert!(plain(led.as_bytes()), "{led:?}");
    assert_eq!(led_to("/", &led), led);
    for (name, value) in query_pairs(text) {
        assert!(name.len() + value.len() <= 3 * text.len() + 3);
    }
    let _ = OsStr::from_bytes(data);
}
