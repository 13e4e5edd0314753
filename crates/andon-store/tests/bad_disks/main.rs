//! Real bad disks and bad files: files that are not ours stay unchanged, errors say what to do, and nothing is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod disk;
mod erasing;
mod files;
mod full;
mod locked;
mod settings;
mod stalled;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::outcome::Ending;
use andon_runtime::{Agent, Cancel, Journal, Run, Runtime, Session};
use andon_store::{OpenError, SqliteJournal};
use andon_testkit::tools::{self, ToolLog};
use andon_testkit::{Act, ScriptedModel, until_shown};
use rusqlite::Connection;

/// Opens a database, which must succeed.
fn open(path: impl AsRef<Path>) -> Arc<SqliteJournal> {
    Arc::new(SqliteJournal::open(path).unwrap())
}

fn runtime_on(journal: Arc<SqliteJournal>) -> Runtime {
    Runtime::builder().journal(journal).build()
}

/// Session `s` of an agent with a quick tool `look`.
fn session_on(runtime: &Runtime, model: &ScriptedModel, log: &ToolLog) -> Session {
    let builder = Agent::builder().model(model.clone()).runtime(runtime).tool(tools::quick("look", log));
    builder.build().unwrap().session("ada", "s").unwrap()
}

/// Every file in a folder, with its bytes.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    };
    std::fs::read_dir(folder).unwrap().map(read).collect()
}

/// Asks SQLite whether a file is sound, on a separate connection.
fn assert_sound(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let said: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(said, "ok");
}
