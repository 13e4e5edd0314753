//! The server as clients see it: real sockets, a scripted model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod answers;
mod approvals;
mod bad_input;
mod board;
mod board_figures;
mod board_reader;
mod board_socket;
mod busy;
mod cancel;
mod common;
mod conversation;
mod create;
mod described;
mod disconnect;
mod feeds;
mod guard;
mod house;
mod inside;
mod issuer;
mod limits;
mod line;
mod listed;
mod misses;
mod mounted;
#[path = "../../examples/mounted.rs"]
#[allow(dead_code)]
mod mounted_example;
mod oidc;
mod prices;
mod raw;
mod remembered;
mod shutdown;
mod slow_disk;
mod socket;
mod stalled;
mod who;
mod ws;
