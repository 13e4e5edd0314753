//! A database of every file format that was ever written opens with today's code, and everything in it goes on.
//!
//! `files/` holds one for each; the README beside it says what is in them and how to make the next one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod goes_on;
mod recorded;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use andon_runtime::{Agent, Journal, JournaledRun, Message, RunId, Runtime, SessionKey};
use andon_store::SqliteJournal;
use andon_testkit::ScriptedModel;
use andon_testkit::model::Act;
use andon_testkit::tools::{ToolLog, quick};
use flate2::read::GzDecoder;
use rusqlite::Connection;
use tempfile::TempDir;

/// An unpacked database of some format.
struct Old {
    name: String,
    /// The format that its name begins with.
    format: i32,
    folder: TempDir,
}

impl Old {
    fn path(&self) -> PathBuf {
        self.folder.path().join("andon.db")
    }

    /// Whether its usage events name the model that answered and the provider's id for the request.
    fn says_who_answered(&self) -> bool {
        self.format > 6 || ["6-answered.db.gz", "6-hooks.db.gz"].contains(&self.name.as_str())
    }

    /// Whether it has runs with hooks and with a history that their prompt brought along.
    fn has_hooks(&self) -> bool {
        self.format > 6 || self.name == "6-hooks.db.gz"
    }
}

/// All databases of `files/`, unpacked into folders of their own.
fn all() -> Vec<Old> {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/files");
    let mut all: Vec<Old> = fs::read_dir(files).unwrap().map(|entry| unpack(&entry.unwrap().path())).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

fn unpack(packed: &Path) -> Old {
    let name = packed.file_name().unwrap().to_str().unwrap().to_owned();
    let format = name.split(['-', '.']).next().unwrap().parse().unwrap();
    let old = Old { name, format, folder: tempfile::tempdir().unwrap() };
    let mut database = File::create(old.path()).unwrap();
    std::io::copy(&mut GzDecoder::new(File::open(packed).unwrap()), &mut database).unwrap();
    old
}

/// The format that a file says it has.
fn format_of(path: &Path) -> i32 {
    Connection::open(path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

/// A process that has opened a database.
struct Life {
    journal: Arc<dyn Journal>,
    runtime: Runtime,
    agent: Agent,
    tools: ToolLog,
}

impl Life {
    fn open(path: &Path, answers: impl IntoIterator<Item = Vec<Act>>) -> Self {
        let journal: Arc<dyn Journal> = Arc::new(SqliteJournal::open(path).unwrap());
        let runtime = Runtime::builder().journal(Arc::clone(&journal)).build();
        let tools = ToolLog::new();
        let agent = Agent::builder()
            .name("shop")
            .model(ScriptedModel::new(answers))
            .tool(quick("look", &tools))
            .tool(quick("break", &tools))
            .tool(quick("danger", &tools).needs_approval())
            .tool(quick("forever", &tools))
            .runtime(&runtime);
        Self { journal, agent: agent.build().unwrap(), runtime, tools }
    }

    async fn stored(&self, run: &str) -> JournaledRun {
        self.journal.read(&RunId::new(run).unwrap()).await.unwrap().unwrap()
    }

    async fn history(&self, user: &str, session: &str) -> Vec<Arc<Message>> {
        self.journal.history(&key(user, session)).await.unwrap()
    }
}

fn key(user: &str, session: &str) -> SessionKey {
    SessionKey::new("shop", user, session).unwrap()
}

/// Who says what in a history, with the results of tools as text.
fn lines(history: &[Arc<Message>]) -> Vec<String> {
    let line = |message: &Arc<Message>| {
        let results: Vec<String> = message.results().map(|result| format!("{:?}", result.status)).collect();
        let cut = message.cut.map_or(String::new(), |cut| format!(" [{cut:?}]"));
        format!("{:?}: {}{}{cut}", message.role, message.text(), results.join(", "))
    };
    history.iter().map(line).collect()
}

/// Fails when the number of the format rises and no file of it is kept: run the example `format_file`.
#[test]
fn every_format_has_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    drop(SqliteJournal::open(&path).unwrap());
    let kept: BTreeSet<i32> = all().iter().map(|old| old.format).collect();
    assert_eq!(kept, (1..=format_of(&path)).collect());
    for old in all() {
        assert_eq!(format_of(&old.path()), old.format, "{}", old.name);
    }
}

#[test]
fn an_older_file_is_not_opened_to_read_and_the_error_says_what_to_do() {
    let newest = all().iter().map(|old| old.format).max();
    for old in all().into_iter().filter(|old| Some(old.format) < newest) {
        let error = SqliteJournal::open_to_read(old.path()).unwrap_err().to_string();
        assert!(error.contains("only a program that writes can upgrade it: run one"), "{}: {error}", old.name);
        assert_eq!(format_of(&old.path()), old.format, "{} was changed", old.name);
    }
}

#[test]
fn an_older_file_is_copied_before_it_is_changed() {
    for old in all() {
        drop(SqliteJournal::open(old.path()).unwrap());
        let copy = old.folder.path().join(format!("andon.db.v{}.backup", old.format));
        if old.format == format_of(&old.path()) {
            assert!(!copy.exists(), "{}", old.name);
        } else {
            assert_eq!(format_of(&copy), old.format, "{}", old.name);
        }
    }
}
