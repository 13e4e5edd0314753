//! A journal on a PostgreSQL server.

use std::fmt;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use andon_runtime::core::cancel::CancelRequest;
use andon_runtime::core::event::{AddendumKind, Epoch};
use andon_runtime::core::id::{RunId, SessionKey};
use andon_runtime::core::message::Message;
use andon_runtime::core::time::Stamp;
use andon_runtime::{
    Append, Batch, BoxFuture, HistoryBefore, Journal, JournalError, JournaledRun, LastReported, Lease, RequestFate,
    Sessions, Shelf,
};
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::lease::{Heard, Keeper, Terms};
use super::read::{self, Question, Readers};
use super::server::{
    Link, PostgresAddress, PostgresError, PostgresOptions, check, has_tables, prepare, quoted, refused,
};
use super::sql::Transaction;
use super::write::{self, Change, Kind, WriteError, Writer, WriterState};
use crate::queue::Queue;
use crate::record::{Instants, Pending, Trouble};

/// A journal on a PostgreSQL server.
///
/// Dropping it waits until everything it has accepted is written, or for a few seconds if the server is away.
pub struct PostgresJournal {
    address: Arc<PostgresAddress>,
    pub(super) readers: Readers,
    queue: Arc<Queue<write::Job>>,
    instants: Arc<Instants>,
    trouble: Arc<Trouble>,
    /// Why the lease is over, if it is.
    lapse: Arc<Trouble>,
    /// `None` if it only reads, and so drives no runs.
    keeper: Option<Keeper>,
    thread: Option<JoinHandle<()>>,
}

impl PostgresJournal {
    /// Connects to a database, such as `postgres://ada@db.example.com/app`, and creates the tables if there are none. Blocks
    /// until that is done, for at most some ten seconds if nobody answers.
    pub fn open(url: &str) -> Result<Self, PostgresError> {
        Self::open_with(url, &PostgresOptions::new())
    }

    /// Like [`open`](Self::open), with options.
    pub fn open_with(url: &str, options: &PostgresOptions) -> Result<Self, PostgresError> {
        Self::open_at(&PostgresAddress::read(url)?, options)
    }

    /// Like [`open_with`](Self::open_with), with an address that was read before.
    pub fn open_at(address: &PostgresAddress, options: &PostgresOptions) -> Result<Self, PostgresError> {
        let (address, options) = (Arc::new(address.clone()), options.clone().at(address));
        Self::start(&address, &options).map_err(|error| error.because(address.warning()))
    }

    fn start(address: &Arc<PostgresAddress>, options: &PostgresOptions) -> Result<Self, PostgresError> {
        let failed = |why: std::io::Error| other(address, &why.to_string());
        let (queue, instants, trouble) =
            (Arc::new(Queue::new()), Arc::new(Instants::default()), Arc::new(Trouble::default()));
        let owner = uuid::Uuid::now_v7().to_string();
        let mut writer = Writer {
            address: Arc::clone(address),
            schema: quoted(&options.schema),
            owner: owner.clone(),
            queue: Arc::clone(&queue),
            instants: Arc::clone(&instants),
            trouble: Arc::clone(&trouble),
            link: None,
            state: WriterState::default(),
        };
        let schema = writer.schema.clone();
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (opened, is_open) = mpsc::channel();
        let (to_open, for_thread) = (Arc::clone(address), options.clone());
        let thread = thread::Builder::new().name("andon-writer".to_owned()).spawn(move || {
            match runtime.block_on(connect(&to_open, &for_thread, &writer.schema)) {
                Ok(link) => {
                    writer.link = Some(link);
                    // Whoever opens it waits for this.
                    let _ = opened.send(Ok(()));
                    writer.run(&runtime);
                }
                Err(error) => drop(opened.send(Err(error))),
            }
        });
        let thread = Some(thread.map_err(failed)?);
        is_open.recv().map_err(|_| other(address, "its writer has panicked"))??;
        let lapse = Arc::new(Trouble::default());
        let keeper = Keeper::start(Terms {
            address: Arc::clone(address),
            schema: (options.schema.clone(), schema.clone()),
            program: options.program.clone(),
            owner,
            ttl: options.lease,
            trouble: Arc::clone(&lapse),
            heard: note_heard(Arc::clone(&queue)),
        });
        let keeper = Some(keeper.inspect_err(|_| queue.close())?);
        let readers = Readers::start(address, &schema).map_err(failed)?;
        Ok(Self { address: Arc::clone(address), readers, queue, instants, trouble, lapse, keeper, thread })
    }

