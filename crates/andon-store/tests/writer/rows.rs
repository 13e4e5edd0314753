//! What is in the tables, as another program finds it.

use andon_runtime::core::event::AddendumKind;
use andon_runtime::core::usage::Used;
use andon_runtime::{RequestFate, StateChange};
use rusqlite::Connection;
use serde_json::json;

use super::*;
use crate::told::{request, stamp};

fn rows(path: &Path) -> Vec<(&'static str, i64)> {
    let connection = Connection::open(path).unwrap();
    let count = |table| {
        let sql = format!("SELECT count(*) FROM {table}");
        (table, connection.query_row(&sql, [], |row| row.get(0)).unwrap())
    };
    ["sessions", "runs", "events", "lumps", "addenda", "cancel_requests", "state"].map(count).to_vec()
}

/// The owner and the epoch in a run's row.
fn owner(path: &Path, run: &str) -> (String, i64) {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT owner, epoch FROM runs WHERE run = ?1";
    connection.query_row(sql, [run], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}

#[tokio::test]
async fn a_deleted_session_leaves_no_row_in_any_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let journal = SqliteJournal::open(&path).unwrap();
    let mut told = Told::new("r", "s");
    let mut entries = told.begun();
    entries.push(told.streamed("so far"));
    told.write(&journal, entries).await;
    for _ in 0..2 {
        assert_eq!(journal.request_cancel(&told.run, request()).await, Ok(RequestFate::Recorded));
    }
    let last = told.settled();
    told.write(&journal, [last]).await;
    let learned = AddendumKind::UsageCorrected { call: 1, used: Box::new(Used::UNKNOWN) };
    journal.append_addendum(&told.run, stamp(), learned).await.unwrap();
    let own = StateChange::from([("own".to_owned(), Some(json!(1)))]);
    journal.sessions().change_state(&told.session, stamp().wall, own).await.unwrap();
    let all = [1, 1, 3, 1, 1, 2, 1];
    assert_eq!(rows(&path).iter().map(|(_, count)| *count).collect::<Vec<_>>(), all, "it was written");
    assert_eq!(journal.sessions().delete(&told.session).await, Ok(true));
    let left: Vec<_> = rows(&path).into_iter().filter(|(_, count)| *count != 0).collect();
    assert_eq!(left, []);
}

/// A database with a run that another journal began, and that journal's owner id.
async fn left_by_another(path: &Path) -> (Told, String) {
    let journal = SqliteJournal::open(path).unwrap();
    let mut told = Told::new("r", "s");
    let begun = told.begun();
    told.write(&journal, begun).await;
    let (before, epoch) = owner(path, "r");
    assert_eq!(epoch, 1);
    (told, before)
}

/// A journal's owner id, from the row of a run that it begins.
async fn name_of(journal: &SqliteJournal) -> String {
    let mut own = Told::new("own", "s");
    let begun = own.begun();
    own.write(journal, begun).await;
    owner(journal.path(), "own").0
}

#[tokio::test]
async fn a_run_that_is_claimed_belongs_to_the_claimant() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let (told, before) = left_by_another(&path).await;
    let journal = SqliteJournal::open(&path).unwrap();
    assert_eq!(owner(&path, "r"), (before.clone(), 1), "opening claims nothing");
    assert_eq!(journal.claim(&told.run, told.epoch).await, Ok(Some(2)));
    let name = name_of(&journal).await;
    assert_ne!(name, before, "each process has its own id");
    assert_eq!(owner(&path, "r"), (name, 2));
}

#[tokio::test]
async fn a_run_that_is_taken_over_belongs_to_the_process_that_took_it() {
    for ends in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("andon.db");
        let (mut told, _) = left_by_another(&path).await;
        let journal = SqliteJournal::open(&path).unwrap();
        told.epoch = 2;
        let next = if ends { told.settled() } else { told.quieted() };
        journal.append(Batch::taking_over(told.run.clone(), 1, vec![next])).await.unwrap();
        let name = name_of(&journal).await;
        assert_eq!(owner(&path, "r"), (name, 2), "with its end: {ends}");
    }
}

#[tokio::test]
async fn a_run_that_continues_stays_with_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let journal = SqliteJournal::open(&path).unwrap();
    let name = name_of(&journal).await;
    let mut told = Told::new("r", "t");
    let begun = told.begun();
    told.write(&journal, begun).await;
    let next = told.quieted();
    told.write(&journal, [next]).await;
    assert_eq!(owner(&path, "r"), (name, 1));
    assert_eq!(journal.sessions().state(&key("t")).await, Ok(Some(andon_runtime::StateMap::new())));
}

/// However much is written without a pause, the log is checkpointed and starts over.
#[tokio::test(flavor = "multi_thread")]
async fn the_write_ahead_log_does_not_grow_with_the_amount_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let journal = SqliteJournal::open(&path).unwrap();
    let mut told = Told::new("r", "s");
    let begun = told.begun();
    told.write(&journal, begun).await;
    let text = "x".repeat(256 << 10);
    for _ in 0..320 {
        let lump = told.streamed(&text);
        told.write(&journal, [lump]).await;
    }
    let bytes = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
    assert!(bytes("andon.db") > 32 << 20, "{} bytes of 80 MiB are in the database file", bytes("andon.db"));
    assert!(bytes("andon.db-wal") < 48 << 20, "{} bytes stand beside it", bytes("andon.db-wal"));
}
