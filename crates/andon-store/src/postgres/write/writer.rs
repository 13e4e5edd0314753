//! The one thread that writes: whatever is queued when a commit ends goes into the next commit.
//!
//! # Invariants
//!
//! 1. While the server is away, everything waits: that is a stall, and no failure. Only a journal that is being closed gives up.
//! 2. A transaction whose answer was lost is sent again under the same number. If it had been committed, it finds its number and
//!    changes nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::JournalError;
use andon_runtime::core::id::RunId;
use andon_runtime::core::time::Stamp;
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep, timeout};

use super::append::{Appending, Brought};
use super::notes::settled;
use super::refused::{Verdict, verdicts};
use super::wave::{Failed, Joined, Part, Wave, after_failure};
use super::work::{Job, Kind, Work, WriteError};
use crate::postgres::server::{Cause, Fault, Link, PostgresAddress, attempt, cause, check, explain};
use crate::postgres::sql::{Statement, Transaction, Value, transact};
use crate::queue::{Queue, Taken};
use crate::record::{Instants, RefuseOnExit, SOME, Trouble};

/// The most facts in one commit: with more, the first of them would wait too long for the last.
const MOST: usize = 256;

/// How long an instant waits for a commit to be written with.
const REST: Duration = Duration::from_millis(50);

/// How long to wait before trying again, while nobody waits.
const AGAIN: Duration = Duration::from_millis(250);

/// How long the server may be away, or silent, before that is reported as trouble.
const STALL: Duration = Duration::from_secs(1);

/// How long a transaction may take before its connection counts as broken.
const PATIENCE: Duration = Duration::from_secs(35);

/// How long to wait before connecting again: at first, and at most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How long a journal that is being closed waits for the server.
const LAST: Duration = Duration::from_secs(3);

/// How often a batch is tried again that another process was in the way of.
const TRIES: u32 = 5;

/// The same for work that may be large, such as deleting a session.
const LONG_PATIENCE: Duration = Duration::from_secs(600);

/// How a transaction begins. The server ends one that takes too long, waits too long for a lock, or for us.
fn begin(schema: &str, patience: Duration) -> String {
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL search_path TO {schema}; SET LOCAL statement_timeout = '{}s'; \
         SET LOCAL lock_timeout = '5s'; SET LOCAL idle_in_transaction_session_timeout = '10s'",
        patience.as_secs() - 5
    )
}

/// Gives a transaction its number. No row is changed if a transaction with this number has been committed.
const NUMBER: &str = "INSERT INTO writers (id, done) VALUES ($1, $2)
    ON CONFLICT (id) DO UPDATE SET done = excluded.done WHERE writers.done < excluded.done";

/// A run, and when its outcome was durable.
type Settled = (RunId, Stamp);

pub(in crate::postgres) struct Writer {
    pub(in crate::postgres) address: Arc<PostgresAddress>,
    /// The schema's name, as SQL has it.
    pub(in crate::postgres) schema: String,
    /// The id of this journal as the owner of runs.
    pub(in crate::postgres) owner: String,
    pub(in crate::postgres) queue: Arc<Queue<Job>>,
    pub(in crate::postgres) instants: Arc<Instants>,
    pub(in crate::postgres) trouble: Arc<Trouble>,
    pub(in crate::postgres) link: Option<Link>,
    pub(in crate::postgres) state: WriterState,
}

/// What a writer remembers.
#[derive(Default)]
pub(in crate::postgres) struct WriterState {
    failed: Failed,
    /// The number of the last commit.
    number: i64,
    /// Whether a transaction has its number in the database.
    is_known: bool,
    /// Whether there was nothing to do for a while.
    rested: bool,
    away: Option<Away>,
}

/// Since when the server is away.
#[derive(Clone, Copy)]
struct Away {
    since: Instant,
    back_off: Duration,
    /// Since when the journal is being closed as well.
    closing: Option<Instant>,
}

impl Writer {
    /// Writes until the queue is closed and empty.
    pub(in crate::postgres) fn run(mut self, runtime: &Runtime) {
        let _guard = RefuseOnExit(Arc::clone(&self.queue));
        let queue = Arc::clone(&self.queue);
        loop {
            match queue.take(MOST, Job::weight, || self.patience()) {
                Taken::Jobs(jobs) => {
                    runtime.block_on(self.commit(jobs));
                    self.state.rested = false;
                }
                Taken::Nothing => {
                    self.state.rested = true;
                    runtime.block_on(self.rest());
                }
                Taken::Closed => break,
            }
        }
        runtime.block_on(self.leave());
    }

