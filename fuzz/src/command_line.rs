//! The command line: its files of settings, and what passes through it.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use sandshell_cli::fuzzing::{Detach, Keys, Replay, bytes, duration, quoted, settings};

use crate::input::{Input, sections};
use crate::place::Place;

thread_local! {
    static VARIABLES: RefCell<Vec<(String, String)>> = const { RefCell::new(Vec::new()) };
}

fn variable(name: &str) -> Option<String> {
    VARIABLES.with_borrow(|all| {
        let found = all.iter().find(|(known, _)| known == name);
        found
            .map(|(_, value)| value.clone())
            .filter(|value| !value.is_empty())
    })
}

/// Both files and a line `NAME=VALUE` for each variable: whatever stands in them, a project's file sends a
/// token to no stranger, flags come before all else, and what is said does nothing to a terminal.
pub(crate) fn config(data: &[u8]) {
    let [user, project, environment] = sections::<3>(data);
    let place = Place::new();
    let own = place.path().join("sandshell");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("config.toml"), user).unwrap();
    fs::write(place.path().join("sandshell.toml"), project).unwrap();
    let mut variables: Vec<(String, String)> = String::from_utf8_lossy(environment)
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(name, _)| name.starts_with("SANDSHELL_"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    variables.push((
        "XDG_CONFIG_HOME".to_owned(),
        place.path().to_str().unwrap().to_owned(),
    ));
    VARIABLES.set(variables);

    let settled = settings(place.path(), variable, None, None);
    let said = match &settled {
        Ok(settled) => settled.warnings.clone(),
        Err(message) => {
            assert!(!message.is_empty());
            Vec::new()
        }
    };
    for text in said {
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
    if let Ok(settled) = &settled
        && settled.url.1 == "./sandshell.toml"
        && settled.token.is_some()
    {
        let normal = |url: &str| url.trim_end_matches('/').to_ascii_lowercase();
        let user: toml::Table = std::str::from_utf8(user)
            .unwrap()
            .parse()
            .unwrap_or_default();
        let mut known = vec!["http://127.0.0.1:4020".to_owned()];
        for hub in user
            .get("hubs")
            .and_then(toml::Value::as_table)
            .into_iter()
            .flatten()
        {
            let url = hub.1.get("url").and_then(toml::Value::as_str);
            known.extend(url.map(normal));
        }
        assert!(known.contains(&normal(&settled.url.0)), "{settled:?}");
    }
    let flag = Some("http://flag.example".to_owned());
    if let Ok(settled) = settings(place.path(), variable, flag, None) {
        assert_eq!(
            settled.url,
            ("http://flag.example".to_owned(), "--url".to_owned())
        );
        // That of this machine goes to this machine alone.
        assert!(
            settled
                .token
                .is_none_or(|token| token != Some(PathBuf::from("/tmp")))
        );
    }
}

/// What of a text comes through in pieces is what comes through at once.
fn same_in_pieces(data: &[u8], through: impl Fn(&[&[u8]]) -> Vec<u8>) -> Vec<u8> {
    let (whole, pieces) = Input(data).pieces();
    let passed = through(&[whole]);
    assert_eq!(passed, through(&pieces));
    passed
}

fn is_left_of(part: &[u8], whole: &[u8]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|byte| rest.any(|other| other == byte))
}

/// A shell's words, as far as quoting goes.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' => words.extend(word.take()),
            '\\' => word.get_or_insert_default().extend(chars.next()),
            '\'' => {
                let inner = chars.by_ref().take_while(|c| *c != '\'');
                word.get_or_insert_default().extend(inner);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Keys that leave a terminal, old output without its questions, words for a shell, sizes and times.
pub(crate) fn typed(data: &[u8]) {
    let mut input = Input(data);
    let old = u64::from(input.number() % 512);
    let length = usize::from(input.byte() % 24);
    let names = input.bytes(length);
    let rest = input.0;
    let (whole, _) = input.pieces();
    if let Ok(keys) = String::from_utf8_lossy(names).parse::<Keys>() {
        let passed = same_in_pieces(rest, |pieces| {
            let mut detach = Detach::new(keys.clone());
            let mut passed = Vec::new();
            for piece in pieces {
                let (more, left) = detach.filter(piece);
                passed.extend(more);
                if left {
                    break;
                }
            }
            passed
        });
        assert!(whole.starts_with(&passed), "typed bytes were changed");
    }
    let shown = same_in_pieces(rest, |pieces| {
        let mut replay = Replay::of(old);
        pieces
            .iter()
            .flat_map(|piece| replay.filter(piece))
            .collect()
    });
    assert!(is_left_of(&shown, whole));
    assert_eq!(Replay::of(0).filter(whole), whole);
    if let Ok(text) = std::str::from_utf8(whole) {
        let given: Vec<String> = text.split('\u{1}').map(str::to_owned).collect();
        assert_eq!(words(&quoted(&given)), given);
        let _ = (bytes(text), duration(text));
    }
}
