//! Tar archives: a tree becomes one, and one becomes a tree.
//!
//! ```text
//! walk ─► pack ─► (compress) ─► bytes          bytes ─► (decompress) ─► reader ─► unpack ─► staging
//!                                                                                  └► merge, or swap
//! ```
//!
//! Everything is streamed: memory does not grow with the size of a file or with their number, but
//! for what must be known at the end (the attributes of directories, the names of hard links).
//!
//! What comes out of an archive goes into a fresh directory beside the target, without ever following
//! a link, and only a whole and valid archive is moved to where it belongs. Of headers, the `tar`
//! crate's are used; its readers and unpackers, which open paths by name, are not.

mod codec;
mod pack;
mod place;
mod reader;
mod staging;
mod unpack;

pub use codec::{Compression, decompress};
pub use pack::{Pack, PackRules};
pub use place::{merge_into, replace};
pub use reader::{Head, Kind, Reader};
pub(crate) use unpack::verify;

/// Most entries of an archive that is taken in.
const MAX_ENTRIES: u64 = 10_000_000;
/// Most directories, whose attributes are kept until the end.
const MAX_DIRECTORIES: usize = 1_000_000;
/// Most bytes that come out of an archive.
const MAX_BYTES: u64 = 1 << 40;
/// Permission bits that are kept: set-user-id and set-group-id are not.
const MODE_BITS: u32 = 0o1777;

/// Told of the files and bytes so far.
pub type Progress<'a> = &'a (dyn Fn(&sandshell_types::ArchiveCounts) + 'a);
