//! How a failure is told: what, why, and what to do next.
//!
//! ```text
//! error: cannot connect to 127.0.0.1:4020
//!   cause: Connection refused (os error 111)
//!
//! hint: `sandshell serve` starts a hub there
//! ```
//!
//! Owns the exit codes of our own failures and the translation of the API's problems into commands to
//! type next. With `--json` the problem itself goes to stderr.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use sandshell_client::ClientError;
use sandshell_types::{ErrorCode, Problem};
use serde_json::{Value, json};

use crate::paint::Paint;

/// What was asked for failed.
const FAILED: u8 = 1;
/// The line on the command line was wrong.
const USAGE: u8 = 2;
/// There is no token, or not a valid one.
const NOT_AUTHENTICATED: u8 = 4;
/// We failed, not the command.
pub(crate) const OURS: u8 = 125;
/// The command exists and cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// The command does not exist.
const NOT_FOUND: u8 = 127;

/// What of a server's answer without a problem document is shown.
const SHOWN_BODY: usize = 300;

/// A failure with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    causes: Vec<String>,
    hint: Option<String>,
    code: u8,
    problem: Option<Box<Problem>>,
    /// Nobody reads any more: nothing is told.
    silent: bool,
    of_a_name: bool,
    /// The code that the API has for it.
    like: Option<ErrorCode>,
    json: bool,
}

impl Failure {
    fn new(what: impl Into<String>, code: u8) -> Self {
        Self {
            what: what.into(),
            causes: Vec::new(),
            hint: None,
            code,
            problem: None,
            silent: false,
            of_a_name: false,
            like: None,
            json: false,
        }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(what, USAGE)
    }

