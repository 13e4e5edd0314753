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

/// Any number of places may be asked for; no more than these are ever taken.
pub(crate) fn places(number: usize) -> Semaphore {
    Semaphore::new(number.min(Semaphore::MAX_PERMITS))
}
