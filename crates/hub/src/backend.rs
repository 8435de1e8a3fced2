//! Where sandboxes run, as the hub sees it.
//!
//! Owns the seam: the hub makes, finds, freezes and ends sandboxes through [`Backend`] and talks to
//! their agents through the [`Endpoint`] it names, and knows nothing else of them.
//!
//! A backend knows a sandbox by its [`Place`], which is never used twice. The id that people chose is
//! the hub's: a sandbox that waited in the warm pool gets one only when it is taken, and an id can be
//! used again while the place of its former sandbox is still being cleared.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;

use rustix::io::Errno;
use sandshell_types::{Protection, SandboxId, SandboxLimits, SandboxSpec};

/// A future of a backend's call.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a sweep could not destroy, and why.
pub type NotSwept = Vec<(Place, BackendError)>;

/// The name of a sandbox at its backend: 12 hexadecimal digits, so that paths stay short.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(String);

impl Place {
    /// A fresh one.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut random = [0_u8; 6];
        getrandom::fill(&mut random)?;
        Ok(Self(crate::hex(&random)))
    }

    /// One that was read back: from the store, or as the name of a directory.
    pub fn read(text: &str) -> Option<Self> {
        let valid = text.len() == 12 && text.bytes().all(|b| b.is_ascii_hexdigit());
        valid.then(|| Self(text.to_owned()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is to be made.
#[derive(Debug, Clone)]
pub struct SandboxPlan {
    /// Its name here.
    pub place: Place,
    /// A number that no other live sandbox of this hub has; a backend may make a range of ids of it.
    pub slot: u32,
    /// The id that it has for people, which is what it calls itself.
    pub id: SandboxId,
    /// Whether it is to wait until it is taken, perhaps under another id.
    pub waits: bool,
    /// What was asked for, the values of secrets included.
    pub spec: SandboxSpec,
}

/// What was made.
#[derive(Debug, Clone, Default)]
pub struct Created {
    /// What became of each layer of isolation, as proved from inside.
    pub protections: Vec<Protection>,
}

/// How the agent of a sandbox is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// A Unix socket. Whoever can open it may ask anything.
    Unix(PathBuf),
}

/// Whether we ourselves have too little of something, which says nothing of whoever was to be reached.
pub(crate) fn is_lack(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(sandshell_sys::is_lack)
}

/// Why a backend did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The spec asks for something that this backend or machine does not have.
    #[error("{detail}")]
    Invalid {
        /// JSON pointer to the field.
        pointer: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The spec asks for an image that there is not.
    #[error("there is no image {name:?}")]
    NoImage {
        /// Its name.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// A limit cannot be kept, or not be changed to that at the moment; nothing was changed.
    #[error("{detail}")]
    Limit {
        /// JSON pointer to the field.
        pointer: String,
        /// Why not.
        detail: String,
    },
    /// This place forbids what sandboxes are made of.
    #[error("{detail}")]
    Forbidden {
        /// What is not permitted.
        detail: String,
        /// The layers that cannot be had.
        protections: Vec<Protection>,
        /// What can be done about it.
        remedy: &'static str,
    },
    /// The sandbox is dead.
    #[error("{0}")]
    Dead(String),
    /// The sandbox is dead, and what it had cannot be removed, for this reason.
    #[error(transparent)]
    Remains(Box<Self>),
    /// We ourselves have too little of something, which says nothing of the sandbox; nothing was done.
    #[error("{action}: {errno}")]
    Lack {
        /// What was tried.
        action: String,
        /// What there is too little of.
        errno: Errno,
    },
    /// Something of the machine failed or is used up.
    #[error("{action}: {source}")]
    Failed {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl BackendError {
    /// What went wrong, whatever became of the sandbox.
    pub(crate) fn cause(&self) -> &Self {
        match self {
            Self::Remains(why) => why.cause(),
            why => why,
        }
    }

    /// What an error of the machine means.
    pub(crate) fn of_machine(action: &'static str, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(errno) if is_lack(&source) => Self::Lack {
                action: action.to_owned(),
                errno,
            },
            _ => Self::Failed { action, source },
        }
    }
}

/// Where sandboxes run.
pub trait Backend: Send + Sync + 'static {
    /// Makes a sandbox whose agent takes connections when this returns. After a failure nothing of it
    /// is left.
    fn create<'a>(&'a self, plan: &'a SandboxPlan) -> Pending<'a, Result<Created, BackendError>>;

    /// Takes one that waits; `id` is the one it is to have if it is not that of its making.
    fn take<'a>(
        &'a self,
        place: &'a Place,
        id: Option<&'a SandboxId>,
    ) -> Pending<'a, Result<(), BackendError>>;

    /// Takes over a sandbox that an earlier hub made. [`BackendError::Dead`] tells that it is known to be
    /// dead, and why; any other error that nobody knows.
    fn adopt<'a>(
        &'a self,
        place: &'a Place,
        spec: &'a SandboxSpec,
    ) -> Pending<'a, Result<(), BackendError>>;

    /// How its agent is reached.
    fn endpoint(&self, place: &Place) -> Endpoint;

    /// Resolves with the reason when a sandbox that was made or taken over has ended.
    fn ended(&self, place: &Place) -> Pending<'static, String>;

    /// Freezes it. Freezing a frozen one is no mistake.
    fn pause<'a>(&'a self, place: &'a Place) -> Pending<'a, Result<(), BackendError>>;

    /// Lets it go on. Waking one that runs is no mistake.
    fn resume<'a>(&'a self, place: &'a Place) -> Pending<'a, Result<(), BackendError>>;

    /// Changes its limits from these to those while it runs, all that differ or none. A limit that is
    /// absent is the backend's default.
    fn limit<'a>(
        &'a self,
        place: &'a Place,
        from: &'a SandboxLimits,
        to: &'a SandboxLimits,
    ) -> Pending<'a, Result<(), BackendError>>;

    /// Ends it, alive or dead, frozen or not, and removes all it had. When this returns, nothing of it
    /// runs. [`BackendError::Remains`] tells that it is known to be dead; any other error that nobody knows.
    fn destroy<'a>(&'a self, place: &'a Place) -> Pending<'a, Result<(), BackendError>>;

    /// Destroys whatever there is of sandboxes that are not among these: what a hub that was killed
    /// left behind. Gives those that could not be destroyed, each with what [`Self::destroy`] says; an error
    /// where it cannot be seen what there is.
    fn sweep<'a>(
        &'a self,
        known: &'a HashSet<Place>,
    ) -> Pending<'a, Result<NotSwept, BackendError>>;
}
