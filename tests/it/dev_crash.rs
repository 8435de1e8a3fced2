#![allow(dead_code, clippy::all)]
mod calls;
mod crash;
