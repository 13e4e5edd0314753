//! What nobody waits for: written while there is nothing else to write.

use std::time::Duration;

use super::store::Store;
use super::writer::{STALL, Writer};
use crate::record::SOME;

impl Writer {
    /// Writes the instants at which runs settled and sessions were used, when no commit came to carry them (invariant 2 of
    /// [`instants`](crate::record)). Whatever cannot be written is tried again later.
    pub(super) fn write_the_rest(&self) {
        if self.instants.is_empty() && self.uses.is_empty() {
            return;
        }
        // Without waiting for locks: the next job must not wait for this. If the timeout cannot be set, the previous one stays.
        let _ = self.store.connection.busy_timeout(Duration::ZERO);
        let _ = without_sync(&self.store, |store| {
            // Only while nobody waits: there will be another opportunity.
            while self.queue.is_empty() && !self.instants.is_empty() {
                self.write_some_instants(store)?;
            }
            while self.queue.is_empty() && !self.uses.is_empty() {
                self.write_some_uses(store)?;
            }
            Ok(())
        });
        let _ = self.store.connection.busy_timeout(STALL);
    }

    fn write_some_instants(&self, store: &Store) -> rusqlite::Result<()> {
        let instants = self.instants.oldest(SOME);
        let transaction = store.connection.unchecked_transaction()?;
        store.write_settled(&instants)?;
        transaction.commit()?;
        self.instants.written(&instants);
        Ok(())
    }

    fn write_some_uses(&self, store: &Store) -> rusqlite::Result<()> {
        let (uses, are_all) = self.uses.some();
        let transaction = store.connection.unchecked_transaction()?;
        store.write_uses(&uses)?;
        if are_all {
            // Only this thread adds uses, so there are none that it does not know.
            store.caught_up()?;
        }
        transaction.commit()?;
        self.uses.written(&uses);
        Ok(())
    }
}

/// In WAL mode a commit without a sync cannot damage the file: if the machine crashes, only the commit is lost. The next commit with
/// a sync makes it durable as well.
fn without_sync(store: &Store, work: impl FnOnce(&Store) -> rusqlite::Result<()>) -> rusqlite::Result<()> {
    store.stop_syncing()?;
    let result = work(store);
    store.resume_syncing()?;
    result
}
