//! One process writes a database, whatever name it is opened by.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;

use andon_store::{OpenError, SqliteJournal};

use crate::{SOON, create, named, names, other, sessions};

fn assert_in_use(path: &Path) {
    let error = SqliteJournal::open(path).expect_err("it has a writer already");
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    let said = other::opens(path);
    assert!(said.contains("is in use by"), "another process was told: {said}");
}

#[tokio::test]
async fn a_link_to_a_file_that_does_not_exist_yet_opens_that_file() {
    for first in ["link.db", "real.db"] {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.db"), folder.path().join("link.db"));
        symlink(&real, &link).unwrap();
        let journal = SqliteJournal::open(folder.path().join(first)).unwrap();
        create(&journal, "s").await;
        for name in [&real, &link] {
            assert_in_use(name);
            assert_eq!(SqliteJournal::owner(name).unwrap().pid, std::process::id());
            let reader = SqliteJournal::open_to_read(name).unwrap();
            assert_eq!(sessions(&reader).await, named(&["s"]));
        }
        let beside = named(&["link.db", "real.db", "real.db-shm", "real.db-wal", "real.db.owner"]);
        assert_eq!(names(folder.path()), beside, "opened as {first}");
    }
}

#[tokio::test]
async fn a_file_with_a_hard_link_is_refused_by_both_names() {
    let folder = tempfile::tempdir().unwrap();
    let (path, hard) = (folder.path().join("andon.db"), folder.path().join("hard.db"));
    let journal = SqliteJournal::open(&path).unwrap();
    create(&journal, "s").await;
    fs::hard_link(&path, &hard).unwrap();
    let refused = |path: &Path| {
        let error = SqliteJournal::open(path).unwrap_err();
        assert!(error.to_string().contains("hard link"), "{error}");
        let said = other::opens(path);
        assert!(said.contains("hard link"), "another process was told: {said}");
    };
    refused(&hard);
    drop(journal);
    refused(&hard);
    refused(&path);
    assert!(!names(folder.path()).contains("hard.db.owner"), "{:?}", names(folder.path()));
    fs::remove_file(&hard).unwrap();
    let journal = SqliteJournal::open(&path).unwrap();
    assert_eq!(sessions(&journal).await, named(&["s"]));
}

#[tokio::test]
async fn a_database_stays_locked_although_its_owner_file_was_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let journal = SqliteJournal::open(&path).unwrap();
    create(&journal, "s").await;
    for _ in 0..2 {
        fs::remove_file(folder.path().join("andon.db.owner")).unwrap();
        assert_in_use(&path);
    }
    create(&journal, "t").await;
    drop(journal);
    assert_eq!(other::opens(&path), "opened");
    let journal = SqliteJournal::open(&path).unwrap();
    assert_eq!(sessions(&journal).await, named(&["s", "t"]));
}

/// Opens a path in every way, and returns the errors; fails if one hangs.
fn refusals(path: &Path) -> Vec<String> {
    let (sender, said) = mpsc::channel();
    let opened: PathBuf = path.to_owned();
    // If it hangs, the thread is abandoned: the test has failed.
    std::thread::spawn(move || {
        let errors = [SqliteJournal::open(&opened).unwrap_err(), SqliteJournal::open_to_read(&opened).unwrap_err()];
        assert_eq!(SqliteJournal::owner(&opened), None);
        let _ = sender.send(errors.map(|error| error.to_string()).to_vec());
    });
    said.recv_timeout(SOON).unwrap_or_else(|error| panic!("{} was opened, or it hangs: {error}", path.display()))
}

#[test]
fn what_is_not_a_regular_file_is_refused_at_once_and_nothing_is_put_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, inner) = (folder.path().join("pipe"), folder.path().join("folder"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::create_dir(&inner).unwrap();
    for (link, to) in [("to-pipe", &pipe), ("to-folder", &inner), ("to-null", &PathBuf::from("/dev/null"))] {
        symlink(to, folder.path().join(link)).unwrap();
    }
    let before = names(folder.path());
    for name in &before {
        let why = if name.ends_with("folder") { "it is a folder" } else { "it is not a regular file" };
        for said in refusals(&folder.path().join(name)) {
            assert!(said.contains(name) && said.contains(why), "{said}");
        }
    }
    for said in refusals(Path::new("/dev/null")) {
        assert!(said.contains("it is not a regular file"), "{said}");
    }
    assert_eq!(names(folder.path()), before);
    assert_eq!(names(&inner), named(&[]));
    for beside in ["/dev/null.owner", "/dev/null-wal", "/dev/null-shm"] {
        assert!(!Path::new(beside).exists(), "{beside}");
    }
}

#[test]
fn a_path_that_does_not_name_a_file_is_refused() {
    for path in ["", "/", ".."] {
        for said in refusals(Path::new(path)) {
            assert!(!said.is_empty(), "{path:?}");
        }
    }
}
