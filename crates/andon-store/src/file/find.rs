//! Finding the file, and the checks before SQLite opens it.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::error::{OpenError, not_writable, shown};

/// The file's real path. The file and its folder are created if they do not exist.
pub(super) fn find_file(path: &Path) -> Result<PathBuf, OpenError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    check_kind(path)?;
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(|error| not_writable(folder, &error))?;
    if !path.exists() {
        create_private(path).map_err(|error| not_writable(path, &error))?;
    }
    // The lock is beside the real file, whatever name it was opened by.
    path.canonicalize().map_err(|error| not_writable(path, &error))
}

/// Creates a file that only its owner can read: it holds conversations. Only for a file that does not exist: opening and closing
/// one that a connection of this process has open would drop the connection's POSIX locks.
pub(super) fn create_private(path: &Path) -> std::io::Result<()> {
    private().create(true).truncate(false).open(path).map(drop)
}

/// How to open a file that only its owner can read if it is created.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Checks what kind of file it is, without opening it.
pub(super) fn check_kind(path: &Path) -> Result<(), OpenError> {
    let refused = |why: &str| Err(OpenError::Other { path: shown(path), why: why.to_owned() });
    let Ok(file) = fs::metadata(path) else {
        return if path.file_name().is_some() { Ok(()) } else { refused("the path does not name a file") };
    };
    if file.is_dir() {
        return refused("it is a folder: name a file in it, such as andon.db");
    }
    if !file.is_file() {
        return refused("it is not a regular file");
    }
    if file.nlink() > 1 {
        return refused(
            "it has a second name (a hard link), under which another program could damage it: remove one of them",
        );
    }
    Ok(())
}

#[cfg(target_os = "linux")]
pub(super) fn check_file_system(path: &Path) -> Result<(), OpenError> {
    let Some(stat) = path.parent().and_then(|folder| rustix::fs::statfs(folder).ok()) else { return Ok(()) };
    // From Linux's <linux/magic.h>.
    let kind = match stat.f_type {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB2",
        0x5346_414f => "AFS",
        _ => return Ok(()),
    };
    Err(OpenError::Network { path: shown(path), kind })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn check_file_system(_path: &Path) -> Result<(), OpenError> {
    Ok(())
}
