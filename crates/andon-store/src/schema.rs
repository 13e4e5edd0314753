//! The tables, and how an older file becomes one of today.
//!
//! They carry what many replicas need, so that another database can take SQLite's place without another design: every row
//! of a run belongs to a session of a user of an app of a tenant; every event has the epoch of who wrote it; a run has an
//! owner and a lease. With SQLite the owner is one process and its lease is a lock on the file.

use rusqlite::{Connection, Transaction};

/// `Andn`: marks a file as ours.
pub(crate) const APPLICATION_ID: i32 = 0x416e_646e;

/// The version of a file that this program writes.
pub(crate) const VERSION: i32 = 4;

/// Makes a file of one version one of the next.
type Migration = fn(&Transaction<'_>) -> rusqlite::Result<()>;

/// The first makes a version 1 of an empty file, the next a version 2 of that, and so on.
pub(crate) const MIGRATIONS: [Migration; VERSION as usize] = [first, second, third, fourth];

const TABLES: &str = "
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    app TEXT NOT NULL,
    user TEXT NOT NULL,
    session TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (tenant, app, user, session)
) STRICT;

CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL,
    -- Who writes: an append with an older epoch is refused.
    epoch INTEGER NOT NULL,
    owner TEXT NOT NULL,
    -- Until when the owner may write without asking again; nothing where a lock on the file says so.
    lease_until INTEGER,
    next_seq INTEGER NOT NULL,
    -- Its place in the order in which runs started; nothing if it has not.
    started INTEGER,
    settled INTEGER NOT NULL DEFAULT 0,
    accepted_at INTEGER NOT NULL,
    settled_at INTEGER,
    ending TEXT,
    title TEXT NOT NULL
) STRICT;
CREATE INDEX runs_of_session ON runs (session);
CREATE INDEX unsettled_runs ON runs (id) WHERE settled = 0;

-- With a rowid, which makes appending a third faster than without one.
CREATE TABLE events (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT;

-- Text that streams behind an event. It takes no seq.
CREATE TABLE lumps (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    after INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX lumps_of_run ON lumps (run);

-- What was learnt after a run's end.
CREATE TABLE addenda (
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, number)
) STRICT;

-- Requests that were left for a run by somebody who does not drive it.
CREATE TABLE cancel_requests (
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, number)
) STRICT;

-- What is shared by a user's sessions has no session, what is shared by an app's has no user either.
CREATE TABLE state (
    tenant TEXT NOT NULL,
    app TEXT NOT NULL,
    user TEXT NOT NULL,
    session TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant, app, user, session, key)
) STRICT, WITHOUT ROWID;
";

/// Keeps a run from having two ends, whatever a writer believes.
const ONE_TERMINAL: &str = "CREATE UNIQUE INDEX one_terminal ON events (run) WHERE kind = 'run_settled';";

fn first(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(TABLES)?;
    transaction.execute_batch(ONE_TERMINAL)
}

/// A place for what belongs to no session.
fn second(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "CREATE TABLE shelf (
            kind TEXT NOT NULL,
            name TEXT NOT NULL,
            body TEXT NOT NULL,
            PRIMARY KEY (kind, name)
        ) STRICT, WITHOUT ROWID;",
    )
}

/// A place for what is kept with a session and goes with it.
fn third(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "CREATE TABLE kept (
            session INTEGER NOT NULL,
            kind TEXT NOT NULL,
            name TEXT NOT NULL,
            at INTEGER NOT NULL,
            body TEXT NOT NULL,
            PRIMARY KEY (session, kind, name)
        ) STRICT, WITHOUT ROWID;",
    )
}

/// When a run's outcome was durable, on both clocks of who wrote it; `settled_at` is the time of its last event. Nothing where
/// that is not known, as in runs of an older version.
fn fourth(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "ALTER TABLE runs ADD COLUMN durable_at INTEGER;
         ALTER TABLE runs ADD COLUMN durable_mono_us INTEGER;",
    )
}

/// Test-only: takes away what keeps a run from having two ends.
pub(crate) fn drop_one_terminal(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DROP INDEX IF EXISTS one_terminal;")
}

/// What a connection that writes is set to. The size of a page must be set before the file has any.
pub(crate) fn set_up_writer(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "page_size", 8192)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    // On a Mac only this reaches the disk itself; elsewhere it means nothing.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    // The writer makes room itself, when nobody waits for it.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    // What is deleted is gone from the file, too.
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "cache_size", -32_768)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// What a connection is set to that only brings into the file what others have written.
pub(crate) fn set_up_sweeper(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)
}

/// What a connection that reads is set to.
pub(crate) fn set_up_reader(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -16_384)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(())
}
