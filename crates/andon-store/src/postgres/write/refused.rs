//! Why a part of a wave was not written.

use andon_runtime::JournalError;
use tokio_postgres::Row;

use super::wave::Part;
use crate::postgres::sql::{Transaction, Value};
use crate::record::{HashMap, int};

/// What became of a part that the server did not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was written by a commit whose answer was lost.
    Written,
    /// It may succeed now: what was in its way is gone.
    Again,
    Refused(JournalError),
}

const ROWS: &str = "SELECT r.run, r.epoch, r.settled, r.next_seq, r.owner = $2 AND r.commit = $3, p.program FROM runs r
    LEFT JOIN replicas p ON p.id = r.owner AND NOT may_take(r.owner, $2) WHERE r.run = ANY($1::text[])";

/// A run's row.
struct Known {
    epoch: i64,
    settled: bool,
    next_seq: i64,
    /// Whether the commit that was sent has written to it last.
    is_written: bool,
    /// The program that drives it, if we may not take it over.
    driven_by: Option<String>,
}

impl Known {
    fn read(row: &Row) -> Result<(String, Self), tokio_postgres::Error> {
        let known = Self {
            epoch: row.try_get(1)?,
            settled: row.try_get(2)?,
            next_seq: row.try_get(3)?,
            is_written: row.try_get(4)?,
            driven_by: row.try_get(5)?,
        };
        Ok((row.try_get(0)?, known))
    }
}

/// Looks up the parts that were not accepted.
pub(super) async fn verdicts(
    transaction: Transaction<'_>,
    number: i64,
    parts: &[&Part<'_>],
) -> Result<Vec<Verdict>, tokio_postgres::Error> {
    let runs = parts.iter().map(|part| part.run.as_str()).collect();
    let values = [Value::Texts(runs), Value::Text(transaction.owner), Value::Int(number)];
    let rows = transaction.rows(ROWS, &values).await?;
    let known: HashMap<String, Known> = rows.iter().map(Known::read).collect::<Result<_, _>>()?;
    Ok(parts.iter().map(|part| verdict(part, known.get(part.run.as_str()))).collect())
}

fn verdict(part: &Part<'_>, known: Option<&Known>) -> Verdict {
    match (known, part.begins) {
        (Some(known), _) if known.is_written => Verdict::Written,
        (Some(_), Some(_)) => Verdict::Refused(JournalError::RunExists(part.run.clone())),
        // Its session was deleted while it was being written.
        (None, Some(_)) => Verdict::Again,
        (None, None) => Verdict::Refused(JournalError::Storage(format!("run {} is unknown", part.run))),
        (Some(known), None) => refused(part, known),
    }
}

fn refused(part: &Part<'_>, known: &Known) -> Verdict {
    let (ours, owner) = (part.epoch, u32::try_from(known.epoch).unwrap_or(u32::MAX));
    if known.settled || owner != part.expects() {
        return Verdict::Refused(JournalError::Fenced { ours, owner });
    }
    if let (Some(_), Some(by)) = (part.takes_over, &known.driven_by) {
        return Verdict::Refused(JournalError::Owned { by: by.as_str().into() });
    }
    let (run, first, next) = (part.run, part.after + 1, known.next_seq);
    if int(first) == next {
        return Verdict::Again;
    }
    Verdict::Refused(JournalError::Storage(format!("run {run}: event {first} was given where {next} was expected")))
}
