//! One isolated sandbox for as long as this process lives, without a hub: for `run` and `doctor`.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use sandshell_agent::Settings;
use sandshell_client::types::{Cpus, Protection};
use sandshell_isolate::host_root;
use sandshell_isolate::launcher::{Launcher, read_outcome};
use sandshell_isolate::limits::SandboxLimits;
use sandshell_isolate::plan::{Ids, SandboxPlan};
use sandshell_isolate::stage::Outcome;

use crate::failure::Failure;

/// Ids of the host that sandboxes of one process take, far above those of people. Two at once may share
/// them: they share nothing else.
const FIRST_ID: u32 = 0x7000_0000;

/// Bytes and files that can be written.
const SIZE: u64 = 1024 * 1024 * 1024;
const INODES: u64 = 200_000;
const PIDS: u64 = 1024;
const MEMORY: u64 = 2 * SIZE;

/// Makes the sandbox in a directory of its own, and tells how well it is isolated. The launcher ends it
/// with this process, and removes the directory.
pub(crate) fn launch(
    launcher: &Launcher,
    directory: PathBuf,
    settings: Settings,
) -> Result<Vec<Protection>, Failure> {
    let ids = if rustix::process::geteuid().is_root() {
        Ids::Range(FIRST_ID)
    } else {
        Ids::Own
    };
    let etc = directory.join("etc");
    host_root::make_etc(&etc).map_err(|error| Failure::ours(&error))?;
    let plan = SandboxPlan {
        root: host_root::plan(&etc, ids, SIZE, INODES),
        ids,
        hostname: "sandbox".to_owned(),
        group: format!("sandshell-run-{}", rustix::process::getpid().as_raw_pid()),
        limits: SandboxLimits {
            memory_bytes: Some(MEMORY),
            cpus: all_processors(),
            pids: Some(PIDS),
        },
        open_files: None,
        one_shot: true,
        agent: serde_json::to_value(settings).map_err(|error| Failure::ours(&error))?,
        directory,
    };
    let launched = launcher
        .launch(&plan)
        .map_err(|error| Failure::ours(&error))?;
    match read_outcome(launched.report).map_err(|error| Failure::ours(&error))? {
        Outcome::Ready(protections) => Ok(protections),
        Outcome::Failed(step) => Err(Failure::ours(&step)),
    }
}

/// A directory of this process alone, removed by the launcher.
pub(crate) fn own_directory() -> std::io::Result<PathBuf> {
    let parent = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let pid = rustix::process::getpid().as_raw_pid();
    let path = parent.join(format!("sandshell-run-{pid}"));
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}

fn all_processors() -> Option<Cpus> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Cpus::new(f64::from(u32::try_from(processors).unwrap_or(u32::MAX)))
}
