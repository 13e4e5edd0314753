//! The server as clients see it: real sockets, a scripted model.

mod cancel;
mod create;
mod house;
