//! Room on the disk: checkpoints of the write-ahead log, and erasing deleted data.

use std::time::Duration;

use super::sweeper::Sweep;
use super::writer::{STALL, Writer};

/// How many pages the log may grow by before a checkpoint: 16 MiB, or less on a disk that has little room. The unit tests write less
/// than that.
const CHECKPOINT: i32 = if cfg!(test) { 128 } else { 2048 };
/// From this many pages on, the log is made to start over, which blocks readers.
const LARGE: i32 = 4 * CHECKPOINT;
/// Below this many pages, the room on the disk is not checked.
const FEW: i32 = 16;
const PAGE: u64 = 8192;

/// How long erasing may wait for a reader while other jobs are held up.
pub(super) const ERASE: Duration = Duration::from_millis(250);

/// The largest database that is rewritten when something was deleted: that takes a tenth of a second.
const SMALL: i64 = 16 << 20;

impl Writer {
    /// Starts a checkpoint now and then. Called after the callers were answered.
    pub(super) fn make_room(&mut self) {
        let pages = self.store.wal_pages();
        if pages < self.checkpointed {
            // The log has started over: everything that was in it is in the database.
            self.checkpointed = 0;
        }
        if self.erasing {
            return;
        }
        if self.sweeper.has_swept() {
            self.checkpoint("PASSIVE");
        } else if pages - self.checkpointed >= self.most_pages() {
            self.checkpointed = pages;
            self.sweeper.sweep(if pages >= LARGE { Sweep::StartOver } else { Sweep::Copy });
        }
    }

    /// How many pages the log may grow by: on a small disk it must leave room for everything else.
    fn most_pages(&self) -> i32 {
        if self.store.wal_pages() - self.checkpointed < FEW {
            return CHECKPOINT;
        }
        let quarter = self.location.room() / 4 / PAGE;
        i32::try_from(quarter).unwrap_or(CHECKPOINT).clamp(FEW, CHECKPOINT)
    }

    /// Empties the write-ahead log, where deleted data may still be. A small database is rewritten first: data that moved from
    /// page to page leaves traces in the pages.
    pub(super) fn erase(&mut self, patience: Duration) {
        // If the timeout cannot be set, the previous one stays.
        let _ = self.store.connection.busy_timeout(patience);
        let is_first_try = !self.erasing || patience > Duration::ZERO;
        if is_first_try && self.store.bytes().is_ok_and(|bytes| bytes <= SMALL) {
            // If there is no room for it, the traces stay until the next time.
            let _ = self.store.connection.execute_batch("VACUUM");
        }
        self.erasing = !self.checkpoint("TRUNCATE");
        let _ = self.store.connection.busy_timeout(STALL);
    }

    /// Runs a checkpoint, and returns whether it was complete.
    pub(super) fn checkpoint(&self, how: &str) -> bool {
        let pragma = format!("PRAGMA wal_checkpoint({how})");
        // A reader may be in the way, or the disk may be full: then the next one does it.
        self.store.connection.query_row(&pragma, [], |row| row.get(0)).is_ok_and(|busy: i64| busy == 0)
    }
}
