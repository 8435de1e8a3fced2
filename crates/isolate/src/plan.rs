//! What a sandbox is to be: settled before anything of it is made.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::limits::SandboxLimits;

/// The user commands run as unless they ask for another.
pub const SANDBOX_USER: &str = "sandbox";
/// Its number, and that of its group.
pub const SANDBOX_UID: u32 = 1000;
/// Where commands start unless they, or the image, say otherwise: without the leading slash.
pub const WORKSPACE: &str = "workspace";
/// The agent's number in a sandbox that has a range of ids: the one after those that commands can be.
pub const AGENT_UID: u32 = 65536;
/// The last number that commands can be.
pub const LAST_UID: u32 = AGENT_UID - 2;
/// How many ids a sandbox with a range takes.
pub const RANGE: u32 = AGENT_UID + 1;

/// Where a sandbox is told its own name, without the leading slash.
pub const HOSTNAME_FILE: &str = "etc/hostname";
/// Where its programs look up names first, without the leading slash.
pub const HOSTS_FILE: &str = "etc/hosts";

/// The file that an agent leaves in its state when the kernel ended its init for want of memory.
pub const OUT_OF_MEMORY: &str = "out-of-memory";

/// The names that mean the sandbox itself.
pub fn hosts(hostname: &str) -> String {
    format!("127.0.0.1 localhost\n::1 localhost ip6-localhost\n127.0.0.1 {hostname}\n")
}

/// Everything the launcher needs to make a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxPlan {
    /// The sandbox's own directory on the host. It holds the agent's socket (`agent.sock`) and
    /// its state (`agent/`).
    pub directory: PathBuf,
    /// Who the sandbox's users are outside.
    pub ids: Ids,
    /// Its host name.
    pub hostname: String,
    /// Its files.
    pub root: RootPlan,
    /// The name of its groups, which nobody else uses.
    pub group: String,
    /// What it may use.
    pub limits: SandboxLimits,
    /// Most files each of its processes may have open.
    pub open_files: Option<u64>,
    /// Whether its loopback leads outside.
    pub egress: bool,
    /// Whether it ends, and leaves nothing, when whoever asked for it goes away.
    pub one_shot: bool,
    /// Settings of the agent, which it alone understands.
    pub agent: serde_json::Value,
}

/// Who the sandbox's users are outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ids {
    /// A range of [`RANGE`] ids of the host that nobody else has, from this one. Needs root.
    Range(u32),
    /// Only whoever launches: the sandbox has one user, and no root.
    Own,
}

/// The files of a sandbox: directories that are shown, and one place where everything written goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootPlan {
    /// What is shown, parents before children.
    pub shown: Vec<Shown>,
    /// Symbolic links in the root: name, target.
    pub links: Vec<(String, String)>,
    /// Files of this sandbox alone: place without a leading slash, content. All may read them.
    pub files: Vec<(String, String)>,
    /// Directories of whoever commands run as, made where they are missing: places without a leading
    /// slash.
    pub own: Vec<String>,
    /// Whoever that is: user and group. Where there is one user, it is that one.
    pub owner: (u32, u32),
    /// Most bytes that can be written.
    pub size_bytes: u64,
    /// Most files that can be made.
    pub inodes: u64,
}

/// A directory of the host that the sandbox sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Where it is on the host.
    pub source: PathBuf,
    /// Where it is in the sandbox, without a leading slash; empty for the root itself.
    pub place: String,
    /// Whether it can be changed inside. The host's files never change: what is written lies in the
    /// sandbox's own place.
    pub writable: bool,
}
