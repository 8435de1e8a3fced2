//! One isolated sandbox for as long as this process lives, without a hub: for `run` and `doctor`.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use sandshell_agent::Settings;
use sandshell_client::types::Protection;
use sandshell_isolate::host_root::{self, MadeFor};
use sandshell_isolate::launcher::{Launcher, LauncherError, read_outcome};
use sandshell_isolate::limits::{SandboxLimits, USUAL_INODES};
use sandshell_isolate::plan::{Ids, RootPlan, SandboxPlan};
use sandshell_isolate::stage::{Outcome, REMEDY, Step};

use crate::failure::Failure;

/// Ids of the host that sandboxes of one process take, far above those of people. Two at once may share
/// them: they share nothing else.
const FIRST_ID: u32 = 0x7000_0000;

/// What is asked of one.
pub(crate) struct Wanted {
    pub(crate) ids: Ids,
    pub(crate) root: RootPlan,
    pub(crate) limits: SandboxLimits,
    pub(crate) settings: Settings,
}

/// The ids that a sandbox has here.
pub(crate) fn ids() -> Ids {
    if rustix::process::geteuid().is_root() {
        Ids::Range(FIRST_ID)
    } else {
        Ids::Own
    }
}

/// The root with the host's programs, and an /etc of its own in this directory.
pub(crate) fn default_root(directory: &Path, ids: Ids, disk: u64) -> Result<RootPlan, Failure> {
    let etc = directory.join("etc");
    host_root::make_etc(&etc, MadeFor::One).map_err(|error| Failure::ours(&error))?;
    Ok(host_root::plan(&etc, MadeFor::One, ids, disk, USUAL_INODES))
}

/// A directory of this process alone, removed by the launcher whatever becomes of us. The usual place for
/// it is in memory: hundreds of small files take ten times as long on a disk. An image is too large for that.
pub(crate) fn own_directory(launcher: &Launcher, large: bool) -> Result<PathBuf, Failure> {
    let named = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // Root has none of its own, as a rule.
    let in_memory = named.into_iter().chain([PathBuf::from("/dev/shm")]);
    let name = format!("sandshell-run-{}", rustix::process::getpid().as_raw_pid());
    let make = |parent: PathBuf| {
        let path = parent.join(&name);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map(|()| path)
    };
    let path = in_memory
        .filter(|_| !large)
        .find_map(|parent| make(parent).ok())
        .map_or_else(|| make(std::env::temp_dir()), Ok)
        .map_err(|error| Failure::ours(&error))?;
    let kept = launcher.keep(&path);
    kept.map_err(|error| Failure::ours(&error))?;
    Ok(path)
}

/// Makes the sandbox in such a directory, and tells how well it is isolated. The launcher ends it with
/// this process.
pub(crate) fn launch(
    launcher: &Launcher,
    directory: PathBuf,
    wanted: Wanted,
) -> Result<Vec<Protection>, Failure> {
    let plan = SandboxPlan {
        root: wanted.root,
        ids: wanted.ids,
        hostname: "sandbox".to_owned(),
        group: format!("sandshell-run-{}", rustix::process::getpid().as_raw_pid()),
        limits: wanted.limits,
        open_files: None,
        egress: wanted.settings.egress,
        one_shot: true,
        agent: serde_json::to_value(wanted.settings).map_err(|error| Failure::ours(&error))?,
        directory,
    };
    let launched = launcher.launch(&plan).map_err(|error| match error {
        LauncherError::Step(step) => failed_at(&step),
        error => Failure::ours(&error),
    })?;
    match read_outcome(launched.report).map_err(|error| Failure::ours(&error))? {
        Outcome::Ready(protections) => Ok(protections),
        Outcome::Failed(step) => Err(failed_at(&step)),
        Outcome::Refused { reason, .. } => Err(Failure::usage(reason)),
    }
}

fn failed_at(step: &Step) -> Failure {
    match step.forbidden() {
        Some(forbidden) => Failure::ours(&forbidden).hint(REMEDY),
        None => Failure::ours(step),
    }
}
