//! Which processes of this machine are dead. Each that has a lease holds a lock on a file of its own; the system releases it when
//! the process ends, however it ends. Whoever gets that lock knows that nobody needs the lease any more, and does not wait for it.
//!
//! The folder has the processes of all databases and schemas, so the file of a dead one stays until somebody has read it who shares
//! its schema.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::path::PathBuf;

/// A lock that says that this process is alive. It is released, and its file removed, when it is dropped.
#[derive(Debug)]
pub(super) struct Alive {
    _locked: File,
    path: PathBuf,
}

impl Alive {
    /// Takes the lock of the process with this id.
    pub(super) fn announce(id: &str) -> io::Result<Self> {
        let folder = folder();
        create(&folder)?;
        let path = folder.join(id);
        let locked = OpenOptions::new().write(true).create_new(true).open(&path)?;
        // Somebody may be looking whether it is locked, which takes no time.
        locked.lock()?;
        Ok(Self { _locked: locked, path })
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        // A file that is left behind is removed by whoever finds it.
        let _ = fs::remove_file(&self.path);
    }
}

/// The ids of processes that were on this machine and are dead, of whatever schema.
pub(super) fn dead() -> Vec<String> {
    let files = fs::read_dir(folder()).into_iter().flatten().flatten();
    // Shared, so that several may look at once.
    let is_dead = |file: &fs::DirEntry| File::open(file.path()).is_ok_and(|locked| locked.try_lock_shared().is_ok());
    files.filter(is_dead).filter_map(|file| file.file_name().into_string().ok()).collect()
}

/// Removes the files of dead processes that everybody knows now who has to.
pub(super) fn forget(ids: &[String]) {
    for id in ids {
        // One that is left behind is found again, which does no harm.
        let _ = fs::remove_file(folder().join(id));
    }
}

/// A folder that only this machine has, and that does not outlive its next start: no process is taken for one of another machine.
fn folder() -> PathBuf {
    dirs::runtime_dir().unwrap_or_else(std::env::temp_dir).join("andon-replicas")
}

fn create(folder: &PathBuf) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_dead_once_its_lock_is_gone() {
        let (living, dying) = (uuid::Uuid::now_v7().to_string(), uuid::Uuid::now_v7().to_string());
        let _alive = Alive::announce(&living).unwrap();
        // As a process leaves it that was killed: the file is there, and the lock is not.
        fs::write(folder().join(&dying), "").unwrap();
        let found = dead();
        assert!(found.contains(&dying) && !found.contains(&living), "{found:?}");
        assert!(dead().contains(&dying), "whoever has another schema does not take it from us");
        forget(std::slice::from_ref(&dying));
        assert!(!dead().contains(&dying));
    }
}
