//! The tables, and the migrations that bring an older schema up to date.
//!
//! They are those of the SQLite store, with what several processes need: a run belongs to a replica, a session counts its runs and
//! its versions. Columns that a later version will use have their default until then.

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::address::{PostgresAddress, PostgresOptions};
use super::error::{Fault, PostgresError, refused};
use super::link::{Link, attempt};

/// The version of the schema that this program writes.
pub(super) const VERSION: i64 = 1;

/// The first turns an empty schema into version 1, the next turns that into version 2, and so on.
const MIGRATIONS: [&str; VERSION as usize] = [TABLES];

/// Names are compared byte by byte, as everywhere in Andon. Bodies are JSON as text, which keeps every number and the order of keys.
const TABLES: &str = r#"
CREATE TABLE format (
    sole boolean PRIMARY KEY DEFAULT true CHECK (sole),
    version bigint NOT NULL
);
INSERT INTO format (version) VALUES (0);

-- The processes that drive runs.
CREATE TABLE replicas (
    id text COLLATE "C" PRIMARY KEY,
    program text NOT NULL,
    format bigint NOT NULL,
    -- Where it can be reached, if it says so.
    address text,
    -- How long its lease is, and until when it has it: '-infinity' once it is known to be gone.
    ttl interval NOT NULL,
    lease_until timestamptz NOT NULL,
    -- Since when it has had the lease without a break.
    since timestamptz NOT NULL,
    -- Who takes up its runs when it is dead. Nobody else does for as long as that one has its lease.
    heir text COLLATE "C"
) WITH (fillfactor = 50);

-- Whether one process may take over the runs of another. After an outage every lease is over, although nobody is dead: so whoever
-- takes over has had its own for a whole length by then, unless the other has given its lease back.
CREATE FUNCTION may_take(text, text) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT $1 = $2 OR NOT EXISTS (SELECT FROM replicas p WHERE p.id = $1 AND p.lease_until > '-infinity'
        AND (p.lease_until >= clock_timestamp() OR NOT EXISTS (SELECT FROM replicas m
            WHERE m.id = $2 AND m.lease_until >= clock_timestamp() AND m.since <= clock_timestamp() - m.ttl)))
$$;

-- The last numbered transaction of each process: how one whose answer was lost is looked up.
CREATE TABLE writers (
    id text COLLATE "C" PRIMARY KEY,
    done bigint NOT NULL
) WITH (fillfactor = 50);

-- Where sessions belong: a user of an app of a tenant or, with an empty user, the app itself.
CREATE TABLE places (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    app text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    UNIQUE (tenant, app, "user")
);
CREATE INDEX places_of_user ON places ("user");

CREATE TABLE sessions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    app text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    app_place bigint NOT NULL REFERENCES places,
    user_place bigint NOT NULL REFERENCES places,
    -- The place of its next run.
    next_place bigint NOT NULL DEFAULT 1,
    -- Rises when a run of it settles: its history is another one then.
    version bigint NOT NULL DEFAULT 0,
    closing boolean NOT NULL DEFAULT false,
    UNIQUE (tenant, app, "user", session)
) WITH (fillfactor = 80);
CREATE INDEX sessions_by_use ON sessions (updated_at);
CREATE INDEX sessions_of_app ON sessions (app_place, updated_at);
CREATE INDEX sessions_of_user ON sessions (user_place, updated_at);
CREATE INDEX sessions_of_name ON sessions (session);

