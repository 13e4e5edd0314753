//! Acknowledged data is on disk, whoever else opens and closes the file.
//!
//! Closing a file drops all POSIX locks that the process has on it, including those of other connections. A database without
//! locks looks closed to another program, which then cleans up: it removes the log that the next commits go to.

use andon_store::OpenError;

use super::*;
use crate::other;

/// Writes after another process has opened and closed the file; what is acknowledged must survive a kill.
async fn assert_kept(journal: &SqliteJournal, folder: &Path, what: &str) {
    let path = folder.join("andon.db");
    let before = sessions(journal).await;
    assert_eq!(other::counts_sessions(&path), before.len(), "{what}: another process sees what is there");
    assert!(names(folder).contains("andon.db-wal"), "{what}: another process has removed the log");
    for name in ["next", "last"] {
        create(journal, &format!("{what}: {name}")).await;
    }
    let there = sessions(journal).await;
    assert_eq!(there.len(), before.len() + 2);
    let copy = as_if_killed(folder);
    let opened = SqliteJournal::open(copy.path().join("andon.db")).unwrap();
    assert_eq!(sessions(&opened).await, there, "{what}: acknowledged, but lost in a kill");
}

fn assert_in_use(path: &Path) {
    let error = SqliteJournal::open(path).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
}

#[tokio::test]
async fn acknowledged_data_survives_a_kill_although_this_process_has_opened_its_own_file_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let journal = SqliteJournal::open(&path).unwrap();
    create(&journal, "first").await;
    assert_kept(&journal, folder.path(), "nobody looked").await;
    drop(SqliteJournal::open_to_read(&path).unwrap());
    assert_kept(&journal, folder.path(), "opened for reading").await;
    assert_in_use(&path);
    assert_kept(&journal, folder.path(), "opened again").await;
    assert_eq!(SqliteJournal::owner(&path).unwrap().pid, std::process::id());
    assert_kept(&journal, folder.path(), "asked for its owner").await;
    drop(Connection::open(&path).unwrap());
    assert_kept(&journal, folder.path(), "opened by the program itself").await;
}

#[tokio::test]
async fn acknowledged_data_survives_a_kill_although_the_file_was_opened_by_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("andon.db"), folder.path().join("link.db"));
    let journal = SqliteJournal::open(&path).unwrap();
    create(&journal, "first").await;
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_in_use(&link);
    drop(SqliteJournal::open_to_read(&link).unwrap());
    std::fs::remove_file(&link).unwrap();
    assert_kept(&journal, folder.path(), "by a symbolic link").await;
    let hard = folder.path().join("hard.db");
    std::fs::hard_link(&path, &hard).unwrap();
    SqliteJournal::open(&hard).unwrap_err();
    SqliteJournal::open_to_read(&hard).unwrap_err();
    std::fs::remove_file(&hard).unwrap();
    assert_kept(&journal, folder.path(), "by a hard link").await;
    std::fs::remove_file(folder.path().join("andon.db.owner")).unwrap();
    assert_in_use(&path);
    assert_kept(&journal, folder.path(), "without the owner file").await;
}

#[tokio::test]
async fn acknowledged_data_survives_a_kill_although_a_reader_outlived_the_previous_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let before = SqliteJournal::open(&path).unwrap();
    create(&before, "first").await;
    let reader = SqliteJournal::open_to_read(&path).unwrap();
    assert_eq!(sessions(&reader).await, named(&["first"]));
    drop(before);
    let journal = SqliteJournal::open(&path).unwrap();
    assert_kept(&journal, folder.path(), "a reader looks on").await;
    assert!(sessions(&reader).await.contains("first"), "{}", key("first"));
    drop(reader);
    assert_kept(&journal, folder.path(), "the reader is gone").await;
}
