//! The server as clients see it: real sockets, a scripted model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod approvals;
mod busy;
mod bad_input;
mod cancel;
mod create;
mod described;
mod disconnect;
mod feeds;
mod guard;
mod house;
mod inside;
mod line;
mod limits;
mod raw;
mod shutdown;
mod socket;
