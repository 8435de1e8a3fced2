//! What can go wrong in the execution core, as data. Translated to the wire by the agent, once.

use sandshell_sys::Errno;
use sandshell_sys::spawn::Stage;

use crate::inside::InsideError;
use crate::output::OutputError;

/// Why a request to the execution core failed. Nothing was started and nothing is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    /// A field has a value that cannot be right.
    #[error("{detail}")]
    Invalid {
        /// JSON pointer of the field.
        pointer: String,
        /// What is wrong with it.
        detail: String,
        /// What to do instead.
        hint: Option<String>,
    },
    /// The working directory cannot be entered.
    #[error("cannot enter {path:?}: {reason}")]
    Cwd {
        /// The directory.
        path: String,
        /// Why not.
        reason: String,
    },
    /// No such user.
    #[error("there is no user {user:?} here")]
    UserNotFound {
        /// The name or number asked for.
        user: String,
    },
    /// It cannot be done with our rights.
    #[error("{detail}")]
    Forbidden {
        /// What and why.
        detail: String,
    },
    /// No such process.
    #[error("there is no process {id:?}, or its record is no longer kept")]
    ProcessNotFound {
        /// The id asked for.
        id: String,
    },
    /// No such session.
    #[error("there is no session {id:?}")]
    SessionNotFound {
        /// The id asked for.
        id: String,
    },
    /// No such command.
    #[error("there is no command {id:?} in this session, or its record is no longer kept")]
    CommandNotFound {
        /// The id asked for.
        id: String,
    },
    /// No such terminal.
    #[error("there is no terminal {id:?}, or its record is no longer kept")]
    TerminalNotFound {
        /// The id asked for.
        id: String,
    },
    /// The terminal's program is over.
    #[error("terminal {id:?} has ended")]
    TerminalEnded {
        /// The id.
        id: String,
    },
    /// As many clients look at the terminal as may.
    #[error("{limit} clients are connected to this terminal already")]
    TooManyViewers {
        /// The limit.
        limit: u32,
    },
    /// As many terminals run as may.
    #[error("{limit} terminals run already")]
    TooManyTerminals {
        /// The limit.
        limit: usize,
    },
    /// The id is taken by something else.
    #[error("{id:?} exists already and differs in `{field}`")]
    IdConflict {
        /// The id.
        id: String,
        /// First field that differs.
        field: String,
    },
    /// It is over.
    #[error("process {id:?} has ended")]
    ProcessEnded {
        /// The id.
        id: String,
    },
    /// Its standard input takes nothing any more.
    #[error("the standard input of this process is not open")]
    StdinClosed,
    /// A write that does not continue the one before.
    #[error("the next stdin byte has offset {expected}")]
    StdinOffset {
        /// The offset that would fit.
        expected: u64,
    },
    /// The session is over.
    #[error("session {id:?} has ended: {reason}")]
    SessionEnded {
        /// The id.
        id: String,
        /// Why.
        reason: String,
    },
    /// The command was interrupted while it waited, or its session ended before its turn.
    #[error("command {id:?} was dropped before it ran")]
    CommandDropped {
        /// The id.
        id: String,
    },
    /// The shell ended, or stood still, before it was given the command. Another one may do better.
    #[error("the shell ended or did not answer while it was being prepared")]
    ShellLost,
    /// A limit that cannot be kept here.
    #[error("{detail}")]
    LimitUnavailable {
        /// JSON pointer of the limit.
        pointer: String,
        /// Which, and why not.
        detail: String,
    },
    /// Isolation that cannot be had here.
    #[error("{detail}")]
    IsolationUnavailable {
        /// JSON pointer of the field that asked for it.
        pointer: String,
        /// Which, and why not.
        detail: String,
    },
    /// The program does not exist.
    #[error("there is no program {program:?}")]
    ProgramNotFound {
        /// Its name.
        program: String,
    },
    /// The shell asked for does not exist.
    #[error("there is no shell {shell:?}")]
    ShellNotFound {
        /// Its name or path.
        shell: String,
    },
    /// The sandbox has no shell at all.
    #[error("this sandbox has no shell: neither bash nor sh was found")]
    NoShell,
    /// The shell asked for is none.
    #[error("{shell:?} cannot be used as a shell: {reason}")]
    ShellNotUsable {
        /// Its path.
        shell: String,
        /// Why not.
        reason: String,
    },
    /// The program cannot be executed.
    #[error("{program:?} cannot be executed: {reason}")]
    ProgramNotExecutable {
        /// Its name.
        program: String,
        /// Why not.
        reason: String,
    },
    /// The session has as many commands waiting as it may.
    #[error("{limit} commands are waiting in this session already")]
    QueueFull {
        /// The limit.
        limit: usize,
    },
    /// The output cannot be read.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A resource is used up, or we are shutting down.
    #[error("{detail}")]
    Unavailable {
        /// Which.
        detail: String,
    },
    /// Something of ours failed.
    #[error("{detail}")]
    Internal {
        /// What.
        detail: String,
    },
}

