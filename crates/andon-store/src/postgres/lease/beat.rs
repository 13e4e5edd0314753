//! What is asked at each heartbeat, in one round trip.

use std::time::Duration;

use andon_runtime::core::FORMAT_VERSION;
use andon_runtime::core::cancel::CancelRequest;
use andon_runtime::core::id::RunId;
use tokio_postgres::Row;

use crate::postgres::rows::{RowResult, parse, run_id};
use crate::postgres::server::{Fault, Link};
use crate::postgres::sql::{Statement, Value, transact};
use crate::postgres::write::WriteError;

/// Renews the lease. `since` says since when it has been held without a break.
const RENEW: &str = "INSERT INTO replicas (id, program, format, ttl, lease_until, since)
    VALUES ($1, $2, $3, $4 * interval '1 millisecond', clock_timestamp() + $4 * interval '1 millisecond', clock_timestamp())
    ON CONFLICT (id) DO UPDATE SET lease_until = clock_timestamp() + excluded.ttl,
        since = CASE WHEN replicas.lease_until >= clock_timestamp() THEN replicas.since ELSE clock_timestamp() END
    RETURNING since::text";

/// What others have asked of this process's runs.
const ASKED: &str = "SELECT r.run, q.body, q.number FROM runs r JOIN requests q ON q.run = r.id AND q.number > r.heard
    WHERE r.owner = $1 AND NOT r.settled AND r.asked > r.heard AND q.kind = 'cancel' ORDER BY r.id, q.number";

/// Whether a process is dead that has left runs, and nobody takes them up.
const LEFT: &str =
    "SELECT EXISTS (SELECT FROM replicas p WHERE p.lease_until < clock_timestamp() AND may_take(p.id, $1)
    AND NOT EXISTS (SELECT FROM replicas h WHERE h.id = p.heir AND h.lease_until >= clock_timestamp())
    AND EXISTS (SELECT FROM runs r WHERE r.owner = p.id AND NOT r.settled))";

/// Which of these runs are another's.
const LOST: &str = "SELECT k.run FROM unnest($2::text[]) AS k(run)
    WHERE NOT EXISTS (SELECT FROM runs r WHERE r.run = k.run AND r.owner = $1)";

/// The server's answer to a heartbeat.
pub(super) struct Answer {
    pub(super) since: String,
    pub(super) asked: Vec<(RunId, i64, CancelRequest)>,
    pub(super) left: bool,
}

/// Whose heart beats.
pub(super) struct Replica {
    pub(super) id: String,
    pub(super) program: String,
    /// The schema's name, as SQL has it.
    pub(super) schema: String,
    pub(super) ttl: Duration,
}

impl Replica {
    fn begin(&self) -> String {
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL search_path TO {}; SET LOCAL statement_timeout = '2s'; \
             SET LOCAL lock_timeout = '2s'; SET LOCAL idle_in_transaction_session_timeout = '2s'",
            self.schema
        )
    }

    pub(super) async fn beat(&self, link: &mut Link, patience: Duration) -> Result<Answer, Fault> {
        let ttl = i64::try_from(self.ttl.as_millis()).unwrap_or(i64::MAX);
        let id = || Value::Text(&self.id);
        let renew = vec![id(), Value::Text(&self.program), Value::Int(i64::from(FORMAT_VERSION)), Value::Int(ttl)];
        let statements =
            [Statement::new(RENEW, renew), Statement::new(ASKED, vec![id()]), Statement::new(LEFT, vec![id()])];
        let begin = self.begin();
        link.ask(patience, async |client| {
            let mut answers = transact(client, &begin, &statements).await?.into_iter();
            let mut next = || answers.next().unwrap_or_default();
            let (renewed, asked, left) = (next(), next(), next());
            let since = renewed.first().map_or(Ok(String::new()), |row| row.try_get(0))?;
            let left = left.first().map_or(Ok(false), |row| row.try_get(0))?;
            Ok(Answer { since, asked: asked.iter().filter_map(request).collect(), left })
        })
        .await
    }

    /// Which of these runs belong to others.
    pub(super) async fn lost(&self, link: &mut Link, runs: &[RunId], patience: Duration) -> Result<Vec<RunId>, Fault> {
        let runs = runs.iter().map(RunId::as_str).collect();
        let statement = Statement::new(LOST, vec![Value::Text(&self.id), Value::Texts(runs)]);
        let begin = self.begin();
        link.ask(patience, async |client| {
            let rows = transact(client, &begin, &[statement]).await?;
            Ok(rows.iter().flatten().filter_map(|row| run_id(row, 0).ok()).collect())
        })
        .await
    }

    /// Says that these processes are dead, so that nobody waits for the end of their leases. Returns those that had one in this
    /// schema.
    pub(super) async fn are_dead(
        &self,
        link: &mut Link,
        dead: &[String],
        patience: Duration,
    ) -> Result<Vec<String>, Fault> {
        let sql = "UPDATE replicas SET lease_until = '-infinity' WHERE id = ANY($1::text[]) RETURNING id";
        let statement = Statement::new(sql, vec![Value::Texts(dead.iter().map(String::as_str).collect())]);
        let begin = self.begin();
        link.ask(patience, async |client| {
            let rows = transact(client, &begin, &[statement]).await?;
            Ok(rows.iter().flatten().filter_map(|row| row.try_get(0).ok()).collect())
        })
        .await
    }

    /// Gives the lease back.
    pub(super) async fn leave(&self, link: &mut Link, patience: Duration) -> Result<(), Fault> {
        let sql = "WITH open AS (SELECT EXISTS (SELECT FROM runs WHERE owner = $1 AND NOT settled) AS any),
            kept AS (UPDATE replicas SET lease_until = '-infinity' FROM open WHERE id = $1 AND open.any)
            DELETE FROM replicas USING open WHERE id = $1 AND NOT open.any";
        self.change(link, Statement::new(sql, vec![Value::Text(&self.id)]), patience).await
    }

    async fn change(&self, link: &mut Link, statement: Statement<'_>, patience: Duration) -> Result<(), Fault> {
        let begin = self.begin();
        link.ask(patience, async |client| Ok(transact(client, &begin, &[statement]).await.map(drop)?)).await
    }
}

/// A request that cannot be read is left to whoever takes the run up.
fn request(row: &Row) -> Option<(RunId, i64, CancelRequest)> {
    let read = || -> RowResult<_> {
        let number = row.try_get(2).map_err(WriteError::from)?;
        Ok((run_id(row, 0)?, number, parse(row, 1)?))
    };
    read().ok()
}
