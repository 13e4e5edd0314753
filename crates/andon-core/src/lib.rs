//! Andon's words and rules, as plain values.
//!
//! This crate says what a run *is*: the [messages](message) of a conversation, the [events](event) that happen to a
//! run, how a run is [folded](progress) from them, what a [cancel request](cancel) means in each state, what was
//! [used](usage), and the [receipt] of a run's end. It has no async code, reads no clock and does no I/O, so a
//! live run, a run recovered after a crash and a run replayed in a test go through the same code.

pub mod answer;
pub mod cancel;
pub mod closing;
pub mod completed;
pub mod digest;
pub mod disconnect;
mod ending;
pub mod event;
mod format_version;
#[doc(hidden)]
pub mod growth;
pub mod history;
pub mod id;
pub mod limits;
pub mod message;
pub mod outcome;
pub mod progress;
pub mod prompt;
mod reason;
pub mod receipt;
pub mod request;
pub mod standing;
pub mod time;
pub mod usage;
mod words;

pub use format_version::{FORMAT_VERSION, is_known as is_known_format};