    /// Opens a database only to read it, which needs no more rights than that and may be done on a standby; `None` if nothing was ever
    /// recorded there. Whatever would change something is refused as [closed](JournalError::Closed). Blocks as
    /// [`open`](Self::open) does.
    pub fn open_to_read(address: &PostgresAddress, options: &PostgresOptions) -> Result<Option<Self>, PostgresError> {
        let (address, options) = (Arc::new(address.clone()), options.clone().at(address));
        let failed = |why: std::io::Error| other(&address, &why.to_string());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let looking = (Arc::clone(&address), options.clone());
        // On a thread of its own, because the caller's may belong to a runtime.
        let looked = thread::spawn(move || {
            let (address, options) = looking;
            runtime.block_on(has_tables(&address, &options))
        });
        let has_tables = looked.join().map_err(|_| other(&address, "what looked for its tables has panicked"))?;
        if !has_tables.map_err(|error| error.because(address.warning()))? {
            return Ok(None);
        }
        let readers = Readers::start(&address, &quoted(&options.schema)).map_err(failed)?;
        let queue = Arc::new(Queue::new());
        queue.close();
        let (instants, trouble, lapse) = Default::default();
        Ok(Some(Self { address, readers, queue, instants, trouble, lapse, keeper: None, thread: None }))
    }

    /// Adds a job to the writer's queue.
    fn push(&self, job: write::Job) {
        if let Err(job) = self.queue.push(job) {
            job.done(Err(JournalError::Closed));
        }
    }

    /// Queues a change for the writer, and answers when it is durable.
    pub(super) fn change<T: Send + 'static>(
        &self,
        kind: Kind,
        change: impl AsyncFnMut(Transaction<'_>) -> Result<T, WriteError> + Send + 'static,
    ) -> BoxFuture<Result<T, JournalError>> {
        let (answer, receiver) = oneshot::channel();
        self.push(write::Job::Other(Box::new(Change { change, kind, result: None, answer })));
        Box::pin(async move { receiver.await.unwrap_or(Err(JournalError::Closed)) })
    }

    /// Queues a small write that is acknowledged like an append.
    fn note(&self, write: impl AsyncFnMut(Transaction<'_>) -> Result<(), WriteError> + Send + 'static) -> Append {
        let (append, done) = Append::pending();
        self.push(write::Job::Other(Box::new(Change { change: write, kind: Kind::Small, result: None, answer: done })));
        append
    }

    /// When runs settled, as far as that is not in the database yet. Must be called before it is read.
    pub(super) fn pending(&self) -> Pending {
        self.instants.pending()
    }
}

fn other(address: &PostgresAddress, why: &str) -> PostgresError {
    PostgresError::Other { address: address.shown().to_owned(), why: why.to_owned() }
}

/// Asks a question. It sees one snapshot of the database, and is answered on a reader's thread.
pub(super) fn ask<T: Send + 'static>(
    queue: &Queue<Box<Question>>,
    question: impl AsyncFnMut(Transaction<'_>) -> Result<T, WriteError> + Send + 'static,
) -> BoxFuture<Result<T, JournalError>> {
    let (answer, receiver) = oneshot::channel();
    // If the queue is closed, the question is dropped, and its answer with it.
    let _ = queue.push(Box::new(Change { change: question, kind: Kind::Alone, result: None, answer }));
    Box::pin(async move { receiver.await.unwrap_or(Err(JournalError::Closed)) })
}

/// Remembers which requests were heard. If that is lost, they are heard again, which changes nothing.
fn note_heard(queue: Arc<Queue<write::Job>>) -> Heard {
    Box::new(move |runs| {
        let (append, answer) = Append::pending();
        drop(append);
        let change = async move |transaction: Transaction<'_>| write::heard(transaction, &runs).await;
        let _ = queue.push(write::Job::Other(Box::new(Change { change, kind: Kind::Small, result: None, answer })));
    })
}

async fn connect(address: &PostgresAddress, options: &PostgresOptions, schema: &str) -> Result<Link, PostgresError> {
    let failed = |fault| refused(&address.shown, &options.schema, fault);
    let mut link = Link::open(address, &format!("andon writer {schema}")).await.map_err(failed)?;
    check(&mut link, address).await.map_err(failed)?;
    prepare(&mut link, address, options).await?;
    Ok(link)
}

impl Drop for PostgresJournal {
    fn drop(&mut self) {
        self.readers.close();
        self.queue.close();
        // If it panicked, whatever it had not written was never acknowledged.
        let _ = self.thread.take().map(JoinHandle::join);
        drop(self.keeper.take());
    }
}

impl fmt::Debug for PostgresJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresJournal").field("address", &self.address.shown).finish_non_exhaustive()
    }
}

