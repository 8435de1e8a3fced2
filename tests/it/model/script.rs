//! Shell texts, and what each does: to the state of the shell that runs it, and to its streams.
//!
//! This is the model's bash, as small as the texts allow. It owns no process and no call.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What a session keeps from command to command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shell {
    pub(super) cwd: String,
    /// Variables `V0`…: bytes, and whether they are exported.
    pub(super) variables: BTreeMap<u8, (Vec<u8>, bool)>,
    /// Functions `f0`…: the status each returns.
    pub(super) functions: BTreeMap<u8, u8>,
    /// `$?` for the next command.
    pub(super) status: i32,
}

impl Shell {
    pub(super) fn new(cwd: &str) -> Self {
        Self {
            cwd: cwd.to_owned(),
            variables: BTreeMap::new(),
            functions: BTreeMap::new(),
            status: 0,
        }
    }

    /// What `Show` prints.
    fn shown(&self) -> Vec<u8> {
        let mut shown = format!("{}|{}|", self.status, self.cwd).into_bytes();
        for name in 0..VARIABLES {
            let (value, exported) = match self.variables.get(&name) {
                Some((value, exported)) => (value.as_slice(), *exported),
                None => (b"none".as_slice(), false),
            };
            shown.extend_from_slice(value);
            shown.extend_from_slice(if exported { b"|x|" } else { b"||" });
        }
        for name in self.functions.keys() {
            shown.extend_from_slice(format!("declare -f f{name}\n").as_bytes());
        }
        shown
    }
}

/// How many variables and functions there are, so that steps meet the same ones.
pub(super) const VARIABLES: u8 = 2;
pub(super) const FUNCTIONS: u8 = 2;

/// Bytes that a text writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Output {
    /// These, by a builtin.
    Bytes(Vec<u8>),
    /// The numbers from 1 on, by a program.
    Lines(u32),
    /// NULs, by a program.
    Zeros(u32),
}

impl Output {
    fn text(&self) -> String {
        match self {
            Self::Bytes(bytes) if bytes.is_empty() => ":".to_owned(),
            Self::Bytes(bytes) => {
                let mut text = "printf '".to_owned();
                for byte in bytes {
                    let _ = write!(text, "\\{byte:03o}");
                }
                text + "'"
            }
            Self::Lines(count) => format!("seq 1 {count}"),
            Self::Zeros(count) => format!("head -c {count} /dev/zero"),
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Lines(count) => (1..=*count)
                .flat_map(|n| format!("{n}\n").into_bytes())
                .collect(),
            Self::Zeros(count) => vec![0; *count as usize],
        }
    }
}

/// A text that writes and ends by itself, the same in every surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Writing {
    pub(super) stdout: Output,
    pub(super) stderr: Output,
    pub(super) code: u8,
}

impl Writing {
    /// The text; ends with `exit`, or for a session with a status alone.
    pub(super) fn text(&self, exits: bool) -> String {
        let (out, err, code) = (self.stdout.text(), self.stderr.text(), self.code);
        let end = if exits {
            format!("exit {code}")
        } else {
            format!("(exit {code})")
        };
        format!("{out}; {err} >&2; {end}")
    }
}

/// A command of a session that ends by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Text {
    Set {
        name: u8,
        value: Vec<u8>,
        export: bool,
    },
    Unset(u8),
    /// Into a directory below the sequence's own, made on the way.
    Enter(u8),
    EnterNothing,
    Define {
        name: u8,
        status: u8,
    },
    Call(u8),
    Show,
    Write(Writing),
    /// Changes that a subshell takes with it.
    Subshell,
    /// Reads what the request brings.
    Copy(Vec<u8>),
    /// A text that bash cannot parse.
    Unfinished,
    /// Changes a variable and ends the shell.
    Exit {
        name: u8,
        code: u8,
    },
    /// Changes a variable and kills the shell.
    KillShell(u8),
    /// Becomes another program.
    Replace,
    /// Leaves a child behind, which keeps the streams or does not.
    Leave {
        held: bool,
        own_session: bool,
    },
    /// Leaves a child behind that will write when its gate is opened.
    LeaveWriter,
}

