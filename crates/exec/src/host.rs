//! What every surface needs to start something: init, trees, the default user, shell and environment.
//!
//! Turns wishes (command or argv, user, cwd, env, limits) into a [`Program`], and a program into
//! something that runs. Owns no running thing.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use sandshell_isolate::protocol::{Exit, SpawnFlags, SpawnRequest};
use sandshell_sys::procfs;
use sandshell_sys::spawn::{Identity, Rlimit};
use sandshell_types::{Env, Limits, ProcessRequest};
use tokio::sync::oneshot;

use crate::account::{Account, Accounts};
use crate::events::Events;
use crate::fence::Fence;
use crate::inside::Inside;
use crate::output::{LogLimits, LogSpace, OutputLog};
use crate::ports::Ports;
use crate::spawner::{Refused, Spawner};
use crate::tree::{Nursery, Place, Tree};
use crate::variables::Variables;
use crate::wardens::Wardens;
use crate::{Config, ExecError};

const RLIMIT_CPU: u32 = 0;
const RLIMIT_FSIZE: u32 = 1;
const RLIMIT_NOFILE: u32 = 7;

/// Everything needed to start programs.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) config: Config,
    pub(crate) events: Events,
    /// The room of all output logs.
    pub(crate) log_space: LogSpace,
    /// The sandbox's own variables.
    pub(crate) variables: Variables,
    pub(crate) inside: Inside,
    pub(crate) ports: Ports,
    pub(crate) spawner: Spawner,
    /// Starts private process trees.
    pub(crate) wardens: Arc<Wardens>,
    pub(crate) nursery: Nursery,
    pub(crate) accounts: Accounts,
    /// The default one.
    pub(crate) account: Account,
    /// bash, or sh where there is no bash; an image may have neither.
    pub(crate) shell: Option<PathBuf>,
    pub(crate) null: OwnedFd,
}

/// A program with all that is settled before it starts.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// The name it was asked for by, for messages.
    pub(crate) name: String,
    pub(crate) paths: Vec<CString>,
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<CString>,
    pub(crate) cwd: String,
    pub(crate) identity: Option<Identity>,
    pub(crate) rlimits: Vec<Rlimit>,
    /// Files it gets besides its streams, with their numbers there.
    pub(crate) files: Vec<(Arc<OwnedFd>, i32)>,
    /// The groups that limit it.
    pub(crate) fence: Option<Arc<Fence>>,
    /// Whether it has a process tree of its own.
    pub(crate) private: bool,
}

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) pid: i32,
    pub(crate) live: Arc<Live>,
    pub(crate) exit: oneshot::Receiver<Exit>,
}

impl Running {
    /// Whether it has not ended, asked of the kernel: init's word may still be on its way.
    pub(crate) fn is_alive(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut asked = [PollFd::new(&self.live.pidfd, PollFlags::IN)];
        matches!(
            poll(
                &mut asked,
                Some(&Timespec {
                    tv_sec: 0,
                    tv_nsec: 0
                })
            ),
            Ok(0)
        )
    }
}

/// What can be signalled.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) pidfd: OwnedFd,
    pub(crate) tree: Tree,
    /// The groups that limit it, which go after the tree.
    pub(crate) fence: Option<Arc<Fence>>,
}

impl Host {
    /// A fresh output log under this name.
    pub(crate) fn output_log(&self, name: &str, limits: LogLimits) -> OutputLog {
        let dir = self.config.state_dir.join("logs").join(name);
        OutputLog::new(dir, limits, &self.log_space)
    }

    /// The account of a request's `user`, or the default one.
    pub(crate) fn account(&self, user: Option<&str>) -> Result<Account, ExecError> {
        user.map_or_else(|| Ok(self.account.clone()), |user| self.accounts.find(user))
    }

    /// What every command of this account has, before the sandbox's own variables.
    pub(crate) fn base_environment(&self, account: &Account) -> BTreeMap<String, String> {
        let shell = self.shell.as_deref().map(Path::to_string_lossy);
        account.base_environment(shell.as_deref().unwrap_or("/bin/sh"))
    }

