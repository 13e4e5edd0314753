//! What was said in a session.

use std::convert::Infallible;
use std::sync::Arc;

use andon_runtime::core::event::Entry;
use andon_runtime::core::id::{RunId, SessionKey};
use andon_runtime::core::message::Message;
use andon_runtime::core::progress::RunProgress;
use andon_runtime::{HistoryBefore, HistoryGatherer};
use tokio_postgres::Row;

use super::run::facts;
use super::session::named;
use crate::postgres::rows::{RowResult, run_id};
use crate::postgres::sql::{Transaction, Value};
use crate::record::{said, unreadable};

/// What was said in a session: the messages of its runs that started and have settled.
pub(in crate::postgres) async fn history(
    transaction: Transaction<'_>,
    session: &SessionKey,
) -> RowResult<Vec<Arc<Message>>> {
    let sql = "SELECT said.body, r.id FROM runs r LEFT JOIN said ON said.run = r.id
        WHERE r.session = (SELECT id FROM sessions WHERE (tenant, app, \"user\", session) = ($1, $2, $3, $4))
        AND r.started IS NOT NULL AND r.settled ORDER BY r.started";
    let mut messages = Vec::new();
    for row in transaction.rows(sql, &named(session)).await? {
        messages.extend(messages_of(transaction, &row).await?);
    }
    Ok(messages)
}

/// The messages of a settled run, from a row with what it said and its id.
async fn messages_of(transaction: Transaction<'_>, row: &Row) -> RowResult<Vec<Arc<Message>>> {
    // The events are the truth and this is a copy, so nothing is lost if a row cannot be read.
    if let Some(messages) = row.try_get::<_, Option<&str>>(0)?.and_then(|body| said::read(body).ok()) {
        return Ok(messages);
    }
    let entries: Vec<Entry> = facts(transaction, row.try_get(1)?).await?.into_iter().map(Entry::Fact).collect();
    let progress = RunProgress::fold(&entries).map_err(|error| unreadable(&error))?;
    Ok(progress.messages().to_vec())
}

/// The size of a run's facts, found without reading them.
const SIZE: &str = "(SELECT coalesce(sum(octet_length(body)), 0)::bigint FROM events WHERE run = r.id)";

/// The runs of a session before one of them, given its row's columns.
const EARLIER: &str = "r.session = $1 AND CASE WHEN $2::bigint IS NULL THEN r.id < $3 ELSE r.started < $2 END";

/// How many earlier runs are looked at in one query.
const SOME: usize = 64;

/// What was said in a run's session before it, by runs that started and have settled; and the earlier runs that have not.
pub(in crate::postgres) async fn history_before(
    transaction: Transaction<'_>,
    run: &RunId,
    most: usize,
) -> RowResult<Option<HistoryBefore>> {
    let sql = format!("SELECT r.session, r.started, r.id, {SIZE} FROM runs r WHERE run = $1");
    let Some(row) = transaction.row(&sql, &[Value::Text(run.as_str())]).await? else { return Ok(None) };
    let started: Option<i64> = row.try_get(1)?;
    let of = || {
        Ok::<_, tokio_postgres::Error>([
            Value::Int(row.try_get(0)?),
            Value::MaybeInt(started),
            Value::Int(row.try_get(2)?),
        ])
    };
    let mut gathering = HistoryGatherer::new(most, size(&row, 3)?);
    let sql = format!(
        "SELECT r.run, {SIZE} FROM runs r WHERE NOT r.settled AND {EARLIER}
         ORDER BY r.started IS NULL DESC, r.started DESC, r.id DESC"
    );
    for row in transaction.rows(&sql, &of()?).await? {
        gathering.unsettled(run_id(&row, 0)?, size(&row, 1)?);
    }
    let fitting = settled_before(transaction, of()?, &mut gathering).await?;
    let mut messages = Vec::new();
    for row in fitting.iter().rev() {
        messages.extend(messages_of(transaction, row).await?);
    }
    let mut before = gathering.done();
    before.messages = messages;
    Ok(Some(before))
}

/// The earlier runs that have settled and fit, the latest first.
async fn settled_before(
    transaction: Transaction<'_>,
    [session, started, id]: [Value<'_>; 3],
    gathering: &mut HistoryGatherer,
) -> RowResult<Vec<Row>> {
    let sql = format!(
        "SELECT said.body, r.id, {SIZE}, r.started FROM runs r LEFT JOIN said ON said.run = r.id
         WHERE r.settled AND r.started IS NOT NULL AND {EARLIER} AND r.started < $4 ORDER BY r.started DESC LIMIT {SOME}"
    );
    let mut values = [session, started, id, Value::Int(i64::MAX)];
    let mut fitting = Vec::new();
    loop {
        let rows = transaction.rows(&sql, &values).await?;
        let is_last = rows.len() < SOME;
        for row in rows {
            // Their messages are read once it is known which fit.
            let fits = match gathering.settled::<Infallible>(size(&row, 2)?, || Ok(Vec::new())) {
                Ok(fits) => fits,
                Err(never) => match never {},
            };
            if !fits {
                return Ok(fitting);
            }
            let [.., before] = &mut values;
            *before = Value::Int(row.try_get(3)?);
            fitting.push(row);
        }
        if is_last {
            return Ok(fitting);
        }
    }
}

fn size(row: &Row, column: usize) -> RowResult<usize> {
    Ok(usize::try_from(row.try_get::<_, i64>(column)?).unwrap_or(usize::MAX))
}
