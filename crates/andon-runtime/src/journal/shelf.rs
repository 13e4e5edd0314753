//! What a store keeps that belongs to no session: small values, each with a kind and a name.

use serde_json::Value;

use crate::journal::{Append, JournalError};
use crate::lanes::BoxFuture;

/// The kind of value that says how well each model's usage is estimated.
pub const CALIBRATION: &str = "calibration";

/// What a store keeps that belongs to no session.
pub trait Shelf: Send + Sync {
    /// Keeps a value, replacing the one of this kind and name. Never blocks; values are kept in the order in which they
    /// are given.
    fn keep(&self, kind: &str, name: &str, value: Value) -> Append;

    /// Removes a value; does nothing if there is none of this kind and name. It is queued in order with the calls of
    /// `keep`.
    fn discard(&self, kind: &str, name: &str) -> Append;

    /// All values of a kind with their names, in the order of the names.
    fn kept(&self, kind: &str) -> BoxFuture<Result<Vec<(String, Value)>, JournalError>>;
}
