//! What fingers type that know other tools: put right where one thing only can be meant, answered with the
//! right command where not.

use std::ffi::{OsStr, OsString};

/// Flags of all commands that may stand before the command, and whether a value follows.
const BEFORE: &[(&str, bool)] = &[
    ("--hub", true),
    ("--url", true),
    ("--token-file", true),
    ("--color", true),
    ("--json", false),
    ("--quiet", false),
    ("-q", false),
];

/// The line as it is understood: flags of all commands after the command, `-o json` as `--json`, and `kill -9`
/// as `kill --signal 9`.
pub(crate) fn put_right(mut words: Vec<OsString>) -> Vec<OsString> {
    forms(&mut words);
    let mut at = 1;
    while let Some(takes) = words.get(at).and_then(|word| before(word)) {
        at += 1 + usize::from(takes);
    }
    // Only where a command follows; else the line is told of as it is.
    if at > 1 && words.get(at).is_some_and(|word| !is_flag(word)) {
        words.get_mut(1..=at).unwrap_or_default().rotate_right(1);
    }
    if words.get(1).is_some_and(|word| word == "kill") {
        words = words.into_iter().map(signal).collect();
    }
    words
}

/// `-o json` and `-o name`, as of kubectl; tables are always wide.
fn forms(words: &mut Vec<OsString>) {
    let mut at = 1;
    while let (Some(flag), Some(form)) = (words.get(at), words.get(at + 1)) {
        if flag == "--" {
            return;
        }
        let is_one = flag == "-o" || flag == "--output";
        let ours: &[&str] = match form.to_str().filter(|_| is_one) {
            Some("json") => &["--json"],
            Some("name") => &["-q"],
            Some("wide") => &[],
            _ => {
                at += 1;
                continue;
            }
        };
        words.splice(at..at + 2, ours.iter().map(OsString::from));
    }
}

/// Whether a value follows, if it is such a flag.
fn before(word: &OsStr) -> Option<bool> {
    let word = word.to_str()?;
    BEFORE.iter().find_map(|(flag, takes)| {
        let rest = word.strip_prefix(flag)?;
        match rest {
            "" => Some(*takes),
            _ => (*takes && rest.starts_with('=')).then_some(false),
        }
    })
}

fn is_flag(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-")
}

/// `-9` and `-HUP`, as of kill(1).
fn signal(word: OsString) -> OsString {
    let name = word.to_str().and_then(|word| word.strip_prefix('-'));
    let is_one = |name: &&str| {
        let named = name.len() > 2
            && name
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        !name.is_empty() && (named || name.bytes().all(|b| b.is_ascii_digit()))
    };
    match name.filter(is_one) {
        Some(name) => format!("--signal={name}").into(),
        None => word,
    }
}

/// What other tools call it, and the command that does it here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("add", "create"),
    ("auth", "login"),
    ("bash", "shell SANDBOX"),
    ("build", "image import FILE"),
    ("cat", "file cat SANDBOX:PATH"),
    ("chmod", "file chmod MODE SANDBOX:PATH"),
    ("clone", "git clone URL SANDBOX:PATH"),
    ("commit", "backup create SANDBOX:PATH"),
    ("connect", "shell SANDBOX"),
    ("console", "shell SANDBOX"),
    ("container", "ls"),
    ("containers", "ls"),
    ("contexts", "context ls"),
    ("copy", "cp FROM TO"),
    ("daemon", "serve"),
    ("delete", "rm SANDBOX"),
    ("describe", "get SANDBOX"),
    ("destroy", "rm SANDBOX"),
    ("diff", "git diff"),
    ("down", "rm SANDBOX"),
    ("download", "cp SANDBOX:PATH ."),
    ("enter", "shell SANDBOX"),
    ("export", "cp SANDBOX:PATH -"),
    ("expose", "port expose SANDBOX/PORT"),
    ("files", "file ls SANDBOX:PATH"),
    ("find", "file find GLOB SANDBOX:PATH"),
    ("forward", "port expose SANDBOX/PORT"),
    ("freeze", "pause SANDBOX"),
    ("grep", "file search PATTERN SANDBOX:PATH"),
    ("health", "version --server"),
    ("history", "session history SESSION"),
    ("images", "image ls"),
    ("import", "image import FILE"),
    ("info", "doctor"),
    ("init", "create"),
    ("kernel", "context create"),
    ("load", "image import FILE"),
    ("logout", "config unset hub"),
    ("mkdir", "file mkdir SANDBOX:PATH"),
    ("monitor", "events SANDBOX"),
    ("mv", "file mv SANDBOX:FROM SANDBOX:TO"),
    ("new", "create"),
    ("port-forward", "port expose SANDBOX/PORT"),
    ("ports", "port ls SANDBOX"),
    ("processes", "ps SANDBOX"),
    ("prune", "rm --all"),
    ("pull", "image import FILE"),
    ("push", "cp FILE SANDBOX:PATH"),
    ("python", "context create SANDBOX --language python"),
    ("remove", "rm SANDBOX"),
    ("restore", "backup restore SANDBOX/BACKUP"),
    ("rmi", "image rm IMAGE"),
    ("sandbox", "ls"),
    ("sandboxes", "ls"),
    ("save", "backup create SANDBOX:PATH"),
    ("server", "serve"),
    ("sessions", "session ls SANDBOX"),
    ("set", "config set KEY VALUE"),
    ("sh", "shell SANDBOX"),
    ("show", "get SANDBOX"),
    ("snapshot", "backup create SANDBOX:PATH"),
    ("ssh", "shell SANDBOX"),
    ("start", "resume SANDBOX"),
    ("stat", "file stat SANDBOX:PATH"),
    ("status", "get SANDBOX"),
    ("terminals", "terminal ls SANDBOX"),
    ("terminate", "rm SANDBOX"),
    ("tokens", "token ls"),
    ("top", "stats SANDBOX"),
    ("unpause", "resume SANDBOX"),
    ("up", "serve"),
    ("upload", "cp FILE SANDBOX:PATH"),
    ("watch", "file watch SANDBOX:PATH"),
    ("whoami", "config show"),
];

