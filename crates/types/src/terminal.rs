//! Terminals and their frames.
