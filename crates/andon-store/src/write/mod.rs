//! Writing: the thread that writes, and what it does within a transaction.

mod append;
mod job;
mod moved;
mod notes;
mod rest;
mod room;
mod sessions;
mod state;
mod store;
mod sweeper;
mod uses;
mod writer;

pub(crate) use job::{Job, Work};
pub(crate) use store::{Store, WriteError};
pub(crate) use sweeper::Sweeper;
pub(crate) use uses::Uses;
pub(crate) use writer::Writer;