impl Shelf for PostgresJournal {
    fn keep(&self, kind: &str, name: &str, value: Value) -> Append {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.note(async move |transaction: Transaction<'_>| write::keep(transaction, &kind, &name, &value).await)
    }

    fn discard(&self, kind: &str, name: &str) -> Append {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.note(async move |transaction: Transaction<'_>| write::discard(transaction, &kind, &name).await)
    }

    fn kept(&self, kind: &str) -> BoxFuture<Result<Vec<(String, Value)>, JournalError>> {
        let kind = kind.to_owned();
        ask(&self.readers.quick, async move |transaction: Transaction<'_>| read::kept(transaction, &kind).await)
    }
}

impl Journal for PostgresJournal {
    fn append(&self, batch: Batch) -> Append {
        let (append, done) = Append::pending();
        self.push(write::Job::append(batch, done));
        append
    }

    fn append_addendum(&self, run: &RunId, at: Stamp, what: AddendumKind) -> Append {
        let run = run.clone();
        self.note(async move |transaction: Transaction<'_>| write::append_addendum(transaction, &run, at, &what).await)
    }

    fn keep_settled(&self, run: &RunId, at: Stamp) {
        self.instants.add(run, at);
        self.queue.nudge();
    }

    fn keep_all(&self) -> BoxFuture<()> {
        if self.instants.is_empty() {
            return Box::pin(std::future::ready(()));
        }
        let (instants, all) = (Arc::clone(&self.instants), self.instants.oldest(usize::MAX));
        let given = all.clone();
        let kept = self.change(Kind::Small, async move |transaction: Transaction<'_>| {
            let statement = write::settled(&given);
            transaction.execute(&statement.sql, &statement.values).await?;
            Ok(())
        });
        Box::pin(async move {
            // An instant that could not be written is not on record, and is reported as unknown.
            if kept.await.is_ok() {
                instants.written(&all);
            }
        })
    }

    fn read(&self, run: &RunId) -> BoxFuture<Result<Option<JournaledRun>, JournalError>> {
        let (run, pending) = (run.clone(), self.instants.pending_of(run));
        ask(&self.readers.quick, async move |transaction: Transaction<'_>| {
            Ok(read::run(transaction, &run).await?.map(|mut stored| {
                pending.add_to(&run, &mut stored);
                stored
            }))
        })
    }

    fn accounts(&self, runs: &[RunId]) -> BoxFuture<Result<Vec<Option<JournaledRun>>, JournalError>> {
        let runs = runs.to_vec();
        ask(&self.readers.slow, async move |transaction: Transaction<'_>| read::accounts(transaction, &runs).await)
    }

    fn history(&self, session: &SessionKey) -> BoxFuture<Result<Vec<Arc<Message>>, JournalError>> {
        let session = session.clone();
        ask(&self.readers.quick, async move |transaction: Transaction<'_>| read::history(transaction, &session).await)
    }

    fn last_reported(&self, session: &SessionKey) -> BoxFuture<Result<Option<LastReported>, JournalError>> {
        let session = session.clone();
        ask(&self.readers.quick, async move |transaction: Transaction<'_>| {
            read::last_reported(transaction, &session).await
        })
    }

    fn history_before(&self, run: &RunId, most: usize) -> BoxFuture<Result<Option<HistoryBefore>, JournalError>> {
        let run = run.clone();
        ask(&self.readers.quick, async move |transaction: Transaction<'_>| {
            read::history_before(transaction, &run, most).await
        })
    }

    fn unsettled(&self) -> BoxFuture<Result<Vec<RunId>, JournalError>> {
        ask(&self.readers.quick, async move |transaction: Transaction<'_>| read::unsettled(transaction).await)
    }

    fn abandoned(&self) -> BoxFuture<Result<Vec<RunId>, JournalError>> {
        self.change(Kind::Small, async move |transaction: Transaction<'_>| write::abandoned(transaction).await)
    }

    fn lease(&self) -> Option<Arc<Lease>> {
        self.keeper.as_ref().map(|keeper| Arc::clone(&keeper.lease))
    }

    fn trouble(&self) -> Option<JournalError> {
        self.trouble.get().or_else(|| self.lapse.get())
    }

    fn claim(&self, run: &RunId, from: Epoch) -> BoxFuture<Result<Option<Epoch>, JournalError>> {
        let run = run.clone();
        self.change(Kind::Small, async move |transaction: Transaction<'_>| write::claim(transaction, &run, from).await)
    }

    fn request_cancel(&self, run: &RunId, request: CancelRequest) -> BoxFuture<Result<RequestFate, JournalError>> {
        let run = run.clone();
        self.change(Kind::Small, async move |transaction: Transaction<'_>| {
            write::request_cancel(transaction, &run, &request).await
        })
    }

    fn sessions(&self) -> &dyn Sessions {
        self
    }

    fn shelf(&self) -> &dyn Shelf {
        self
    }
}
