//! Who has a database open for writing, and where to reach them: the contents of the `.owner` file beside it.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use andon_runtime::core::time::Wall;
use serde::{Deserialize, Serialize};

/// The process that holds a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Owner {
    /// Its process id.
    pub pid: u32,
    /// The name that it gave itself.
    pub program: String,
    /// Since when it has held the database.
    pub since: Wall,
    /// Where it can be reached, if anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// A key to it, for whoever may read the database, if it requires keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<OwnerKey>,
}

/// A key that `Debug` does not print.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OwnerKey(String);

impl OwnerKey {
    /// A key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// The key itself.
    pub fn show(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for OwnerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnerKey(..)")
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let since = self.since.to_string();
        let seconds = since.split('.').next().unwrap_or_default().replace('T', " ");
        write!(f, "process {} ({}, since {seconds} UTC)", self.pid, self.program)?;
        self.address.as_ref().map_or(Ok(()), |address| write!(f, ", at {address}"))
    }
}

/// The process that holds a database, if any.
pub(crate) fn holder(database: &Path) -> Option<Owner> {
    let file = File::open(path(database)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => read(&file),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

pub(super) fn read(mut file: &File) -> Option<Owner> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

pub(super) fn path(database: &Path) -> PathBuf {
    database.with_added_extension("owner")
}
