//! The line to the warden, who starts private process trees: there from the beginning, or made when the
//! first of them is wanted.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use sandshell_isolate::{Warden, WardenPlan, launch_warden};
use sandshell_sys::procfs;
use tokio::sync::{Mutex, OnceCell};

use crate::ExecError;
use crate::spawner::Spawner;

/// Whoever wants a private process tree asks here.
#[derive(Debug)]
pub(crate) struct Wardens {
    /// Why there is none, where other commands would see whatever it starts.
    hindrance: Option<String>,
    given: Mutex<Option<Warden>>,
    /// What one is told that we make.
    plan: Arc<WardenPlan>,
    line: OnceCell<Line>,
}

#[derive(Debug)]
struct Line {
    spawner: Spawner,
    /// Holds the warden in our table of children.
    pidfd: OwnedFd,
}

impl Wardens {
    pub(crate) fn new(
        given: Option<Warden>,
        plan: WardenPlan,
        pid_namespace: Result<(), String>,
    ) -> Self {
        Self {
            hindrance: pid_namespace.err(),
            given: Mutex::new(given),
            plan: Arc::new(plan),
            line: OnceCell::new(),
        }
    }

    /// The line, once there is one.
    pub(crate) async fn spawner(&self) -> Result<&Spawner, ExecError> {
        let unavailable = |detail: String| ExecError::IsolationUnavailable {
            pointer: "/private_processes".to_owned(),
            detail,
        };
        if let Some(reason) = &self.hindrance {
            return Err(unavailable(format!(
                "other commands would see its processes, because they have no PID namespace: {reason}"
            )));
        }
        let line = self.line.get_or_try_init(|| async {
            let warden = match self.given.lock().await.take() {
                Some(given) => given,
                // An agent that gave up its rights must be given one that did not.
                None if !may_make_namespaces() => {
                    return Err(unavailable("the agent may not make namespaces".to_owned()));
                }
                // Waits for its answer, so not on the runtime's thread.
                None => {
                    let plan = Arc::clone(&self.plan);
                    tokio::task::spawn_blocking(move || launch_warden(&plan))
                        .await
                        .map_err(|error| ExecError::internal(error.to_string()))?
                        .map_err(|error| unavailable(error.to_string()))?
                }
            };
            let spawner = Spawner::new(warden.socket)
                .map_err(|error| ExecError::internal(error.to_string()))?;
            Ok::<_, ExecError>(Line {
                spawner,
                pidfd: warden.pidfd,
            })
        });
        Ok(&line.await?.spawner)
    }

    /// Its pid as we see it, once it runs.
    pub(crate) fn pid(&self) -> Option<i32> {
        procfs::pid_of(&self.line.get()?.pidfd).unwrap_or_default()
    }
}

/// Whether a warden of our making could do its work.
fn may_make_namespaces() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN))
}
