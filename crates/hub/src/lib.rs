//! The hub: who has which sandbox, and the way to it.

pub mod egress;
