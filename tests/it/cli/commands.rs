//! Every command: its help, and the document that has them all.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Instant;

use super::{User, bare, ended};
use crate::calls::DEADLINE;
use crate::house::root;

/// The commands below one, as its help lists them.
fn below(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn help_of(words: &[String]) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut line: Vec<&str> = words.iter().map(String::as_str).collect();
    line.push("--help");
    let shown = ended(&mut bare(home.path(), &line));
    assert_eq!(shown.code, Some(0), "{line:?}: {shown:?}");
    assert_eq!(shown.err, "", "{line:?}");
    shown.out
}

fn walk(words: &mut Vec<String>, visit: &mut impl FnMut(&[String], &str)) {
    let help = help_of(words);
    visit(words, &help);
    for name in below(&help) {
        words.push(name);
        walk(words, visit);
        words.pop();
    }
}

#[test]
fn every_help_opens_with_two_examples_and_is_in_the_document() {
    let mut document = String::from(
        "# Commands\n\nThe help of every command, as the program prints it. What they have in common is in \
         [the command line](cli.md).\n",
    );
    let mut count = 0;
    walk(&mut Vec::new(), &mut |words, help| {
        count += 1;
        let name = format!("sandshell {}", words.join(" "));
        let name = name.trim_end();
        let mut lines = help.lines();
        assert_eq!(lines.next(), Some("Examples:"), "{name}");
        let examples = lines
            .take_while(|line| line.starts_with("  sandshell "))
            .count();
        assert_eq!(examples, 2, "{name}:\n{help}");
        writeln!(
            document,
            "\n## `{name}`\n\n```text\n{}\n```",
            help.trim_end()
        )
        .unwrap();
    });
    assert!(count > 70, "only {count} commands were found");
    let path = root().join("docs/reference/commands.md");
    if std::env::var_os("SANDSHELL_UPDATE").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == document,
        "docs/reference/commands.md is out of date; hint: run this test with SANDSHELL_UPDATE=1"
    );
}

/// What keeps sandboxes, for Linux alone, and what names it behind a condition.
const OF_LINUX: &[&str] = &[
    "agent.rs",
    "arguments.rs",
    "doctor.rs",
    "launcher.rs",
    "lib.rs",
    "logs.rs",
    "mcp.rs",
    "one_shot.rs",
    "run.rs",
    "serve.rs",
];

#[test]
fn what_talks_to_a_hub_needs_the_client_alone() {
    let mut wrong = Vec::new();
    let mut dirs = vec![root().join("crates/cli/src")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                // A module's parts are as it is.
                if !OF_LINUX.contains(&format!("{name}.rs").as_str()) {
                    dirs.push(path);
                }
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let other = ["sys", "isolate", "exec", "agent", "hub"]
                .into_iter()
                .find(|part| text.contains(&format!("sandshell_{part}::")));
            if let (Some(other), false) = (other, OF_LINUX.contains(&name)) {
                wrong.push(format!("{} uses {other}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn topics_and_commands_have_help() {
    let home = tempfile::tempdir().unwrap();
    let help = |words: &[&str]| ended(&mut bare(home.path(), words));
    let codes = help(&["help", "exit-codes"]).out;
    for code in ["124", "125", "126", "127", "130", "141"] {
        assert!(codes.contains(code), "{codes}");
    }
    assert_eq!(
        help(&["help", "session", "create"]).out,
        help(&["session", "create", "--help"]).out
    );
    assert!(help(&["help"]).out.contains("Commands:"));
}

#[test]
fn completions_are_made_for_every_shell() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let made = ended(&mut bare(home.path(), &["completion", shell]));
        assert_eq!(made.code, Some(0), "{shell}");
        assert!(made.out.contains("SANDSHELL_COMPLETE"), "{shell}");
    }
}

/// What may follow these words, as a shell is told.
fn completed(mut command: Command, words: &[&str]) -> Vec<String> {
    command
        .args(["--", "sandshell"])
        .args(words)
        .env("SANDSHELL_COMPLETE", "fish");
    let told = ended(&mut command);
    assert_eq!((told.code, &*told.err), (Some(0), ""), "{words:?}");
    let word = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
    told.out.lines().map(word).collect()
}

/// The same without flags, asked again while something is missing: where the hub takes longer than a shell waits,
/// nothing of it is told.
fn completed_by_hub(user: &User, words: &[&str], wanted: &[&str]) -> Vec<String> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let mut told = completed(user.command(&[]), words);
        told.retain(|word| !word.starts_with('-'));
        let all = wanted.iter().all(|word| told.iter().any(|one| one == word));
        if all || Instant::now() > deadline {
            return told;
        }
    }
}