    /// The environment a command of this account starts with, before the call's own.
    pub(crate) fn environment(&self, account: &Account) -> BTreeMap<String, String> {
        let mut env = self.base_environment(account);
        for (name, value) in self.variables.values() {
            match value {
                Some(value) => env.insert(name, value),
                None => env.remove(&name),
            };
        }
        env
    }

    /// Absolute form of a request's `cwd`.
    pub(crate) fn cwd(&self, cwd: Option<&str>) -> Result<String, ExecError> {
        let Some(cwd) = cwd else {
            return Ok(self.config.cwd.to_string_lossy().into_owned());
        };
        if cwd.is_empty() || cwd.contains('\0') {
            return Err(ExecError::invalid(
                "/cwd",
                "a directory has a name without NUL bytes",
            ));
        }
        Ok(self.config.cwd.join(cwd).to_string_lossy().into_owned())
    }

    /// The shell a request names: a path, or a name to be found in the usual places.
    pub(crate) fn shell(&self, wanted: Option<&str>) -> Result<PathBuf, ExecError> {
        match wanted {
            None => self.shell.clone().ok_or(ExecError::NoShell),
            Some(name) => {
                find_program(&self.inside, name).ok_or_else(|| ExecError::ShellNotFound {
                    shell: name.to_owned(),
                })
            }
        }
    }

