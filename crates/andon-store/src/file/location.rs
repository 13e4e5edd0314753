//! Where a database is: whether its file is still there, and how much room is left on its disk.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use andon_runtime::JournalError;

pub(crate) struct Location {
    path: PathBuf,
    /// The device and inode of the file that was opened.
    file: (u64, u64),
}

impl Location {
    pub(crate) fn new(path: &Path) -> std::io::Result<Self> {
        Ok(Self { path: path.to_path_buf(), file: identity(path)? })
    }

    /// Fails if the file was moved or removed: what is written after that goes into a file that nobody will find.
    pub(crate) fn check(&self) -> Result<(), JournalError> {
        match identity(&self.path) {
            Ok(file) if file == self.file => Ok(()),
            _ => Err(JournalError::Storage(
                "the database file was moved or removed while in use: put it back".to_owned(),
            )),
        }
    }

    /// How many bytes are free on the disk; `u64::MAX` if that is not known.
    pub(crate) fn room(&self) -> u64 {
        rustix::fs::statvfs(&self.path).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
    }
}

/// The device and inode of a file.
pub(super) fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    let file = std::fs::metadata(path)?;
    Ok((file.dev(), file.ino()))
}
