//! Code interpreters that keep their state between runs.
