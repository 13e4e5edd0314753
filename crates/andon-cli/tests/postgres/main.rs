//! The real program on a real PostgreSQL server, which `cargo xtask postgres` starts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[allow(dead_code, unused_imports, reason = "shared with the other tests of the program")]
#[path = "../program/child.rs"]
mod child;
mod database;
mod login;
mod records;
#[allow(dead_code, reason = "shared with the other tests of the program")]
#[path = "../program/server.rs"]
mod server;
mod shared;
