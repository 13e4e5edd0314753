//! Opening a database: finding it, locking it, and making sure that it is one of ours.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::Probe;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::owner::{Lock, LockError, Owner};
use crate::reader::Connections;
use crate::schema::{self, APPLICATION_ID, MIGRATIONS, VERSION};

/// How long to wait for a database that another program has locked.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The file in the user's data folder that is used when none is named.
pub fn default_path() -> Option<PathBuf> {
    Some(dirs::data_dir()?.join("andon").join("andon.db"))
}

/// Why a database cannot be used, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process writes it.
    #[error("{path} is in use by {}: stop that first, or choose another file", holder(.owner.as_deref()))]
    InUse {
        /// The file.
        path: String,
        /// Who has it, as far as it says so.
        owner: Option<Box<Owner>>,
    },
    /// Another program holds a lock on it.
    #[error("{path} is locked by another program, and was for {} s: close that program, or choose another file", PATIENCE.as_secs())]
    Locked {
        /// The file.
        path: String,
    },
    /// The folder or the file cannot be written.
    #[error("{path} cannot be opened for writing: {why}; choose a file in a folder that you can write to")]
    NotWritable {
        /// The file or folder.
        path: String,
        /// What the system says.
        why: String,
    },
    /// There is no such file.
    #[error("there is no database at {path}: nothing was recorded there yet")]
    Missing {
        /// The file.
        path: String,
    },
    /// The file is no database of ours.
    #[error("{path} is no database of Andon's: {why}; nothing was changed, choose another file")]
    NotOurs {
        /// The file.
        path: String,
        /// What it is.
        why: String,
    },
    /// A newer program has written it.
    #[error(
        "{path} was written by a newer version of Andon (format {found}, this one knows {VERSION}): use that version"
    )]
    Newer {
        /// The file.
        path: String,
        /// Its version.
        found: i32,
    },
    /// The file is on another machine.
    #[error(
        "{path} is on a network file system ({kind}), where locks cannot be relied on: choose a file on a local disk"
    )]
    Network {
        /// The file.
        path: String,
        /// Which.
        kind: &'static str,
    },
    /// The disk is full.
    #[error("there is no room for {path}: make some, or choose a file on another disk")]
    Full {
        /// The file.
        path: String,
    },
    /// Something else.
    #[error("{path} cannot be opened: {why}")]
    Other {
        /// The file.
        path: String,
        /// What the database says.
        why: String,
    },
}

fn holder(owner: Option<&Owner>) -> String {
    owner.map_or_else(|| "another process".to_owned(), ToString::to_string)
}

/// How a database is opened.
#[derive(Clone, Default)]
pub struct Options {
    pub(crate) program: Option<String>,
    pub(crate) probe: Option<Arc<dyn Probe>>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("program", &self.program).finish_non_exhaustive()
    }
}

impl Options {
    /// The usual.
    pub fn new() -> Self {
        Self::default()
    }

