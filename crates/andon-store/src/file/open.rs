//! Opening a database: finding it, locking it, and making sure that it is ours.

use std::fs;
use std::path::{Path, PathBuf};
#[cfg(feature = "testing")]
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "testing")]
use andon_runtime::Probe;
use rusqlite::{Connection, OpenFlags};

use super::error::{OpenError, explain, no_database, not_writable, shown};
use super::find::{check_file_system, check_kind, find_file};
use super::library::log_what_is_missing;
use super::lock::{Lock, LockError};
use super::schema::{MIGRATIONS, VERSION};
use super::settings;
use super::upgrade::{bring_up_to_date, version};

/// How long to wait while another program has the database locked.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The default file, in the user's data folder.
pub fn default_path() -> Option<PathBuf> {
    Some(dirs::data_dir()?.join("andon").join("andon.db"))
}

/// Options for opening a database.
#[derive(Clone, Default)]
pub struct Options {
    pub(crate) program: Option<String>,
    #[cfg(feature = "testing")]
    pub(crate) probe: Option<Arc<dyn Probe>>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("program", &self.program).finish_non_exhaustive()
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The name of this program, shown to another process that finds the database in use.
    #[must_use]
    pub fn program(mut self, program: impl Into<String>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Called each time the writer passes a seam: before and after each commit, and after its acknowledgements. For test
    /// kits. It is called on the writer's thread, so blocking in it looks like a disk that stalls.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn probe(mut self, probe: Arc<dyn Probe>) -> Self {
        self.probe = Some(probe);
        self
    }
}

/// A database that is open for writing, with its lock.
pub(crate) struct Opened {
    pub(crate) path: PathBuf,
    pub(crate) writer: Connection,
    pub(crate) sweeper: Connection,
    pub(crate) readers: Connections,
    pub(crate) lock: Lock,
}

/// The readers' connections, for quick and for slow questions. If there are none for `slow`, those for `quick` serve both.
pub(crate) struct Connections {
    pub(crate) quick: Vec<Connection>,
    pub(crate) slow: Vec<Connection>,
}

/// How many reads of each kind run at the same time.
const READERS: usize = 2;

/// Opens a database for writing, and creates it if there is none.
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
    log_what_is_missing(&writer);
    bring_up_to_date(&path, &mut writer, &MIGRATIONS)?;
    // Data deleted just before the last process was killed may still be in the log. A reader may be in the way.
    let _ = writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    let sweeper = Connection::open_with_flags(&path, flags).map_err(|error| failed(&error))?;
    settings::set_up_sweeper(&sweeper).map_err(|error| failed(&error))?;
    let open_some = || (0..READERS).map(|_| open_reader(&path)).collect::<Result<_, _>>();
    let readers = Connections { quick: open_some()?, slow: open_some()? };
    Ok(Opened { path, writer, sweeper, readers, lock })
}

/// Opens connections that only read an existing database.
pub(crate) fn open_to_read(path: &Path) -> Result<Connections, OpenError> {
    if !path.exists() {
        return Err(OpenError::Missing { path: shown(path) });
    }
    check_kind(path)?;
    let reader = match open_reader(path).and_then(|reader| version(path, &reader).map(|_| reader)) {
        // On a read-only disk, a database that nobody writes can still be read.
        Err(OpenError::NotWritable { .. }) if nothing_is_pending(path) => open_unchanging(path)?,
        other => other?,
    };
    match version(path, &reader)? {
        None if fs::metadata(path).is_ok_and(|file| file.len() > 0) => return Err(no_database(path)),
        None => return Err(OpenError::Missing { path: shown(path) }),
        Some(found) if found > VERSION => return Err(OpenError::Newer { path: shown(path), found }),
        Some(found) if found < VERSION => {
            let why = format!(
                "its format {found} is older than {VERSION}, and only a program that writes can upgrade it: run one, such as `andon chat`, and try again"
            );
            return Err(OpenError::Other { path: shown(path), why });
        }
        Some(_) => {}
    }
    Ok(Connections { quick: vec![reader], slow: Vec::new() })
}

/// Whether the write-ahead log is empty.
fn nothing_is_pending(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    fs::metadata(log).map_or(true, |log| log.len() == 0)
}

/// Opens a file that cannot change, without the log and the shared memory beside it.
fn open_unchanging(path: &Path) -> Result<Connection, OpenError> {
    let name = shown(path).replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let uri = format!("file:{name}?immutable=1");
    reader(Path::new(&uri), OpenFlags::SQLITE_OPEN_URI).map_err(|error| explain(path, &error))
}

fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    reader(path, OpenFlags::empty()).map_err(|error| explain(path, &error))
}

fn reader(name: &Path, more: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let reader = Connection::open_with_flags(name, flags)?;
    reader.busy_timeout(PATIENCE)?;
    settings::set_up_reader(&reader)?;
    Ok(reader)
}