CREATE TABLE runs (
    -- In the order in which they were accepted.
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run text COLLATE "C" NOT NULL UNIQUE,
    session bigint NOT NULL,
    -- Its place among the runs of its session.
    place bigint NOT NULL,
    app_place bigint NOT NULL,
    user_place bigint NOT NULL,
    -- The owner's epoch: an append with an older one is refused.
    epoch bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    -- The number of the owner's commit that wrote last: a commit whose answer was lost is found by it.
    commit bigint NOT NULL,
    next_seq bigint NOT NULL,
    -- How many lumps it has.
    lumps bigint NOT NULL,
    format bigint NOT NULL,
    -- Its position in the order in which runs started; NULL if it has not started.
    started bigint,
    -- The state after its last event, until it settles; NULL if its writer did not give it.
    state bigint,
    stopping boolean NOT NULL DEFAULT false,
    force bigint,
    settled boolean NOT NULL,
    -- How many requests were left for it, and how many of them its owner has heard.
    asked bigint NOT NULL DEFAULT 0,
    heard bigint NOT NULL DEFAULT 0,
    accepted_at bigint NOT NULL,
    -- The time of its last event; the other two say when that was durable, on both clocks of its writer.
    settled_at bigint,
    durable_at bigint,
    durable_mono_us bigint,
    ending text,
    title text NOT NULL,
    UNIQUE (session, place)
) WITH (fillfactor = 70);
CREATE INDEX runs_of_session ON runs (session, started);
CREATE INDEX runs_of_app ON runs (app_place, id);
CREATE INDEX runs_of_user ON runs (user_place, id);
CREATE INDEX open_runs ON runs (owner, id) WHERE NOT settled;
CREATE INDEX asked_runs ON runs (owner) WHERE NOT settled AND asked > heard;

-- Each statement that starts runs takes a block of positions.
CREATE SEQUENCE starts INCREMENT BY 65536;

CREATE TABLE events (
    run bigint NOT NULL,
    seq bigint NOT NULL,
    epoch bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (run, seq)
);
-- Keeps a run from having two ends, whatever a writer believes.
CREATE UNIQUE INDEX one_terminal ON events (run) WHERE kind = 'run_settled';

-- Text that streamed after an event, numbered within its run. It takes no seq.
CREATE TABLE lumps (
    run bigint NOT NULL,
    n bigint NOT NULL,
    after bigint NOT NULL,
    epoch bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (run, n)
);

CREATE TABLE addenda (
    run bigint NOT NULL,
    number bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (run, number)
);

-- What was asked of a run by a process that does not drive it.
CREATE TABLE requests (
    run bigint NOT NULL,
    number bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (run, number)
);

-- All the messages of a settled run. A run without a row here is folded from its events.
CREATE TABLE said (
    run bigint PRIMARY KEY,
    body text NOT NULL
);

-- A key shared by a user's sessions has an empty session; one shared by an app's users has an empty user, too.
CREATE TABLE state (
    tenant text COLLATE "C" NOT NULL,
    app text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (tenant, app, "user", session, key)
);

-- State that a run brings, until it starts.
CREATE TABLE brought (
    run bigint NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (run, key)
);

-- What is kept with a session, and deleted with it.
CREATE TABLE kept (
    session bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (session, kind, name)
);

CREATE TABLE shelf (
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (kind, name)
);
"#;

/// How long a migration may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// A schema's name, as SQL has it.
pub(crate) fn quoted(schema: &str) -> String {
    format!("\"{}\"", schema.replace('"', "\"\""))
}

/// Creates the tables or brings them up to date, and refuses a schema that is newer or not ours.
pub(crate) async fn prepare(
    link: &mut Link,
    address: &PostgresAddress,
    options: &PostgresOptions,
) -> Result<(), PostgresError> {
    let schema = options.schema.as_str();
    check_name(schema)?;
    let found = attempt(link, PATIENCE, async |client| found(client, schema).await).await;
    let done = match found {
        Ok(Found::Version(version)) if version == VERSION => return Ok(()),
        Ok(found) => judge(found, address, schema).map(drop).map_err(|error| Fault::Unusable(Box::new(error))),
        Err(fault) => Err(fault),
    };
    let done = match done {
        Ok(()) => migrate(link, address, schema).await,
        failed => failed,
    };
    done.map_err(|fault| refused(&address.shown, schema, fault))
}

