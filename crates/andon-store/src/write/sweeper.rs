//! Runs checkpoints, which copy the write-ahead log into the database, on its own thread and connection: a checkpoint takes tens
//! of milliseconds, and no commit waits for it.
//!
//! What is written during a checkpoint stays in the log, and while anything is left there the log only grows. That remainder is
//! small, and the writer checkpoints it itself afterwards. SQLite starts the log over only while nobody reads. If reads overlap
//! all the time, that never happens; so once the log is large, new reads wait until it has been started over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use crate::read::Gate;

/// How far to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// Copy what can be copied while others read.
    Copy,
    /// Make the log start over.
    StartOver,
}

pub(crate) struct Sweeper {
    /// `None` once it is closed.
    ask: Option<SyncSender<Sweep>>,
    is_done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    pub(crate) fn start(connection: Connection, gate: &Gate) -> std::io::Result<Self> {
        let (ask, asked) = sync_channel(1);
        let is_done = Arc::new(AtomicBool::new(false));
        let (done, gate) = (Arc::clone(&is_done), Arc::clone(gate));
        let thread = thread::Builder::new().name("andon-sweeper".to_owned()).spawn(move || {
            // A reader may be in the way, or the disk may be full: then the next one does it.
            let checkpoint = |how| drop(connection.query_row(how, [], |_| Ok(())));
            for sweep in asked {
                checkpoint("PRAGMA wal_checkpoint(PASSIVE)");
                if sweep == Sweep::StartOver {
                    let _alone = gate.write();
                    checkpoint("PRAGMA wal_checkpoint(PASSIVE)");
                    // This one blocks the writer, but has little left to copy.
                    checkpoint("PRAGMA wal_checkpoint(RESTART)");
                }
                done.store(true, Ordering::Relaxed);
            }
        })?;
        Ok(Self { ask: Some(ask), is_done, thread: Some(thread) })
    }

    /// Requests a sweep. A request made while another one is waiting is covered by that one.
    pub(crate) fn sweep(&self, how: Sweep) {
        if let Some(ask) = &self.ask {
            let _ = ask.try_send(how);
        }
    }

    /// Whether a sweep has finished since the last call.
    pub(crate) fn has_swept(&self) -> bool {
        self.is_done.swap(false, Ordering::Relaxed)
    }

    /// Closes the connection.
    pub(crate) fn close(&mut self) {
        self.ask = None;
        // If it panicked, there is nothing to wait for.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use andon_runtime::core::event::{Accepted, Entry, Event, Record};
    use andon_runtime::core::id::{RunId, SessionKey};
    use andon_runtime::core::time::{Stamp, Wall};
    use andon_runtime::{Batch, Journal as _, Message};

    use super::*;
    use crate::SqliteJournal;

    /// A read that takes some milliseconds.
    const SLOW: &str = "
WITH RECURSIVE counted (n) AS (SELECT count(*) FROM runs UNION ALL SELECT n + 1 FROM counted WHERE n < 100000)
SELECT count(*) FROM counted";

    /// A run with a prompt of 256 KiB.
    fn large(number: usize) -> Batch {
        let (run, session) = (RunId::new(number.to_string()).unwrap(), SessionKey::new("shop", "ada", "s").unwrap());
        let accepted = Accepted::new(run.clone(), session, Arc::new(Message::user("pages and pages ".repeat(1 << 14))));
        let (event, at) = (Event::RunAccepted { accepted: Arc::new(accepted) }, Stamp { wall: Wall(1), mono_us: 1 });
        let record = Record::new(1, 1, at, event);
        Batch::new(run, 1, vec![Entry::Fact(Arc::new(record))])
    }

    /// Checks P10: overlapping reads do not let the write-ahead log fill the disk.
    #[test]
    fn the_write_ahead_log_starts_over_although_reads_overlap() {
        const WRITTEN: usize = 40 << 20;
        let folder = tempfile::tempdir().unwrap();
        let journal = SqliteJournal::open(folder.path().join("andon.db")).unwrap();
        let executor = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let is_over = AtomicBool::new(false);
        let most = thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let executor = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    let read =
                        || journal.readers.slow.ask(|connection| Ok(connection.query_row(SLOW, [], |_| Ok(()))?));
                    while !is_over.load(Ordering::Relaxed) {
                        executor.block_on(read()).unwrap();
                    }
                });
            }
            let mut most = 0;
            for number in 0..WRITTEN >> 18 {
                executor.block_on(journal.append(large(number))).unwrap();
                most = most.max(folder.path().join("andon.db-wal").metadata().unwrap().len());
            }
            is_over.store(true, Ordering::Relaxed);
            most
        });
        assert!(most < 16 << 20, "{most} bytes");
    }
}
