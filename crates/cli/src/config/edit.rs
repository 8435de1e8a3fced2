//! Changes to the user's own file. What stands in it besides stays as it is, comments too.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, Item, Table, value};

use crate::config::file::{HUB_KEYS, USER_KEYS};
use crate::config::{user_directory, user_file_path};
use crate::failure::Failure;
use crate::names;

/// A key that can be set: a word, or `hubs.NAME.WORD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    Top(String),
    Hub(String, String),
}

impl Key {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let parts: Vec<&str> = text.split('.').collect();
        match parts.as_slice() {
            [word] if *word != "hubs" && USER_KEYS.contains(word) => {
                Ok(Self::Top((*word).to_owned()))
            }
            ["hubs", name, word] if !name.is_empty() && HUB_KEYS.contains(word) => {
                Ok(Self::Hub((*name).to_owned(), (*word).to_owned()))
            }
            _ => {
                let known: Vec<String> = USER_KEYS
                    .iter()
                    .filter(|key| **key != "hubs")
                    .map(|key| (*key).to_owned())
                    .chain(HUB_KEYS.iter().map(|key| format!("hubs.NAME.{key}")))
                    .collect();
                let meant = names::nearest(text, known.iter().map(String::as_str));
                let hint = meant.map_or_else(
                    || format!("keys are {}", known.join(", ")),
                    |meant| format!("did you mean {meant:?}?"),
                );
                Err(Failure::usage(format!("there is no key {text:?}")).hint(hint))
            }
        }
    }
}

/// The user's own file, to be changed.
pub(crate) struct Editing {
    path: PathBuf,
    document: DocumentMut,
}

impl Editing {
    pub(crate) fn open() -> Result<Self, Failure> {
        let path = user_file_path(|name| std::env::var(name).ok()).ok_or_else(no_home)?;
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(Failure::local(
                    format!("{} cannot be read", path.display()),
                    &error,
                ));
            }
        };
        let document = text.parse().map_err(|error: toml_edit::TomlError| {
            Failure::usage(format!(
                "{} is not TOML: {}",
                path.display(),
                error.message()
            ))
            .hint("set it right by hand, then send the command again")
        })?;
        Ok(Self { path, document })
    }

    pub(crate) fn set(&mut self, key: &Key, text: &str) {
        match key {
            Key::Top(word) => put(&mut self.document[word], text),
            Key::Hub(name, word) => {
                let hubs = self.document.entry("hubs").or_insert_with(|| {
                    let mut hubs = Table::new();
                    hubs.set_implicit(true);
                    Item::Table(hubs)
                });
                put(&mut hubs[name.as_str()][word.as_str()], text);
                if let Some(entry) = hubs[name.as_str()].as_inline_table().cloned() {
                    hubs[name.as_str()] = Item::Table(entry.into_table());
                }
            }
        }
    }

    /// Takes a key away; false when it was not there.
    pub(crate) fn unset(&mut self, key: &Key) -> bool {
        match key {
            Key::Top(word) => self.document.remove(word).is_some(),
            Key::Hub(name, word) => {
                let entry = self
                    .document
                    .get_mut("hubs")
                    .and_then(|hubs| hubs.get_mut(name))
                    .and_then(Item::as_table_like_mut);
                entry.is_some_and(|entry| entry.remove(word).is_some())
            }
        }
    }

    /// Writes it, whole or not at all.
    pub(crate) fn save(self) -> Result<PathBuf, Failure> {
        write_private(&self.path, self.document.to_string().as_bytes())?;
        Ok(self.path)
    }
}

/// Sets a value; the comment behind an old one stays.
fn put(item: &mut Item, text: &str) {
    match item.as_value_mut() {
        Some(old) => {
            let decor = old.decor().clone();
            *old = text.into();
            *old.decor_mut() = decor;
        }
        None => *item = value(text),
    }
}

/// Keeps a token in a file that only the user can read, and gives its path.
pub(crate) fn keep_token(name: &str, token: &str) -> Result<PathBuf, Failure> {
    let directory = user_directory(|name| std::env::var(name).ok()).ok_or_else(no_home)?;
    let path = directory.join("tokens").join(name);
    write_private(&path, format!("{token}\n").as_bytes())?;
    Ok(path)
}

fn no_home() -> Failure {
    Failure::usage("there is no place for a configuration: HOME is not set")
        .hint("set HOME or XDG_CONFIG_HOME to an absolute path")
}

/// Writes a file with mode 0600 beside its place, then puts it there.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let written = (|| {
        let directory = path.parent().unwrap_or(Path::new("/"));
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}.new", std::process::id()));
        let beside = PathBuf::from(beside);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)?;
        let done = file
            .write_all(bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| std::fs::rename(&beside, path));
        if done.is_err() {
            // It is of no use to anyone.
            let _ = std::fs::remove_file(&beside);
        }
        done
    })();
    written.map_err(|error| Failure::local(format!("{} cannot be written", path.display()), &error))
}
