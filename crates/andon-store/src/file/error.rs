//! Why a database cannot be opened, and what to do.

use std::io::ErrorKind;
use std::path::Path;

use rusqlite::ErrorCode;

use super::open::PATIENCE;
use super::owner::Owner;
use super::schema::VERSION;

/// Why a database cannot be used, and what to do.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum OpenError {
    /// Another process is using it.
    #[error("{path} is in use by {}: stop that first, or choose another file", holder(.owner.as_deref()))]
    InUse {
        /// The file.
        path: String,
        /// The process that has it open, if known.
        owner: Option<Box<Owner>>,
    },
    /// Another program has locked it.
    #[error("{path} has been locked by another program for {} s: close that program, or choose another file", PATIENCE.as_secs())]
    Locked {
        /// The file.
        path: String,
    },
    /// The folder or the file cannot be written.
    #[error("{path} cannot be opened for writing: {why}; choose a file in a folder that you can write to")]
    NotWritable {
        /// The file or folder.
        path: String,
        /// The operating system's message.
        why: String,
    },
    /// There is no such file.
    #[error("there is no database at {path}: nothing has been recorded there yet")]
    Missing {
        /// The file.
        path: String,
    },
    /// The file is not an Andon database.
    #[error("{path} is not an Andon database: {why}; it was not changed, choose another file")]
    NotOurs {
        /// The file.
        path: String,
        /// What it is instead.
        why: String,
    },
    /// A newer version of Andon has written it.
    #[error(
        "{path} was written by a newer version of Andon (format {found}, and this version knows {VERSION}): use that version"
    )]
    Newer {
        /// The file.
        path: String,
        /// Its format.
        found: i32,
    },
    /// The file is on a network file system.
    #[error(
        "{path} is on a network file system ({kind}), where locks cannot be relied on: choose a file on a local disk"
    )]
    Network {
        /// The file.
        path: String,
        /// Which kind.
        kind: &'static str,
    },
    /// The disk is full.
    #[error("the disk has no room for {path}: free some space, or choose a file on another disk")]
    Full {
        /// The file.
        path: String,
    },
    /// Something else.
    #[error("{path} cannot be opened: {why}")]
    Other {
        /// The file.
        path: String,
        /// SQLite's message.
        why: String,
    },
}

fn holder(owner: Option<&Owner>) -> String {
    owner.map_or_else(|| "another process".to_owned(), ToString::to_string)
}

pub(super) fn no_database(path: &Path) -> OpenError {
    OpenError::NotOurs { path: shown(path), why: "it is not an SQLite database".to_owned() }
}

/// What an SQLite error means when opening the file.
pub(super) fn explain(path: &Path, error: &rusqlite::Error) -> OpenError {
    let path = shown(path);
    let why = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Locked { path },
        Some(ErrorCode::NotADatabase) => no_database(Path::new(&path)),
        Some(ErrorCode::DatabaseCorrupt) => OpenError::NotOurs { path, why },
        Some(ErrorCode::DiskFull) => OpenError::Full { path },
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            OpenError::NotWritable { path, why }
        }
        _ => OpenError::Other { path, why },
    }
}

pub(super) fn not_writable(path: &Path, error: &std::io::Error) -> OpenError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => OpenError::Full { path: shown(path) },
        _ => OpenError::NotWritable { path: shown(path), why: error.to_string() },
    }
}

pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}
