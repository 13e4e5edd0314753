//! Why nothing can be written, for as long as nothing can.

use andon_runtime::JournalError;
use parking_lot::Mutex;

/// Why nothing can be written now, as the last commit told.
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