    /// What was asked for could not be done.
    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Self::new(what, FAILED)
    }

    pub(crate) fn ours(error: &dyn Error) -> Self {
        Self::new(error.to_string(), OURS).caused_by(error.source())
    }

    /// What failed on this machine, and why.
    pub(crate) fn local(what: impl Into<String>, error: &dyn Error) -> Self {
        Self::new(what, FAILED).caused_by(Some(error))
    }

    /// Whoever read our output has seen enough: the end, without a word.
    pub(crate) fn unread() -> Self {
        Self {
            silent: true,
            ..Self::new("the output is not read", 0)
        }
    }

    /// A failure to write our output.
    pub(crate) fn output(error: &std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::unread()
        } else {
            Self::local("the output cannot be written", error)
        }
    }

    fn caused_by(mut self, mut error: Option<&dyn Error>) -> Self {
        while let Some(cause) = error {
            self.causes.push(cause.to_string());
            error = cause.source();
        }
        self
    }

    pub(crate) fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Of a command that ends with another's code: what would be 1 is 125 there.
    pub(crate) fn beside_a_command(mut self) -> Self {
        self.code = match self.problem.as_ref().map(|problem| problem.code) {
            Some(ErrorCode::ProgramNotFound) => NOT_FOUND,
            Some(ErrorCode::ProgramNotExecutable) => NOT_EXECUTABLE,
            _ if self.code == FAILED => OURS,
            _ => self.code,
        };
        self
    }

    /// Whether it is told as JSON.
    pub(crate) fn in_json(mut self, json: bool) -> Self {
        self.json = json;
        self
    }

    /// The same in other words.
    pub(crate) fn reworded(mut self, what: impl Into<String>) -> Self {
        self.what = what.into();
        self
    }

    /// What was typed names nothing, or does not say in which sandbox.
    pub(crate) fn of_a_name(mut self) -> Self {
        self.of_a_name = true;
        self
    }

    /// We found out what the API would have told with this code.
    pub(crate) fn like(mut self, code: ErrorCode) -> Self {
        self.like = Some(code);
        self
    }

    pub(crate) fn is_of_a_name(&self) -> bool {
        self.of_a_name || self.kind() == Some(ErrorCode::FileNotFound)
    }

    /// The code of the server's problem.
    pub(crate) fn kind(&self) -> Option<ErrorCode> {
        self.problem.as_ref().map(|problem| problem.code)
    }

    /// What and why, in one line.
    pub(crate) fn line(&self) -> String {
        let mut line = self.what.clone();
        // Some say their cause themselves.
        for cause in &self.causes {
            if !line.contains(cause.as_str()) {
                line.push_str(": ");
                line.push_str(cause);
            }
        }
        line
    }

    /// Tells it on stderr.
    pub(crate) fn report(self) -> ExitCode {
        if !self.silent {
            let text = if self.json {
                format!("{}\n", self.object())
            } else {
                self.text(Paint::for_stderr())
            };
            // There is nowhere to tell that stderr is closed.
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
        }
        ExitCode::from(self.code)
    }

    fn text(&self, paint: Paint) -> String {
        // Writing to a string cannot fail.
        let mut text = format!("{} {}\n", paint.bad("error:"), harmless(&self.what));
        for cause in &self.causes {
            let _ = writeln!(text, "  cause: {}", harmless(cause));
        }
        if let Some(problem) = &self.problem
            && problem.status >= 500
            && !problem.request_id.is_empty()
        {
            let _ = writeln!(text, "  request id: {}", problem.request_id);
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "\n{} {}", paint.note("hint:"), harmless(hint));
        }
        text
    }

    /// The server's problem as it came, or one in its form. Where no code of the API fits, as for a hub that
    /// does not answer, there is none.
    fn object(&self) -> Value {
        if let Some(problem) = &self.problem {
            return json!(problem);
        }
        let code = self.like.or(match self.code {
            USAGE => Some(ErrorCode::InvalidRequest),
            NOT_AUTHENTICATED => Some(ErrorCode::Unauthorized),
            _ => None,
        });
        let mut object = match code {
            Some(code) => json!(Problem::new(code, self.line())),
            None => json!({"type": "about:blank", "title": self.what, "detail": self.line()}),
        };
        if let Some(hint) = &self.hint {
            object["hint"] = hint.as_str().into();
        }
        object
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Problem(problem) => Self::from(*problem),
            ClientError::Connect { .. } => Self::new(error.to_string(), FAILED)
                .caused_by(error.source())
                .hint(
                    "`sandshell serve` starts a hub on this machine; `sandshell config show \
                     --origin` tells where the address comes from",
                ),
            ClientError::Http { status, body } => {
                let body: String = body.trim().chars().take(SHOWN_BODY).collect();
                let code = if status == 401 { NOT_AUTHENTICATED } else { FAILED };
                Self::new(format!("the server answered {status}: {body}"), code).hint(
                    "this may not be a hub of Sandshell; `sandshell config show --origin` tells \
                     where the address comes from",
                )
            }
            ClientError::Config { .. } => {
                Self::new(error.to_string(), USAGE).hint("an address is http://HOST:PORT or unix:/PATH")
            }
            other => Self::new(other.to_string(), FAILED)
                .caused_by(other.source())
                .hint("send the command again; `sandshell version --server` tells whether the hub answers"),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let code = if problem.code == ErrorCode::Unauthorized {
            NOT_AUTHENTICATED
        } else {
            FAILED
        };
        let what = match problem.code {
            ErrorCode::InvalidRequest => with_flags(&problem.detail),
            _ => problem.detail.clone(),
        };
        let mut failure = Self::new(what, code);
        failure.hint = command_for(&problem).or_else(|| problem.hint.as_deref().map(with_flags));
        failure.problem = Some(Box::new(problem));
        failure
    }
}

/// A text in which a sandbox may have had its say: it moves no cursor and sets no title.
fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

