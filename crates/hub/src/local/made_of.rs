//! What a sandbox is made of: ids, limits, a root file system and the settings of its agent, from its spec.

use std::io;
use std::path::{Path, PathBuf};

use sandshell_agent::Settings;
use sandshell_isolate::host_root::{self, MadeFor};
use sandshell_isolate::image_root::{self, ImageRootError};
use sandshell_isolate::limits::{
    self as group_limit, LimitError, SandboxLimits, USUAL_INODES, USUAL_MEMORY, USUAL_PIDS,
};
use sandshell_isolate::plan::{
    Ids, LAST_UID, RootPlan, SANDBOX_UID, SANDBOX_USER, SandboxPlan as Plan, WORKSPACE,
};
use sandshell_types::{Cpus, ImageConfig, SandboxSpec};

use super::{IdRule, LocalBackend, WayOut, group};
use crate::api::validate;
use crate::backend::{BackendError, SandboxPlan};
use crate::error::HubError;

/// Ids of the host that sandboxes take, far above those of people, and how many each.
const FIRST_ID: u32 = 0x1000_0000;
const IDS: u32 = 0x2_0000;
/// Slots below this have ids of their own.
const SLOTS: u32 = 0x3000;

impl LocalBackend {
    pub(super) async fn plan(
        &self,
        wanted: &SandboxPlan,
        way_out: WayOut,
    ) -> Result<Plan, BackendError> {
        let spec = &wanted.spec;
        let ids = match self.ids {
            IdRule::Ranges if wanted.slot < SLOTS => Ids::Range(FIRST_ID + wanted.slot * IDS),
            IdRule::Ranges => {
                return Err(BackendError::Failed {
                    action: "find ids for the sandbox",
                    source: io::Error::other(format!("there are ids for {SLOTS} sandboxes")),
                });
            }
            IdRule::Own => Ids::Own,
        };
        let limits = spec.limits.clone().unwrap_or_default();
        let size = disk_of(&limits).map_err(|error| BackendError::Invalid {
            pointer: pointer_of("disk_bytes"),
            detail: error.to_string(),
        })?;
        let inodes = limits.inodes.unwrap_or(USUAL_INODES);
        group_limit::check_files(limits.inodes, limits.open_files).map_err(|error| {
            BackendError::Invalid {
                pointer: pointer_of(error.limit().unwrap_or_default()),
                detail: error.to_string(),
            }
        })?;
        let (mut root, mut settings) = match &spec.image {
            Some(image) => self.image(image, spec, ids, size, inodes).await?,
            None => self.host(spec, ids, size, inodes)?,
        };
        settings.waits = wanted.waits;
        if let Some(way_out) = way_out {
            settings.egress = true;
            if let Some(trust) = way_out {
                trust.give(&mut root.files, &mut settings.env);
            }
        }
        Ok(Plan {
            directory: self.dir(&wanted.place),
            ids,
            hostname: wanted.id.to_string(),
            root,
            group: group(&wanted.place),
            limits: group_limits(&limits)?,
            open_files: limits.open_files,
            egress: settings.egress,
            one_shot: false,
            agent: serde_json::to_value(settings).map_err(|error| BackendError::Failed {
                action: "write the settings of the agent",
                source: error.into(),
            })?,
        })
    }

    /// The root with the host's programs.
    fn host(
        &self,
        spec: &SandboxSpec,
        ids: Ids,
        size: u64,
        inodes: u64,
    ) -> Result<(RootPlan, Settings), BackendError> {
        let etc = self.etcs.current();
        let mut root = host_root::plan(&etc, MadeFor::Many, ids, size, inodes);
        if let Some(user) = &spec.user {
            only_user(user, ids)?;
            let found = host_root::user(&etc, user);
            let found = found.ok_or_else(|| {
                no_user(format!(
                    "the sandbox has no user {user:?}; by number a user is 0 to {LAST_UID}"
                ))
            })?;
            root.owner = found;
        }
        if let Some(cwd) = &spec.cwd {
            root.own.push(cwd.trim_matches('/').to_owned());
        }
        let mut settings = settings(spec, ImageConfig::default());
        settings.check_cwd = spec.cwd.is_some();
        Ok((root, settings))
    }

