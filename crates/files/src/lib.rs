//! What people do with the files of a sandbox: read and write them, list, search, watch, archive, back
//! up, and version with git.
//!
//! Every path is resolved on the threads of `sandshell_exec::inside`, with the rights of the user the
//! call is made for; nothing in here opens a user's path in another way. Git runs as a process of the
//! sandbox like any other.

mod archive;
mod backup;
mod error;
mod find;
mod pipe;
mod search;
mod stop;
mod walk;

pub use archive::{Compression, Pack, PackRules, Progress, merge_into, replace};
pub use backup::{BackupError, Backups, PROGRESS_EVERY, Task};
pub use error::FileError;
pub use find::{Find, checked_path};
pub use pipe::{Feeder, Inlet, Outlet, Pieces, inlet, outlet};
pub use search::Search;
pub use stop::Stop;