/// What verbs of groups are called elsewhere.
const VERBS: &[(&str, &[&str])] = &[
    ("list", &["ls"]),
    ("delete", &["rm", "unset", "unexpose"]),
    ("destroy", &["rm"]),
    ("remove", &["rm", "unset", "unexpose"]),
    ("revoke", &["rm"]),
    ("stop", &["rm"]),
    ("kill", &["rm"]),
    ("new", &["create"]),
    ("add", &["create", "import", "put"]),
    ("start", &["create"]),
    ("make", &["create"]),
    ("open", &["create"]),
    ("run", &["exec"]),
    ("eval", &["run"]),
    ("show", &["get", "screen", "stat"]),
    ("inspect", &["get", "show"]),
    ("view", &["show", "screen", "cat"]),
    ("get", &["show", "cat", "ls"]),
    ("read", &["cat"]),
    ("write", &["put"]),
    ("connect", &["attach"]),
    ("load", &["import"]),
    ("pull", &["import"]),
    ("build", &["import"]),
    ("copy", &["fork"]),
    ("cp", &["fork"]),
    ("grep", &["search"]),
    ("save", &["create"]),
];

/// Flags of other tools, and how it is done here.
const FLAGS: &[(&[&str], &str)] = &[
    (
        &["-p", "--publish"],
        "a port is opened with `sandshell port expose SANDBOX/PORT` when something listens on it",
    ),
    (
        &["-v", "--volume", "--mount"],
        "files of this machine are not shared; `sandshell create` makes a sandbox that stays, and \
         `sandshell cp PATH SANDBOX:PATH` copies files to it",
    ),
    (
        &["-d", "--detach"],
        "`sandshell create` makes a sandbox that stays, and `sandshell exec -d` leaves a command running in it",
    ),
    (
        &["--token"],
        "a token is never an argument, which others can see: SANDSHELL_TOKEN, --token-file or `sandshell login`",
    ),
    (
        &["-o", "--output", "--format"],
        "--json prints JSON, -q ids only",
    ),
];

/// What to type instead of a flag that is none here.
pub(crate) fn instead_of(flag: &str) -> Option<&'static str> {
    let (_, told) = FLAGS.iter().find(|(known, _)| known.contains(&flag))?;
    Some(told)
}

/// What to type instead of a word that is no command here, below the given one.
pub(crate) fn meant(word: &str, below: &clap::Command, path: &str) -> Option<String> {
    let known = |verb: &&&str| below.find_subcommand(verb).is_some();
    let verb = || {
        let (_, verbs) = VERBS.iter().find(|(verb, _)| *verb == word)?;
        verbs.iter().find(known)
    };
    if path != "sandshell" {
        return verb().map(|verb| format!("`{path} {verb}` does that"));
    }
    if word == "stop" {
        return Some(
            "`sandshell pause SANDBOX` freezes one, and `sandshell rm SANDBOX` ends it".to_owned(),
        );
    }
    if word == "start" {
        return Some(
            "`sandshell create` makes a sandbox, `sandshell resume SANDBOX` lets one go on that is paused"
                .to_owned(),
        );
    }
    let (_, command) = ELSEWHERE.iter().find(|(known, _)| *known == word)?;
    Some(format!("`sandshell {command}` does that"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Arguments;

    fn right(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words = put_right(words);
        let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
        words.join(" ")
    }

    #[test]
    fn flags_before_the_command_go_behind_it() {
        for (typed, taken) in [
            ("s ls --json", "s ls --json"),
            ("s --json ls -q", "s ls --json -q"),
            (
                "s --url=x --hub y -q session ls",
                "s session --url=x --hub y -q ls",
            ),
            ("s --json", "s --json"),
            ("s --url", "s --url"),
            ("s --url x", "s --url x"),
            ("s --json --version", "s --json --version"),
            ("s exec -- --json", "s exec -- --json"),
            ("s ls -o json", "s ls --json"),
            ("s -o json ls", "s ls --json"),
            ("s ls -o name --label a=b", "s ls -q --label a=b"),
            ("s exec x -- -o json", "s exec x -- -o json"),
            ("s ls -o yaml", "s ls -o yaml"),
            ("s ls -o wide -a", "s ls -a"),
        ] {
            assert_eq!(right(typed), taken);
        }
    }

    #[test]
    fn signals_may_be_flags() {
        for (typed, taken) in [
            ("s kill -9 a", "s kill --signal=9 a"),
            ("s --json kill -HUP a", "s kill --json --signal=HUP a"),
            ("s kill -s INT a", "s kill -s INT a"),
            ("s kill -q a", "s kill -q a"),
            ("s exec -- kill -9 1", "s exec -- kill -9 1"),
        ] {
            assert_eq!(right(typed), taken);
        }
    }

    #[test]
    fn every_answer_is_a_command_and_no_command_is_answered_for() {
        let root = Arguments::command();
        for (word, command) in ELSEWHERE {
            assert!(root.find_subcommand(word).is_none(), "{word} is a command");
            let mut found = &root;
            for part in command
                .split(' ')
                .take_while(|part| part.chars().all(|c| c.is_ascii_lowercase()))
            {
                if !found.has_subcommands() {
                    break;
                }
                found = found
                    .find_subcommand(part)
                    .unwrap_or_else(|| panic!("{command}"));
            }
        }
        assert!(ELSEWHERE.is_sorted());
    }
}
