//! The server as clients see it: real sockets, a scripted model.

mod cancel;
mod create;
mod described;
mod disconnect;
mod feeds;
mod house;
mod inside;
mod socket;
