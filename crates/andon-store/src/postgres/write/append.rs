//! Appending to many runs in one round trip.
//!
//! Each run's row is moved forward only if epoch, seq and state allow it, and only the events of runs that were moved are
//! inserted. So a stale batch is left out, and the others go through.
//!
//! # Invariants
//!
//! 1. Sessions are locked before leases, and those before runs, in the order of their ids, by statements of their own: a statement
//!    that waits for a lock has a snapshot from before.
//! 2. A commit leaves its number in the rows of its runs. One that is sent again, because its answer was lost, finds its number
//!    there and changes nothing.

use std::borrow::Cow;

use andon_runtime::core::FORMAT_VERSION;
use tokio_postgres::{Client, Error, Row as Found};

use super::wave::Part;
use crate::postgres::names;
use crate::postgres::sql::{Statement, Value, transact};
use crate::record::{NewState, Row, int, json, user_and_session};

/// Whether the state that runs bring is applied as they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brought {
    Applied,
    /// It is already in the state that moves with a session.
    AlreadyThere,
}

/// A transaction that appends to runs.
pub(super) struct Appending<'a> {
    pub(super) parts: &'a [Part<'a>],
    /// The id of this journal as the owner of runs.
    pub(super) owner: &'a str,
    /// The number of this commit.
    pub(super) number: i64,
    pub(super) brought: Brought,
}

/// Titles of new runs, and the state that they bring.
#[derive(Default)]
pub(super) struct Texts<'a> {
    titles: Vec<Cow<'a, str>>,
    state: Vec<Brings<'a>>,
}

/// A key of the state that a run brings.
struct Brings<'a> {
    place: usize,
    /// The user and the session that it is for.
    scope: (&'a str, &'a str),
    name: Cow<'a, str>,
    value: String,
}

