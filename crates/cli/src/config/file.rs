//! The two files: what may stand in them, and what is said about the rest.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, Item, TableLike};

use crate::failure::Failure;
use crate::names;

/// Keys of the user's own file.
pub(crate) const USER_KEYS: &[&str] = &["hub", "sandbox", "color", "detach_keys", "hubs"];
/// Keys below `[hubs.NAME]`.
pub(crate) const HUB_KEYS: &[&str] = &["url", "token_file"];
/// Keys of a project's file.
pub(crate) const PROJECT_KEYS: &[&str] = &["hub", "url", "sandbox"];

/// One of the user's hubs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HubEntry {
    pub(crate) url: Option<String>,
    pub(crate) token_file: Option<String>,
}

/// The user's own file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UserFile {
    pub(crate) hub: Option<String>,
    pub(crate) sandbox: Option<String>,
    pub(crate) color: Option<String>,
    pub(crate) detach_keys: Option<String>,
    pub(crate) hubs: BTreeMap<String, HubEntry>,
}

/// A project's file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProjectFile {
    pub(crate) hub: Option<String>,
    pub(crate) url: Option<String>,
    pub(crate) sandbox: Option<String>,
}

impl UserFile {
    /// Reads it; one that is not there is empty.
    pub(crate) fn read(path: Option<&Path>, warnings: &mut Vec<String>) -> Result<Self, Failure> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let Some(document) = document(path)? else {
            return Ok(Self::default());
        };
        let mut reader = Reader { path, warnings };
        let table = document.as_table();
        reader.warn_of_unknown(table, "", USER_KEYS, "");
        let mut hubs = BTreeMap::new();
        if let Some(item) = table.get("hubs") {
            let entries = item
                .as_table_like()
                .ok_or_else(|| wrong(path, "hubs", "tables such as [hubs.local]"))?;
            for (name, entry) in entries.iter() {
                let entry = entry
                    .as_table_like()
                    .ok_or_else(|| wrong(path, &format!("hubs.{name}"), "a table"))?;
                let prefix = format!("hubs.{name}.");
                reader.warn_of_unknown(entry, &prefix, HUB_KEYS, "");
                let entry = HubEntry {
                    url: text(path, entry, &prefix, "url")?,
                    token_file: text(path, entry, &prefix, "token_file")?,
                };
                hubs.insert(name.to_owned(), entry);
            }
        }
        Ok(Self {
            hub: text(path, table, "", "hub")?,
            sandbox: text(path, table, "", "sandbox")?,
            color: text(path, table, "", "color")?,
            detach_keys: text(path, table, "", "detach_keys")?,
            hubs,
        })
    }
}

impl ProjectFile {
    /// Reads it; one that is not there is empty.
    pub(crate) fn read(path: &Path, warnings: &mut Vec<String>) -> Result<Self, Failure> {
        let Some(document) = document(path)? else {
            return Ok(Self::default());
        };
        let mut reader = Reader { path, warnings };
        let table = document.as_table();
        let elsewhere = " (it may stand in your own file: `sandshell config path`)";
        reader.warn_of_unknown(table, "", PROJECT_KEYS, elsewhere);
        Ok(Self {
            hub: text(path, table, "", "hub")?,
            url: text(path, table, "", "url")?,
            sandbox: text(path, table, "", "sandbox")?,
        })
    }
}

struct Reader<'a> {
    path: &'a Path,
    warnings: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn warn_of_unknown(
        &mut self,
        table: &dyn TableLike,
        prefix: &str,
        known: &[&str],
        elsewhere: &str,
    ) {
        for (key, _) in table.iter().filter(|(key, _)| !known.contains(key)) {
            let advice = if USER_KEYS.contains(&key) {
                elsewhere.to_owned()
            } else if let Some(meant) = names::nearest(key, known.iter().copied()) {
                format!("; did you mean {:?}?", format!("{prefix}{meant}"))
            } else {
                format!("; known are {}", known.join(", "))
            };
            let path = self.path.display();
            // A project's file is written by others: its keys move no cursor.
            let key = format!("{prefix}{key}");
            self.warnings
                .push(format!("{path}: {key:?} is ignored{advice}"));
        }
    }
}

