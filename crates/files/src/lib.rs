//! What people do with the files of a sandbox: read and write them, list, search, watch, archive, back
//! up, and version with git.
//!
//! Every path is resolved on the threads of `sandshell_exec::inside`, with the rights of the user the
//! call is made for; nothing in here opens a user's path in another way. Git runs as a process of the
//! sandbox like any other.

pub mod archive;
mod backup;
mod change;
mod copy;
mod dirs;
mod entry;
mod error;
mod find;
#[doc(hidden)]
pub mod fuzzing;
pub mod git;
mod kernels_own;
mod list;
mod named;
mod pipe;
mod place;
mod read;
mod search;
mod stop;
mod stream;
mod tree;
mod walk;
pub mod watch;
mod write;

pub use archive::{Compression, Pack, PackRules, Progress, merge_into, replace};
pub use backup::{BACKUP_BYTES, BackupError, Backups, PROGRESS_EVERY, Task};
pub use change::{ChmodSpec, MkdirSpec, MoveSpec, RemoveSpec, chmod, mkdir, remove, rename};
pub use copy::{Copied, CopySpec, copy};
pub use entry::{Facts, StatSpec, stat};
pub use error::FileError;
pub use find::Find;
pub use kernels_own::is_kernels_own;
pub use list::{ListSpec, Listing, page};
pub use named::Named;
pub use pipe::{Feeder, Inlet, Outlet, Pieces, inlet, outlet};
pub use read::{Content, FileBytes, Wanted, open};
pub use search::Search;
pub use stop::Stop;
pub use stream::{Source, stream};
pub use write::{Condition, WriteSpec, Written, write};
