//! The server as clients see it: real sockets, a scripted model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod approvals;
mod busy;
mod cancel;
mod create;
mod disconnect;
mod feeds;
mod house;
mod inside;
mod line;
mod socket;
