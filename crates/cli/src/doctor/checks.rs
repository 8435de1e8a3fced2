//! The checks: each looks at one thing and makes one row.
//!
//! `fail` is for what makes sandboxes impossible or unsafe, `warn` for what makes them weaker.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use rustix::process::{Resource, getrlimit};
use sandshell_agent::Listen;
use sandshell_client::{Client, ClientError, SandboxFilter};
use sandshell_sys::cgroup::{Controller, Facts, Version, locate, locate_unified};
use sandshell_sys::landlock;

use super::host::{bytes, existing, kernel, number, program};
use super::report::{Check, Status};
use crate::agent::default_state_dir;
use crate::arguments::DoctorArguments;
use crate::config::{Origin, Settings};
use crate::connection::Remote;
use crate::listener::Listener;

/// The first kernel with all calls that the root of a sandbox is made with (`mount_setattr`).
const OLDEST_KERNEL: (u32, u32) = (5, 12);

/// Below this much disk or inodes a sandbox soon meets the end.
const LITTLE_DISK: u64 = 1 << 30;
const NO_DISK: u64 = 64 << 20;
const FEW_INODES: u64 = 20_000;

/// A hub takes two for each stream.
const FEW_FILES: u64 = 4096;

/// What a watch over a larger project takes.
const FEW_WATCHES: u64 = 65_536;
const FEW_INSTANCES: u64 = 128;

/// All of them, in the order in which they build on each other.
pub(super) fn all(arguments: &DoctorArguments) -> Vec<Check> {
    let state_dir = arguments
        .state_dir
        .clone()
        .unwrap_or_else(|| default_state_dir("hub"));
    let token_file = arguments
        .token_file
        .clone()
        .unwrap_or_else(|| state_dir.join("token"));
    let (address, hub) = address(&arguments.listen);
    let in_use = hub_in_use();
    let has_token = in_use.as_ref().is_some_and(|hub| hub.status == Status::Ok);
    let mut checks = vec![
        kernel_version(),
        user_namespaces(),
        control_groups(),
        landlock_abi(),
        seccomp(),
        overlayfs(),
        inotify(),
        open_files(),
        disk(&state_dir),
        inodes(&state_dir),
        clock(),
        address,
        token(&token_file, hub && !has_token),
    ];
    checks.extend(in_use);
    checks.extend(TOOLS.iter().map(tool));
    checks
}

/// Whether there is all that a sandbox's protections are made of, by the cheap of the checks.
pub(super) fn nothing_is_missing() -> bool {
    rustix::process::geteuid().is_root()
        && [
            kernel_version(),
            control_groups(),
            landlock_abi(),
            seccomp(),
        ]
        .iter()
        .all(|check| check.status == Status::Ok)
}

fn kernel_version() -> Check {
    const NAME: &str = "kernel";
    let (release, version) = kernel();
    let (major, minor) = OLDEST_KERNEL;
    match version {
        Some(version) if version >= OLDEST_KERNEL => Check::ok(NAME, release),
        Some(_) => Check::fail(
            NAME,
            release,
            format!("install Linux {major}.{minor} or later"),
        ),
        None => Check::warn(
            NAME,
            release,
            format!("see that it is Linux {major}.{minor} or later"),
        ),
    }
}

/// Whether this user may make namespaces, by all the switches that are known.
fn user_namespaces() -> Check {
    const NAME: &str = "user-namespaces";
    let most = number("/proc/sys/user/max_user_namespaces");
    let allowed = number("/proc/sys/kernel/unprivileged_userns_clone");
    let restricted = number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    let root = rustix::process::geteuid().is_root();
    match (most, allowed, restricted) {
        (None, ..) => Check::fail(
            NAME,
            "the kernel has none",
            "use a kernel with CONFIG_USER_NS, or run `sandshell agent` in a container",
        ),
        (Some(0), ..) => Check::fail(
            NAME,
            "user.max_user_namespaces is 0",
            "sysctl -w user.max_user_namespaces=15000",
        ),
        (_, Some(0), _) if !root => Check::fail(
            NAME,
            "kernel.unprivileged_userns_clone is 0",
            "sysctl -w kernel.unprivileged_userns_clone=1, or run as root",
        ),
        (_, _, Some(1..)) if !root => Check::fail(
            NAME,
            "AppArmor keeps them from programs it does not know",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, give sandshell a profile \
             with `userns`, or run as root",
        ),
        (Some(most), ..) => match try_user_namespace() {
            Some(0) => Check::ok(NAME, format!("allowed, {most} at most")),
            refused => {
                let error = refused.map_or_else(
                    || "a program that asks for one cannot be run".to_owned(),
                    |code| std::io::Error::from_raw_os_error(code).to_string(),
                );
                Check::fail(
                    NAME,
                    format!("none can be made: {error}"),
                    "a filter, a container engine or a limit further out refuses: allow them there, or \
                     run `sandshell agent` in the container",
                )
            }
        },
    }
}