/// A command of a session that goes on until something is done about it. It says `go` first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    Program,
    Builtin,
    Loop,
    Substitution,
    Pipeline,
    Spin,
    /// Only SIGKILL ends its program.
    Deaf,
    /// Goes on when its gate is opened.
    Gate,
}

/// Names that no other sequence, and no other command of this one, has.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// A directory of the sequence's own.
    pub(super) dir: String,
    /// What `sleep` is told, so that its processes can be found from outside.
    pub(super) marker: String,
    /// Path of the command's gate.
    pub(super) gate: String,
}

/// What a text did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) code: i32,
    pub(super) signal: Option<&'static str>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) after: &'static str,
    /// Streams that may still be held.
    pub(super) held: Vec<u32>,
    /// Children left behind.
    pub(super) children: u32,
}

impl Ran {
    fn with(code: i32, stdout: impl Into<Vec<u8>>) -> Self {
        Self {
            code,
            signal: None,
            stdout: stdout.into(),
            stderr: Vec::new(),
            after: "kept",
            held: vec![0],
            children: 0,
        }
    }
}

/// What bash says before its own messages in a session.
const BASH: &str = "/proc/self/fd/31/command: line";

impl Text {
    pub(super) fn text(&self, names: &Names) -> String {
        let Names { dir, marker, gate } = names;
        match self {
            Self::Set {
                name,
                value,
                export,
            } => {
                let export = if *export { "export " } else { "" };
                format!("{export}V{name}={}", quoted(value))
            }
            Self::Unset(name) => format!("unset V{name}"),
            Self::Enter(n) => format!("mkdir -p {0} && cd {0}", place(dir, *n)),
            Self::EnterNothing => "cd /nowhere".to_owned(),
            Self::Define { name, status } => {
                format!("f{name}() {{ echo \"f{name}:$1\"; return {status}; }}")
            }
            Self::Call(name) => format!("f{name} 'a  b'"),
            Self::Show => {
                let mut text = "printf '%s|' \"$?\" \"$PWD\"".to_owned();
                for name in 0..VARIABLES {
                    let _ = write!(text, " \"${{V{name}-none}}\" \"${{V{name}@a}}\"");
                }
                text + "; declare -F"
            }
            Self::Write(writing) => writing.text(false),
            Self::Subshell => "(cd /; V0=inner; f0() { :; }; echo sub; exit 3)".to_owned(),
            Self::Copy(_) => "cat; cat".to_owned(),
            Self::Unfinished => "echo no; )".to_owned(),
            Self::Exit { name, code } => format!("V{name}=left; echo bye; exit {code}"),
            Self::KillShell(name) => format!("V{name}=lost; echo bye; kill -KILL $$; echo no"),
            Self::Replace => "V0=lost; exec printf replaced".to_owned(),
            Self::Leave { held, own_session } => {
                let setsid = if *own_session { "setsid " } else { "" };
                let streams = if *held { "" } else { " >/dev/null 2>&1" };
                format!("{setsid}sleep {marker}{streams} & echo left")
            }
            Self::LeaveWriter => format!("mkfifo {gate}; cat {gate} & echo left"),
        }
    }

