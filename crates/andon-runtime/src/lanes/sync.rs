//! Locks, and the hash tables that they guard. In one place, so that the model checker can substitute its own locks.

/// A hash map with a fast hash. Nothing depends on its order.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// A set with the same hash.
pub(crate) type HashSet<K> = std::collections::HashSet<K, foldhash::fast::RandomState>;

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

#[cfg(feature = "shuttle")]
pub(crate) use checked::Mutex;
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::MutexGuard;
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

#[cfg(feature = "shuttle")]
mod checked {
    use std::sync::PoisonError;

    use shuttle::sync::MutexGuard;

    /// Shuttle's lock with the interface of the one that is used outside tests: a panic does not poison it.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