fn document(path: &Path) -> Result<Option<DocumentMut>, Failure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => {
            let what = format!("{} cannot be read", path.display());
            return Err(
                Failure::local(what, &error).hint("`sandshell config path` names the files")
            );
        }
    };
    let document = text.parse::<DocumentMut>().map_err(|error| {
        Failure::usage(format!(
            "{} is not TOML: {}",
            path.display(),
            error.message()
        ))
        .hint(format!(
            "line {} is the first that is not understood",
            line_of(&text, &error)
        ))
    })?;
    Ok(Some(document))
}

fn line_of(text: &str, error: &toml_edit::TomlError) -> usize {
    let at = error.span().map_or(0, |span| span.start);
    let before = text.get(..at).unwrap_or(text);
    before.matches('\n').count() + 1
}

fn text(
    path: &Path,
    table: &dyn TableLike,
    prefix: &str,
    key: &str,
) -> Result<Option<String>, Failure> {
    match table.get(key) {
        None | Some(Item::None) => Ok(None),
        Some(item) => match item.as_str() {
            Some(text) if !text.is_empty() => Ok(Some(text.to_owned())),
            _ => Err(wrong(path, &format!("{prefix}{key}"), "text in quotes")),
        },
    }
}

fn wrong(path: &Path, key: &str, expected: &str) -> Failure {
    Failure::usage(format!("{}: \"{key}\" is not {expected}", path.display()))
        .hint("`sandshell config schema` prints what may stand in it")
}

/// A path that may start with `~/`.
pub(crate) fn from_home(path: &str, variable: fn(&str) -> Option<String>) -> PathBuf {
    match (path.strip_prefix("~/"), variable("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_named_with_what_was_meant() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, "sandbx = \"a\"\nzzz = 1\n[hubs.a]\nulr = \"x\"\n").unwrap();
        let mut warnings = Vec::new();
        let read = UserFile::read(Some(&path), &mut warnings).unwrap();
        assert_eq!(read.hubs["a"], HubEntry::default());
        let told = warnings.join("\n");
        for part in [
            "\"sandbx\" is ignored; did you mean \"sandbox\"?",
            "\"zzz\" is ignored; known are",
            "\"hubs.a.ulr\" is ignored; did you mean \"hubs.a.url\"?",
        ] {
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn a_project_names_no_token() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sandshell.toml");
        std::fs::write(
            &path,
            "[hubs.a]\nurl = \"http://x\"\ntoken_file = \"/etc/x\"\n",
        )
        .unwrap();
        let mut warnings = Vec::new();
        let read = ProjectFile::read(&path, &mut warnings).unwrap();
        assert_eq!(read, ProjectFile::default());
        assert!(warnings.concat().contains("your own file"), "{warnings:?}");
    }

    #[test]
    fn what_is_not_toml_is_told_by_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, "hub = \"a\"\nhub hub\n").unwrap();
        assert!(UserFile::read(Some(&path), &mut Vec::new()).is_err());
        std::fs::write(&path, "hub = 3\n").unwrap();
        assert!(UserFile::read(Some(&path), &mut Vec::new()).is_err());
    }

    #[test]
    fn the_schema_knows_the_same_keys() {
        let schema: serde_json::Value =
            serde_json::from_str(include_str!("../../../../schema/config.schema.json")).unwrap();
        let keys = |object: &serde_json::Value| -> Vec<String> {
            object["properties"]
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect()
        };
        let sorted = |keys: &[&str]| {
            let mut keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            keys.sort();
            keys
        };
        assert_eq!(keys(&schema), sorted(USER_KEYS));
        assert_eq!(keys(&schema["$defs"]["hub"]), sorted(HUB_KEYS));
        assert_eq!(keys(&schema["$defs"]["project"]), sorted(PROJECT_KEYS));
    }
}
