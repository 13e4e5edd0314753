//! The files of a database: one process writes them, whatever name it used; acknowledged data is in them, and deleted data is not.
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
use rusqlite::Connection;
use tempfile::TempDir;

/// Longer than anything that does not hang.
const SOON: Duration = Duration::from_secs(90);

fn key(session: &str) -> SessionKey {
    SessionKey::new("app", "ada", session).unwrap()
}

/// Creates a session, and waits until that is acknowledged.
async fn create(journal: &SqliteJournal, session: &str) {
    assert_eq!(journal.sessions().create(&key(session), Wall(1), StateMap::new()).await, Ok(true));
}

/// The sessions in a journal.
async fn sessions(journal: &SqliteJournal) -> BTreeSet<String> {
    let listed = journal.sessions().list(SessionFilter::default()).await.unwrap();
    listed.iter().map(|info| info.key.session.to_string()).collect()
}

fn named(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The names of the files in a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    std::fs::read_dir(folder).unwrap().map(name).collect()
}

/// The database as a process killed at this moment would leave it: its shared memory is gone. Another process copies it, because
/// closing a file here would drop the locks of our connections.
fn as_if_killed(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in names(folder).iter().filter(|name| !name.ends_with("-shm")) {
        let copied = Command::new("cp").arg(folder.join(name)).arg(copy.path()).status().unwrap();
        assert!(copied.success(), "{name}");
    }
    copy
}
