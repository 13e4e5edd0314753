//! The server: its address, connections to it, its settings, its tables, and what its errors mean.

mod address;
mod check;
mod error;
mod link;
mod login;
mod passfile;
mod schema;
mod tls;

pub(super) use check::check;
pub(super) use error::{Cause, Fault, cause, explain, refused};
pub(super) use link::{Link, attempt};
pub(super) use schema::{has_tables, prepare, quoted};

pub use address::{PostgresAddress, PostgresOptions};
pub use error::PostgresError;
