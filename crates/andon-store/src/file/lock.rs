//! The lock on a database: an operating-system lock on the database file and on the `.owner` file beside it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use andon_runtime::core::time::Wall;
use parking_lot::Mutex;

use super::find::private;
use super::location::identity;
use super::owner::{Owner, OwnerKey, path, read};

/// Why the lock was not taken.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Another process has it, and which, if known.
    Held(Option<Owner>),
    Io(std::io::Error),
}

/// The lock on a database. The system releases it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    /// The `.owner` file: locked, and describing this process.
    file: File,
    /// The path of that file.
    path: PathBuf,
    owner: Owner,
    /// The database itself, locked as well in case the `.owner` file is removed. `None` while being dropped.
    database: Option<(File, Listed)>,
}

/// The databases that this process has open for writing, by device and inode. Opening one again just to check, and closing it,
/// would drop the POSIX locks of its connections.
static HELD: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// The databases that this process has open for reading only, one entry for each time.
static READ: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// An entry in [`HELD`] or [`READ`], removed on drop.
#[derive(Debug)]
pub(crate) struct Listed {
    list: &'static Mutex<Vec<(u64, u64)>>,
    database: (u64, u64),
}

impl Listed {
    /// `None` if this process already holds it.
    fn as_held(path: &Path) -> std::io::Result<Option<Self>> {
        let database = identity(path)?;
        let mut held = HELD.lock();
        if held.contains(&database) {
            return Ok(None);
        }
        held.push(database);
        Ok(Some(Self { list: &HELD, database }))
    }

    pub(crate) fn as_read(path: &Path) -> std::io::Result<Self> {
        let database = identity(path)?;
        READ.lock().push(database);
        Ok(Self { list: &READ, database })
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut list = self.list.lock();
        if let Some(place) = list.iter().position(|listed| *listed == self.database) {
            list.swap_remove(place);
        }
    }
}

/// Closes a database that was locked. Closing drops the POSIX locks of this process's other connections to it, so while there
/// are any, it is only unlocked, and stays open for the life of the process.
fn close(database: File, identity: (u64, u64)) {
    if READ.lock().contains(&identity) {
        // If this fails, the lock is released when the process ends.
        let _ = database.unlock();
        std::mem::forget(database);
    }
}

impl Lock {
    pub(crate) fn take(database: &Path, program: &str) -> Result<Self, LockError> {
        // Not truncated: its contents tell who holds the lock.
        let file = private().create(true).truncate(false).open(path(database)).map_err(LockError::Io)?;
        wait_for_lock(&file)?;
        let Some(held) = Listed::as_held(database).map_err(LockError::Io)? else {
            return Err(LockError::Held(read(&file)));
        };
        let database_file = OpenOptions::new().read(true).write(true).open(database).map_err(LockError::Io)?;
        if let Err(error) = wait_for_lock(&database_file) {
            close(database_file, held.database);
            return Err(error);
        }
        let since = Wall::from(SystemTime::now());
        let owner = Owner { pid: std::process::id(), program: program.to_owned(), since, address: None, key: None };
        let mut lock = Self { file, path: path(database), owner, database: Some((database_file, held)) };
        lock.write().map_err(LockError::Io)?;
        Ok(lock)
    }

    /// Whether the file is empty or a database. SQLite would take a short text file for an empty database and overwrite it.
    pub(crate) fn is_on_a_database(&self) -> std::io::Result<bool> {
        const HEADER: &[u8] = b"SQLite format 3\0";
        let mut start = Vec::new();
        if let Some((database, _)) = &self.database {
            database.take(HEADER.len() as u64).read_to_end(&mut start)?;
        }
        Ok(start.is_empty() || start == HEADER)
    }

    /// Gives the lock up and leaves nothing beside a file that is not a database.
    pub(crate) fn withdraw(self, database: &Path) {
        // A file that cannot be removed does no harm: it is empty.
        let _ = std::fs::remove_file(path(database));
    }

    /// Publishes where this process can be reached.
    pub(crate) fn set_address(&mut self, address: Option<String>) -> std::io::Result<()> {
        self.owner.address = address;
        self.write()
    }

    /// Publishes the key to this process. Only the user who owns the file may read it, even if somebody else created the file
    /// and has it open: so it is written to a new file, which replaces the old one. A process that waits for the lock on the
    /// old file then finds the database itself locked.
    pub(crate) fn set_key(&mut self, key: Option<OwnerKey>) -> std::io::Result<()> {
        self.owner.key = key;
        let new = self.path.with_added_extension("new");
        // Left by a process that was killed here.
        if let Err(error) = std::fs::remove_file(&new)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let file = private().create_new(true).open(&new)?;
        file.try_lock().map_err(std::io::Error::from)?;
        let old = std::mem::replace(&mut self.file, file);
        self.write()?;
        std::fs::rename(&new, &self.path)?;
        // It described this process; whoever has it open should no longer read that.
        old.set_len(0)
    }

    fn write(&mut self) -> std::io::Result<()> {
        let text = serde_json::to_vec(&self.owner)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&text)?;
        self.file.set_len(text.len() as u64)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // An empty file says that nobody holds the database. After a kill the file is not empty, but its lock is free,
        // which says the same.
        let _ = self.file.set_len(0);
        if let Some((database, held)) = self.database.take() {
            let identity = held.database;
            // First: once the file is closed, its inode number may be reused.
            drop(held);
            close(database, identity);
        }
    }
}

/// Takes the lock. A process that only checks whether it is held has it for an instant, so this tries for a little while.
#[expect(clippy::disallowed_methods, reason = "a lock of the system has no waker, and this is not async code")]
fn wait_for_lock(file: &File) -> Result<(), LockError> {
    for _ in 0..20 {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
            Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
        }
    }
    Err(LockError::Held(read(file)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::owner::holder;

    #[test]
    fn somebody_who_had_the_owner_file_open_cannot_read_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("db");
        std::fs::write(&database, "").unwrap();
        std::fs::write(path(&database), "").unwrap();
        let before = File::open(path(&database)).unwrap();
        let mut lock = Lock::take(&database, "test").unwrap();
        lock.set_key(Some(OwnerKey::new("the-key"))).unwrap();
        lock.set_address(Some("http://here".to_owned())).unwrap();
        assert_eq!(std::io::read_to_string(before).unwrap(), "");
        let holder = holder(&database).unwrap();
        assert_eq!((holder.key, holder.address.as_deref()), (Some(OwnerKey::new("the-key")), Some("http://here")));
        assert!(matches!(Lock::take(&database, "other"), Err(LockError::Held(Some(_)))), "it is still locked");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(path(&database)).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left in the folder");
    }
}
