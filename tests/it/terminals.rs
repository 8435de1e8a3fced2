//! The terminal surface: real programs on a real WebSocket, with a plain tmux as the oracle.

mod drive;
mod jobs;
mod life;
mod oracle;
mod programs;
mod refused;
mod viewers;