    /// The root of an image, and what it says about commands.
    async fn image(
        &self,
        name: &str,
        spec: &SandboxSpec,
        ids: Ids,
        size: u64,
        inodes: u64,
    ) -> Result<(RootPlan, Settings), BackendError> {
        let image = self.images.find(name).map_err(|error| match error {
            HubError::ImageNotFound { name, known } => BackendError::NoImage { name, known },
            other => BackendError::Dead(other.to_string()),
        })?;
        if let Some(user) = &spec.user {
            only_user(user, ids)?;
        }
        let mut config = image.config;
        if ids == Ids::Own {
            // There is one user only.
            config.user = None;
        }
        let mut settings = settings(spec, config);
        settings.check_cwd = true;
        if validate::environment_size(settings.env.iter()).is_err() {
            return Err(BackendError::Invalid {
                pointer: "/env".to_owned(),
                detail: format!("with those of the image {name:?} there are too many variables"),
            });
        }
        let user = settings.user.clone().filter(|user| user != SANDBOX_USER);
        let workdir = settings.cwd.as_deref().and_then(Path::to_str);
        let workdir = workdir.map(str::to_owned);
        let root = self.images.root_of(&image.name);
        // The image's files may have to be read from the disk.
        let read = tokio::task::spawn_blocking(move || {
            let (user, workdir) = (user.as_deref(), workdir.as_deref());
            image_root::plan(&root, user, workdir, ids, size, inodes)
        });
        let root = read.await.map_err(|error| BackendError::Failed {
            action: "read the image",
            source: io::Error::other(error),
        })?;
        let root = root.map_err(|error| match error {
            ImageRootError::NoUser { .. } if spec.user.is_some() => no_user(error.to_string()),
            ImageRootError::NoUser { .. } | ImageRootError::Odd { .. } => {
                odd_image(name, &error.to_string())
            }
            other => BackendError::Failed {
                action: "read the image",
                source: io::Error::other(other),
            },
        })?;
        Ok((root, settings))
    }
}

/// What was asked for, above what the image says, above the defaults.
fn settings(spec: &SandboxSpec, image: ImageConfig) -> Settings {
    let mut env = image.env;
    env.extend(spec.env.clone());
    let cwd = spec.cwd.clone().or(image.workdir);
    let user = spec.user.clone().or(image.user);
    Settings {
        cwd: Some(cwd.map_or_else(|| Path::new("/").join(WORKSPACE), PathBuf::from)),
        user: Some(user.unwrap_or_else(|| SANDBOX_USER.to_owned())),
        env,
        log_bytes: None,
        egress: false,
        check_cwd: false,
        waits: false,
    }
}

/// Bytes that may be written within these limits.
pub(super) fn disk_of(limits: &sandshell_types::SandboxLimits) -> Result<u64, LimitError> {
    let memory = limits.memory_bytes.unwrap_or(USUAL_MEMORY);
    group_limit::disk_in_memory(limits.disk_bytes, memory)
}

pub(super) fn group_limits(
    limits: &sandshell_types::SandboxLimits,
) -> Result<SandboxLimits, BackendError> {
    let invalid = |pointer: String, detail: String| BackendError::Invalid { pointer, detail };
    let all = f64::from(u32::try_from(group_limit::processors()).unwrap_or(u32::MAX));
    let cpus = limits.cpus.unwrap_or(all);
    let cpus = Cpus::new(cpus).ok_or_else(|| {
        let detail = "a share of the processors is at least 0.01".to_owned();
        invalid("/limits/cpus".to_owned(), detail)
    })?;
    let wanted = SandboxLimits {
        memory_bytes: Some(limits.memory_bytes.unwrap_or(USUAL_MEMORY)),
        cpus: Some(cpus),
        pids: Some(limits.pids.unwrap_or(USUAL_PIDS)),
    };
    wanted.check().map_err(|error| {
        let pointer = pointer_of(error.limit().unwrap_or_default());
        invalid(pointer, error.to_string())
    })?;
    Ok(wanted)
}

/// Where a limit stands in a request; without a name, all of them.
pub(super) fn pointer_of(limit: &str) -> String {
    match limit {
        "" => "/limits".to_owned(),
        name => format!("/limits/{name}"),
    }
}

/// What an image is that no root can be made of.
pub(super) fn odd_image(name: &str, cause: &str) -> BackendError {
    BackendError::Invalid {
        pointer: "/image".to_owned(),
        detail: format!("no sandbox can be made of the image {name:?}: {cause}"),
    }
}

fn no_user(detail: String) -> BackendError {
    BackendError::Invalid {
        pointer: "/user".to_owned(),
        detail,
    }
}

/// Refuses a user that a sandbox with one only does not have.
fn only_user(user: &str, ids: Ids) -> Result<(), BackendError> {
    let known = user == SANDBOX_USER || user.parse() == Ok(SANDBOX_UID);
    if ids == Ids::Own && !known {
        return Err(no_user(format!(
            "there is one user, {SANDBOX_USER:?}: a hub that does not run as root has no other"
        )));
    }
    Ok(())
}
