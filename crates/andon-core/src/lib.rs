//! Andon's words and rules, as plain values.
//!
//! This crate says what a run *is*: the [messages](message) of a conversation, the [events](event) that happen to a
//! run, how a run is [folded](progress) from them, what a [cancel request](cancel) means in each state, what was
//! [used](usage), and the [receipt] of a run's end. It has no async code, reads no clock and does no I/O, so a
//! live run, a run recovered after a crash and a run replayed in a test go through the same code.

pub mod answer;
pub mod cancel;
pub mod closing;
pub mod digest;
pub mod disconnect;
mod ending;
pub mod event;
pub mod history;
pub mod id;
pub mod limits;
pub mod message;
pub mod outcome;
pub mod progress;
pub mod prompt;
mod reason;
pub mod receipt;
pub mod standing;
pub mod time;
pub mod usage;
mod words;

/// The version that every persisted form written by this crate carries.
///
/// A reader refuses a version that it does not know; it never guesses.
pub const FORMAT_VERSION: u16 = 1;

/// Reads a version, and refuses one that this program does not know.
fn known_version<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let version = <u16 as serde::Deserialize>::deserialize(deserializer)?;
    if version == FORMAT_VERSION {
        return Ok(version);
    }
    Err(serde::de::Error::custom(format!(
        "format version {version} is not known: this program reads version {FORMAT_VERSION}; use the program that wrote it"
    )))
}
