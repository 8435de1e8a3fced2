//! The checks, one for each layer that can be judged from inside.
//!
//! Each is cheap, changes nothing where the layer holds, and undoes what it did where it does not.
//! A reason says what was seen, and what a person can do about it.

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, mknodat, unlinkat};
use rustix::io::Errno;
use sandshell_sys::attempt::Attempt;
use sandshell_sys::rights::Rights;
use sandshell_sys::spawn::Identity;
use sandshell_types::{Layer, Protection, ProtectionStatus};

use super::status::{Namespaces, Status, root_directory};
use super::{Bait, Outside, off, unix_socket};
use crate::harden::COMMAND_ROOT;

/// The layers that are judged here, in the order of the report.
pub const JUDGED: &[Layer] = &[
    Layer::UidSeparation,
    Layer::CapabilityDrop,
    Layer::NoNewPrivs,
    Layer::PidNs,
    Layer::MountNs,
    Layer::NetNs,
    Layer::IpcNs,
    Layer::UtsNs,
    Layer::CgroupNs,
    Layer::PivotRoot,
    Layer::LandlockFs,
    Layer::LandlockScope,
    Layer::Seccomp,
];

/// Directories that every user may write to, one of which there should be.
const WRITABLE: &[&str] = &["/tmp", "/dev/shm", "/var/tmp"];

/// `Ok` when the layer holds.
type Verdict = Result<(), (ProtectionStatus, String)>;

/// All checks, in a process that was forked for them.
pub(super) fn all(
    outside: &Outside,
    bait: &Bait,
    identity: Option<&Identity>,
    rights: &Rights<'_>,
) -> Vec<Protection> {
    let facts = match Facts::gather(outside, identity, rights) {
        Ok(facts) => facts,
        Err((step, errno)) => {
            let reason = format!("the probe could not {step}: {errno}");
            return JUDGED
                .iter()
                .map(|layer| off(*layer, reason.clone()))
                .collect();
        }
    };
    JUDGED
        .iter()
        .map(|&layer| match facts.judge(layer, bait) {
            Ok(()) => Protection {
                name: layer,
                status: ProtectionStatus::Enforced,
                reason: None,
            },
            Err((status, reason)) => Protection {
                name: layer,
                status,
                reason: Some(reason),
            },
        })
        .collect()
}

fn holds_not(reason: impl Into<String>) -> Verdict {
    Err((ProtectionStatus::Off, reason.into()))
}

fn holds_partly(reason: impl Into<String>) -> Verdict {
    Err((ProtectionStatus::Partial, reason.into()))
}

/// What several checks look at.
struct Facts<'a> {
    outside: &'a Outside,
    own: Namespaces,
    status: Status,
    /// Whether commands are root where the agent is.
    root: bool,
    /// Before this process took up a program's rights. Its bounding set is that of a program of root.
    init: Status,
}

impl<'a> Facts<'a> {
    fn gather(
        outside: &'a Outside,
        identity: Option<&Identity>,
        rights: &Rights<'_>,
    ) -> Result<Self, (&'static str, Errno)> {
        let asking = |errno| ("ask for its own rights", errno);
        let init = Status::own().map_err(asking)?;
        rights
            .take_up(identity)
            .map_err(|errno| ("take up a program's rights", errno))?;
        let own = Namespaces::own().map_err(|errno| ("read /proc/self/ns", errno))?;
        Ok(Self {
            outside,
            root: rustix::process::geteuid().is_root() && own.user == outside.namespaces.user,
            own,
            status: Status::own().map_err(asking)?,
            init,
        })
    }

    fn judge(&self, layer: Layer, bait: &Bait) -> Verdict {
        let (own, outside) = (&self.own, &self.outside.namespaces);
        match layer {
            Layer::UidSeparation => self.uid_separation(),
            Layer::CapabilityDrop => self.capability_drop(),
            Layer::NoNewPrivs if self.status.no_new_privs => Ok(()),
            Layer::NoNewPrivs => holds_not("a program can gain rights by executing another"),
            Layer::PidNs => pid_namespace(own, outside),
            Layer::MountNs => apart(own.mount, outside.mount, "mounts"),
            Layer::NetNs => apart(own.net, outside.net, "network"),
            Layer::IpcNs => apart(own.ipc, outside.ipc, "System V objects and message queues"),
            Layer::UtsNs => apart(own.uts, outside.uts, "host name"),
            Layer::CgroupNs => apart(own.cgroup, outside.cgroup, "control groups"),
            Layer::PivotRoot => match root_directory() {
                Ok(root) if root != self.outside.root => Ok(()),
                Ok(_) => holds_not("the root directory is the one outside"),
                Err(errno) => holds_not(format!("the root directory cannot be looked at: {errno}")),
            },
            Layer::LandlockFs => landlock_files(),
            Layer::LandlockScope => landlock_scope(bait),
            Layer::Seccomp => self.seccomp(),
            other => holds_not(format!("{} cannot be judged from inside", other.name())),
        }
    }

    fn has_user_namespace(&self) -> bool {
        self.own.user != self.outside.namespaces.user
    }

