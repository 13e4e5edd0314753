//! Reading: the threads that read, and the queries.

mod history;
mod lists;
mod readers;
mod reported;
mod run;
mod session;

pub(super) use history::{history, history_before};
pub(super) use lists::{runs, sessions, with_state};
pub(super) use readers::{Question, Readers};
pub(super) use reported::last_reported;
pub(super) use run::{accounts, run, unsettled};
pub(super) use session::{attachments, copy_whole, kept, state};
