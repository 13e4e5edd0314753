//! Room on the disk: the write-ahead log is brought into the file, and what was deleted is erased.

use std::time::Duration;

use super::sweeper::Sweep;
use super::writer::{STALL, Writer};

/// How many pages are written before they are brought into the file itself: 16 MiB, or less on a disk that has little room. Tests of
/// this crate's own do not write as much.
const CHECKPOINT: i32 = if cfg!(test) { 128 } else { 2048 };
/// From this many pages on the log is made to start over, which holds up readers.
const LARGE: i32 = 4 * CHECKPOINT;
/// Before that many pages it is not asked how much room there is.
const FEW: i32 = 16;
const PAGE: u64 = 8192;

/// How long a reader may be in the way of what is to be gone from the disk before the others go on.
pub(super) const ERASE: Duration = Duration::from_millis(250);

/// Up to which size a database is written anew when something was deleted: it takes a tenth of a second.
const SMALL: i64 = 16 << 20;

impl Writer {
    /// Has what was written brought into the file itself now and then, after everybody was told.
    pub(super) fn make_room(&mut self) {
        let pages = self.store.wal_pages();
        if pages < self.checkpointed {
            // It is written from its beginning again: all that was in it is where it belongs.
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

    /// How many pages may stand in the file of what was written last: on a small disk it must leave room for the rest.
    fn most_pages(&self) -> i32 {
        if self.store.wal_pages() - self.checkpointed < FEW {
            return CHECKPOINT;
        }
        let quarter = self.location.room() / 4 / PAGE;
        i32::try_from(quarter).unwrap_or(CHECKPOINT).clamp(FEW, CHECKPOINT)
    }

    /// Empties the file of what was written last, where what was deleted may still stand. A small database is written anew
    /// first: what it has moved from page to page leaves traces in the pages.
    pub(super) fn erase(&mut self, patience: Duration) {
        // A patience that cannot be set is the one before it.
        let _ = self.store.connection.busy_timeout(patience);
        let is_first_try = !self.erasing || patience > Duration::ZERO;
        if is_first_try && self.store.bytes().is_ok_and(|bytes| bytes <= SMALL) {
            // If there is no room for it the traces stay until the next time.
            let _ = self.store.connection.execute_batch("VACUUM");
        }
        self.erasing = !self.checkpoint("TRUNCATE");
        let _ = self.store.connection.busy_timeout(STALL);
    }

    /// Brings what was written into the file itself; says whether nothing was in the way.
    pub(super) fn checkpoint(&self, how: &str) -> bool {
        let pragma = format!("PRAGMA wal_checkpoint({how})");
        // A reader may be in the way, or the disk may be full: then it is done the next time.
        self.store.connection.query_row(&pragma, [], |row| row.get(0)).is_ok_and(|busy: i64| busy == 0)
    }
}