    /// How long to wait for jobs. After a commit, the instants of the runs that it settled are about to arrive.
    fn patience(&self) -> Option<Duration> {
        if self.state.away.is_some() {
            return Some(AGAIN);
        }
        if !self.state.rested {
            return Some(REST);
        }
        (!self.instants.is_empty()).then_some(AGAIN)
    }

    async fn commit(&mut self, jobs: Vec<Job>) {
        let is_full = jobs.iter().map(Job::weight).sum::<usize>() >= MOST / 2;
        let mut jobs = VecDeque::from(jobs);
        while !jobs.is_empty() {
            match Wave::take(&mut jobs, &mut self.state.failed) {
                Wave::Appends(joined) => self.append(joined, is_full, 0).await,
                Wave::Others(others) => self.work(others).await,
            }
        }
    }

    /// Appends batches, and answers their callers.
    async fn append(&mut self, joined: Vec<Joined>, is_full: bool, tries: u32) {
        if joined.is_empty() {
            return;
        }
        let parts: Vec<Part<'_>> =
            joined.iter().filter_map(|run| Part::of(run.batches.iter().map(|(batch, _)| batch))).collect();
        match self.append_when_there(&parts, is_full).await {
            Ok(verdicts) => {
                drop(parts);
                self.answer(joined, verdicts, tries).await;
            }
            Err(error) => {
                drop(parts);
                let mut alone: VecDeque<Job> = joined.into_iter().flat_map(|run| run.batches).map(Job::from).collect();
                let is_one = alone.len() == 1;
                while !alone.is_empty() {
                    match Wave::take_one(&mut alone, &mut self.state.failed) {
                        Some(run) if is_one || self.queue_gave_up(&error) => self.refuse(run, &error.error),
                        Some(run) => Box::pin(self.append(vec![run], true, tries)).await,
                        None => {}
                    }
                }
            }
        }
    }

    /// Whether the journal is being closed and the server did not come back.
    fn queue_gave_up(&self, error: &Failure) -> bool {
        error.is_final && self.queue.is_closed()
    }

