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
pub(crate) struct KeyLocks {
    locks: Locks,
}

/// A held lock; dropping it releases it.
#[derive(Debug)]
pub(crate) struct KeyLock {
    /// `None` while waiting for the lock.
    guard: Option<OwnedMutexGuard<()>>,
    key: String,
    locks: Locks,
}

impl KeyLocks {
    /// Waits for the lock of a key.
    pub(crate) async fn lock(&self, key: &str) -> KeyLock {
        let mutex = Arc::clone(self.locks.lock().entry(key.to_owned()).or_default());
        // Created before the wait, so that a wait that is dropped cleans up, too.
        let mut held = KeyLock { guard: None, key: key.to_owned(), locks: Arc::clone(&self.locks) };
        held.guard = Some(mutex.lock_owned().await);
        held
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        let mut locks = self.locks.lock();
        drop(self.guard.take());
        // Nobody can get this lock while the table is locked, so if only the table refers to it, nobody wants it.
        if locks.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_key_has_one_holder_at_a_time_and_a_free_key_is_not_stored() {
        let locks = KeyLocks::default();
        let first = locks.lock("a").await;
        assert!(locks.lock("a").now_or_never().is_none(), "somebody holds it");
        drop(locks.lock("b").now_or_never().unwrap());
        drop(first);
        drop(locks.lock("a").now_or_never().unwrap());
        assert!(locks.locks.lock().is_empty(), "{locks:?}");
    }
}
