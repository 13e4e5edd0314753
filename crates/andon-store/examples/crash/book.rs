//! The database as rows, read from a copy: reading it must not clean up what a dead process left.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use andon_runtime::core::answer::Lump;
use andon_runtime::core::event::{Entry, Epoch, Event, Record, Seq};
use andon_runtime::{Ending, Journal};
use andon_store::SqliteJournal;
use anyhow::{Context, Result};
use rusqlite::Connection;

use crate::disk::database;
#[cfg(feature = "postgres")]
use crate::store;

/// All runs in a database.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) runs: BTreeMap<String, Pages>,
    /// What SQLite finds wrong with its own file.
    pub(crate) damage: Option<String>,
    /// Rows that belong to no run.
    pub(crate) orphans: u64,
}

/// What the database holds about a run.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) session: String,
    pub(crate) epoch: Epoch,
    pub(crate) next_seq: Seq,
    pub(crate) is_settled: bool,
    pub(crate) ending: Option<Ending>,
    pub(crate) events: Vec<Row>,
    pub(crate) lumps: Vec<Lump>,
    /// Cancel requests that were left for the run.
    pub(crate) requests: u64,
}

/// An event, according to its columns and to its body.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) seq: Seq,
    pub(crate) epoch: Epoch,
    pub(crate) kind: String,
    pub(crate) body: String,
    pub(crate) record: Record,
}

impl Pages {
    pub(crate) fn events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.events.iter().map(|row| &row.record.event)
    }

    /// The bytes that streamed after an event.
    pub(crate) fn text_after(&self, seq: Seq) -> String {
        let lumps = self.lumps.iter().filter(|lump| lump.span.after == seq);
        lumps.map(|lump| lump.span.text.as_str()).collect()
    }

    /// Its record before an epoch.
    pub(crate) fn entries_before(&self, epoch: Epoch) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        for row in self.events.iter().filter(|row| row.epoch < epoch) {
            entries.push(Entry::Fact(row.record.clone().into()));
            let lumps = self.lumps.iter().filter(|lump| lump.span.after == row.seq);
            entries.extend(lumps.map(|lump| Entry::Lump(lump.clone().into())));
        }
        entries
    }
}

/// A copy of a database at this moment.
pub(crate) struct Copy {
    folder: tempfile::TempDir,
    /// The round's folder.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only a server is asked for it"))]
    round: PathBuf,
}

impl Copy {
    pub(crate) fn of(folder: &Path) -> Result<Self> {
        let copy = Self { folder: tempfile::tempdir()?, round: folder.to_path_buf() };
        for end in ["db", "db-wal"] {
            let file = database(folder).with_extension(end);
            if file.exists() {
                fs::copy(file, copy.path().with_extension(end))?;
            }
        }
        Ok(copy)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("andon.db")
    }

    /// The journal as a program reads it.
    pub(crate) fn journal(&self) -> Result<Arc<dyn Journal>> {
        #[cfg(feature = "postgres")]
        if store::is_on_a_server() {
            return crate::server::open(&self.round);
        }
        Ok(Arc::new(SqliteJournal::open_to_read(self.path())?))
    }

    pub(crate) fn read(&self) -> Result<Book> {
        #[cfg(feature = "postgres")]
        if store::is_on_a_server() {
            return crate::server::read(&self.round).context("the database cannot be read");
        }
        read(&self.path()).context("the database cannot be read")
    }
}

fn read(path: &Path) -> Result<Book> {
    if !path.exists() {
        return Ok(Book::default());
    }
    let connection = Connection::open(path)?;
    let integrity: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    let damage = (integrity != "ok").then_some(integrity);
    let has_tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'lumps'";
    if connection.query_row(has_tables, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(Book { damage, ..Book::default() });
    }
    let mut query = connection.prepare(
        "SELECT runs.id, run, sessions.session, epoch, next_seq, settled, ending,
                (SELECT count(*) FROM cancel_requests WHERE cancel_requests.run = runs.id)
         FROM runs JOIN sessions ON sessions.id = runs.session",
    )?;
    let mut rows = query.query([])?;
    let mut runs = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let ending: Option<String> = row.get(6)?;
        let pages = Pages {
            session: row.get(2)?,
            epoch: row.get(3)?,
            next_seq: row.get::<_, i64>(4)?.unsigned_abs(),
            is_settled: row.get(5)?,
            ending: ending.map(|ending| serde_json::from_str(&ending)).transpose()?,
            events: events(&connection, id)?,
            lumps: lumps(&connection, id)?,
            requests: row.get::<_, i64>(7)?.unsigned_abs(),
        };
        runs.insert(row.get(1)?, pages);
    }
    let orphans = "SELECT (SELECT count(*) FROM events WHERE run NOT IN (SELECT id FROM runs))
                        + (SELECT count(*) FROM lumps WHERE run NOT IN (SELECT id FROM runs))
                        + (SELECT count(*) FROM cancel_requests WHERE run NOT IN (SELECT id FROM runs))";
    let orphans: i64 = connection.query_row(orphans, [], |row| row.get(0))?;
    Ok(Book { runs, damage, orphans: orphans.unsigned_abs() })
}

fn events(connection: &Connection, run: i64) -> Result<Vec<Row>> {
    let mut query =
        connection.prepare_cached("SELECT seq, epoch, kind, body FROM events WHERE run = ?1 ORDER BY seq")?;
    let mut rows = query.query([run])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let body: String = row.get(3)?;
        let record = serde_json::from_str(&body)?;
        let seq = row.get::<_, i64>(0)?.unsigned_abs();
        events.push(Row { seq, epoch: row.get(1)?, kind: row.get(2)?, body, record });
    }
    Ok(events)
}

fn lumps(connection: &Connection, run: i64) -> Result<Vec<Lump>> {
    let mut query = connection.prepare_cached("SELECT body FROM lumps WHERE run = ?1 ORDER BY id")?;
    let mut rows = query.query([run])?;
    let mut lumps = Vec::new();
    while let Some(row) = rows.next()? {
        lumps.push(serde_json::from_str(&row.get::<_, String>(0)?)?);
    }
    Ok(lumps)
}