#[test]
fn ids_are_completed_from_the_hub() {
    let user = User::with_box();
    user.make("web");
    user.ok(&["session", "create", "box", "--name", "work"]);
    user.ok(&["exec", "box", "-d", "--name", "job", "--", "sleep", "600"]);
    user.ok(&["terminal", "create", "box", "--name", "edit", "--", "cat"]);
    user.ok(&["file", "mkdir", "box:/workspace/dir"]);
    for (words, wanted) in [
        (&["get", ""][..], &["box", "web"][..]),
        (&["get", "w"], &["web"]),
        (&["rm", "box", ""], &["box", "web"]),
        (&["logs", "bo"], &["box/"]),
        (&["logs", "box/"], &["box/job"]),
        (&["session", "exec", "box/"], &["box/work"]),
        (&["terminal", "attach", "box/e"], &["box/edit"]),
        (&["file", "ls", "box:/workspace/"], &["box:/workspace/dir/"]),
        (&["cp", "box:di"], &["box:dir/"]),
        (&["token", "rm", "tok_a"], &["tok_admin"]),
        (&["sess"], &["session"]),
    ] {
        let told = completed_by_hub(&user, words, wanted);
        assert_eq!(told, wanted, "{words:?}");
    }
    let flags = completed(user.command(&[]), &["exec", "--work"]);
    assert_eq!(flags, ["--workdir"]);
    // The line itself may say which hub.
    let elsewhere = completed(
        bare(user.home(), &[]),
        &[
            "get",
            "--url",
            user.hub.url(),
            "--token-file",
            "missing",
            "",
        ],
    );
    assert!(!elsewhere.contains(&"box".to_owned()), "there is no token");
}

#[test]
fn a_hub_that_says_nothing_does_not_hold_the_shell() {
    let home = tempfile::tempdir().unwrap();
    // It takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let mut command = bare(home.path(), &[]);
    command.env("SANDSHELL_URL", url);
    let told = completed(command, &["get", ""]);
    assert!(told.iter().all(|word| word.starts_with('-')), "{told:?}");
}

#[test]
fn bash_asks_us() {
    let user = User::with_box();
    let plain = user.command(&[]);
    let dir = std::path::Path::new(plain.get_program()).parent().unwrap();
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
    let script = "source <(sandshell completion bash); COMP_WORDS=(sandshell get b); COMP_CWORD=2; COMP_TYPE=9; \
                  _clap_complete_sandshell sandshell b get; echo \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script]).env_clear();
    for (key, value) in plain.get_envs() {
        bash.env(key, value.unwrap_or_default());
    }
    bash.env("PATH", path);
    // A hub that takes longer than a shell waits has nothing told of it.
    let deadline = Instant::now() + DEADLINE;
    let mut told = ended(&mut bash);
    while told.out == "\n" && Instant::now() < deadline {
        told = ended(&mut bash);
    }
    assert_eq!(told.out, "box\n", "{told:?}");
}

#[test]
fn every_command_has_a_page() {
    let home = tempfile::tempdir().unwrap();
    let made = ended(&mut bare(home.path(), &["man", "--dir", "pages/here"]));
    assert_eq!((made.code, &*made.out, &*made.err), (Some(0), "", ""));
    let page =
        |name: &str| std::fs::read_to_string(home.path().join("pages/here").join(name)).unwrap();
    walk(&mut Vec::new(), &mut |words, _| {
        let name = [&["sandshell".to_owned()], words].concat().join("-");
        let page = page(&format!("{name}.1"));
        assert!(page.contains(".SH EXAMPLES"), "{name}");
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    });
    let root = page("sandshell.1");
    for part in ["EXIT CODES", "ENVIRONMENT", "NAMES"] {
        assert!(
            root.contains(&format!(".SH \"{part}\"")) || root.contains(&format!(".SH {part}")),
            "{part}"
        );
    }
}

#[test]
fn colour_follows_the_conventions() {
    let home = tempfile::tempdir().unwrap();
    let coloured = |words: &[&str], env: &[(&str, &str)]| {
        let mut command = bare(home.path(), words);
        command
            .envs(env.iter().copied())
            .env("SANDSHELL_URL", "http://127.0.0.1:1");
        ended(&mut command).err.contains('\x1b')
    };
    assert!(!coloured(&["ls"], &[]), "a pipe");
    assert!(coloured(&["ls"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(
        &["ls"],
        &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]
    ));
    assert!(coloured(&["ls", "--color", "always"], &[("NO_COLOR", "1")]));
    assert!(!coloured(
        &["ls", "--color", "never"],
        &[("CLICOLOR_FORCE", "1")]
    ));
}
