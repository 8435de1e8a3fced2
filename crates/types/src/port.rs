//! Ports that something in the sandbox listens on.