/// The columns of rows that are inserted, by run.
#[derive(Default)]
struct Columns<'a> {
    events: (Vec<i64>, Vec<i64>, Vec<&'a str>, Vec<&'a str>),
    lumps: (Vec<i64>, Vec<i64>, Vec<i64>, Vec<&'a str>),
    said: (Vec<i64>, Vec<&'a str>),
}

impl<'a> Appending<'a> {
    /// Sends all in one write, with what else the transaction has to do. Returns the places of the parts that were accepted.
    pub(super) async fn send(
        &self,
        client: &Client,
        begin: &str,
        more: Vec<Statement<'_>>,
    ) -> Result<Vec<usize>, Error> {
        let texts = self.texts();
        let mut statements = self.statements(&texts);
        statements.extend(more);
        let rows = transact(client, begin, &statements).await?;
        accepted(rows.into_iter().flatten())
    }

    /// What the statements need as text.
    pub(super) fn texts(&self) -> Texts<'a> {
        let mut texts = Texts::default();
        for (place, part) in self.parts.iter().enumerate() {
            let Some(begins) = part.begins else { continue };
            texts.titles.push(names::stored(&begins.title));
            if self.brought == Brought::AlreadyThere && part.starts {
                continue;
            }
            for (name, value) in begins.state.as_deref().into_iter().flatten() {
                // A value that was decoded can be encoded.
                let (scope, value) = (user_and_session(&begins.session, name), json(value).ok());
                texts.state.extend(scope.zip(value).map(|(scope, value)| Brings {
                    place,
                    scope,
                    name: names::stored(name),
                    value,
                }));
            }
        }
        texts
    }

    /// The statements of the transaction, in order. Those that return places begin their rows with one.
    pub(super) fn statements<'b>(&'b self, texts: &'b Texts<'a>) -> Vec<Statement<'b>> {
        let mut statements = Vec::new();
        let new: Vec<(usize, &Part<'_>)> =
            self.parts.iter().enumerate().filter(|(_, part)| part.begins.is_some()).collect();
        let old: Vec<(usize, &Part<'_>)> =
            self.parts.iter().enumerate().filter(|(_, part)| part.begins.is_none()).collect();
        if !new.is_empty() {
            statements.extend(begin_sessions(&new));
        }
        statements.extend(lock_sessions(&new, &old));
        statements.extend(lock_leases(&old));
        if !new.is_empty() {
            statements.push(self.begin_runs(&new, texts));
        }
        if !old.is_empty() {
            statements.push(self.continue_runs(&old));
        }
        let starting: Vec<&str> = self.parts.iter().filter(|part| part.starts).map(|part| part.run.as_str()).collect();
        if self.brought == Brought::Applied && !starting.is_empty() {
            statements.push(Statement::new(APPLY_STATE, vec![Value::Texts(starting)]));
        }
        statements
    }

    fn begin_runs<'b>(&'b self, new: &[(usize, &'b Part<'_>)], texts: &'b Texts<'a>) -> Statement<'b> {
        let begins = || new.iter().filter_map(|(_, part)| part.begins);
        let ends = |part: &'b Part<'_>| part.ends;
        let mut values = vec![
            Value::Text(self.owner),
            Value::Int(self.number),
            Value::Int(i64::from(FORMAT_VERSION)),
            Value::Ints(new.iter().map(|(place, _)| index(*place)).collect()),
            Value::Texts(new.iter().map(|(_, part)| part.run.as_str()).collect()),
            Value::Texts(begins().map(|begins| &*begins.session.tenant).collect()),
            Value::Texts(begins().map(|begins| &*begins.session.app).collect()),
            Value::Texts(begins().map(|begins| &*begins.session.user).collect()),
            Value::Texts(begins().map(|begins| begins.session.session.as_str()).collect()),
            Value::Ints(new.iter().map(|(_, part)| i64::from(part.epoch)).collect()),
            Value::Ints(new.iter().map(|(_, part)| int(part.last + 1)).collect()),
            Value::Ints(new.iter().map(|(_, part)| lumps(part)).collect()),
            Value::Bools(new.iter().map(|(_, part)| part.starts).collect()),
            Value::Ints(begins().map(|begins| begins.accepted_at).collect()),
            Value::MaybeInts(new.iter().map(|(_, part)| ends(part).map(|ends| ends.settled_at)).collect()),
            Value::MaybeTexts(new.iter().map(|(_, part)| ends(part).map(|ends| ends.ending.as_str())).collect()),
            Value::Texts(texts.titles.iter().map(|title| &**title).collect()),
            Value::MaybeInts(new.iter().map(|(_, part)| stated(part)).collect()),
        ];
        let mut sql = BEGIN_RUNS.to_owned();
        add_rows(&mut sql, &mut values, new, "own");
        let state = &texts.state;
        if !state.is_empty() {
            let first = values.len() + 1;
            sql.push_str(&format!(
                ", brings AS (INSERT INTO brought (run, \"user\", session, key, value)
                    SELECT own.id, k.\"user\", k.session, k.key, k.value
                    FROM unnest(${}::bigint[], ${}::text[], ${}::text[], ${}::text[], ${}::text[]) AS k(at, \"user\", session, key, value)
                    JOIN own ON own.at = k.at)",
                first, first + 1, first + 2, first + 3, first + 4
            ));
            values.extend([
                Value::Ints(state.iter().map(|brings| index(brings.place)).collect()),
                Value::Texts(state.iter().map(|brings| brings.scope.0).collect()),
                Value::Texts(state.iter().map(|brings| brings.scope.1).collect()),
                Value::Texts(state.iter().map(|brings| &*brings.name).collect()),
                Value::Texts(state.iter().map(|brings| brings.value.as_str()).collect()),
            ]);
        }
        sql.push_str(" SELECT at FROM own");
        Statement { sql, values }
    }

    fn continue_runs<'b>(&'b self, old: &[(usize, &'b Part<'_>)]) -> Statement<'b> {
        let mut values = vec![
            Value::Text(self.owner),
            Value::Int(self.number),
            Value::Ints(old.iter().map(|(place, _)| index(*place)).collect()),
            Value::Texts(old.iter().map(|(_, part)| part.run.as_str()).collect()),
            Value::Ints(old.iter().map(|(_, part)| i64::from(part.epoch)).collect()),
            Value::Ints(old.iter().map(|(_, part)| int(part.after + 1)).collect()),
            Value::Ints(old.iter().map(|(_, part)| int(part.last + 1)).collect()),
            Value::Ints(old.iter().map(|(_, part)| i64::from(part.expects())).collect()),
            Value::Bools(old.iter().map(|(_, part)| part.takes_over.is_some()).collect()),
            Value::Ints(old.iter().map(|(_, part)| lumps(part)).collect()),
            Value::Bools(old.iter().map(|(_, part)| part.state != NewState::Unchanged).collect()),
            Value::MaybeInts(old.iter().map(|(_, part)| stated(part)).collect()),
            Value::MaybeInts(old.iter().map(|(_, part)| part.ends.map(|ends| ends.settled_at)).collect()),
            Value::MaybeTexts(old.iter().map(|(_, part)| part.ends.map(|ends| ends.ending.as_str())).collect()),
        ];
        let starts = old.iter().any(|(_, part)| part.starts);
        let mut sql = CONTINUE_RUNS.to_owned();
        if starts {
            values.push(Value::Bools(old.iter().map(|(_, part)| part.starts).collect()));
            sql = sql
                .replace("/*starts*/", STARTS)
                .replace("/*columns*/", ", $15::bool[]")
                .replace("/*names*/", ", starts");
        }
        if old.iter().any(|(_, part)| part.ends.is_some()) {
            sql.push_str(USED_AT_THE_END);
        }
        add_rows(&mut sql, &mut values, old, "moved");
        sql.push_str(" SELECT at FROM moved");
        Statement { sql, values }
    }
}

