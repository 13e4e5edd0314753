//! What a journal leaves behind when it is dropped, and how much room its log takes until then.

use std::fs;

use andon_runtime::StateChange;
use serde_json::json;

use super::*;

#[tokio::test]
async fn a_dropped_journal_leaves_no_owner_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let beside = folder.path().join("andon.db.owner");
    let journal = SqliteJournal::open(&path).unwrap();
    journal.set_address(Some("http://127.0.0.1:8000".to_owned())).unwrap();
    create(&journal, "s").await;
    assert_eq!(SqliteJournal::owner(&path).unwrap().address.as_deref(), Some("http://127.0.0.1:8000"));
    assert!(fs::read_to_string(&beside).unwrap().contains("127.0.0.1"));
    drop(journal);
    assert_eq!(SqliteJournal::owner(&path), None);
    assert_eq!(fs::read_to_string(&beside).unwrap(), "", "a reader would believe that somebody holds the database");
}

#[tokio::test]
async fn a_dropped_journal_has_everything_in_the_database_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let wal = folder.path().join("andon.db-wal");
    let journal = SqliteJournal::open(&path).unwrap();
    // Somebody has the file open, so SQLite does not checkpoint by itself at the end.
    let looks = Connection::open(&path).unwrap();
    let _: i64 = looks.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap();
    create(&journal, "s").await;
    assert_ne!(fs::metadata(&wal).unwrap().len(), 0, "something was written");
    drop(journal);
    assert_eq!(fs::metadata(&wal).map_or(0, |wal| wal.len()), 0, "something is still in the log");
    // Like somebody who copies only the database file.
    let copy = tempfile::tempdir().unwrap();
    fs::copy(&path, copy.path().join("andon.db")).unwrap();
    let copied = SqliteJournal::open_to_read(copy.path().join("andon.db")).unwrap();
    assert_eq!(sessions(&copied).await, named(&["s"]));
    drop(looks);
}

/// Writes a value that fills pages under a new key, and returns the size of the write-ahead log after that.
async fn write(journal: &SqliteJournal, number: usize, size: usize) -> u64 {
    let change = StateChange::from([(format!("k{number}"), Some(json!("x".repeat(size))))]);
    journal.sessions().change_state(&key("s"), Wall(2), change).await.unwrap();
    let mut wal = journal.path().as_os_str().to_owned();
    wal.push("-wal");
    fs::metadata(wal).unwrap().len()
}

#[tokio::test]
async fn the_write_ahead_log_takes_bounded_room_however_much_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("andon.db")).unwrap();
    let mut largest = 0;
    for number in 0..160 {
        largest = largest.max(write(&journal, number, 1 << 19).await);
    }
    let written = fs::metadata(journal.path()).unwrap().len();
    assert!(written > 48 << 20, "only {written} bytes have reached the database file");
    assert!(largest < 40 << 20, "it has grown to {largest} bytes");
}

#[tokio::test]
async fn after_a_reader_was_in_the_way_the_write_ahead_log_takes_bounded_room_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let journal = SqliteJournal::open(&path).unwrap();
    write(&journal, 0, 1).await;
    let looks = Connection::open(&path).unwrap();
    looks.execute_batch("BEGIN").unwrap();
    let _: i64 = looks.query_row("SELECT count(*) FROM state", [], |row| row.get(0)).unwrap();
    for number in 0..80 {
        write(&journal, number, 1 << 19).await;
    }
    looks.execute_batch("COMMIT").unwrap();
    drop(looks);
    let mut last = 0;
    for number in 80..200 {
        last = write(&journal, number, 1 << 19).await;
    }
    assert!(last <= 64 << 20, "it is {last} bytes still");
}
