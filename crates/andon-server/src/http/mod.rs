//! What every request passes through, whatever it asks for.

pub(crate) mod answers;
mod automatic;
pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod guard;
pub(crate) mod idle;
pub(crate) mod json;
pub(crate) mod path;
pub(crate) mod problem;
pub(crate) mod query;
pub(crate) mod requests;
pub(crate) mod seats;
pub(crate) mod signs;
pub(crate) mod socket;
