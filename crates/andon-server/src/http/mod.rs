//! What every request passes through, whatever it asks for.

pub(crate) mod answers;
pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod guard;
pub(crate) mod idle;
pub(crate) mod json;
pub(crate) mod path;
pub(crate) mod problem;
pub(crate) mod query;
pub(crate) mod requests;
pub(crate) mod signs;
pub(crate) mod slots;
pub(crate) mod socket;

use tokio::sync::Semaphore;

/// A semaphore with this many permits, or as many as a semaphore can have.
pub(crate) fn semaphore(number: usize) -> Semaphore {
    Semaphore::new(number.min(Semaphore::MAX_PERMITS))
}
