//! A journal on a PostgreSQL server.
//!
//! # Theory of operation
//!
//! As in SQLite, one thread writes, and takes whatever is queued into the next commit. It has a connection and a tokio runtime of
//! its own, so no future of a caller can cancel what it does. All runs of a commit go to the server in one write and come back in
//! one: each is moved forward only if its epoch, its seq and its state allow it, and a stale one is left out.
//!
//! While the server is away, everything waits. A transaction whose answer was lost is sent again, and the database knows by its
//! number whether it has it already.
//!
//! A process has a lease, which a thread and a connection of its own renew ([`Lease`](andon_runtime::Lease)). Its runs cannot be
//! taken over before the lease is over, by the server's clock.
//!
//! Readers have their own threads and connections, see one snapshot, and never block the writer.
//!
//! # Rooms
//!
//! `server` and `sql` ◄ `write` ◄ `read` and `lease` ◄ `journal` and `sessions`, which implement the traits.

mod journal;
mod lease;
mod names;
mod read;
mod rows;
mod server;
mod sessions;
mod sql;
mod write;

pub use journal::PostgresJournal;
pub use server::{PostgresAddress, PostgresError, PostgresOptions};