    /// Settles a program from an argument vector.
    pub(crate) fn program(
        &self,
        argv: &[String],
        account: &Account,
        cwd: Option<&str>,
        env: &Env,
        limits: Option<&Limits>,
    ) -> Result<Program, ExecError> {
        let variables = apply_env(self.environment(account), env)?;
        let words = argv
            .iter()
            .enumerate()
            .map(|(i, word)| {
                CString::new(word.as_str()).map_err(|_| {
                    ExecError::invalid(&format!("/argv/{i}"), "an argument contains a NUL byte")
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let name = argv
            .first()
            .filter(|name| !name.is_empty())
            .ok_or_else(|| {
                ExecError::invalid("/argv", "argv needs at least the name of a program")
            })?;
        let path = variables.get("PATH").map_or("", String::as_str);
        Ok(Program {
            name: name.clone(),
            paths: candidates(name, path),
            argv: words,
            env: encode_env(&variables)?,
            cwd: self.cwd(cwd)?,
            identity: account.identity(),
            rlimits: rlimits(limits),
            files: Vec::new(),
            fence: None,
            private: false,
        })
    }

    /// Settles the program that runs a shell text.
    pub(crate) fn command(&self, text: &str, spec: &ProcessRequest) -> Result<Program, ExecError> {
        // Of the kernel's, for one argument with its end (MAX_ARG_STRLEN).
        let most = 32 * procfs::page_size();
        if text.len() as u64 >= most {
            let detail = format!(
                "the text has {} bytes, and a shell takes less than {most} as an argument",
                text.len()
            );
            return Err(ExecError::Invalid {
                pointer: "/command".to_owned(),
                detail,
                hint: Some("write it to a file and run that, or run it in a session".to_owned()),
            });
        }
        let account = self.account(spec.user.as_deref())?;
        let shell = self.shell(spec.shell.as_deref())?;
        let name = shell.file_name().map_or_else(
            || "sh".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        );
        // `--` keeps a text that starts with a dash from being taken for an option.
        let argv = [name, "-c".to_owned(), "--".to_owned(), text.to_owned()];
        let (cwd, limits) = (spec.cwd.as_deref(), spec.limits.as_ref());
        let mut program = self.program(&argv, &account, cwd, &spec.env, limits)?;
        program.name = shell.to_string_lossy().into_owned();
        program.paths = CString::new(shell.as_os_str().as_encoded_bytes())
            .into_iter()
            .collect();
        Ok(program)
    }

    /// Starts a program with these descriptors: (ours, number there).
    pub(crate) async fn start(
        &self,
        program: &Program,
        fds: &[(BorrowedFd<'_>, i32)],
    ) -> Result<Running, ExecError> {
        let place = match &program.fence {
            None => self.nursery.place(),
            Some(fence) => self.nursery.place_in(fence),
        };
        self.start_in(place, program, fds, false).await
    }

    /// Starts a program whose descriptors 0, 1 and 2 are this terminal, which it controls.
    pub(crate) async fn start_on_terminal(
        &self,
        program: &Program,
        slave: BorrowedFd<'_>,
    ) -> Result<Running, ExecError> {
        let place = self.nursery.place();
        let fds = [(slave, 0), (slave, 1), (slave, 2)];
        self.start_in(place, program, &fds, true).await
    }

    /// The same in a tree whose figures begin at zero.
    pub(crate) async fn start_measured(
        &self,
        program: &Program,
        fds: &[(BorrowedFd<'_>, i32)],
    ) -> Result<Running, ExecError> {
        let place = match &program.fence {
            None => self.nursery.fresh_place(),
            Some(fence) => self.nursery.place_in(fence),
        };
        self.start_in(place, program, fds, false).await
    }

    async fn start_in(
        &self,
        place: Result<Place, Errno>,
        program: &Program,
        fds: &[(BorrowedFd<'_>, i32)],
        controlling_terminal: bool,
    ) -> Result<Running, ExecError> {
        let files = program
            .files
            .iter()
            .map(|(file, number)| (file.as_fd(), *number));
        let fds: Vec<(BorrowedFd<'_>, i32)> = fds.iter().copied().chain(files).collect();
        let place = place.map_err(|e| ExecError::system("cannot make a group", e))?;
        let request = SpawnRequest {
            id: 0,
            programs: program.paths.clone(),
            argv: program.argv.clone(),
            env: program.env.clone(),
            cwd: CString::new(program.cwd.as_str())
                .map_err(|_| ExecError::invalid("/cwd", "a directory has no NUL bytes"))?,
            identity: program.identity.clone(),
            rlimits: program.rlimits.clone(),
            fd_numbers: fds.iter().map(|(_, number)| *number).collect(),
            joins: program.fence.iter().flat_map(|f| f.joins()).count() as u32,
            flags: SpawnFlags {
                controlling_terminal,
                private: program.private,
                ..place.flags()
            },
        };
        let mut passed: Vec<BorrowedFd<'_>> = fds.iter().map(|(fd, _)| *fd).collect();
        passed.extend(program.fence.iter().flat_map(|fence| fence.joins()));
        passed.extend(place.dir());
        let spawner = if program.private {
            self.wardens.spawner().await?
        } else {
            &self.spawner
        };
        let started = match place.attend(spawner.spawn(request, &passed)).await {
            Ok(started) => started,
            Err(Refused { stage, errno }) => {
                return Err(ExecError::from_spawn(
                    stage,
                    errno,
                    &program.name,
                    &program.cwd,
                ));
            }
        };
        Ok(Running {
            pid: started.pid,
            live: Arc::new(Live {
                pidfd: started.pidfd,
                tree: place.settle(started.keeper, program.private),
                fence: program.fence.clone(),
            }),
            exit: started.exit,
        })
    }

    /// `/dev/null`, for whoever has no stdin.
    pub(crate) fn null(&self) -> BorrowedFd<'_> {
        self.null.as_fd()
    }
}

/// A pipe whose reading end, ours, does not block.
pub(crate) fn output_pipe() -> Result<(OwnedFd, OwnedFd), ExecError> {
    let made = pipe_with(PipeFlags::CLOEXEC)
        .and_then(|(read, write)| rustix::io::ioctl_fionbio(&read, true).map(|()| (read, write)));
    made.map_err(|e| ExecError::system("cannot make a pipe", e))
}

/// A pipe whose writing end, ours, does not block.
pub(crate) fn input_pipe() -> Result<(OwnedFd, OwnedFd), ExecError> {
    let made = pipe_with(PipeFlags::CLOEXEC)
        .and_then(|(read, write)| rustix::io::ioctl_fionbio(&write, true).map(|()| (read, write)));
    made.map_err(|e| ExecError::system("cannot make a pipe", e))
}

/// Applies a call's changes to an environment.
pub(crate) fn apply_env(
    mut variables: BTreeMap<String, String>,
    changes: &Env,
) -> Result<BTreeMap<String, String>, ExecError> {
    for (name, value) in changes {
        check_variable(name, value.as_deref())?;
        match value {
            Some(value) => {
                variables.insert(name.clone(), value.clone());
            }
            None => {
                variables.remove(name);
            }
        }
    }
    Ok(variables)
}

/// Refuses what no environment can hold.
pub(crate) fn check_variable(name: &str, value: Option<&str>) -> Result<(), ExecError> {
    let escaped = name.replace('~', "~0").replace('/', "~1");
    let pointer = format!("/env/{escaped}");
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(ExecError::invalid(
            &pointer,
            "the name of a variable is not empty and has neither '=' nor NUL",
        ));
    }
    if value.is_some_and(|v| v.contains('\0')) {
        return Err(ExecError::invalid(
            &pointer,
            "the value of a variable has no NUL byte",
        ));
    }
    Ok(())
}

fn encode_env(variables: &BTreeMap<String, String>) -> Result<Vec<CString>, ExecError> {
    variables
        .iter()
        .map(|(name, value)| {
            CString::new(format!("{name}={value}"))
                .map_err(|_| ExecError::invalid("/env", "a variable contains a NUL byte"))
        })
        .collect()
}

fn rlimits(limits: Option<&Limits>) -> Vec<Rlimit> {
    let Some(limits) = limits else {
        return Vec::new();
    };
    [
        (RLIMIT_NOFILE, limits.open_files),
        (RLIMIT_FSIZE, limits.file_bytes),
        (RLIMIT_CPU, limits.cpu_seconds),
    ]
    .into_iter()
    .filter_map(|(resource, value)| {
        Some(Rlimit {
            resource,
            value: value?,
        })
    })
    .collect()
}

/// Sets limits that each process has for itself, on all that live in these trees. A process can only
/// be given less than it has.
pub(crate) fn change_rlimits(limits: &Limits, trees: &[Arc<Live>]) -> Result<(), ExecError> {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let changes = [
        ("open_files", Resource::Nofile, limits.open_files),
        ("file_bytes", Resource::Fsize, limits.file_bytes),
        ("cpu_seconds", Resource::Cpu, limits.cpu_seconds),
    ];
    // Twice, for what was born while the others were told.
    for _ in 0..2 {
        for (name, resource, value) in changes {
            let Some(value) = value else { continue };
            let limit = Rlimit {
                current: Some(value),
                maximum: Some(value),
            };
            for live in trees {
                let alive = live.tree.alive();
                for pid in
                    alive.map_err(|errno| ExecError::system("cannot see what runs", errno))?
                {
                    match prlimit(Pid::from_raw(pid), resource, limit) {
                        Ok(_) | Err(Errno::SRCH) => {}
                        Err(errno) => {
                            return Err(ExecError::LimitUnavailable {
                                pointer: format!("/limits/{name}"),
                                detail: format!(
                                    "{name} of what runs cannot be set to {value}: {errno}"
                                ),
                            });
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// Where a program named so may be, as `execvp` would look for it.
fn candidates(name: &str, path: &str) -> Vec<CString> {
    if name.contains('/') {
        return CString::new(name).into_iter().collect();
    }
    path.split(':')
        .map(|dir| if dir.is_empty() { "." } else { dir })
        .filter_map(|dir| CString::new(format!("{dir}/{name}")).ok())
        .collect()
}

/// A program of the sandbox by name or path.
pub(crate) fn find_program(inside: &Inside, name: &str) -> Option<PathBuf> {
    let executable = |path: &Path| inside.own_root().is_program(path);
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|p| executable(p));
    }
    ["/usr/local/bin", "/usr/bin", "/bin"]
        .iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|p| executable(p))
}

/// Opens /dev/null.
pub(crate) fn open_null() -> Result<OwnedFd, Errno> {
    rustix::fs::open(
        "/dev/null",
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
}
