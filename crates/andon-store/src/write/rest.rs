//! What nobody waits for, written while there is nothing else to write.

use std::time::Duration;

use super::instants::SOME;
use super::store::Store;
use super::writer::{STALL, Writer};

impl Writer {
    /// Writes what nobody waits for, although nothing else is to be written (invariant 2): instants, and when sessions were used.
    /// What cannot be written now is tried again.
    pub(super) fn write_the_rest(&self) {
        if self.instants.is_empty() && self.uses.is_empty() {
            return;
        }
        // Without patience: what comes next must not wait for it. Settings that cannot be changed stay as they are.
        let _ = self.store.connection.busy_timeout(Duration::ZERO);
        let _ = without_sync(&self.store, |store| {
            // As long as nobody waits: there will be another rest.
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

    /// Writes some of them, when there is nothing else to do.
    fn write_some_uses(&self, store: &Store) -> rusqlite::Result<()> {
        let (uses, are_all) = self.uses.some();
        let transaction = store.connection.unchecked_transaction()?;
        store.write_uses(&uses)?;
        if are_all {
            // Only this thread adds any.
            store.caught_up()?;
        }
        transaction.commit()?;
        self.uses.written(&uses);
        Ok(())
    }
}

/// In this kind of database a commit without a sync cannot damage the file: what a crash of the machine takes away is the commit.
/// The next commit with a sync makes it durable, too.
fn without_sync(store: &Store, work: impl FnOnce(&Store) -> rusqlite::Result<()>) -> rusqlite::Result<()> {
    store.stop_syncing()?;
    let result = work(store);
    store.resume_syncing()?;
    result
}
