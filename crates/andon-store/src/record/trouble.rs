//! Why the database cannot be written at the moment.

use andon_runtime::JournalError;
use parking_lot::Mutex;

/// Why nothing can be written at the moment, according to the last commit.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<Option<JournalError>>);

impl Trouble {
    pub(crate) fn set(&self, error: JournalError) {
        *self.0.lock() = Some(error);
    }

    pub(crate) fn clear(&self) {
        *self.0.lock() = None;
    }

    pub(crate) fn get(&self) -> Option<JournalError> {
        self.0.lock().clone()
    }
}
