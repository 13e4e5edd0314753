//! The settings of the database, and the permissions of its files.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn only_their_owner_can_read_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new").join("andon.db");
    let runtime = runtime_on(open(&path));
    session_on(&runtime, &ScriptedModel::new([]), &ToolLog::new()).run("Hello").await.unwrap();
    let modes: Vec<(String, u32)> = crate::files(path.parent().unwrap())
        .keys()
        .map(|name| (name.clone(), mode(&path.with_file_name(name))))
        .collect();
    let names = ["andon.db", "andon.db-shm", "andon.db-wal", "andon.db.owner"];
    assert_eq!(modes, names.map(|name| (name.to_owned(), 0o600)));
    assert_eq!(mode(path.parent().unwrap()), 0o700, "the folder that was created for it");
}

#[tokio::test]
async fn the_database_has_the_documented_settings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let runtime = runtime_on(open(&path));
    session_on(&runtime, &ScriptedModel::new([]), &ToolLog::new()).run("Hello").await.unwrap();
    let other = Connection::open(&path).unwrap();
    let pragma = |name: &str| other.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
    let journal_mode: String = other.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(journal_mode, "wal");
    assert!(pragma("page_size") >= 8192, "page_size is {}", pragma("page_size"));
    assert_eq!(pragma("application_id"), 0x416e_646e, "Andn");
    assert_eq!(pragma("user_version"), 6);
    let version = rusqlite::version_number();
    assert!(version >= 3_051_003, "SQLite {version} can corrupt a file in WAL mode");
}
