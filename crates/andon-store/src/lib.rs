//! Andon's journals on disk: a run's truth survives the process.
//!
//! [`SqliteJournal`] is embedded and needs no set-up. What it promises is `andon`'s [`Journal`](andon_runtime::Journal): appends
//! are taken at once and in order, are durable when they are acknowledged, and are refused from a writer that does not own
//! the run any more.
//!
//! # Theory of operation
//!
//! One thread writes. It takes whatever waits, up to 256 facts, and makes it durable with one commit; what comes meanwhile
//! is the next commit. So a lone run pays one disk write for each append, and a thousand runs share it. No future is
//! involved: dropping one undoes nothing and stops nothing.
//!
//! Readers have connections and threads of their own, see the last commit, and are never in the writer's way.
//!
//! # Invariants
//!
//! 1. An append is acknowledged after its commit, and a commit is on disk (`synchronous=FULL`).
//! 2. Each append checks, in the database, the owner's epoch, the next seq, and that the run has not settled.
//! 3. At most one event of a run is `run_settled`: an index refuses a second.
//! 4. One process writes: it holds a lock beside the file.

mod file;
mod journal;
mod queue;
mod read;
mod rows;
mod sessions;
mod write;

pub use file::{OpenError, Options, Owner, OwnerKey, default_path};
pub use journal::SqliteJournal;
