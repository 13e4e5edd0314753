//! Andon's journals on disk: a run's truth survives the process.
//!
//! [`SqliteJournal`] is embedded and needs no set-up. What it promises is `andon`'s [`Journal`](andon_runtime::Journal): appends
//! are accepted at once and in order, are durable once acknowledged, and are refused from a writer that no longer owns
//! the run.
//!
//! `PostgresJournal`, behind the feature `postgres`, is on a server. What follows is about SQLite; the server's differences are in
//! `postgres`.
//!
//! # Theory of operation
//!
//! One thread writes. It takes whatever is queued, up to 256 facts, and makes it durable with one commit; what arrives meanwhile
//! goes into the next commit. So a lone run pays one disk write per append, and a thousand runs share it. No future is
//! involved: dropping one undoes nothing and stops nothing.
//!
//! Readers have their own connections and threads, see the last commit, and never block the writer.
//!
//! # Invariants
//!
//! 1. An append is acknowledged after its commit, and a commit is on disk when it returns (`synchronous=FULL`).
//! 2. Each append checks, in the database, the owner's epoch, the next seq, and that the run has not settled.
//! 3. A run has at most one `run_settled` event: a unique index refuses a second.
//! 4. Only one process writes: it holds a lock on the file.
//!
//! # Rooms
//!
//! Dependencies point one way: `record`, which every store shares, and `file` and `rows` ◄ `read` ◄ `write` ◄ `journal` and
//! `sessions`, which implement the traits.

mod file;
mod journal;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
mod read;
mod record;
mod rows;
mod sessions;
mod write;

pub use file::{OpenError, Options, Owner, OwnerKey, default_path};
pub use journal::SqliteJournal;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresAddress, PostgresError, PostgresJournal, PostgresOptions};