    /// Runs it in the model.
    pub(super) fn run(&self, shell: &mut Shell, names: &Names) -> Ran {
        let before = shell.clone();
        let mut ran = Ran::with(0, "");
        match self {
            Self::Set {
                name,
                value,
                export,
            } => {
                // A variable that was exported stays so.
                let export = *export || shell.variables.get(name).is_some_and(|v| v.1);
                shell.variables.insert(*name, (value.clone(), export));
            }
            Self::Unset(name) => {
                shell.variables.remove(name);
            }
            Self::Enter(n) => shell.cwd = unquoted_place(&names.dir, *n),
            Self::EnterNothing => {
                ran.code = 1;
                ran.stderr =
                    format!("{BASH} 1: cd: /nowhere: No such file or directory\n").into_bytes();
            }
            Self::Define { name, status } => {
                shell.functions.insert(*name, *status);
            }
            Self::Call(name) => {
                if let Some(status) = shell.functions.get(name) {
                    ran = Ran::with(i32::from(*status), format!("f{name}:a  b\n"));
                } else {
                    ran.code = 127;
                    ran.stderr = format!("{BASH} 1: f{name}: command not found\n").into_bytes();
                }
            }
            Self::Show => ran.stdout = shell.shown(),
            Self::Write(writing) => {
                ran = Ran::with(i32::from(writing.code), writing.stdout.bytes());
                ran.stderr = writing.stderr.bytes();
            }
            Self::Subshell => ran = Ran::with(3, "sub\n"),
            Self::Copy(bytes) => ran.stdout.clone_from(bytes),
            Self::Unfinished => {
                ran.code = 2;
                ran.stderr = format!(
                    "{BASH} 1: syntax error near unexpected token `)'\n{BASH} 1: `echo no; )'\n"
                )
                .into_bytes();
            }
            Self::Exit { name, code } => {
                ran = Ran::with(i32::from(*code), "bye\n");
                let exported = shell.variables.get(name).is_some_and(|v| v.1);
                shell.variables.insert(*name, (b"left".to_vec(), exported));
                ran.after = "restored";
            }
            Self::KillShell(_) => {
                ran = Ran::with(137, "bye\n");
                ran.signal = Some("SIGKILL");
                ran.after = "restored_before";
            }
            Self::Replace => {
                ran = Ran::with(0, "replaced");
                ran.after = "restored_before";
            }
            Self::Leave { held, .. } => {
                ran = Ran::with(0, "left\n");
                ran.children = 1;
                // A child that lets go of the streams may not have got to it yet.
                ran.held = if *held { vec![2] } else { vec![0, 1, 2] };
            }
            Self::LeaveWriter => {
                ran = Ran::with(0, "left\n");
                ran.held = vec![2];
                ran.children = 1;
            }
        }
        match ran.after {
            "kept" => shell.status = ran.code,
            // Another shell begins with 0.
            "restored" => shell.status = 0,
            _ => {
                *shell = before;
                shell.status = 0;
            }
        }
        ran
    }

    /// Its standard input, where it has one.
    pub(super) fn stdin(&self) -> Option<&[u8]> {
        match self {
            Self::Copy(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl Block {
    /// The text: a change, `go`, and what does not end.
    pub(super) fn text(self, change: &Text, names: &Names) -> String {
        let Names { marker, gate, .. } = names;
        let change = change.text(names);
        let rest = match self {
            Self::Program => format!("echo go; sleep {marker}; echo never"),
            Self::Builtin => format!("echo go; read -r x <>{gate}; echo never"),
            Self::Loop => format!("echo go; while :; do sleep {marker}; done; echo never"),
            Self::Substitution => format!("echo go; x=$(sleep {marker}; echo x); echo never"),
            Self::Pipeline => format!("echo go; sleep {marker} | cat; echo never"),
            Self::Spin => "echo go; while :; do :; done; echo never".to_owned(),
            // It says so when it is deaf, and not before.
            Self::Deaf => format!("(trap '' INT TERM; echo go; exec sleep {marker}); echo never"),
            Self::Gate => format!("echo go; cat {gate}; echo end >&2; (exit 5)"),
        };
        let gate = match self {
            Self::Builtin | Self::Gate => format!("mkfifo {gate}; "),
            _ => String::new(),
        };
        format!("{change}; {gate}{rest}")
    }

    /// How an interrupt may come about.
    pub(super) fn methods(self) -> &'static [&'static str] {
        match self {
            Self::Deaf => &["kill"],
            // A loaded machine can be slower than the first stage.
            _ => &["int", "term", "kill"],
        }
    }
}

fn place(dir: &str, n: u8) -> String {
    format!("'{}'", unquoted_place(dir, n))
}

fn unquoted_place(dir: &str, n: u8) -> String {
    format!("{dir}/{}", ["a", "b c", "d\u{fc}/e"][usize::from(n % 3)])
}

/// Text that bash reads as these bytes.
fn quoted(bytes: &[u8]) -> String {
    let mut text = "$'".to_owned();
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b" _-./:".contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "\\{byte:03o}");
        }
    }
    text + "'"
}