    /// What this process calls itself, for another one that finds the database in use.
    #[must_use]
    pub fn program(mut self, program: impl Into<String>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Is told each time the writer passes a seam: before and after each commit, and after its acknowledgements. For test
    /// kits. It is called on the writer's own thread, and blocking it is what a disk that stalls does.
    #[must_use]
    pub fn probe(mut self, probe: Arc<dyn Probe>) -> Self {
        self.probe = Some(probe);
        self
    }
}

/// A database that is ours to write, with its lock.
pub(crate) struct Opened {
    pub(crate) path: PathBuf,
    pub(crate) writer: Connection,
    pub(crate) sweeper: Connection,
    pub(crate) readers: Connections,
    pub(crate) lock: Lock,
}

/// How many reads of one kind go on together.
const READERS: usize = 2;

/// Opens a database to write it; makes one if there is none.
pub(crate) fn open(path: &Path, options: &Options) -> Result<Opened, OpenError> {
    let path = find_file(path)?;
    let failed = |error: &rusqlite::Error| explain(&path, error);
    check_file_system(&path)?;
    let program = options.program.as_deref().unwrap_or("a program that uses Andon");
    let lock = Lock::take(&path, program).map_err(|error| match error {
        LockError::Held(owner) => OpenError::InUse { path: shown(&path), owner: owner.map(Box::new) },
        LockError::Io(error) => not_writable(&path, &error),
    })?;
    if !lock.is_on_a_database().map_err(|error| not_writable(&path, &error))? {
        lock.withdraw(&path);
        return Err(no_database(&path));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut writer = Connection::open_with_flags(&path, flags).map_err(|error| failed(&error))?;
    writer.busy_timeout(PATIENCE).map_err(|error| failed(&error))?;
    bring_up_to_date(&path, &mut writer, &MIGRATIONS)?;
    // What was deleted just before the last process was killed may still stand there; a reader may be in the way.
    let _ = writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    let sweeper = Connection::open_with_flags(&path, flags).map_err(|error| failed(&error))?;
    schema::set_up_sweeper(&sweeper).map_err(|error| failed(&error))?;
    let open_some = || (0..READERS).map(|_| open_reader(&path)).collect::<Result<_, _>>();
    let readers = Connections { needed: open_some()?, wanted: open_some()? };
    Ok(Opened { path, writer, sweeper, readers, lock })
}

/// Opens connections that only read a database that is there.
pub(crate) fn open_to_read(path: &Path) -> Result<Connections, OpenError> {
    if !path.exists() {
        return Err(OpenError::Missing { path: shown(path) });
    }
    check_kind(path)?;
    let reader = match open_reader(path).and_then(|reader| version(path, &reader).map(|_| reader)) {
        // On a disk that cannot be written, what nobody writes can still be read.
        Err(OpenError::NotWritable { .. }) if nothing_is_pending(path) => open_unchanging(path)?,
        other => other?,
    };
    match version(path, &reader)? {
        None if fs::metadata(path).is_ok_and(|file| file.len() > 0) => return Err(no_database(path)),
        None => return Err(OpenError::Missing { path: shown(path) }),
        Some(found) if found > VERSION => return Err(OpenError::Newer { path: shown(path), found }),
        Some(found) if found < VERSION => {
            let why = format!(
                "its format {found} is older than {VERSION}: whatever writes it, such as `andon chat`, brings it up to date first"
            );
            return Err(OpenError::Other { path: shown(path), why });
        }
        Some(_) => {}
    }
    Ok(Connections { needed: vec![reader], wanted: Vec::new() })
}

/// Whether all that was written is in the file itself.
fn nothing_is_pending(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    fs::metadata(log).map_or(true, |log| log.len() == 0)
}

/// Opens a file that nobody can change, without the files that a database has beside it.
fn open_unchanging(path: &Path) -> Result<Connection, OpenError> {
    let name: String = shown(path).chars().fold(String::new(), |name, letter| match letter {
        '%' => name + "%25",
        '?' => name + "%3f",
        '#' => name + "%23",
        other => name + other.encode_utf8(&mut [0; 4]),
    });
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let reader = Connection::open_with_flags(format!("file:{name}?immutable=1"), flags)?;
        schema::set_up_reader(&reader)?;
        Ok(reader)
    };
    open().map_err(|error: rusqlite::Error| explain(path, &error))
}

fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let reader = Connection::open_with_flags(path, flags)?;
        reader.busy_timeout(PATIENCE)?;
        schema::set_up_reader(&reader)?;
        Ok(reader)
    };
    open().map_err(|error| explain(path, &error))
}

/// The file's version; nothing if nothing was written yet.
fn version(path: &Path, connection: &Connection) -> Result<Option<i32>, OpenError> {
    let failed = |error: rusqlite::Error| explain(path, &error);
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0)).map_err(failed);
    let (id, version) = (number("application_id")?, number("user_version")?);
    let count = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = connection.query_row(count, [], |row| row.get(0)).map_err(failed)?;
    match (id, tables) {
        (APPLICATION_ID, _) => Ok(Some(version)),
        (0, 0) => Ok(None),
        _ => Err(OpenError::NotOurs { path: shown(path), why: "it is the database of another program".to_owned() }),
    }
}

