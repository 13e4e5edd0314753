//! Writing: the thread that writes, and what it does within a transaction.

mod append;
mod moved;
mod notes;
mod refused;
mod sessions;
mod state;
mod wave;
mod work;
mod writer;

pub(super) use moved::put;
pub(super) use notes::settled;
pub(super) use notes::{abandoned, append_addendum, claim, discard, heard, keep, request_cancel};
pub(super) use sessions::{attach, create, delete, discard_attachment};
pub(super) use state::change_state;
pub(super) use work::{Change, Job, Kind, Work, WriteError};
pub(super) use writer::{Writer, WriterState};
