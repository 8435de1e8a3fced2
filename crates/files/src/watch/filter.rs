//! Which names are told: include and exclude globs.
//!
//! A glob without a slash is compared with the last name, at any depth; one with a slash with the path
//! below the watched directory. `*` and `?` match no slash, `**` does. What is excluded is excluded
//! with everything below it. Directories are told whether included or not, because files below them
//! move and vanish with them.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::FileError;

/// Most globs in each list.
const MOST: usize = 100;
/// Longest glob, in bytes.
const LONGEST: usize = 1024;

#[derive(Debug)]
pub(crate) struct Filter {
    include: Option<Globs>,
    exclude: Globs,
}

#[derive(Debug, Default)]
struct Globs {
    names: GlobSet,
    paths: GlobSet,
}

impl Filter {
    pub(crate) fn new(include: &[String], exclude: &[String]) -> Result<Self, FileError> {
        let exclude = Globs::new("/exclude", exclude)?;
        let include = (!include.is_empty())
            .then(|| Globs::new("/include", include))
            .transpose()?;
        Ok(Self { include, exclude })
    }

    /// Whether something with this path below the watched directory is told.
    pub(crate) fn tells(&self, path: &Path, directory: bool) -> bool {
        !self.exclude.matches(path)
            && (directory
                || self
                    .include
                    .as_ref()
                    .is_none_or(|globs| globs.matches(path)))
    }

    /// Whether the same name may be told in one directory and not in another.
    pub(super) fn depends_on_place(&self) -> bool {
        let include = self.include.as_ref();
        !self.exclude.paths.is_empty() || include.is_some_and(|globs| !globs.paths.is_empty())
    }
}

impl Globs {
    fn new(pointer: &str, globs: &[String]) -> Result<Self, FileError> {
        if globs.len() > MOST {
            return Err(FileError::invalid(
                pointer,
                format!("there are at most {MOST} globs, not {}", globs.len()),
            ));
        }
        let (mut names, mut paths) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for (i, text) in globs.iter().enumerate() {
            let wrong = |why: String| FileError::invalid(&format!("{pointer}/{i}"), why);
            if text.is_empty() || text.len() > LONGEST || text.contains('\0') {
                return Err(wrong(format!(
                    "a glob has 1 to {LONGEST} bytes and no NUL among them"
                )));
            }
            let by_path = text.trim_end_matches('/').contains('/');
            let plain = text.trim_end_matches('/').trim_start_matches('/');
            let glob = GlobBuilder::new(plain)
                .literal_separator(true)
                .build()
                .map_err(|error| wrong(error.to_string()))?;
            if by_path { &mut paths } else { &mut names }.add(glob);
        }
        let built = |set: GlobSetBuilder| {
            set.build()
                .map_err(|error| FileError::invalid(pointer, error.to_string()))
        };
        Ok(Self {
            names: built(names)?,
            paths: built(paths)?,
        })
    }

    fn matches(&self, path: &Path) -> bool {
        let by_name = || {
            path.file_name()
                .is_some_and(|name| self.names.is_match(Path::new(name)))
        };
        (!self.names.is_empty() && by_name())
            || (!self.paths.is_empty() && self.paths.is_match(path))
    }
}

/// The globs of a query parameter, separated by commas that stand in no braces or brackets.
pub fn split_globs(text: &str) -> Vec<String> {
    let mut globs = vec![String::new()];
    let mut depth = 0_u32;
    let mut escaped = false;
    for c in text.chars() {
        match c {
            _ if escaped => {}
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                globs.push(String::new());
                continue;
            }
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = globs.last_mut() {
            last.push(c);
        }
    }
    globs
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn filter(include: &str, exclude: &str) -> Filter {
        let list = |text: &str| match text {
            "" => Vec::new(),
            text => split_globs(text),
        };
        Filter::new(&list(include), &list(exclude)).unwrap()
    }

    #[test]
    fn names_match_at_any_depth_and_paths_only_there() {
        let filter = filter("", "node_modules,target/debug,*.{tmp,swp}");
        for (path, told) in [
            ("a", true),
            ("node_modules", false),
            ("x/y/node_modules", false),
            ("target", true),
            ("target/debug", false),
            ("x/target/debug", true),
            ("x/a.swp", false),
        ] {
            assert_eq!(filter.tells(Path::new(path), true), told, "{path}");
        }
        assert!(filter.depends_on_place());
    }

    #[test]
    fn include_holds_for_files_only() {
        let filter = filter("*.rs,src/**/*.toml", "");
        for (path, directory, told) in [
            ("a.rs", false, true),
            ("x/y/a.rs", false, true),
            ("a.txt", false, false),
            ("a.txt", true, true),
            ("src/x/y.toml", false, true),
            ("x/y.toml", false, false),
        ] {
            assert_eq!(filter.tells(Path::new(path), directory), told, "{path}");
        }
    }

    #[test]
    fn wrong_globs_are_named() {
        let refused = Filter::new(&["ok".to_owned(), "[".to_owned()], &[]).unwrap_err();
        assert!(
            matches!(refused, FileError::Invalid { ref pointer, .. } if pointer == "/include/1")
        );
    }
}