    /// A process may signal those of its own user; init has the agent's.
    fn uid_separation(&self) -> Verdict {
        match Attempt::SignalParent.make() {
            Err(Errno::PERM) => Ok(()),
            _ if self.has_user_namespace() => holds_partly(
                "commands have the agent's own user id, because only one is mapped; run as root to \
                 give each sandbox ids of its own",
            ),
            _ if self.root => holds_not(
                "commands run as root, as the agent does, and can change its files; give them a user \
                 of their own with --user",
            ),
            _ => holds_not(
                "commands run as the agent's own user; start it as root, and give them another with \
                 --user",
            ),
        }
    }

    fn capability_drop(&self) -> Verdict {
        let (status, init) = (&self.status, &self.init);
        if self.root && status.capabilities.without(COMMAND_ROOT).is_empty() {
            return holds_partly(
                "commands run as root and hold its few capabilities over the agent's own user \
                 namespace; give them a user of their own with --user",
            );
        }
        if !status.capabilities.is_empty() {
            let held = status.capabilities.0;
            return holds_not(format!("an ordinary program holds capabilities {held:#x}"));
        }
        if !init.bounding.without(COMMAND_ROOT).is_empty() && !init.no_new_privs {
            let bounding = init.bounding.0;
            return holds_not(format!(
                "a program of root could hold capabilities {bounding:#x}"
            ));
        }
        if !init.capabilities.is_empty() && !self.has_user_namespace() {
            return holds_partly(
                "a program of root holds its few capabilities over the agent's own user namespace; \
                 run commands as an ordinary user",
            );
        }
        Ok(())
    }

    fn seccomp(&self) -> Verdict {
        // One call of each kind of rule. The last one cannot be undone.
        let doors = [
            (Attempt::Clone3, Errno::NOSYS, "clone3"),
            (
                Attempt::TerminalInjection,
                Errno::PERM,
                "typing into terminals",
            ),
            (Attempt::Keyring, Errno::PERM, "keyrings"),
            (Attempt::Ring, Errno::PERM, "io_uring"),
            (Attempt::Vsock, Errno::AFNOSUPPORT, "vsock"),
            (Attempt::UserNamespace, Errno::PERM, "new user namespaces"),
        ];
        let open: Vec<&str> = doors
            .into_iter()
            .filter(|(door, wanted, _)| door.make() != Err(*wanted))
            .map(|(_, _, name)| name)
            .collect();
        if open.is_empty() {
            Ok(())
        } else {
            let open = open.join(", ");
            holds_not(format!(
                "not refused: {open}; the kernel needs CONFIG_SECCOMP_FILTER"
            ))
        }
    }
}

fn apart(own: u64, outside: u64, what: &str) -> Verdict {
    if own == outside {
        holds_not(format!("shared with the outside: {what}"))
    } else {
        Ok(())
    }
}

/// Only init and this process run by now. What else there is, is somebody else's.
fn pid_namespace(own: &Namespaces, outside: &Namespaces) -> Verdict {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return holds_not("/proc cannot be listed");
    };
    let me = rustix::process::getpid().as_raw_pid();
    let stranger = entries.flatten().find_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        (pid != 1 && pid != me).then_some(pid)
    });
    match stranger {
        _ if own.pid == outside.pid => {
            holds_not("processes outside the sandbox are seen; only their user ids keep them apart")
        }
        Some(_) => holds_not("/proc shows the processes of another PID namespace"),
        None => Ok(()),
    }
}

/// Making a device of number 0 needs no capability, so that only Landlock can refuse it where the
/// directory may be written to.
fn landlock_files() -> Verdict {
    let writable = |dir: &&&str| {
        rustix::fs::accessat(
            CWD,
            **dir,
            Access::WRITE_OK | Access::EXEC_OK,
            AtFlags::EACCESS,
        )
        .is_ok()
    };
    let Some(dir) = WRITABLE.iter().find(writable) else {
        return holds_partly("it could not be tried: no directory is writable to everybody");
    };
    let path = format!(
        "{dir}/.sandshell-probe-{}",
        rustix::process::getpid().as_raw_pid()
    );
    match mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), 0) {
        Err(Errno::ACCESS) => Ok(()),
        Ok(()) => {
            let _ = unlinkat(CWD, &path, AtFlags::empty());
            holds_not(
                "devices can be made; the kernel needs Landlock (CONFIG_SECURITY_LANDLOCK, and lsm=landlock)",
            )
        }
        Err(errno) => holds_partly(format!("it could not be tried in {dir}: {errno}")),
    }
}

fn landlock_scope(bait: &Bait) -> Verdict {
    let tried = unix_socket().and_then(|socket| rustix::net::connect(&socket, &bait.address));
    match tried {
        Err(Errno::PERM) => Ok(()),
        Ok(()) => holds_not(
            "abstract sockets and signals are not confined; the kernel needs Landlock of Linux 6.12",
        ),
        Err(errno) => holds_not(format!("it could not be tried: {errno}")),
    }
}
