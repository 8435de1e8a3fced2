//! Globs that name entries of a tree.

use std::ffi::OsStr;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::FileError;

/// Most globs of one list, and most characters of one glob.
const MAX_GLOBS: usize = 1000;
const MAX_LENGTH: usize = 4096;

/// A list of globs: those without `/` are for names, the others for paths below the start.
#[derive(Debug, Clone)]
pub(crate) struct Globs {
    names: GlobSet,
    paths: GlobSet,
    empty: bool,
}

impl Globs {
    /// Compiles a list; `pointer` is the field it came from.
    pub(crate) fn new(globs: &[String], pointer: &str) -> Result<Self, FileError> {
        if globs.len() > MAX_GLOBS {
            let detail = format!(
                "at most {MAX_GLOBS} globs are taken, these are {}",
                globs.len()
            );
            return Err(FileError::invalid(pointer, detail));
        }
        let mut names = GlobSetBuilder::new();
        let mut paths = GlobSetBuilder::new();
        for (number, text) in globs.iter().enumerate() {
            let at = format!("{pointer}/{number}");
            // `/a` and `a/` are common ways to write a path below the start, and a directory.
            let trimmed = text.trim_end_matches('/');
            let anchored = trimmed.starts_with('/');
            let trimmed = trimmed.trim_start_matches('/');
            if trimmed.is_empty() {
                return Err(FileError::invalid(
                    &at,
                    format!("the glob {text:?} names nothing"),
                ));
            }
            if trimmed.len() > MAX_LENGTH {
                let detail = format!("a glob has at most {MAX_LENGTH} characters");
                return Err(FileError::invalid(&at, detail));
            }
            let glob = GlobBuilder::new(trimmed)
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .map_err(|error| FileError::invalid(&at, error.to_string()))?;
            if anchored || trimmed.contains('/') {
                paths.add(glob);
            } else {
                names.add(glob);
            }
        }
        let build = |set: &GlobSetBuilder| {
            set.build()
                .map_err(|error| FileError::invalid(pointer, error.to_string()))
        };
        Ok(Self {
            names: build(&names)?,
            paths: build(&paths)?,
            empty: globs.is_empty(),
        })
    }

    /// A list without any glob.
    pub(crate) fn is_empty(&self) -> bool {
        self.empty
    }

    /// Whether one of them matches.
    pub(crate) fn matches(&self, path: &Path, name: &OsStr) -> bool {
        !self.empty && (self.names.is_match(name) || self.paths.is_match(path))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn matches(glob: &str, path: &str) -> bool {
        let globs = Globs::new(&[glob.to_owned()], "/exclude").unwrap();
        let path = Path::new(path);
        globs.matches(path, path.file_name().unwrap())
    }

    #[test]
    fn a_glob_without_a_slash_is_for_the_name() {
        assert!(matches("*.rs", "a/b.rs"));
        assert!(matches("node_modules/", "x/node_modules"));
        assert!(!matches("b", "b/c"));
        assert!(!matches("/b.rs", "a/b.rs"));
        assert!(matches("/b.rs", "b.rs"));
    }

    #[test]
    fn a_glob_with_a_slash_is_for_the_path() {
        assert!(matches("a/*.rs", "a/b.rs"));
        assert!(!matches("a/*.rs", "a/b/c.rs"));
        assert!(matches("a/**/*.rs", "a/b/c.rs"));
        assert!(matches("**/c.rs", "c.rs"));
    }

    #[test]
    fn a_bad_glob_is_named() {
        for bad in ["[", "{a", "", "/"] {
            let refused = Globs::new(&["ok".into(), bad.into()], "/patterns").unwrap_err();
            let FileError::Invalid { pointer, .. } = refused else {
                unreachable!("{refused}");
            };
            assert_eq!(pointer, "/patterns/1", "{bad:?}");
        }
    }
}
