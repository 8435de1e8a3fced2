//! The command line against a hub: the built binary, driven as a person or a script would.

mod commands;
mod copying;
mod habits;
mod json;
mod looking;
mod mistakes;
mod running;
mod serving;
mod settings;
mod terminal;
mod words;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sandshell_testkit::{Hub, find_binary};
use tempfile::TempDir;

/// A user with a home of their own and a hub to talk to.
struct User {
    home: TempDir,
    hub: Hub,
}

/// What a command came to.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl User {
    fn new() -> Self {
        Self {
            home: TempDir::with_prefix("sandshell-home-").unwrap(),
            hub: Hub::start(),
        }
    }

    /// A user whose hub has one sandbox, `box`.
    fn with_box() -> Self {
        let user = Self::new();
        user.make("box");
        user
    }

    fn make(&self, id: &str) {
        let made = self.run(&["create", id, "--isolation", "best-effort"]);
        assert_eq!(made.out, format!("{id}\n"), "{made:?}");
    }

    fn home(&self) -> &Path {
        self.home.path()
    }

    fn config_file(&self) -> PathBuf {
        config_file(self.home())
    }

    /// `sandshell` with nothing set but the hub and its token.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = bare(self.home(), words);
        command
            .env("SANDSHELL_URL", self.hub.url())
            .env("SANDSHELL_TOKEN", self.hub.token());
        command
    }

    fn run(&self, words: &[&str]) -> Ended {
        ended(&mut self.command(words))
    }

    /// Runs it and expects it to succeed.
    fn ok(&self, words: &[&str]) -> String {
        let ended = self.run(words);
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
        ended.out
    }

    fn fed(&self, words: &[&str], input: &[u8]) -> Output {
        fed(&mut self.command(words), input)
    }
}

fn config_file(home: &Path) -> PathBuf {
    home.join(".config/sandshell/config.toml")
}

/// `sandshell` for somebody of whom nothing is known.
fn bare(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(find_binary());
    command
        .args(words)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("COLUMNS", "100")
        .current_dir(home)
        .stdin(Stdio::null());
    command
}

fn ended(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn fed(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writing = std::thread::spawn(move || {
        // Who reads no more has seen enough.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    output
}
