//! The tables, and the migrations that bring an older file up to date.
//!
//! They are designed for many replicas, so that another database can replace SQLite without another design: every row of a run
//! belongs to a session of a user of an app of a tenant; every event has its writer's epoch; a run has an owner. With SQLite
//! the owner is one process, which holds a lock on the file.

use rusqlite::Transaction;

/// `Andn`: marks a file as ours.
pub(crate) const APPLICATION_ID: i32 = 0x416e_646e;

/// The version of the files that this program writes.
pub(crate) const VERSION: i32 = 6;

/// Upgrades a file from one version to the next.
type Migration = fn(&Transaction<'_>) -> rusqlite::Result<()>;

/// The first turns an empty file into version 1, the next turns that into version 2, and so on.
pub(crate) const MIGRATIONS: [Migration; VERSION as usize] = [first, second, third, fourth, fifth, sixth];

/// The tables of version 1. Nothing uses `lease_until`, and `sixth` removes it.
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
    -- The owner's epoch: an append with an older one is refused.
    epoch INTEGER NOT NULL,
    owner TEXT NOT NULL,
    lease_until INTEGER,
    next_seq INTEGER NOT NULL,
    -- Its position in the order in which runs started; NULL if it has not started.
    started INTEGER,
    settled INTEGER NOT NULL DEFAULT 0,
    accepted_at INTEGER NOT NULL,
    settled_at INTEGER,
    ending TEXT,
    title TEXT NOT NULL
) STRICT;
CREATE INDEX runs_of_session ON runs (session);
CREATE INDEX unsettled_runs ON runs (id) WHERE settled = 0;

-- With a rowid: appending is a third faster than without one.
CREATE TABLE events (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT;

-- Text that streamed after an event. It takes no seq.
CREATE TABLE lumps (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    after INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX lumps_of_run ON lumps (run);

-- Addenda: what was learned after a run had settled.
CREATE TABLE addenda (
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, number)
) STRICT;

-- Cancel requests for a run, left by a process that does not drive it.
CREATE TABLE cancel_requests (
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, number)
) STRICT;

-- A key shared by a user's sessions has an empty session; one shared by an app's users has an empty user, too.
CREATE TABLE state (
    tenant TEXT NOT NULL,
    app TEXT NOT NULL,
    user TEXT NOT NULL,
    session TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant, app, user, session, key)
) STRICT, WITHOUT ROWID;

-- Keeps a run from having two ends, whatever a writer believes.
CREATE UNIQUE INDEX one_terminal ON events (run) WHERE kind = 'run_settled';
";

fn first(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(TABLES)
}

/// Adds the shelf, for values that belong to no session.
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

/// Adds a table for things that are kept with a session and deleted with it.
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

/// Adds when a run's outcome was durable, on both clocks of its writer; `settled_at` is the time of its last event. NULL where
/// that is not known, as for runs of an older version.
fn fourth(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "ALTER TABLE runs ADD COLUMN durable_at INTEGER;
         ALTER TABLE runs ADD COLUMN durable_mono_us INTEGER;",
    )
}

/// Adds what lists and cold sessions need to read nothing but what they return.
fn fifth(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(FOR_LISTS)?;
    transaction.execute_batch(
        "-- All the messages of a settled run. Separate from the events, so that a session's are on few pages. A run
         -- without a row here is folded from its events: it settled under an older version, its writer gave no messages,
         -- or they were too long.
         CREATE TABLE said (run INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;",
    )
}

/// Removes a column that nothing used: the lock on the file says who may write.
fn sixth(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch("ALTER TABLE runs DROP COLUMN lease_until;")
}

/// A run belongs to a place of its app and to one of its user: small numbers, so that indexing them costs little per run. The
/// indexes of runs are in the order of `id`, in which runs are listed.
const FOR_LISTS: &str = "
-- Where sessions belong: a user of an app of a tenant or, with an empty user, the app itself.
CREATE TABLE places (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    app TEXT NOT NULL,
    user TEXT NOT NULL,
    UNIQUE (tenant, app, user)
) STRICT;
CREATE INDEX places_of_user ON places (user);
INSERT INTO places (tenant, app, user)
    SELECT tenant, app, '' FROM sessions UNION SELECT tenant, app, user FROM sessions;

ALTER TABLE sessions ADD COLUMN app_place INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN user_place INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET
    app_place = (SELECT id FROM places AS p WHERE (p.tenant, p.app, p.user) = (sessions.tenant, sessions.app, '')),
    user_place = (SELECT id FROM places AS p WHERE (p.tenant, p.app, p.user) = (sessions.tenant, sessions.app, sessions.user));
UPDATE sessions SET updated_at = used.at
    FROM (SELECT session, max(coalesce(settled_at, accepted_at)) AS at FROM runs GROUP BY session) AS used
    WHERE used.session = sessions.id AND used.at > sessions.updated_at;
CREATE INDEX sessions_of_app ON sessions (app_place, updated_at);
CREATE INDEX sessions_of_user ON sessions (user_place, updated_at);
CREATE INDEX sessions_of_name ON sessions (session);

ALTER TABLE runs ADD COLUMN app_place INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN user_place INTEGER NOT NULL DEFAULT 0;
-- The state after its last event, until it settles; NULL if its writer did not give it.
ALTER TABLE runs ADD COLUMN state INTEGER;
UPDATE runs SET app_place = s.app_place, user_place = s.user_place FROM sessions AS s WHERE s.id = runs.session;
CREATE INDEX runs_of_app ON runs (app_place);
CREATE INDEX runs_of_user ON runs (user_place);
DROP INDEX runs_of_session;
CREATE INDEX runs_of_session ON runs (session, started);
DROP INDEX unsettled_runs;
CREATE INDEX open_runs ON runs (state, id, app_place, user_place) WHERE settled = 0;

-- The time at which a session was last used is written a little after the run that used it. For runs before this one it
-- has been written.
CREATE TABLE caught_up (only INTEGER PRIMARY KEY CHECK (only = 1), before_run INTEGER NOT NULL) STRICT;
INSERT INTO caught_up SELECT 1, coalesce(min(id) FILTER (WHERE settled = 0), coalesce(max(id), 0) + 1) FROM runs;
";