/// The places in the first column of rows.
pub(super) fn accepted(rows: impl Iterator<Item = Found>) -> Result<Vec<usize>, Error> {
    rows.map(|row| Ok(usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or(usize::MAX))).collect()
}

fn index(place: usize) -> i64 {
    int(place as u64)
}

fn lumps(part: &Part<'_>) -> i64 {
    index(part.rows.iter().filter(|row| matches!(row, Row::Lump { .. })).count())
}

fn stated(part: &Part<'_>) -> Option<i64> {
    match part.state {
        NewState::Is(state) if part.ends.is_none() => state,
        NewState::Is(_) | NewState::Unchanged => None,
    }
}

/// Creates the sessions of new runs that are not there, and their places. A run that will be refused creates none.
fn begin_sessions<'b>(new: &[(usize, &'b Part<'_>)]) -> [Statement<'b>; 2] {
    let begins = || new.iter().filter_map(|(_, part)| part.begins);
    let values = || {
        vec![
            Value::Texts(new.iter().map(|(_, part)| part.run.as_str()).collect()),
            Value::Texts(begins().map(|begins| &*begins.session.tenant).collect()),
            Value::Texts(begins().map(|begins| &*begins.session.app).collect()),
            Value::Texts(begins().map(|begins| &*begins.session.user).collect()),
            Value::Texts(begins().map(|begins| begins.session.session.as_str()).collect()),
            Value::Ints(begins().map(|begins| begins.accepted_at).collect()),
        ]
    };
    [Statement::new(format!("{WANTED} {PLACES}"), values()), Statement::new(format!("{WANTED} {SESSIONS}"), values())]
}

