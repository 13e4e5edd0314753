//! What a store keeps that belongs to no session: small values, each of a kind and under a name.

use serde_json::Value;

use crate::journal::{Append, JournalError};
use crate::lanes::BoxFuture;

/// What is kept about how well the figures of each model are estimated.
pub const CALIBRATION: &str = "calibration";

/// What a store keeps that belongs to no session.
pub trait Shelf: Send + Sync {
    /// Keeps a value, in place of the one of this kind and name that was there. Never blocks; values are kept in the order in
    /// which they are given.
    fn keep(&self, kind: &str, name: &str, value: Value) -> Append;

    /// Keeps a value no longer; nothing happens if there is none of this kind and name. It stands in line with those that are kept.
    fn discard(&self, kind: &str, name: &str) -> Append;

    /// All values of a kind with their names, in the order of the names.
    fn kept(&self, kind: &str) -> BoxFuture<Result<Vec<(String, Value)>, JournalError>>;
}
