//! The database file: finding, locking, checking and upgrading it, its tables, and what can go wrong with it.

mod error;
mod find;
mod library;
mod location;
mod lock;
mod open;
mod owner;
mod schema;
mod settings;
mod trouble;
mod upgrade;

pub(crate) use location::Location;
pub(crate) use lock::{Listed, Lock};
pub(crate) use open::{Connections, Opened, open, open_to_read};
pub(crate) use owner::holder;
#[cfg(test)]
pub(crate) use schema::MIGRATIONS;
pub(crate) use trouble::{explain, is_busy, is_disk_failure, is_full};

pub use error::OpenError;
pub use open::{Options, default_path};
pub use owner::{Owner, OwnerKey};
