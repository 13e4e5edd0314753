//! A mutex per key.
//!
//! # Invariants
//!
//! 1. Whoever waits for one key does not wait for those who hold another.
//! 2. Nothing is kept for a key that nobody holds or waits for.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

type Locks = Arc<Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>>;

/// Whose turn it is, for each thing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns {
    locks: Locks,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    /// `None` while it is waited for.
    held: Option<OwnedMutexGuard<()>>,
    thing: String,
    locks: Locks,
}

impl Turns {
    /// Waits for a turn.
    pub(crate) async fn turn(&self, thing: &str) -> Turn {
        let lock = Arc::clone(self.locks.lock().entry(thing.to_owned()).or_default());
        // Dropped while it waits, it leaves nothing behind, too.
        let mut turn = Turn { held: None, thing: thing.to_owned(), locks: Arc::clone(&self.locks) };
        turn.held = Some(lock.lock_owned().await);
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut locks = self.locks.lock();
        drop(self.held.take());
        // Nobody can come by it while the table is locked, so that one that only the table has is one that nobody wants.
        if locks.get(&self.thing).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.thing);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn turns_are_taken_one_after_the_other_for_each_thing_and_leave_nothing_behind() {
        let turns = Turns::default();
        let first = turns.turn("a").await;
        assert!(turns.turn("a").now_or_never().is_none(), "it is somebody's turn");
        drop(turns.turn("b").now_or_never().unwrap());
        drop(first);
        drop(turns.turn("a").now_or_never().unwrap());
        assert!(turns.locks.lock().is_empty(), "{turns:?}");
    }
}
