//! What source files may contain and how long they may be.

use std::path::PathBuf;

use super::{files, read, root};

/// Above this a file is more than one thing.
const MAX_LINES: usize = 800;

/// Written in two parts, so that this file does not contain them.
const UNSAFE: &str = concat!("un", "safe");
const TODO: &str = concat!("to", "do!");

fn sources() -> Vec<PathBuf> {
    ["crates", "bench", "fuzz", "tests"]
        .iter()
        .flat_map(|dir| files(dir, "rs"))
        .collect()
}

fn shown(path: &std::path::Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}

/// The code of each line, without its comment. Good enough here: a string with `//` in it only
/// hides what stands behind it on its line.
fn code(path: &PathBuf) -> Vec<String> {
    read(path)
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default().to_owned())
        .collect()
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let in_name = |c: char| c.is_alphanumeric() || c == '_';
        !line[..at].ends_with(in_name) && !line[at + word.len()..].starts_with(in_name)
    })
}

#[test]
fn only_sys_has_blocks_the_compiler_cannot_check() {
    let sys = root().join("crates/sys");
    let found: Vec<String> = sources()
        .iter()
        .filter(|path| !path.starts_with(&sys))
        .filter(|path| code(path).iter().any(|line| has_word(line, UNSAFE)))
        .map(|path| shown(path))
        .collect();
    assert!(found.is_empty(), "{UNSAFE} outside crates/sys: {found:?}");
    assert!(has_word(&format!("x = {UNSAFE} {{ y }}"), UNSAFE));
    assert!(!has_word(&format!("{UNSAFE}_code"), UNSAFE));
}

#[test]
fn each_of_those_blocks_is_in_the_inventory() {
    let opening = format!("{UNSAFE} {{");
    let sys = root().join("crates/sys/src");
    let document = read("SECURITY.md");
    for path in sources().iter().filter(|path| path.starts_with(&sys)) {
        let lines = code(path);
        let blocks = |line: &String| line.matches(&opening).count();
        let name = path.strip_prefix(&sys).unwrap().display();
        let row = format!(
            "| `{name}` | {} | ",
            lines.iter().map(blocks).sum::<usize>()
        );
        let uses = lines.iter().any(|line| has_word(line, UNSAFE));
        assert!(
            !uses || document.contains(&row),
            "SECURITY.md has no row that starts with\n{row}"
        );
    }
}

#[test]
fn every_crate_keeps_the_lints_of_the_workspace() {
    let workspace: toml::Table = read("Cargo.toml").parse().unwrap();
    let rules = &workspace["workspace"]["lints"];
    assert_eq!(rules["rust"]["unsafe_code"].as_str(), Some("forbid"));
    let manifests = ["crates", "bench", "fuzz", "tests"]
        .iter()
        .flat_map(|dir| files(dir, "toml"))
        .filter(|path| path.file_name().is_some_and(|name| name == "Cargo.toml"));
    for path in manifests {
        let manifest: toml::Table = read(&path).parse().unwrap();
        let lints = &manifest["lints"];
        if path.starts_with(root().join("crates/sys")) {
            // It cannot inherit: `forbid` could not be lifted for a single block.
            assert_eq!(lints["rust"]["unsafe_code"].as_str(), Some("deny"));
            for (name, level) in lints["clippy"].as_table().unwrap() {
                assert_eq!(rules["clippy"].get(name), Some(level), "{name} in sys");
            }
            for name in ["unwrap_used", "undocumented_unsafe_blocks", "panic"] {
                assert_eq!(lints["clippy"][name].as_str(), Some("deny"), "{name}");
            }
        } else {
            assert_eq!(lints["workspace"].as_bool(), Some(true), "{}", shown(&path));
        }
    }
}

#[test]
fn files_are_short_and_finished() {
    let mut wrong = Vec::new();
    for path in sources() {
        let lines = read(&path).lines().count();
        if lines > MAX_LINES {
            wrong.push(format!("{} has {lines} lines", shown(&path)));
        }
        if code(&path).iter().any(|line| line.contains(TODO)) {
            wrong.push(format!("{} has a {TODO}", shown(&path)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_toolchain_is_pinned() {
    for name in ["rust-toolchain", "rust-toolchain.toml"] {
        assert!(
            !root().join(name).exists(),
            "{name} would have to be downloaded"
        );
    }
}
