//! What is wrong with the database, for as long as something is.

use andon_runtime::JournalError;
use parking_lot::Mutex;
use rusqlite::ErrorCode;

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

/// Whether nobody could have written.
pub(crate) fn is_disk_failure(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    !matches!(code, None | Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig)) && !is_full(error)
}

/// Whether there was no room, which there may be for less.
pub(crate) fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

/// Whether another program holds the database.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// What an error of the database means for whoever wanted to write.
pub(crate) fn explain(error: &rusqlite::Error) -> JournalError {
    let hint = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full: make room",
        Some(ErrorCode::ReadOnly) => "the file or its folder cannot be written any more",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program has locked it: close that program"
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => "the file is damaged: export what can be read",
        Some(ErrorCode::SystemIoFailure) => "the disk does not answer as it should",
        Some(ErrorCode::ConstraintViolation) => "it would break the order of the record",
        _ => return JournalError::Storage(error.to_string()),
    };
    JournalError::Storage(format!("{hint} ({error})"))
}
