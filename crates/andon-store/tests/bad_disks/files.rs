//! Files that are not ours to write, or not yet.

use std::fs;

use super::*;

fn refused(path: &Path) -> OpenError {
    SqliteJournal::open(path).expect_err("a file that is not ours was opened")
}

#[test]
fn a_file_that_is_not_a_database_stays_unchanged_byte_for_byte() {
    for text in ["x", "Dear diary, today I pulled the cord.\n", "SQLite format 2\0 and so on and so forth"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("diary.txt");
        fs::write(&path, text).unwrap();
        let before = files(folder.path());
        for error in [refused(&path), SqliteJournal::open_to_read(&path).unwrap_err()] {
            assert!(matches!(error, OpenError::NotOurs { .. }), "{error}");
            let said = error.to_string();
            assert!(said.contains("diary.txt") && said.contains("choose another file"), "{said}");
        }
        assert_eq!(files(folder.path()), before, "and nothing was put beside it");
    }
}

#[test]
fn a_file_that_only_begins_like_a_database_stays_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let mut bytes = b"SQLite format 3\0".to_vec();
    bytes.extend((0..20_000_u32).map(|n| (n % 251) as u8));
    fs::write(&path, &bytes).unwrap();
    let error = refused(&path);
    assert!(matches!(error, OpenError::NotOurs { .. }), "{error}");
    assert!(fs::read(&path).unwrap() == bytes, "it was changed");
}

#[test]
fn the_database_of_another_program_stays_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.db");
    let theirs = Connection::open(&path).unwrap();
    theirs.execute_batch("CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('keep me');").unwrap();
    drop(theirs);
    let before = fs::read(&path).unwrap();
    for error in [refused(&path), SqliteJournal::open_to_read(&path).unwrap_err()] {
        assert!(matches!(error, OpenError::NotOurs { .. }), "{error}");
        assert!(error.to_string().contains("another program"), "{error}");
    }
    assert!(fs::read(&path).unwrap() == before, "it was changed");
}

#[test]
fn the_database_of_another_program_that_marks_its_files_stays_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("theirs.db");
    let theirs = Connection::open(&path).unwrap();
    theirs.execute_batch("PRAGMA application_id = 7; PRAGMA user_version = 1;").unwrap();
    drop(theirs);
    let before = fs::read(&path).unwrap();
    let error = refused(&path);
    assert!(matches!(error, OpenError::NotOurs { .. }), "{error}");
    assert!(fs::read(&path).unwrap() == before, "it was changed");
}

#[test]
fn a_file_of_a_newer_version_is_refused_by_name_and_stays_unchanged() {
    // In our journal mode, and in another that a newer version may use: it is not ours to change back.
    for journal_mode in ["wal", "delete"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("andon.db");
        drop(open(&path));
        let newer = Connection::open(&path).unwrap();
        newer.pragma_update(None, "journal_mode", journal_mode).unwrap();
        newer.pragma_update(None, "user_version", 99).unwrap();
        drop(newer);
        let before = fs::read(&path).unwrap();
        for error in [refused(&path), SqliteJournal::open_to_read(&path).unwrap_err()] {
            assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
            assert!(error.to_string().contains("newer version"), "{error}");
        }
        assert!(fs::read(&path).unwrap() == before, "it was changed (journal_mode={journal_mode})");
    }
}

#[test]
fn an_empty_file_becomes_a_database_and_a_folder_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.db");
    fs::write(&path, "").unwrap();
    drop(open(&path));
    drop(SqliteJournal::open_to_read(&path).unwrap());
    let error = refused(folder.path());
    assert!(error.to_string().contains("it is a folder"), "{error}");
}

#[test]
fn opening_a_missing_file_for_reading_does_not_create_it() {
    let folder = tempfile::tempdir().unwrap();
    let error = SqliteJournal::open_to_read(folder.path().join("andon.db")).unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    assert!(files(folder.path()).is_empty());
}
