//! What people do with the files of a sandbox: read and write them, list, search, watch, archive, back
//! up, and version with git.
//!
//! Every path is resolved on the threads of `sandshell_exec::inside`, with the rights of the user the
//! call is made for; nothing in here opens a user's path in another way. Git runs as a process of the
//! sandbox like any other.

mod error;
pub mod git;
pub mod watch;

pub use error::FileError;