fn check_name(schema: &str) -> Result<(), PostgresError> {
    if schema.is_empty() || schema.len() > 63 || schema.starts_with("pg_") || schema.contains(char::is_control) {
        return Err(PostgresError::Schema { schema: schema.to_owned() });
    }
    Ok(())
}

/// Whether there are tables to read.
pub(crate) async fn has_tables(address: &PostgresAddress, options: &PostgresOptions) -> Result<bool, PostgresError> {
    let schema = options.schema.as_str();
    check_name(schema)?;
    let found = async {
        let mut link = Link::open(address, &format!("andon reader {}", quoted(schema))).await?;
        attempt(&mut link, PATIENCE, async |client| found(client, schema).await).await
    };
    let found = found.await.map_err(|fault| refused(&address.shown, schema, fault))?;
    match judge(found, address, schema)? {
        0 => Ok(false),
        VERSION => Ok(true),
        older => Err(PostgresError::Other {
            address: address.shown.clone(),
            why: format!("the schema {schema} has format {older}; a server that is started on it brings it up to date"),
        }),
    }
}

/// What is in the database under a schema's name.
enum Found {
    Nothing,
    /// Tables that are not ours.
    Others,
    Version(i64),
}

async fn found(client: &Client, schema: &str) -> Result<Found, tokio_postgres::Error> {
    let sql = "SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = n.oid AND relname = 'format'),
                      EXISTS (SELECT FROM pg_class WHERE relnamespace = n.oid)
               FROM pg_namespace n WHERE nspname = $1";
    let Some(row) = client.query_typed_opt(sql, &[(&schema, Type::TEXT)]).await? else { return Ok(Found::Nothing) };
    match (row.try_get(0)?, row.try_get(1)?) {
        (true, _) => {
            let version = format!("SELECT version FROM {}.format", quoted(schema));
            Ok(Found::Version(client.query_typed_one(&version, &[]).await?.try_get(0)?))
        }
        (false, true) => Ok(Found::Others),
        (false, false) => Ok(Found::Nothing),
    }
}

/// The version to begin with.
fn judge(found: Found, address: &PostgresAddress, schema: &str) -> Result<i64, PostgresError> {
    let (address, schema) = (address.shown.clone(), schema.to_owned());
    match found {
        Found::Nothing => Ok(0),
        Found::Others => Err(PostgresError::NotOurs { address, schema }),
        Found::Version(found) if found > VERSION => Err(PostgresError::Newer { address, schema, found }),
        Found::Version(version) => Ok(version),
    }
}

/// Brings the schema up to date in one transaction, after any other process that does the same.
async fn migrate(link: &mut Link, address: &PostgresAddress, schema: &str) -> Result<(), Fault> {
    let name = quoted(schema);
    link.ask(PATIENCE, async |client| {
        client.batch_execute("BEGIN").await?;
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended('andon: ' || $1, 0))";
        client.query_typed(lock, &[(&schema, Type::TEXT)]).await?;
        let version =
            judge(found(client, schema).await?, address, schema).map_err(|error| Fault::Unusable(Box::new(error)))?;
        let enter = format!("SET LOCAL search_path TO {name}");
        if version == 0 {
            // Without rights to create schemas, one that an administrator has created is enough.
            let exists = "SELECT FROM pg_namespace WHERE nspname = $1";
            if client.query_typed(exists, &[(&schema, Type::TEXT)]).await?.is_empty() {
                client.batch_execute(&format!("CREATE SCHEMA {name}")).await?;
            }
        }
        client.batch_execute(&enter).await?;
        let from = usize::try_from(version).unwrap_or_default();
        for migration in MIGRATIONS.iter().skip(from) {
            client.batch_execute(migration).await?;
        }
        client.batch_execute(&format!("UPDATE format SET version = {VERSION}; COMMIT")).await?;
        Ok(())
    })
    .await
}