/// Words of the API's problems, and the flags that say it on the command line.
const FLAGS: &[(&str, &str)] = &[
    ("idle_timeout_ms", "--idle"),
    ("max_lifetime_ms", "--lifetime"),
    ("memory_bytes", "--memory"),
    ("disk_bytes", "--disk"),
    (
        "set network.mode to \"allow\"",
        "leave --network out, and name hosts with --allow",
    ),
    ("add it to network.allow", "add it with --allow"),
    ("`author`", "--author 'NAME <EMAIL>'"),
    ("`auth`", "--auth-stdin"),
    ("`literal`", "-F"),
    ("`set_upstream`", "--set-upstream"),
    ("`shell`", "--shell"),
    ("`user`", "-u"),
];

/// A text of the API with flags for its fields.
pub(crate) fn with_flags(text: &str) -> String {
    FLAGS.iter().fold(text.to_owned(), |text, (field, flag)| {
        text.replace(field, flag)
    })
}

/// What to type next. The API's own hints name routes.
fn command_for(problem: &Problem) -> Option<String> {
    let hint = match problem.code {
        ErrorCode::Unauthorized => {
            "`sandshell login < FILE` keeps a token, SANDSHELL_TOKEN or --token-file gives one; \
             `sandshell serve` says at its start which file has its own"
        }
        ErrorCode::Forbidden if problem.pointer.is_none() => {
            "this token does not open it; `sandshell token create --scope SCOPE` with an admin's token makes another"
        }
        ErrorCode::SandboxNotFound => "`sandshell ls` lists the sandboxes that this token may use",
        ErrorCode::SandboxGone => "`sandshell create` makes another",
        ErrorCode::SandboxPaused => "`sandshell resume SANDBOX` lets it go on",
        ErrorCode::ProcessNotFound => "`sandshell ps -a` lists processes, those that ended too",
        ErrorCode::SessionNotFound | ErrorCode::CommandNotFound => {
            "`sandshell session ls` lists sessions"
        }
        ErrorCode::SessionEnded => "`sandshell session create` makes another",
        ErrorCode::TerminalNotFound => "`sandshell terminal ls` lists terminals",
        ErrorCode::TerminalEnded => "`sandshell terminal create` makes another",
        ErrorCode::ContextNotFound => "`sandshell context ls` lists contexts",
        ErrorCode::ContextEnded => "`sandshell context restart CONTEXT` starts a fresh interpreter",
        ErrorCode::BackupNotFound => "`sandshell backup ls` lists backups",
        ErrorCode::TokenNotFound => "`sandshell token ls` lists tokens",
        ErrorCode::FileNotFound => "`sandshell file ls SANDBOX:DIR` shows what is there",
        ErrorCode::IsADirectory => {
            "`sandshell file ls SANDBOX:DIR` lists it; `sandshell cp` copies directories"
        }
        ErrorCode::NotADirectory => "`sandshell file stat SANDBOX:PATH` tells what it is",
        ErrorCode::DirectoryNotEmpty => "add -r to remove what is in it, too",
        ErrorCode::PortNotFound | ErrorCode::PortUnreachable => {
            "`sandshell port ls` lists ports; `sandshell port wait PORT` waits for one"
        }
        ErrorCode::IsolationUnavailable => {
            "`sandshell doctor` names the remedies; `sandshell create --isolation best-effort` does without"
        }
        ErrorCode::GitAuth => "give a token on stdin with --auth-stdin",
        ErrorCode::GitNetwork => {
            "a sandbox reaches the hosts it was made with: `sandshell create --allow HOST`"
        }
        ErrorCode::GitConflict => "`sandshell git status` names the files that need a decision",
        ErrorCode::TimedOut => "give more time with --timeout",
        ErrorCode::ProgramNotFound if problem.detail.starts_with("git ") => {
            "install it there, or make the sandbox from an image that has it: `sandshell create --image IMAGE`"
        }
        ErrorCode::ImageNotFound => {
            "`sandshell image ls` lists images; `sandshell image import FILE` gives the hub one"
        }
        ErrorCode::ImageInUse => "`sandshell ls` shows the sandboxes that are made of it",
        ErrorCode::ProgramNotFound if is_shell_text(&problem.detail) => {
            "that is text for a shell, which goes after -c, as in -c 'ls | wc'"
        }
        ErrorCode::ProgramNotFound => {
            "check the name with -c 'command -v NAME'; shell text goes after -c"
        }
        ErrorCode::PermissionDenied if problem.hint.is_none() => {
            "`sandshell file stat SANDBOX:PATH` shows whose it is; where the hub runs as root, -u root has the \
             rights of the sandbox's root"
        }
        ErrorCode::ProgramNotExecutable => "-c 'ls -l PATH' shows its mode",
        ErrorCode::ProcessEnded => "`sandshell logs PROCESS` shows what it wrote",
        ErrorCode::UserNotFound => "-u takes a user of the sandbox's /etc/passwd, or a number",
        ErrorCode::InvalidCwd => "-w takes a directory that is there in the sandbox, such as /tmp",
        ErrorCode::NotFound if problem.detail.starts_with("there is no route") => {
            "this is no hub, or an older one: an agent is one sandbox, and commands ask a hub; \
             `sandshell config show --origin` tells where the address comes from"
        }
        ErrorCode::SandboxUnreachable => {
            "`sandshell get SANDBOX` tells its state and `sandshell rm SANDBOX` ends it"
        }
        ErrorCode::GitNotFound if problem.detail.contains("not a git repository") => {
            "-C names the repository: SANDBOX:PATH, or PATH"
        }
        ErrorCode::GitFailed if problem.hint.is_none() => {
            "-C names the repository: SANDBOX:PATH, or PATH"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Whether the program that is not there, which the problem quotes, is a line of a shell's.
fn is_shell_text(detail: &str) -> bool {
    let named = detail.split_once('"').map(|(_, rest)| rest);
    named.is_some_and(|name| name.contains([' ', '|', ';', '&', '<', '>', '$']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_as_flags() {
        for (field, flag) in [
            (
                "say who it is by with `author`",
                "say who it is by with --author 'NAME <EMAIL>'",
            ),
            ("or push with `set_upstream`", "or push with --set-upstream"),
            ("disk_bytes must be at least 1", "--disk must be at least 1"),
        ] {
            assert_eq!(with_flags(field), flag);
        }
    }

    #[test]
    fn a_token_is_asked_for_only_where_one_would_help() {
        let hint = |problem: Problem| Failure::from(problem).hint.unwrap_or_default();
        let forbidden = Problem::new(ErrorCode::Forbidden, "x").hint("Leave `user` out.");
        assert!(hint(forbidden.clone()).contains("sandshell token create"));
        assert_eq!(hint(forbidden.pointer("/user")), "Leave -u out.");
    }

    #[test]
    fn tells_what_why_and_what_next() {
        let failure = Failure::ours(&std::io::Error::other("inner")).hint("try again");
        assert_eq!(
            failure.text(Paint::NONE),
            "error: inner\n\nhint: try again\n"
        );
        assert_eq!(Failure::usage("no").text(Paint::NONE), "error: no\n");
    }

    #[test]
    fn what_a_sandbox_wrote_does_nothing_to_the_terminal() {
        let told = Failure::failed("no \x1b]0;title\x07 \u{9b}2J here\n  there").text(Paint::NONE);
        assert_eq!(
            told,
            "error: no \\u{1b}]0;title\\u{7} \\u{9b}2J here\n  there\n"
        );
    }

    #[test]
    fn a_missing_program_is_told_as_a_shell_would() {
        let of = |code| {
            Failure::from(Problem::new(code, "x"))
                .beside_a_command()
                .code
        };
        assert_eq!(of(ErrorCode::ProgramNotFound), 127);
        assert_eq!(of(ErrorCode::ProgramNotExecutable), 126);
        assert_eq!(of(ErrorCode::SandboxNotFound), 125);
        assert_eq!(of(ErrorCode::Unauthorized), 4);
    }
}
