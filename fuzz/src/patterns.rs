//! Globs, and rules of .gitignore files.

use std::path::Path;

use sandshell_files::fuzzing::{globs_match, ignored, watch_tells};
use sandshell_files::watch::split_globs;

use crate::input::sections;

fn is_plain(text: &str) -> bool {
    let special = |c: char| "*?[]{}\\!^,".contains(c) || c.is_control();
    !text.is_empty()
        && !text.contains(special)
        && !text.contains("//")
        && !text.starts_with(['/', '#', ' '])
        && !text.ends_with(['/', ' '])
        && !text.split('/').any(|part| matches!(part, "." | ".."))
}

/// A path in the first line, then globs: one more never takes away, a plain path names itself, and a list
/// is cut where it was put together.
pub(crate) fn globs(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.lines();
    let path = lines.next().unwrap_or_default();
    let globs: Vec<String> = lines.map(str::to_owned).collect();
    let name = Path::new(path);
    let matched = globs_match(&globs, name);
    if globs.is_empty() {
        assert_eq!(matched, Some(false));
    }
    if let [.., _] = globs.as_slice()
        && globs_match(&globs[..globs.len() - 1], name) == Some(true)
    {
        assert_ne!(matched, Some(false), "one glob more took something away");
    }
    if is_plain(path) {
        let own = [path.to_owned()];
        assert_eq!(globs_match(&own, name), Some(true), "{path:?}");
        assert_eq!(watch_tells(&[], &own, name), Some(false), "{path:?}");
        assert_eq!(watch_tells(&own, &[], name), Some(true), "{path:?}");
    }
    if watch_tells(&[], &globs, name) == Some(false) {
        assert_eq!(
            watch_tells(&globs, &globs, name),
            Some(false),
            "what is excluded is told"
        );
    }
    let list = text.replace(['\n', '\r'], ",");
    assert_eq!(split_globs(&list).join(","), list);
}

/// Two files of rules and a path: a plain rule at the end of the last one decides, both ways.
pub(crate) fn gitignore(data: &[u8]) {
    let [path, first, second] = sections::<3>(data);
    let Ok(path) = std::str::from_utf8(path) else {
        return;
    };
    if path.is_empty() || path.starts_with('/') || path.contains('\0') {
        return;
    }
    let name = Path::new(path);
    let _ = ignored(&[first, second], name, true);
    let _ = ignored(&[first, second], name, false);
    if is_plain(path) {
        let rule = |sign: &str| [second, format!("\n{sign}/{path}\n").as_bytes()].concat();
        assert_eq!(
            ignored(&[first, &rule("")], name, false),
            Some(true),
            "{path:?}"
        );
        assert_eq!(
            ignored(&[first, &rule("!")], name, false),
            Some(false),
            "{path:?}"
        );
    }
}
