//! Protections: one layer of isolation each, and what became of it here.

use serde::{Deserialize, Serialize};

/// One layer of isolation, as proved from inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Protection {
    /// Which layer.
    pub name: Layer,
    /// Whether it holds.
    pub status: ProtectionStatus,
    /// Why it does not hold, or not wholly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `GET /v1/protections`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProtectionsReply {
    /// Every layer, in the order of the report.
    pub protections: Vec<Protection>,
}

/// What became of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProtectionStatus {
    /// It holds.
    Enforced,
    /// It holds in part; the reason says which.
    Partial,
    /// It does not hold.
    Off,
}

macro_rules! layers {
    ($($(#[$doc:meta])* $name:ident = $text:tt,)*) => {
        /// The layers, in the order of the report.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
            utoipa::ToSchema,
        )]
        pub enum Layer {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Layer {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

layers! {
    /// Commands have another user id than the agent, and each sandbox ids of its own.
    UidSeparation = "uid-separation",
    /// Commands hold no capability, or as root only the small set, over nothing outside.
    CapabilityDrop = "capability-drop",
    /// No program gains rights by being executed.
    NoNewPrivs = "no-new-privs",
    /// Processes of others are not seen.
    PidNs = "pid-ns",
    /// Mounts of others are not seen.
    MountNs = "mount-ns",
    /// A network of its own.
    NetNs = "net-ns",
    /// System V objects and message queues of its own.
    IpcNs = "ipc-ns",
    /// A host name of its own.
    UtsNs = "uts-ns",
    /// Control groups of others are not seen.
    CgroupNs = "cgroup-ns",
    /// A root file system of its own; the host's is gone from sight.
    PivotRoot = "pivot-root",
    /// Landlock's rules on files.
    LandlockFs = "landlock-fs",
    /// Landlock's scope on signals and abstract sockets.
    LandlockScope = "landlock-scope",
    /// The filter of system calls.
    Seccomp = "seccomp",
    /// The limit on processor time.
    CpuLimit = "cpu-limit",
    /// The limit on memory.
    MemoryLimit = "memory-limit",
    /// The limit on processes and threads.
    PidsLimit = "pids-limit",
    /// The limit on bytes on disk.
    DiskLimit = "disk-limit",
    /// The limit on files on disk.
    InodeLimit = "inode-limit",
    /// What may be reached outside.
    EgressPolicy = "egress-policy",
    /// A kill reaches the whole tree.
    KillTree = "kill-tree",
    /// A process that ran out of memory is reported as such.
    OomAttribution = "oom-attribution",
}
