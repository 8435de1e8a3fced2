//! Backups: saved directory trees.
