//! Tools of MCP servers are called, stopped and survived: with a real server made with the official Python SDK, over both
//! transports and in both generations of the protocol (P1, P5, P8, P12).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod bad;
mod calls;
mod common;
mod memory;
mod proof;
mod setup;
mod stops;
mod tasks;