/// Makes a user namespace, in a process of its own; the error of that, 0 for none.
fn try_user_namespace() -> Option<i32> {
    let program = std::env::current_exe().ok()?;
    let tried = Command::new(program)
        .args(["doctor", "--take-user-namespace"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.ok()?.code()
}

/// The other half of it: numbers of errors fit into an exit code.
pub(super) fn take_user_namespace() -> u8 {
    match sandshell_sys::namespace::unshare_user() {
        Ok(()) => 0,
        Err(error) => u8::try_from(error.raw_os_error()).unwrap_or(u8::MAX),
    }
}

/// Which controllers there are, of which version, and whether we may make groups below ours.
fn control_groups() -> Check {
    const NAME: &str = "control-groups";
    const REMEDY: &str = "run as root, or as a unit with Delegate=yes: systemd-run --user --scope -p \
                          Delegate=yes sandshell serve";
    let facts = match Facts::read() {
        Ok(facts) => facts,
        Err(error) => return Check::warn(NAME, error, "mount /proc"),
    };
    let mut found = Vec::new();
    let mut lacking = Vec::new();
    let mut versions = Vec::new();
    for controller in [Controller::Cpu, Controller::Memory, Controller::Pids] {
        match locate(controller, &facts) {
            Ok(located) if writable(&located.path) => {
                versions.push(located.version);
                found.push(controller.name());
            }
            Ok(located) => {
                versions.push(located.version);
                lacking.push(format!("{} (not delegated)", controller.name()));
            }
            Err(_) => lacking.push(format!("{} (not there)", controller.name())),
        }
    }
    let unified = locate_unified(&facts).is_ok();
    let form = match (versions.contains(&Version::V1), unified) {
        (true, true) => "hybrid",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => "none",
    };
    if lacking.is_empty() {
        return Check::ok(NAME, format!("{form}: {}", found.join(", ")));
    }
    let found = if found.is_empty() {
        "none of the controllers".to_owned()
    } else {
        found.join(", ")
    };
    let value = format!("{form}: {found}; without {}", lacking.join(", "));
    Check::warn(NAME, value, REMEDY)
}

fn writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

fn landlock_abi() -> Check {
    const NAME: &str = "landlock";
    // The first version that also keeps signals and abstract sockets inside.
    const SCOPES: u32 = 6;
    match landlock::abi() {
        Ok(abi) if abi >= SCOPES => Check::ok(NAME, format!("version {abi}")),
        Ok(abi) => Check::warn(
            NAME,
            format!("version {abi}, without scopes"),
            "Linux 6.12 or later keeps abstract sockets inside as well",
        ),
        Err(error) => Check::warn(
            NAME,
            format!("not there: {error}"),
            "boot with `lsm=landlock,…` on Linux 5.13 or later",
        ),
    }
}

fn seccomp() -> Check {
    const NAME: &str = "seccomp";
    match fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) if actions.contains("errno") => Check::ok(NAME, actions.trim()),
        Ok(actions) => Check::fail(
            NAME,
            actions.trim(),
            "use a kernel with CONFIG_SECCOMP_FILTER",
        ),
        Err(error) => Check::warn(
            NAME,
            format!("unknown: {error}"),
            "see that the kernel has CONFIG_SECCOMP_FILTER",
        ),
    }
}

fn overlayfs() -> Check {
    const NAME: &str = "overlayfs";
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known
        .lines()
        .any(|line| line.trim_end().ends_with("\toverlay"))
    {
        Check::ok(NAME, "known to the kernel")
    } else {
        Check::warn(NAME, "not known to the kernel", "modprobe overlay")
    }
}

