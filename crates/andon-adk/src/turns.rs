//! A mutex per key.
//!
//! # Invariants
//!
//! 1. Waiting for one key never waits for the holder of another.
//! 2. Nothing is stored for a key that nobody holds or waits for.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

type Locks = Arc<Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>>;

/// The mutexes, by key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns {
    locks: Locks,
}

/// A held lock; dropping it releases it.
#[derive(Debug)]
pub(crate) struct Turn {
    /// `None` while waiting for the lock.
    held: Option<OwnedMutexGuard<()>>,
    thing: String,
    locks: Locks,
}

impl Turns {
    /// Waits for the lock of a key.
    pub(crate) async fn turn(&self, thing: &str) -> Turn {
        let lock = Arc::clone(self.locks.lock().entry(thing.to_owned()).or_default());
        // Created before the wait, so that a wait that is dropped cleans up, too.
        let mut turn = Turn { held: None, thing: thing.to_owned(), locks: Arc::clone(&self.locks) };
        turn.held = Some(lock.lock_owned().await);
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut locks = self.locks.lock();
        drop(self.held.take());
        // Nobody can get this lock while the table is locked, so if only the table refers to it, nobody wants it.
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
