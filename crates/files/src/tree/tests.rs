#![allow(clippy::unwrap_used)]

use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

use super::*;

fn open(dir: &Path) -> Tree {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Tree::new(openat(CWD, dir, flags, Mode::empty()).unwrap()).unwrap()
}

/// Everything in the tree, by walking it.
fn walk(tree: &mut Tree) -> Vec<PathBuf> {
    let mut seen = Vec::new();
    loop {
        while let Some(next) = tree.next().unwrap() {
            seen.push(tree.path_of(&next.name));
            if next.kind == FileType::Directory {
                tree.enter(&next.name).unwrap();
            }
        }
        if tree.leave().unwrap().is_none() {
            return seen;
        }
    }
}

#[test]
fn goes_through_names_in_order_and_never_through_links() {
    let dir = tempfile::tempdir().unwrap();
    for path in ["b/c", "a", "b.d", "b/.h/x"] {
        std::fs::create_dir_all(dir.path().join(path)).unwrap();
    }
    std::os::unix::fs::symlink(dir.path(), dir.path().join("b/again")).unwrap();
    let paths = |tree: &mut Tree| -> Vec<String> {
        let walked = walk(tree).into_iter();
        walked
            .map(|path| path.to_str().unwrap().to_owned())
            .collect()
    };
    let all = ["a", "b", "b/.h", "b/.h/x", "b/again", "b/c", "b.d"];
    assert_eq!(paths(&mut open(dir.path())), all);
    let shown = ["a", "b", "b/again", "b/c", "b.d"];
    assert_eq!(paths(&mut open(dir.path()).without_hidden()), shown);
    let mut rest = open(dir.path());
    rest.skip_to(OsStr::new("a"));
    assert_eq!(paths(&mut rest), &all[1..]);
    assert_eq!(
        open(dir.path()).enter(OsStr::new("b/again")).err(),
        Some(Errno::NOTDIR)
    );
}

#[test]
fn comes_back_from_any_depth_with_few_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let mut at = open(dir.path()).dirs;
    for _ in 0..400 {
        mkdirat(at.deepest(), "d", Mode::RWXU).unwrap();
        mkdirat(at.deepest(), "e", Mode::RWXU).unwrap();
        let below = open_dir(at.deepest(), "d").unwrap();
        at.enter(below).unwrap();
        assert!(at.open() <= 32, "{} are open", at.open());
    }
    assert_eq!(walk(&mut open(dir.path())).len(), 800);
    // The usual way to remove it would recurse too deep for some.
    let mut tree = open(dir.path());
    loop {
        while let Some(next) = tree.next().unwrap() {
            tree.enter(&next.name).unwrap();
        }
        let Some(left) = tree.leave().unwrap() else {
            break;
        };
        rustix::fs::unlinkat(tree.dir(), left, rustix::fs::AtFlags::REMOVEDIR).unwrap();
    }
}

#[test]
fn a_directory_moved_away_is_not_climbed_out_of() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("elsewhere")).unwrap();
    std::fs::create_dir(dir.path().join("top")).unwrap();
    let mut tree = open(&dir.path().join("top"));
    for depth in 0..40 {
        mkdirat(tree.dir(), "d", Mode::RWXU).unwrap();
        tree.enter(OsStr::new("d")).unwrap();
        if depth == 0 {
            std::fs::rename(dir.path().join("top/d"), dir.path().join("elsewhere/d")).unwrap();
        }
    }
    let left = std::iter::from_fn(|| Some(tree.leave())).find(|left| !matches!(left, Ok(Some(_))));
    assert_eq!(left, Some(Err(Errno::NOENT)));
}

#[test]
fn a_huge_directory_is_read_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..20 {
        for m in 0..n {
            std::fs::create_dir_all(dir.path().join(format!("{n}/{m}/{}", n * m))).unwrap();
        }
    }
    let whole = walk(&mut open(dir.path()));
    assert_eq!(whole.len(), 19 + 2 * (19 * 20 / 2));
    for batch in [1, 2, 3, 5] {
        let mut tree = open(dir.path());
        tree.batch = batch;
        assert_eq!(walk(&mut tree), whole, "{batch} names at a time");
        let held = tree.levels.iter().map(|level| level.names.capacity());
        assert!(held.sum::<usize>() < 100);
    }
}
