//! What a person typed, and which thing it stands for: a whole id, the beginning of one, or a name.
//!
//! A thing in a sandbox is written `SANDBOX/ID`, a path `SANDBOX:PATH`. Without the sandbox the one that is
//! set is meant, else the only one there is.

use std::fmt;
use std::str::FromStr;

use crate::failure::Failure;

/// How different two names may be to be taken for a slip: every third letter.
const LETTERS_PER_SLIP: usize = 3;

/// The known name that was probably meant.
pub(crate) fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|name| (distance(typed, name), name))
        .filter(|(distance, name)| *distance <= name.len().max(typed.len()) / LETTERS_PER_SLIP)
        .min()
        .map(|(_, name)| name)
}

/// How many letters have to be changed, added, left out or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&last, j) + usize::from(x != y))
                .min(at(&last, j + 1) + 1)
                .min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

/// Finds the one thing that was meant among the ids there are.
pub(crate) fn pick(
    what: &str,
    typed: &str,
    ids: &[String],
    listing: &str,
) -> Result<String, Failure> {
    if let Some(id) = ids.iter().find(|id| *id == typed) {
        return Ok(id.clone());
    }
    let begins: Vec<&str> = ids
        .iter()
        .map(String::as_str)
        .filter(|id| !typed.is_empty() && id.starts_with(typed))
        .collect();
    match begins.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => {
            let hint = nearest(typed, ids.iter().map(String::as_str)).map_or_else(
                || format!("`{listing}` lists those there are"),
                |meant| format!("did you mean {meant:?}? `{listing}` lists those there are"),
            );
            Err(Failure::failed(format!("there is no {what} {typed:?}"))
                .of_a_name()
                .hint(hint))
        }
        several => {
            let mut shown = several
                .iter()
                .take(5)
                .copied()
                .collect::<Vec<_>>()
                .join(", ");
            if several.len() > 5 {
                shown.push_str(", …");
            }
            Err(Failure::failed(format!(
                "{typed:?} is the beginning of {} {what} ids",
                several.len()
            ))
            .hint(format!("give more of it: {shown}")))
        }
    }
}

/// A thing in a sandbox: `SANDBOX/ID`, or `ID`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Thing {
    pub(crate) sandbox: Option<String>,
    pub(crate) id: String,
}

impl FromStr for Thing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (sandbox, id) = match text.split_once('/') {
            Some((sandbox, id)) => (Some(sandbox), id),
            None => (None, text),
        };
        if id.is_empty() || id.contains('/') || sandbox == Some("") {
            return Err("expected ID or SANDBOX/ID".to_owned());
        }
        Ok(Self {
            sandbox: sandbox.map(str::to_owned),
            id: id.to_owned(),
        })
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sandbox {
            Some(sandbox) => write!(f, "{sandbox}/{}", self.id),
            None => f.write_str(&self.id),
        }
    }
}

/// A path in a sandbox: `SANDBOX:PATH`, or `PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) sandbox: Option<String>,
    pub(crate) path: String,
}

impl Place {
    /// The sandbox and the path, if a sandbox is named at all. What looks like a path is one: `./a:b`.
    pub(crate) fn split(text: &str) -> Option<(&str, &str)> {
        let (sandbox, path) = text.split_once(':')?;
        let id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        sandbox.chars().all(id).then_some((sandbox, path))
    }
}

impl FromStr for Place {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match Self::split(text) {
            Some((sandbox, path)) => Self {
                sandbox: Some(sandbox)
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned),
                path: if path.is_empty() { "." } else { path }.to_owned(),
            },
            None => Self {
                sandbox: None,
                path: text.to_owned(),
            },
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let known = ["sandbox", "hub", "color"];
        for (typed, meant) in [
            ("sandbx", Some("sandbox")),
            ("snadbox", Some("sandbox")),
            ("colour", Some("color")),
            ("hbu", Some("hub")),
            ("frog", None),
        ] {
            assert_eq!(nearest(typed, known.into_iter()), meant, "{typed}");
        }
    }

    #[test]
    fn a_beginning_is_enough_when_it_is_the_only_one() {
        let ids = ["web-1", "web-2", "db", "d"].map(str::to_owned);
        let pick = |typed| pick("sandbox", typed, &ids, "sandshell ls").ok();
        assert_eq!(
            pick("d").as_deref(),
            Some("d"),
            "a whole id is not a beginning"
        );
        assert_eq!(pick("db").as_deref(), Some("db"));
        assert_eq!(pick("web-1").as_deref(), Some("web-1"));
        assert_eq!(pick("web"), None);
        assert_eq!(pick("x"), None);
        assert_eq!(pick(""), None);
    }

    #[test]
    fn things_and_places_name_their_sandbox() {
        let thing: Thing = "box/web".parse().unwrap();
        assert_eq!((thing.sandbox.as_deref(), &*thing.id), (Some("box"), "web"));
        assert!("box/".parse::<Thing>().is_err());
        assert!("/x".parse::<Thing>().is_err());
        assert_eq!(Place::split("box:/a:b"), Some(("box", "/a:b")));
        assert_eq!(Place::split("./a:b"), None);
        assert_eq!(Place::split("C:\\x"), None);
        let own: Place = ":/etc".parse().unwrap();
        assert_eq!((own.sandbox, &*own.path), (None, "/etc"));
    }
}