fn inotify() -> Check {
    const NAME: &str = "inotify";
    let watches = number("/proc/sys/fs/inotify/max_user_watches").unwrap_or(0);
    let instances = number("/proc/sys/fs/inotify/max_user_instances").unwrap_or(0);
    let value = format!("{watches} watches, {instances} instances");
    if watches < FEW_WATCHES {
        Check::warn(NAME, value, "sysctl -w fs.inotify.max_user_watches=524288")
    } else if instances < FEW_INSTANCES {
        Check::warn(NAME, value, "sysctl -w fs.inotify.max_user_instances=1024")
    } else {
        Check::ok(NAME, value)
    }
}

fn open_files() -> Check {
    const NAME: &str = "open-files";
    match getrlimit(Resource::Nofile).maximum {
        None => Check::ok(NAME, "no limit"),
        Some(most) if most >= FEW_FILES => Check::ok(NAME, format!("{most} at most")),
        Some(most) => Check::warn(
            NAME,
            format!("{most} at most"),
            "raise the hard limit: ulimit -Hn 65536, or LimitNOFILE= of the unit",
        ),
    }
}

fn disk(state_dir: &Path) -> Check {
    const NAME: &str = "disk";
    const REMEDY: &str = "free some space, or choose another directory with --state-dir";
    let place = existing(state_dir);
    match rustix::fs::statvfs(place) {
        Err(error) => Check::fail(NAME, format!("{}: {error}", place.display()), REMEDY),
        Ok(figures) => {
            let free = figures.f_bavail.saturating_mul(figures.f_frsize);
            let value = format!("{} free in {}", bytes(free), place.display());
            match free {
                LITTLE_DISK.. => Check::ok(NAME, value),
                NO_DISK.. => Check::warn(NAME, value, REMEDY),
                _ => Check::fail(NAME, value, REMEDY),
            }
        }
    }
}

fn inodes(state_dir: &Path) -> Check {
    const NAME: &str = "inodes";
    let place = existing(state_dir);
    match rustix::fs::statvfs(place) {
        Err(error) => Check::fail(NAME, error.to_string(), "choose another --state-dir"),
        // Some file systems make them as they are needed.
        Ok(figures) if figures.f_files == 0 => Check::ok(NAME, "no limit"),
        Ok(figures) => {
            let value = format!("{} free in {}", figures.f_favail, place.display());
            if figures.f_favail >= FEW_INODES {
                Check::ok(NAME, value)
            } else {
                Check::warn(
                    NAME,
                    value,
                    "remove small files, or choose another --state-dir",
                )
            }
        }
    }
}

/// A clock that is behind this very program is wrong; tokens and previews end by it.
fn clock() -> Check {
    const NAME: &str = "clock";
    let now = sandshell_client::types::Timestamp::now().to_string();
    let own = std::env::current_exe().and_then(|path| path.metadata()?.modified());
    match own {
        Ok(built) if built > SystemTime::now() => Check::warn(
            NAME,
            format!("{now}, before this program was made"),
            "set it: timedatectl set-ntp true",
        ),
        _ => Check::ok(NAME, now),
    }
}

/// The address to serve at, and whether a hub of ours is served there already.
fn address(listen: &Listen) -> (Check, bool) {
    const NAME: &str = "address";
    let Listen::Tcp(address) = listen else {
        let check = Check::ok(NAME, format!("{listen}, a socket of its own"));
        return (check, false);
    };
    let Some(listener) = Listener::at(*address) else {
        return (Check::ok(NAME, format!("{address} is free")), false);
    };
    let owner = match listener.process() {
        Some((pid, name)) => format!("{name} (pid {pid})"),
        None => format!("a program of uid {}", listener.uid),
    };
    if listener.is_trusted() && is_hub(*address) {
        let check = Check::ok(NAME, format!("{address} has a hub: {owner}"));
        return (check, true);
    }
    let check = Check::warn(
        NAME,
        format!("{address} is taken by {owner}"),
        "serve on another one: sandshell serve --listen 127.0.0.1:0",
    );
    (check, false)
}

