//! What SQLite's errors mean for a caller.

use andon_runtime::JournalError;
use rusqlite::ErrorCode;

/// Whether no write at all would have succeeded.
pub(crate) fn is_disk_failure(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    !matches!(code, None | Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig)) && !is_full(error)
}

/// Whether the disk was full. A smaller write may still succeed.
pub(crate) fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

/// Whether another program has locked the database.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// An SQLite error as the journal's callers see it.
pub(crate) fn explain(error: &rusqlite::Error) -> JournalError {
    let hint = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full: make room",
        Some(ErrorCode::ReadOnly) => "the file or its folder is no longer writable",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program has locked it: close that program"
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => "the file is damaged: export what can be read",
        Some(ErrorCode::SystemIoFailure) => "the disk reported an error",
        Some(ErrorCode::ConstraintViolation) => "it would break the order of the record",
        _ => return JournalError::Storage(error.to_string()),
    };
    JournalError::Storage(format!("{hint} ({error})"))
}