/// Makes an empty file, or one of an older version, one of today. An older file is copied first.
fn bring_up_to_date(
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
    schema::set_up_writer(connection).map_err(failed)?;
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

/// Copies an older file before it is changed. A copy that is there already is kept: it is of an earlier try.
fn copy_aside(path: &Path, connection: &Connection, version: i32) -> Result<(), OpenError> {
    let mut copy = path.as_os_str().to_owned();
    copy.push(format!(".v{version}.backup"));
    let copy = PathBuf::from(copy);
    if copy.exists() {
        return Ok(());
    }
    let part = copy.with_extension("part");
    let copied = || {
        // Left over from a try that was cut short.
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
        why: format!("it is of an older format, and could not be copied before it is changed: {error}"),
    })
}

/// The file by its real name, in a folder that is there; it is made if there is none.
fn find_file(path: &Path) -> Result<PathBuf, OpenError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    check_kind(path)?;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| not_writable(folder, &error))?;
    if !path.exists() {
        create_private(path).map_err(|error| not_writable(path, &error))?;
    }
    // The lock stands beside the real file, by whatever name it is reached.
    path.canonicalize().map_err(|error| not_writable(path, &error))
}

/// What was said is nobody else's business: the file is its owner's alone. Only for a file that is not there: opening and
/// closing one that a connection of this process has open takes the connection's locks away.
fn create_private(path: &Path) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

/// Looks at what kind of file it is, without opening it.
fn check_kind(path: &Path) -> Result<(), OpenError> {
    let refused = |why: &str| Err(OpenError::Other { path: shown(path), why: why.to_owned() });
    let Ok(file) = fs::metadata(path) else {
        return if path.file_name().is_some() { Ok(()) } else { refused("it names no file") };
    };
    if file.is_dir() {
        return refused("it is a folder: name a file in it, such as andon.db");
    }
    if !file.is_file() {
        return refused("it is no ordinary file");
    }
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(&file) > 1 {
        return refused("it has a second name (a hard link), by which another program could damage it: remove one");
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn check_file_system(path: &Path) -> Result<(), OpenError> {
    let Some(stat) = path.parent().and_then(|folder| rustix::fs::statfs(folder).ok()) else { return Ok(()) };
    // From Linux's <linux/magic.h>.
    let kind = match stat.f_type {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB2",
        0x5346_414f => "AFS",
        _ => return Ok(()),
    };
    Err(OpenError::Network { path: shown(path), kind })
}

#[cfg(not(target_os = "linux"))]
fn check_file_system(_path: &Path) -> Result<(), OpenError> {
    Ok(())
}

fn no_database(path: &Path) -> OpenError {
    OpenError::NotOurs { path: shown(path), why: "it is no SQLite database".to_owned() }
}

/// Says what an error means for whoever wants to open the file.
fn explain(path: &Path, error: &rusqlite::Error) -> OpenError {
    let path = shown(path);
    let why = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Locked { path },
        Some(ErrorCode::NotADatabase) => no_database(Path::new(&path)),
        Some(ErrorCode::DatabaseCorrupt) => OpenError::NotOurs { path, why },
        Some(ErrorCode::DiskFull) => OpenError::Full { path },
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            OpenError::NotWritable { path, why }
        }
        _ => OpenError::Other { path, why },
    }
}

fn not_writable(path: &Path, error: &std::io::Error) -> OpenError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => OpenError::Full { path: shown(path) },
        _ => OpenError::NotWritable { path: shown(path), why: error.to_string() },
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_file_of_the_first_version_gets_a_shelf_and_keeps_its_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut connection) = database(folder.path());
        bring_up_to_date(&path, &mut connection, &MIGRATIONS[..1]).unwrap();
        connection.execute_batch(A_RUN).unwrap();
        bring_up_to_date(&path, &mut connection, &MIGRATIONS).unwrap();
        assert_eq!((count(&connection, "runs").unwrap(), count(&connection, "shelf").unwrap()), (1, 0));
    }

    #[test]
    fn a_run_of_an_older_file_does_not_say_when_it_was_durable() {
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
    fn a_change_that_fails_leaves_the_older_file_as_it_was_and_can_be_tried_again() {
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