/// The hub that other commands would ask, where one was chosen: whether it answers, and takes the token.
fn hub_in_use() -> Option<Check> {
    const NAME: &str = "hub";
    let settings = match Settings::read(&Remote::default()) {
        Ok(settings) if settings.url.origin == Origin::Default => return None,
        Ok(settings) => settings,
        Err(failure) => {
            let remedy = "`sandshell config show` tells where each setting comes from";
            return Some(Check::warn(NAME, failure.line(), remedy));
        }
    };
    let url = format!("{} ({})", settings.url.value, settings.url.origin);
    let token = match settings.read_token() {
        Ok(token) => token,
        Err(failure) => {
            let remedy =
                "set SANDSHELL_TOKEN_FILE to the file that `sandshell serve` named at its start";
            return Some(Check::warn(
                NAME,
                format!("{url}: {}", failure.line()),
                remedy,
            ));
        }
    };
    let client = Client::new(&settings.url.value, token.as_deref()).ok()?;
    let answer = within_patience(async { client.sandboxes(&SandboxFilter::default()).await })?;
    Some(match answer {
        Ok(Ok(_)) => Check::ok(NAME, format!("{url} answers and takes the token")),
        Ok(Err(ClientError::Problem(problem))) => Check::warn(
            NAME,
            format!("{url} answers: {}", problem.detail),
            "`sandshell login < FILE` keeps a token, SANDSHELL_TOKEN_FILE=FILE names one",
        ),
        _ => Check::warn(
            NAME,
            format!("{url} does not answer"),
            "start it with `sandshell serve`, or choose another: SANDSHELL_URL=URL",
        ),
    })
}

/// What is answered within two seconds; nothing where there is no runtime.
fn within_patience<T>(
    asked: impl Future<Output = T>,
) -> Option<Result<T, tokio::time::error::Elapsed>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let patience = std::time::Duration::from_secs(2);
    Some(runtime.block_on(async { tokio::time::timeout(patience, asked).await }))
}

/// Whether what listens there answers as a hub does. No token is shown to it.
fn is_hub(address: SocketAddr) -> bool {
    let Ok(client) = Client::new(&format!("http://{address}"), None) else {
        return false;
    };
    let answer = within_patience(async { client.version().await });
    matches!(answer, Some(Ok(Ok(_))))
}

/// Whether others can read the admin's token, which is never shown, and whether it is there for a hub of which no other
/// is known.
fn token(file: &Path, wanted: bool) -> Check {
    const NAME: &str = "token-file";
    let shown = file.display();
    let metadata = match fs::metadata(file) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && wanted => {
            let value = format!("{shown} is not there, so the hub that is served has another");
            let remedy =
                "set SANDSHELL_TOKEN_FILE to the file that `sandshell serve` named at its start";
            return Check::warn(NAME, value, remedy);
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Check::ok(NAME, format!("{shown} is made by `sandshell serve`"));
        }
        Err(error) => {
            let remedy = "see that its directory is yours";
            return Check::warn(NAME, format!("{shown}: {error}"), remedy);
        }
    };
    let mode = metadata.mode() & 0o7777;
    let us = rustix::process::geteuid().as_raw();
    let value = format!("{shown} has mode {mode:04o}");
    if mode & 0o077 != 0 {
        return Check::fail(NAME, value, format!("chmod 600 {shown}"));
    }
    if metadata.uid() != us {
        let value = format!("{value} and belongs to uid {}", metadata.uid());
        return Check::warn(NAME, value, "choose a file of your own with --token-file");
    }
    Check::ok(NAME, value)
}

/// A program that commands may want, and what is missing without it.
struct Wanted {
    check: &'static str,
    program: &'static str,
    package: &'static str,
    without: &'static str,
}

const TOOLS: &[Wanted] = &[
    Wanted {
        check: "bash",
        program: "bash",
        package: "bash",
        without: "sessions use sh and keep less of their state",
    },
    Wanted {
        check: "git",
        program: "git",
        package: "git",
        without: "the git calls do not work",
    },
    Wanted {
        check: "tar",
        program: "tar",
        package: "tar",
        without: "commands cannot unpack archives",
    },
    Wanted {
        check: "python3",
        program: "python3",
        package: "python3",
        without: "there are no Python contexts",
    },
    Wanted {
        check: "node",
        program: "node",
        package: "nodejs",
        without: "there are no JavaScript and TypeScript contexts",
    },
];

fn tool(wanted: &Wanted) -> Check {
    let found: Option<PathBuf> = program(wanted.program);
    match found {
        Some(path) => Check::ok(wanted.check, path.display().to_string()),
        None => Check::warn(
            wanted.check,
            format!("not found: {}", wanted.without),
            format!("apt-get install {}", wanted.package),
        ),
    }
}
