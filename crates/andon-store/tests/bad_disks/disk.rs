//! A small disk for tests.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

/// A file system in memory, mounted for one test.
pub(crate) struct Disk {
    folder: TempDir,
    reader: Reader,
}

/// Reads the database while the disk is full, so that the pages of the log cannot be reused either.
type Reader = Arc<Mutex<Option<Connection>>>;

impl Disk {
    /// Mounts one; `None`, with a message, where that is not allowed.
    pub(crate) fn mount(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self { folder, reader: Reader::default() }),
            other => {
                eprintln!("SKIPPED: no disk can be mounted here, so nothing was tested ({other:?})");
                None
            }
        }
    }

    pub(crate) fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let done = Command::new("mount").args(["-o", &options]).arg(self.folder.path()).status().unwrap();
        assert!(done.success(), "mount -o {options}");
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("andon.db")
    }

    fn filler(&self) -> PathBuf {
        self.folder.path().join("filler")
    }

    /// Uses up all the room.
    pub(crate) fn fill(&self) {
        self.filling()();
    }

    /// A function that uses up all the room when called.
    pub(crate) fn filling(&self) -> impl Fn() + Send + Sync + Clone + 'static {
        let (filler, database, reader) = (self.filler(), self.path(), Arc::clone(&self.reader));
        move || {
            *reader.lock() = read(&database);
            fill(&filler);
        }
    }

    pub(crate) fn make_room(&self) {
        *self.reader.lock() = None;
        std::fs::remove_file(self.filler()).unwrap();
    }
}

/// Holds a snapshot of the database, if there is one.
fn read(database: &Path) -> Option<Connection> {
    let reader = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    reader.execute_batch("BEGIN; SELECT count(*) FROM runs").ok()?;
    Some(reader)
}

fn fill(path: &Path) {
    let mut filler = File::create(path).unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        let chunk = vec![b'x'; size];
        while filler.write_all(&chunk).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a failed test may still have files open in it.
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}
