//! The files of a database: one writes them by whatever name, what was acknowledged is in them, and what was deleted is not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod acknowledged;
mod deleted;
mod leaving;
mod names;
mod other;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use andon_runtime::core::time::Wall;
use andon_runtime::{Journal, SessionFilter, SessionKey, StateMap};
use andon_store::SqliteJournal;
use tempfile::TempDir;

/// Longer than anything takes that does not hang.
const SOON: Duration = Duration::from_secs(90);

fn key(session: &str) -> SessionKey {
    SessionKey::new("app", "ada", session).unwrap()
}

/// Begins a session, and waits until it is said to be durable.
async fn create(journal: &SqliteJournal, session: &str) {
    assert_eq!(journal.sessions().create(&key(session), Wall(1), StateMap::new()).await, Ok(true));
}

/// The sessions that a journal holds.
async fn sessions(journal: &SqliteJournal) -> BTreeSet<String> {
    let listed = journal.sessions().list(SessionFilter::default()).await.unwrap();
    listed.iter().map(|info| info.key.session.to_string()).collect()
}

fn named(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The names in a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    std::fs::read_dir(folder).unwrap().map(name).collect()
}

/// The database as a process that was killed now would leave it: what it shared in memory is gone. Copied by another
/// process, because closing a file here would take the locks of our connections away.
fn as_if_killed(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in names(folder).iter().filter(|name| !name.ends_with("-shm")) {
        let copied = Command::new("cp").arg(folder.join(name)).arg(copy.path()).status().unwrap();
        assert!(copied.success(), "{name}");
    }
    copy
}
