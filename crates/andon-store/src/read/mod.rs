//! Reading: the threads that read, and the queries.

mod history;
mod lists;
mod readers;
mod reported;
mod run;
mod session;
mod uses;

pub(crate) use history::{history, said_before};
pub(crate) use lists::{runs, sessions, with_state};
pub(crate) use readers::{Gate, Readers};
pub(crate) use reported::last_reported;
pub(crate) use run::{account, run, unsettled};
pub(crate) use session::{SessionRow, find_session, kept, kept_with, state, take_copy};
pub(crate) use uses::{Use, unwritten};