    async fn answer(&mut self, joined: Vec<Joined>, verdicts: Vec<Verdict>, tries: u32) {
        let mut again = Vec::new();
        for (run, verdict) in joined.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Written => {
                    for (batch, done) in run.batches {
                        self.state.failed.forget(&batch.run);
                        done.done(Ok(()));
                    }
                }
                Verdict::Again if tries < TRIES => again.push(run),
                Verdict::Again => {
                    let why = "another process is changing the same session all the time".to_owned();
                    self.refuse(run, &JournalError::Storage(why));
                }
                Verdict::Refused(error) => self.refuse(run, &error),
            }
        }
        if !again.is_empty() {
            Box::pin(self.append(again, true, tries + 1)).await;
        }
    }

    /// Refuses the batches of a run. Those after the first depend on it.
    fn refuse(&mut self, run: Joined, error: &JournalError) {
        let mut error = error.clone();
        for (batch, done) in run.batches {
            if matches!(error, JournalError::Storage(_)) && batch.goes_on() {
                self.state.failed.note(&batch.run, batch.epoch);
            }
            done.done(Err(error.clone()));
            if matches!(error, JournalError::Storage(_)) {
                error = after_failure(&batch.run);
            }
        }
    }

    /// Appends in one transaction, as soon as the server is there.
    async fn append_when_there(&mut self, parts: &[Part<'_>], is_full: bool) -> Result<Vec<Verdict>, Failure> {
        let number = self.next_number();
        let instants = self.instants.beside(is_full);
        loop {
            match self.try_append(parts, number, &instants).await {
                Ok(verdicts) => {
                    self.is_there();
                    self.instants.written(&instants);
                    return Ok(verdicts);
                }
                Err(fault) => self.bear(fault).await?,
            }
        }
    }

    async fn try_append(
        &mut self,
        parts: &[Part<'_>],
        number: i64,
        instants: &[Settled],
    ) -> Result<Vec<Verdict>, Fault> {
        let begin = begin(&self.schema, PATIENCE);
        let owner = self.owner.clone();
        let appending = Appending { parts, owner: &owner, number, brought: Brought::Applied };
        self.ask(PATIENCE, async |client| {
            let more = if instants.is_empty() { Vec::new() } else { vec![settled(instants)] };
            let taken = appending.send(client, &begin, more).await?;
            let mut all: Vec<Verdict> = vec![Verdict::Written; parts.len()];
            let left: Vec<usize> = (0..parts.len()).filter(|place| !taken.contains(place)).collect();
            if left.is_empty() {
                return Ok(all);
            }
            let refused: Vec<&Part<'_>> = left.iter().filter_map(|place| parts.get(*place)).collect();
            client.batch_execute(&begin).await?;
            let found = verdicts(Transaction::on(client, &owner), number, &refused).await?;
            client.batch_execute("COMMIT").await?;
            for (place, verdict) in left.into_iter().zip(found) {
                if let Some(slot) = all.get_mut(place) {
                    *slot = verdict;
                }
            }
            Ok(all)
        })
        .await
    }

    /// Does other work in one transaction, and answers its callers.
    async fn work(&mut self, mut works: Vec<Box<dyn Work>>) {
        let number = self.next_number();
        let is_alone = works.iter().any(|work| work.kind() == Kind::Alone);
        // Whatever is deleted takes its instants with it, so all of them must be there before.
        let instants = if is_alone { self.instants.oldest(usize::MAX) } else { self.instants.beside(false) };
        let mut results = None;
        let failure = loop {
            match self.try_work(&mut works, number, &instants, &mut results).await {
                Ok(()) => {
                    self.is_there();
                    self.instants.written(&instants);
                    break None;
                }
                Err(fault) => match self.bear(fault).await {
                    Ok(()) => {}
                    Err(failure) => break Some(failure),
                },
            }
        };
        match failure {
            None => {
                let lost = || Err(JournalError::Storage("its result was lost".to_owned()));
                let mut results = results.unwrap_or_default().into_iter();
                for work in works {
                    work.done(results.next().unwrap_or_else(lost));
                }
            }
            Some(failure) if works.len() == 1 || failure.is_final => {
                for work in works {
                    work.done(Err(failure.error.clone()));
                }
            }
            Some(_) => {
                for work in works {
                    Box::pin(self.work(vec![work])).await;
                }
            }
        }
    }

    /// The results are there once the commit is sent: if its answer is lost, they hold if its number is found.
    async fn try_work(
        &mut self,
        works: &mut [Box<dyn Work>],
        number: i64,
        instants: &[Settled],
        results: &mut Option<Vec<Result<(), JournalError>>>,
    ) -> Result<(), Fault> {
        let is_long = works.iter().any(|work| work.kind() == Kind::Alone);
        let patience = if is_long { LONG_PATIENCE } else { PATIENCE };
        let (begin, owner) = (begin(&self.schema, patience), self.owner.clone());
        self.state.is_known = true;
        self.ask(patience, async |client| {
            let done = async {
                let transaction = Transaction::on(client, &owner);
                let values = [Value::Text(&owner), Value::Int(number)];
                let (begun, numbered) =
                    futures_util::future::join(client.batch_execute(&begin), transaction.execute(NUMBER, &values))
                        .await;
                begun?;
                if numbered? == 0 {
                    client.batch_execute("ROLLBACK").await?;
                    return Ok(());
                }
                if !instants.is_empty() {
                    let Statement { sql, values } = settled(instants);
                    transaction.execute(&sql, &values).await?;
                }
                let mut all = Vec::with_capacity(works.len());
                for work in works.iter_mut() {
                    match work.work(transaction).await {
                        Ok(()) => all.push(Ok(())),
                        Err(WriteError::Refused(error)) if work.kind() == Kind::Alone => {
                            client.batch_execute("ROLLBACK").await?;
                            *results = Some(vec![Err(error)]);
                            return Ok(());
                        }
                        Err(WriteError::Refused(error)) => all.push(Err(error)),
                        Err(WriteError::Server(fault)) => return Err(fault),
                    }
                }
                *results = Some(all);
                client.batch_execute("COMMIT").await?;
                Ok(())
            };
            let done: Result<(), Fault> = done.await;
            if done.is_err() {
                // If this fails as well, the connection is of no use, and the next transaction finds out.
                let _ = client.batch_execute("ROLLBACK").await;
            }
            done
        })
        .await
    }

    /// Writes what nobody waits for, or looks whether the server is back.
    async fn rest(&mut self) {
        while self.queue.is_empty() && !self.instants.is_empty() {
            let some = self.instants.oldest(SOME);
            // A crash of the server may lose them, and nothing else.
            let begin = format!("{}; SET LOCAL synchronous_commit = off", begin(&self.schema, PATIENCE));
            let written = self
                .ask(PATIENCE, async |client| Ok(transact(client, &begin, &[settled(&some)]).await.map(drop)?))
                .await;
            match written {
                Ok(()) => {
                    self.is_there();
                    self.instants.written(&some);
                }
                Err(fault) => return self.is_away(&fault),
            }
        }
        if self.state.away.is_some() {
            match self.ask(PATIENCE, async |client| Ok(client.batch_execute("").await?)).await {
                Ok(()) => self.is_there(),
                Err(fault) => self.is_away(&fault),
            }
        }
    }

    /// Leaves nothing behind but the record. What cannot be removed does no harm.
    async fn leave(&mut self) {
        self.rest().await;
        if let (Some(link), true) = (&mut self.link, self.state.is_known) {
            let sql = format!("DELETE FROM {}.writers WHERE id = $1", self.schema);
            let owner = self.owner.as_str();
            let statement = Statement::new(sql, vec![Value::Text(owner)]);
            let _ = attempt(link, LAST, async |client| transact(client, "BEGIN", &[statement]).await.map(drop)).await;
        }
    }

    fn next_number(&mut self) -> i64 {
        self.state.number += 1;
        self.state.number
    }

    /// Asks the server something, over a new connection if there is none. If the answer takes long, that is reported.
    async fn ask<T>(
        &mut self,
        patience: Duration,
        work: impl AsyncFnOnce(&tokio_postgres::Client) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let trouble = Arc::clone(&self.trouble);
        let asked = std::pin::pin!(async {
            let link = match &mut self.link {
                Some(link) => link,
                none => {
                    let name = format!("andon writer {}", self.schema);
                    let mut link = Link::open(&self.address, &name).await?;
                    check(&mut link, &self.address).await?;
                    none.insert(link)
                }
            };
            link.ask(patience, work).await
        });
        let mut asked = asked;
        match timeout(STALL, &mut asked).await {
            Ok(answered) => answered,
            Err(_) => {
                trouble.set(explain(&Fault::Silent(STALL)));
                asked.await
            }
        }
    }

    /// Waits until something is worth trying again after a fault. An error if it is not.
    async fn bear(&mut self, fault: Fault) -> Result<(), Failure> {
        match cause(&fault) {
            Cause::Statement => Err(Failure { error: explain(&fault), is_final: false }),
            Cause::InTheWay => {
                sleep(BACK_OFF.0).await;
                Ok(())
            }
            Cause::Away => {
                self.is_away(&fault);
                let back_off = self.state.away.map_or(BACK_OFF.0, |away| away.back_off);
                if self.gives_up() {
                    return Err(Failure { error: explain(&fault), is_final: true });
                }
                sleep(back_off).await;
                Ok(())
            }
        }
    }

    /// Whether it has waited long enough for a server, since the journal is being closed.
    fn gives_up(&mut self) -> bool {
        let (true, Some(away)) = (self.queue.is_closed(), &mut self.state.away) else { return false };
        away.closing.get_or_insert_with(Instant::now).elapsed() >= LAST
    }

    fn is_away(&mut self, fault: &Fault) {
        self.link = None;
        let away = match &mut self.state.away {
            Some(away) => {
                away.back_off = (away.back_off * 2).min(BACK_OFF.1);
                away
            }
            none => none.insert(Away { since: Instant::now(), back_off: BACK_OFF.0, closing: None }),
        };
        if away.since.elapsed() >= STALL {
            self.trouble.set(explain(fault));
        }
    }

    fn is_there(&mut self) {
        self.state.away = None;
        self.trouble.clear();
    }
}

/// Why something is not tried again.
struct Failure {
    error: JournalError,
    /// Whether nothing else would succeed, because the journal is being closed.
    is_final: bool,
}
