//! Promises 4 to 7: sessions.

mod clean;
mod interrupts;
mod life;
mod lost;
mod queue;
mod survival;