impl ExecError {
    pub(crate) fn invalid(pointer: &str, detail: impl Into<String>) -> Self {
        Self::Invalid {
            pointer: pointer.to_owned(),
            detail: detail.into(),
            hint: None,
        }
    }

    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self::Internal {
            detail: detail.into(),
        }
    }

    /// A system call of ours failed: used-up resources are the machine's state, the rest our fault.
    pub(crate) fn system(what: &str, errno: Errno) -> Self {
        match errno {
            Errno::MFILE
            | Errno::NFILE
            | Errno::NOMEM
            | Errno::NOBUFS
            | Errno::TOOMANYREFS
            | Errno::AGAIN
            | Errno::NOSPC => Self::Unavailable {
                detail: format!("{what}: {errno}"),
            },
            _ => Self::Internal {
                detail: format!("{what}: {errno}"),
            },
        }
    }

    /// The same, for what a library did for us.
    pub(crate) fn io(what: &str, error: &std::io::Error) -> Self {
        match Errno::from_io_error(error) {
            Some(errno) => Self::system(what, errno),
            None => Self::internal(format!("{what}: {error}")),
        }
    }

    /// A start that init refused.
    pub(crate) fn from_spawn(stage: Stage, errno: Errno, program: &str, cwd: &str) -> Self {
        let program = program.to_owned();
        match (stage, errno) {
            // Not of a clone: init, or the warden of private trees, which was asked for it, is gone.
            (Stage::Clone, Errno::PIPE | Errno::CONNRESET) => Self::Unavailable {
                detail: "cannot start a process: who starts them is gone".to_owned(),
            },
            // Ours are open: the number that one is to have lies beyond the limit of open files.
            (Stage::Fds, Errno::BADF) => Self::Unavailable {
                detail: "cannot start a process: too few open files are allowed".to_owned(),
            },
            (Stage::Clone | Stage::Fds | Stage::Rights, _)
            | (_, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN) => {
                Self::system("cannot start a process", errno)
            }
            (Stage::Cwd, _) => Self::Cwd {
                path: cwd.to_owned(),
                reason: errno.to_string(),
            },
            (Stage::Exec, Errno::NOENT | Errno::NOTDIR) => Self::ProgramNotFound { program },
            (Stage::Exec, Errno::TOOBIG) => Self::invalid(
                "",
                "an argument or variable, or all of them together, are larger than the kernel takes",
            ),
            (Stage::Exec, _) => Self::ProgramNotExecutable {
                program,
                reason: errno.to_string(),
            },
            (Stage::Identity, _) => Self::Forbidden {
                detail: format!("cannot run as another user: {errno}"),
            },
            (Stage::Rlimit, _) => {
                Self::invalid("/limits", format!("a limit cannot be set: {errno}"))
            }
            (Stage::Join, _) => Self::LimitUnavailable {
                pointer: "/limits".to_owned(),
                detail: format!("the group that keeps the limits cannot be joined: {errno}"),
            },
            (Stage::Private, _) => Self::IsolationUnavailable {
                pointer: "/private_processes".to_owned(),
                detail: format!("no process tree of its own can be made here: {errno}"),
            },
        }
    }
}

impl From<InsideError> for ExecError {
    fn from(error: InsideError) -> Self {
        match error {
            InsideError::Rights(errno) => Self::system("cannot act as the sandbox's user", errno),
            InsideError::Thread => Self::Unavailable {
                detail: error.to_string(),
            },
            InsideError::Broken => Self::internal(error.to_string()),
        }
    }
}

/// Why the execution core could not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the execution core: {step}: {reason}")]
pub struct StartError {
    /// Which step.
    pub step: &'static str,
    /// Why.
    pub reason: String,
}

impl StartError {
    /// The setting of the sandbox that cannot be, if it is about one.
    pub fn setting(&self) -> Option<&'static str> {
        [USER, CWD].into_iter().find(|name| *name == self.step)
    }
}

/// Steps that a setting of their name can fail at.
pub(crate) const USER: &str = "user";
pub(crate) const CWD: &str = "cwd";
