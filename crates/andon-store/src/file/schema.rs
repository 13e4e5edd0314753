//! The tables, and how an older file becomes one of today.
//!
//! They carry what many replicas need, so that another database can take SQLite's place without another design: every row
//! of a run belongs to a session of a user of an app of a tenant; every event has the epoch of who wrote it; a run has an
//! owner. With SQLite the owner is one process, which holds a lock on the file.

use rusqlite::Transaction;

/// `Andn`: marks a file as ours.
pub(crate) const APPLICATION_ID: i32 = 0x416e_646e;

/// The version of a file that this program writes.
pub(crate) const VERSION: i32 = 6;

/// Makes a file of one version one of the next.
type Migration = fn(&Transaction<'_>) -> rusqlite::Result<()>;

/// The first makes a version 1 of an empty file, the next a version 2 of that, and so on.
pub(crate) const MIGRATIONS: [Migration; VERSION as usize] = [first, second, third, fourth, fifth, sixth];

/// The first version. Nothing uses `lease_until`, and `sixth` removes it.
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

/// What lists look for and a cold session reads, each where it is found without a look at anything else.
fn fifth(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(FOR_LISTS)?;
    transaction.execute_batch(
        "-- All that a run has said, once it has settled. Apart from the events, so that few pages hold a session's. A run
         -- that has no row here is folded from its events: it settled under an older version, its writer did not say, or it
         -- has said too much.
         CREATE TABLE said (run INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;",
    )
}

/// No lease stands in the file: a lock on it says who may write.
fn sixth(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch("ALTER TABLE runs DROP COLUMN lease_until;")
}

/// A run belongs to a place of its app and to one of its user: small numbers, so that an index of them costs a run little. The
/// indexes of runs stand in the order of `id`, in which runs are listed.
const FOR_LISTS: &str = "
-- Where sessions are: a user of an app of a tenant, and without a user the app itself.
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
-- As its last event left it, while it has not settled; nothing if its writer did not say.
ALTER TABLE runs ADD COLUMN state INTEGER;
UPDATE runs SET app_place = s.app_place, user_place = s.user_place FROM sessions AS s WHERE s.id = runs.session;
CREATE INDEX runs_of_app ON runs (app_place);
CREATE INDEX runs_of_user ON runs (user_place);
DROP INDEX runs_of_session;
CREATE INDEX runs_of_session ON runs (session, started);
DROP INDEX unsettled_runs;
CREATE INDEX open_runs ON runs (state, id, app_place, user_place) WHERE settled = 0;

-- When a session was used is written a little later than what used it. What the runs before this one have used is written.
CREATE TABLE caught_up (only INTEGER PRIMARY KEY CHECK (only = 1), before_run INTEGER NOT NULL) STRICT;
INSERT INTO caught_up SELECT 1, coalesce(min(id) FILTER (WHERE settled = 0), coalesce(max(id), 0) + 1) FROM runs;
";
