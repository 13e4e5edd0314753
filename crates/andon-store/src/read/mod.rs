//! Reading: the threads that read, and the queries.

mod history;
mod lists;
mod readers;
mod reported;
mod run;
mod session;
mod uses;

pub(crate) use history::{history, history_before};
pub(crate) use lists::{runs, sessions, with_state};
pub(crate) use readers::{Gate, Readers};
pub(crate) use reported::last_reported;
pub(crate) use run::{account, run, unsettled};
pub(crate) use session::{SessionRow, attachments, copy_whole, find_session, kept, state};
pub(crate) use uses::{Use, unwritten};
