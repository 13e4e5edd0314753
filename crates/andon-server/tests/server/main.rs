//! The server as clients see it: real sockets, a scripted model.

mod bad_input;
mod cancel;
mod create;
mod guard;
mod house;
mod limits;
mod raw;
mod shutdown;