/// The sessions that new runs need and that are not there.
const WANTED: &str = "WITH wanted AS (
    SELECT DISTINCT ON (b.tenant, b.app, b.\"user\", b.session) b.*
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[]) WITH ORDINALITY
        AS b(run, tenant, app, \"user\", session, accepted_at, at)
    WHERE NOT EXISTS (SELECT FROM runs r WHERE r.run = b.run)
    AND NOT EXISTS (SELECT FROM sessions s WHERE (s.tenant, s.app, s.\"user\", s.session) = (b.tenant, b.app, b.\"user\", b.session))
    ORDER BY b.tenant, b.app, b.\"user\", b.session, b.at)";

pub(super) const PLACES: &str = "INSERT INTO places (tenant, app, \"user\")
    SELECT tenant, app, '' FROM wanted UNION SELECT tenant, app, \"user\" FROM wanted ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING";

pub(super) const SESSIONS: &str =
    "INSERT INTO sessions (tenant, app, \"user\", session, created_at, updated_at, app_place, user_place)
    SELECT w.tenant, w.app, w.\"user\", w.session, w.accepted_at, w.accepted_at, a.id, u.id FROM wanted w
    JOIN places a ON (a.tenant, a.app, a.\"user\") = (w.tenant, w.app, '')
    JOIN places u ON (u.tenant, u.app, u.\"user\") = (w.tenant, w.app, w.\"user\")
    ORDER BY 1, 2, 3, 4 ON CONFLICT DO NOTHING";

/// Locks the sessions of runs that begin or end, if there are any (invariant 1).
fn lock_sessions<'b>(new: &[(usize, &'b Part<'_>)], old: &[(usize, &'b Part<'_>)]) -> Option<Statement<'b>> {
    let ending: Vec<&str> =
        old.iter().filter(|(_, part)| part.ends.is_some()).map(|(_, part)| part.run.as_str()).collect();
    if new.is_empty() && ending.is_empty() {
        return None;
    }
    let begins = || new.iter().filter_map(|(_, part)| part.begins);
    let sql = "SELECT -1::bigint FROM sessions WHERE id IN (
            SELECT session FROM runs WHERE run = ANY($1::text[])
            UNION ALL SELECT s.id FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS k(tenant, app, \"user\", session)
            JOIN sessions s USING (tenant, app, \"user\", session))
        ORDER BY id FOR NO KEY UPDATE";
    let values = vec![
        Value::Texts(ending),
        Value::Texts(begins().map(|begins| &*begins.session.tenant).collect()),
        Value::Texts(begins().map(|begins| &*begins.session.app).collect()),
        Value::Texts(begins().map(|begins| &*begins.session.user).collect()),
        Value::Texts(begins().map(|begins| begins.session.session.as_str()).collect()),
    ];
    Some(Statement::new(sql, values))
}

/// Locks the leases of those whose runs are taken over, so that none is renewed meanwhile (invariant 1).
fn lock_leases<'b>(old: &[(usize, &'b Part<'_>)]) -> Option<Statement<'b>> {
    let taken = old.iter().filter(|(_, part)| part.takes_over.is_some());
    let taken: Vec<&str> = taken.map(|(_, part)| part.run.as_str()).collect();
    let sql = "SELECT -1::bigint FROM replicas WHERE id IN (SELECT owner FROM runs WHERE run = ANY($1::text[]))
        ORDER BY id FOR SHARE";
    (!taken.is_empty()).then(|| Statement::new(sql, vec![Value::Texts(taken)]))
}

const BEGIN_RUNS: &str = "WITH b AS (
    SELECT * FROM unnest($4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[],
        $12::bigint[], $13::bool[], $14::bigint[], $15::bigint[], $16::text[], $17::text[], $18::bigint[])
    AS b(at, run, tenant, app, \"user\", session, epoch, next_seq, lumps, starts, accepted_at, settled_at, ending, title, state)),
block AS MATERIALIZED (SELECT nextval('starts') AS first),
fresh AS (
    INSERT INTO runs (run, session, place, app_place, user_place, epoch, owner, commit, next_seq, lumps, format, started, state,
        settled, accepted_at, settled_at, ending, title)
    SELECT b.run, s.id, s.next_place + row_number() OVER (PARTITION BY s.id ORDER BY b.at) - 1, s.app_place, s.user_place, b.epoch,
        $1, $2, b.next_seq, b.lumps, $3, CASE WHEN b.starts THEN block.first + b.at END, b.state, b.settled_at IS NOT NULL,
        b.accepted_at, b.settled_at, b.ending, b.title
    FROM b JOIN sessions s USING (tenant, app, \"user\", session) CROSS JOIN block
    WHERE NOT EXISTS (SELECT FROM runs r WHERE r.run = b.run)
    ORDER BY b.at ON CONFLICT (run) DO NOTHING
    RETURNING id, run, session, place, accepted_at, settled_at),
own AS (SELECT b.at, b.epoch, 0::bigint AS before, fresh.id FROM fresh JOIN b USING (run)),
used AS (UPDATE sessions s SET next_place = greatest(s.next_place, u.last + 1), version = s.version + u.ended,
        updated_at = greatest(s.updated_at, u.at)
    FROM (SELECT session, max(place) AS last, count(settled_at) AS ended, max(greatest(accepted_at, settled_at)) AS at
        FROM fresh GROUP BY session) u
    WHERE s.id = u.session)";

const CONTINUE_RUNS: &str = "WITH b AS (
    SELECT * FROM unnest($3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bool[], $10::bigint[],
        $11::bool[], $12::bigint[], $13::bigint[], $14::text[]/*columns*/)
    AS b(at, run, epoch, first, next, expected, takes, lumps, says, state, settled_at, ending/*names*/)),
moved AS (
    UPDATE runs r SET next_seq = b.next, epoch = b.epoch, owner = $1, commit = $2, lumps = r.lumps + b.lumps,
        state = CASE WHEN b.says THEN b.state ELSE r.state END, settled = b.settled_at IS NOT NULL, settled_at = b.settled_at,
        ending = b.ending/*starts*/
    FROM b
    WHERE r.run = b.run AND NOT r.settled AND r.next_seq = b.first AND r.epoch = b.expected
    AND NOT (r.owner = $1 AND r.commit = $2)
    AND (NOT b.takes OR may_take(r.owner, $1))
    RETURNING r.id, r.session, b.at, b.epoch, r.lumps - b.lumps AS before, r.settled_at)";

const STARTS: &str =
    ", started = CASE WHEN b.starts THEN coalesce(r.started, (SELECT nextval('starts')) + b.at) ELSE r.started END";

const USED_AT_THE_END: &str = ",
used AS (UPDATE sessions s SET version = s.version + u.ended, updated_at = greatest(s.updated_at, u.at)
    FROM (SELECT session, count(*) AS ended, max(settled_at) AS at FROM moved WHERE settled_at IS NOT NULL GROUP BY session) u
    WHERE s.id = u.session)";

/// Moves what started runs brought into the state.
const APPLY_STATE: &str = "WITH due AS (
    DELETE FROM brought g USING runs r WHERE r.id = g.run AND r.started IS NOT NULL AND r.run = ANY($1::text[])
    RETURNING r.session AS of, g.\"user\", g.session, g.key, g.value),
applied AS (INSERT INTO state (tenant, app, \"user\", session, key, value)
    SELECT s.tenant, s.app, due.\"user\", due.session, due.key, due.value FROM due JOIN sessions s ON s.id = due.of
    ON CONFLICT (tenant, app, \"user\", session, key) DO UPDATE SET value = excluded.value)
SELECT -1::bigint WHERE false";

/// Adds the rows of runs that were taken, which `taken` lists with their place, epoch and number of lumps before.
fn add_rows<'b>(sql: &mut String, values: &mut Vec<Value<'b>>, parts: &[(usize, &'b Part<'_>)], taken: &str) {
    let Columns { events, lumps, said } = columns(parts);
    let next = |values: &Vec<Value<'_>>| values.len() + 1;
    if !events.0.is_empty() {
        let first = next(values);
        sql.push_str(&format!(
            ", facts AS (INSERT INTO events (run, seq, epoch, kind, body) SELECT {taken}.id, e.seq, {taken}.epoch, e.kind, e.body
                FROM unnest(${}::bigint[], ${}::bigint[], ${}::text[], ${}::text[]) AS e(at, seq, kind, body) JOIN {taken} ON {taken}.at = e.at)",
            first, first + 1, first + 2, first + 3
        ));
        values.extend([Value::Ints(events.0), Value::Ints(events.1), Value::Texts(events.2), Value::Texts(events.3)]);
    }
    if !lumps.0.is_empty() {
        let first = next(values);
        sql.push_str(&format!(
            ", texts AS (INSERT INTO lumps (run, n, after, epoch, body) SELECT {taken}.id, {taken}.before + l.n, l.after, {taken}.epoch, l.body
                FROM unnest(${}::bigint[], ${}::bigint[], ${}::bigint[], ${}::text[]) AS l(at, n, after, body) JOIN {taken} ON {taken}.at = l.at)",
            first, first + 1, first + 2, first + 3
        ));
        values.extend([Value::Ints(lumps.0), Value::Ints(lumps.1), Value::Ints(lumps.2), Value::Texts(lumps.3)]);
    }
    if !said.0.is_empty() {
        let first = next(values);
        sql.push_str(&format!(
            ", words AS (INSERT INTO said (run, body) SELECT {taken}.id, w.body
                FROM unnest(${}::bigint[], ${}::text[]) AS w(at, body) JOIN {taken} ON {taken}.at = w.at)",
            first,
            first + 1
        ));
        values.extend([Value::Ints(said.0), Value::Texts(said.1)]);
    }
}

fn columns<'b>(parts: &[(usize, &'b Part<'_>)]) -> Columns<'b> {
    let mut columns = Columns::default();
    for (place, part) in parts {
        let mut n = 0;
        for row in &part.rows {
            match row {
                Row::Fact { seq, kind, body } => {
                    let (ats, seqs, kinds, bodies) = &mut columns.events;
                    ats.push(index(*place));
                    seqs.push(int(*seq));
                    kinds.push(kind);
                    bodies.push(body.as_str());
                }
                Row::Lump { after, body } => {
                    n += 1;
                    let (ats, numbers, afters, bodies) = &mut columns.lumps;
                    ats.push(index(*place));
                    numbers.push(n);
                    afters.push(int(*after));
                    bodies.push(body.as_str());
                }
            }
        }
        if let Some(said) = part.ends.and_then(|ends| ends.said.as_deref()) {
            columns.said.0.push(index(*place));
            columns.said.1.push(said);
        }
    }
    columns
}
