//! What people do with the files of a sandbox: read and write them, list, search, watch, archive, back
//! up, and version with git.
//!
//! Every path is resolved on the threads of `sandshell_exec::inside`, with the rights of the user the
//! call is made for; nothing in here opens a user's path in another way. Git runs as a process of the
//! sandbox like any other.

mod change;
mod copy;
mod dirs;
mod entry;
mod error;
pub mod git;
mod list;
mod place;
mod read;
mod stream;
mod tree;
pub mod watch;
mod write;

pub use change::{ChmodSpec, MkdirSpec, MoveSpec, RemoveSpec, chmod, mkdir, remove, rename};
pub use copy::{Copied, CopySpec, copy};
pub use entry::{Facts, StatSpec, stat};
pub use error::FileError;
pub use list::{ListSpec, Listing, page};
pub use read::{Content, FileBytes, Wanted, open};
pub use stream::{Source, stream};
pub use write::{Condition, WriteSpec, Written, write};
