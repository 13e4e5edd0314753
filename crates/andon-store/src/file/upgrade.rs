//! Upgrading an empty file, or one of an older version, to the current version.

use std::fs::{self, File};
use std::path::Path;

use rusqlite::Connection;

use super::error::{OpenError, explain, shown};
use super::find::create_private;
use super::schema::APPLICATION_ID;
use super::settings;

/// The file's version; `None` if nothing has been written to it yet.
pub(super) fn version(path: &Path, connection: &Connection) -> Result<Option<i32>, OpenError> {
    let failed = |error: rusqlite::Error| explain(path, &error);
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0)).map_err(failed);
    let (id, version) = (number("application_id")?, number("user_version")?);
    let count = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = connection.query_row(count, [], |row| row.get(0)).map_err(failed)?;
    match (id, tables) {
        (APPLICATION_ID, _) => Ok(Some(version)),
        (0, 0) => Ok(None),
        _ => Err(OpenError::NotOurs { path: shown(path), why: "it is another program's database".to_owned() }),
    }
}

/// Upgrades an empty file, or one of an older version, to the newest version. An older file is copied first.
pub(super) fn bring_up_to_date(
    path: &Path,
    connection: &mut Connection,
    migrations: &[fn(&rusqlite::Transaction<'_>) -> rusqlite::Result<()>],
) -> Result<(), OpenError> {
    let failed = |error: rusqlite::Error| explain(path, &error);
    let newest = i32::try_from(migrations.len()).unwrap_or(i32::MAX);
    let found = version(path, connection)?;
    let from = match found {
        None => 0,
        Some(found) if found > newest => return Err(OpenError::Newer { path: shown(path), found }),
        Some(found) => found,
    };
    settings::set_up_writer(connection).map_err(failed)?;
    if from == newest {
        return Ok(());
    }
    if from > 0 {
        copy_aside(path, connection, from)?;
    }
    let mut change = || {
        let transaction = connection.transaction()?;
        for migration in migrations.iter().skip(usize::try_from(from).unwrap_or_default()) {
            migration(&transaction)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", newest)?;
        transaction.commit()
    };
    change().map_err(failed)
}

/// Copies an older file before it is changed. An existing copy is kept: it is from an earlier attempt.
fn copy_aside(path: &Path, connection: &Connection, version: i32) -> Result<(), OpenError> {
    let copy = path.with_added_extension(format!("v{version}.backup"));
    if copy.exists() {
        return Ok(());
    }
    let part = copy.with_extension("part");
    let copied = || {
        // Left over from an attempt that was interrupted.
        if part.exists() {
            fs::remove_file(&part)?;
        }
        create_private(&part)?;
        let name = part.to_string_lossy();
        connection.execute("VACUUM INTO ?1", [&name]).map_err(std::io::Error::other)?;
        File::open(&part)?.sync_all()?;
        fs::rename(&part, &copy)
    };
    copied().map_err(|error| OpenError::Other {
        path: shown(path),
        why: format!("it has an older format, and the backup that an upgrade needs could not be made: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::file::schema::MIGRATIONS;

    fn database(folder: &Path) -> (PathBuf, Connection) {
        let path = folder.join("andon.db");
        create_private(&path).unwrap();
        (path.clone(), Connection::open(&path).unwrap())
    }

    fn count(connection: &Connection, table: &str) -> rusqlite::Result<i64> {
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
    }

    fn a_second(transaction: &rusqlite::Transaction<'_>) -> rusqlite::Result<()> {
        transaction.execute_batch("CREATE TABLE second (a TEXT); INSERT INTO second SELECT title FROM runs;")
    }

    fn fails(transaction: &rusqlite::Transaction<'_>) -> rusqlite::Result<()> {
        transaction.execute_batch("CREATE TABLE third (a TEXT); INSERT INTO nowhere VALUES (1);")
    }

    const A_RUN: &str = "INSERT INTO runs (run, session, epoch, owner, next_seq, accepted_at, title)
                         VALUES ('r', 1, 1, 'me', 2, 0, 'Go.')";

    #[test]
    fn an_older_file_is_copied_before_it_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut connection) = database(folder.path());
        bring_up_to_date(&path, &mut connection, &MIGRATIONS[..1]).unwrap();
        connection.execute_batch(A_RUN).unwrap();

        let next = [MIGRATIONS[0], a_second];
        bring_up_to_date(&path, &mut connection, &next).unwrap();
        assert_eq!((version(&path, &connection).unwrap(), count(&connection, "second").unwrap()), (Some(2), 1));
        let copy = folder.path().join("andon.db.v1.backup");
        let old = Connection::open(&copy).unwrap();
        assert_eq!((version(&copy, &old).unwrap(), count(&old, "runs").unwrap()), (Some(1), 1));
        assert!(count(&old, "second").is_err(), "the copy is as it was");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
        }
        bring_up_to_date(&path, &mut connection, &next).unwrap();
        let refused = bring_up_to_date(&path, &mut connection, &MIGRATIONS[..1]).unwrap_err();
        assert!(matches!(refused, OpenError::Newer { found: 2, .. }), "{refused}");
    }

    #[test]
    fn an_upgrade_of_a_version_1_file_adds_a_shelf_and_keeps_its_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut connection) = database(folder.path());
        bring_up_to_date(&path, &mut connection, &MIGRATIONS[..1]).unwrap();
        connection.execute_batch(A_RUN).unwrap();
        bring_up_to_date(&path, &mut connection, &MIGRATIONS).unwrap();
        assert_eq!((count(&connection, "runs").unwrap(), count(&connection, "shelf").unwrap()), (1, 0));
    }

    #[test]
    fn a_run_from_an_older_file_has_no_time_at_which_it_was_durable() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut connection) = database(folder.path());
        bring_up_to_date(&path, &mut connection, &MIGRATIONS[..3]).unwrap();
        connection.execute_batch(A_RUN).unwrap();
        connection.execute_batch("UPDATE runs SET settled = 1, settled_at = 7").unwrap();
        bring_up_to_date(&path, &mut connection, &MIGRATIONS).unwrap();
        let columns = "SELECT settled_at, durable_at, durable_mono_us FROM runs";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let read: (i64, Option<i64>, Option<i64>) = connection.query_row(columns, [], row).unwrap();
        assert_eq!(read, (7, None, None));
    }

    #[test]
    fn an_upgrade_that_fails_leaves_the_file_unchanged_and_can_be_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut connection) = database(folder.path());
        bring_up_to_date(&path, &mut connection, &MIGRATIONS[..1]).unwrap();
        connection.execute_batch(A_RUN).unwrap();
        assert!(bring_up_to_date(&path, &mut connection, &[MIGRATIONS[0], fails]).is_err());
        assert_eq!((version(&path, &connection).unwrap(), count(&connection, "runs").unwrap()), (Some(1), 1));
        assert!(count(&connection, "third").is_err());
        bring_up_to_date(&path, &mut connection, &[MIGRATIONS[0], a_second]).unwrap();
        assert_eq!(version(&path, &connection).unwrap(), Some(2));
    }
}
