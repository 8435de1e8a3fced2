//! Watching files.
