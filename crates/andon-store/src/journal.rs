//! A journal in an SQLite database.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use andon_runtime::core::cancel::CancelRequest;
use andon_runtime::core::event::{AddendumKind, Epoch};
use andon_runtime::core::id::{RunId, SessionKey};
use andon_runtime::core::message::Message;
use andon_runtime::core::time::Stamp;
use andon_runtime::{
    Append, Batch, BoxFuture, HistoryBefore, Journal, JournalError, JournaledRun, LastReported, RequestFate, Sessions,
    Shelf,
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::file::{self, Listed, Location, Lock, OpenError, Opened, Options, Owner, OwnerKey};
use crate::queue::Queue;
use crate::read::{self, Gate, Readers, Use};
use crate::record::{Answered, Instants, Pending, Trouble};
use crate::write::{Job, Store, Sweeper, Uses, Work, WriteError, Writer};

/// Why a journal that was opened with [`SqliteJournal::open_to_read`] writes nothing.
const READ_ONLY: &str = "the database was opened for reading only";

/// A journal in an SQLite database: embedded, durable, and owned by one process.
///
/// Dropping it waits until everything it has accepted is written.
pub struct SqliteJournal {
    path: PathBuf,
    pub(crate) readers: Readers,
    writing: Option<Writing>,
    /// Tells other journals of this process that the database is open for reading.
    _reads: Option<Listed>,
}

struct Writing {
    queue: Arc<Queue<Job>>,
    instants: Arc<Instants>,
    uses: Arc<Uses>,
    trouble: Arc<Trouble>,
    thread: Option<JoinHandle<()>>,
    lock: Mutex<Lock>,
}

impl SqliteJournal {
    /// Opens a database, and creates it if there is none.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(path, &Options::new())
    }

    /// Like [`open`](Self::open), with options.
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, OpenError> {
        let Opened { path, writer, sweeper, readers, lock } = file::open(path.as_ref(), options)?;
        let failed = |why: String| OpenError::Other { path: path.display().to_string(), why };
        let store = Store::new(writer).map_err(|error| failed(error.to_string()))?;
        let uses = Uses::left(&store.connection).map_err(|error| failed(error.to_string()))?;
        let location = Location::new(&path).map_err(|error| failed(error.to_string()))?;
        let gate = Gate::default();
        let sweeper = Sweeper::start(sweeper, &gate).map_err(|error| failed(error.to_string()))?;
        let (queue, instants) = (Arc::new(Queue::new()), Arc::new(Instants::default()));
        let (trouble, uses) = (Arc::new(Trouble::default()), Arc::new(uses));
        let writer = Writer {
            store,
            location,
            sweeper,
            queue: Arc::clone(&queue),
            instants: Arc::clone(&instants),
            uses: Arc::clone(&uses),
            rested: true,
            trouble: Arc::clone(&trouble),
            #[cfg(feature = "testing")]
            probe: options.probe.clone(),
            checkpointed: 0,
            erasing: false,
        };
        let thread = thread::Builder::new().name("andon-writer".to_owned()).spawn(move || writer.run());
        let thread = Some(thread.map_err(|error| failed(error.to_string()))?);
        let readers = Readers::start(readers, &gate).map_err(|error| failed(error.to_string()))?;
        let writing = Writing { queue, instants, uses, trouble, thread, lock: Mutex::new(lock) };
        Ok(Self { path, readers, writing: Some(writing), _reads: None })
    }

    /// Opens an existing database for reading only. Another process may be using it.
    pub fn open_to_read(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref().to_path_buf();
        let failed = |why: String| OpenError::Other { path: path.display().to_string(), why };
        // Before opening it, so that another journal that is being closed knows about it.
        let reads = Listed::as_read(&path).ok();
        let readers =
            Readers::start(file::open_to_read(&path)?, &Gate::default()).map_err(|error| failed(error.to_string()))?;
        Ok(Self { path, readers, writing: None, _reads: reads })
    }

    /// The process that holds a database, if any.
    pub fn owner(path: impl AsRef<Path>) -> Option<Owner> {
        let path = path.as_ref();
        file::holder(&path.canonicalize().unwrap_or_else(|_| path.to_path_buf()))
    }

    /// Writes beside the file where this process can be reached.
    pub fn set_address(&self, address: Option<String>) -> std::io::Result<()> {
        self.lock()?.set_address(address)
    }

    /// Writes the key to this process beside the file, for whoever may read that.
    pub fn set_key(&self, key: Option<OwnerKey>) -> std::io::Result<()> {
        self.lock()?.set_key(key)
    }

    fn lock(&self) -> std::io::Result<MutexGuard<'_, Lock>> {
        let writing = self.writing.as_ref().ok_or_else(|| std::io::Error::other(READ_ONLY))?;
        Ok(writing.lock.lock())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a job to the writer's queue.
    fn push(&self, job: Job) {
        let pushed = match &self.writing {
            Some(writing) => writing.queue.push(job).map_err(|job| (job, JournalError::Closed)),
            None => Err((job, JournalError::Storage(READ_ONLY.to_owned()))),
        };
        if let Err((job, error)) = pushed {
            job.done(Err(error));
        }
    }

    /// Queues a change for the writer, and answers when it is durable.
    pub(crate) fn change<T: Send + 'static>(
        &self,
        change: impl FnMut(&mut Store) -> Result<T, WriteError> + Send + 'static,
    ) -> BoxFuture<Result<T, JournalError>> {
        self.queue_change(change, false)
    }

    /// Like [`change`](Self::change), for a change whose removed data must be gone from the disk.
    pub(crate) fn change_and_erase<T: Send + 'static>(
        &self,
        change: impl FnMut(&mut Store) -> Result<T, WriteError> + Send + 'static,
    ) -> BoxFuture<Result<T, JournalError>> {
        self.queue_change(change, true)
    }

    fn queue_change<T: Send + 'static>(
        &self,
        change: impl FnMut(&mut Store) -> Result<T, WriteError> + Send + 'static,
        erases: bool,
    ) -> BoxFuture<Result<T, JournalError>> {
        let (sender, receiver) = oneshot::channel();
        // The caller may be gone.
        let answer = |result| drop(sender.send(result));
        self.push(Job::Other(Box::new(Change { change, erases, result: None, answer })));
        Box::pin(async move { receiver.await.unwrap_or(Err(JournalError::Closed)) })
    }

    /// Queues a small write that is acknowledged like an append.
    fn note(&self, write: impl FnMut(&mut Store) -> Result<(), WriteError> + Send + 'static) -> Append {
        let (append, done) = Append::pending();
        let answer = |result| done.done(result);
        self.push(Job::Other(Box::new(Change { change: write, erases: false, result: None, answer })));
        append
    }

    /// The sessions that were used later than the file says. Must be called before the file is read. `None` for a journal that
    /// only reads: it looks at the runs in the file instead.
    pub(crate) fn pending_uses(&self) -> Option<Vec<Use>> {
        self.writing.as_ref().map(|writing| writing.uses.pending())
    }

    /// When runs settled, as far as that is not in the file yet. Must be called before the file is read.
    pub(crate) fn pending(&self) -> Pending {
        self.writing.as_ref().map(|writing| writing.instants.pending()).unwrap_or_default()
    }
}

impl Drop for SqliteJournal {
    fn drop(&mut self) {
        self.readers.close();
        if let Some(writing) = &mut self.writing {
            writing.queue.close();
            // If it panicked, whatever it had not written was never acknowledged.
            let _ = writing.thread.take().map(JoinHandle::join);
        }
    }
}

impl fmt::Debug for SqliteJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteJournal").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A change, and what is called with its result.
struct Change<T, F, A> {
    change: F,
    erases: bool,
    result: Option<T>,
    answer: A,
}

impl<T, F, A> Work for Change<T, F, A>
where
    T: Send,
    F: FnMut(&mut Store) -> Result<T, WriteError> + Send,
    A: FnOnce(Result<T, JournalError>) + Send,
{
    fn work(&mut self, store: &mut Store) -> Result<(), WriteError> {
        self.result = Some((self.change)(store)?);
        Ok(())
    }

    fn erases(&self) -> bool {
        self.erases
    }
}

impl<T: Send, F: Send, A: FnOnce(Result<T, JournalError>) + Send> Answered for Change<T, F, A> {
    fn done(self: Box<Self>, result: Result<(), JournalError>) {
        let Self { result: found, answer, .. } = *self;
        answer(result.and_then(|()| found.ok_or(JournalError::Closed)));
    }
}

impl Shelf for SqliteJournal {
    fn keep(&self, kind: &str, name: &str, value: Value) -> Append {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.note(move |store| store.keep(&kind, &name, &value))
    }

    fn discard(&self, kind: &str, name: &str) -> Append {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.note(move |store| store.discard(&kind, &name))
    }

    fn kept(&self, kind: &str) -> BoxFuture<Result<Vec<(String, Value)>, JournalError>> {
        let kind = kind.to_owned();
        self.readers.quick.ask(move |connection| read::kept(connection, &kind))
    }
}

impl Journal for SqliteJournal {
    fn append(&self, batch: Batch) -> Append {
        let (append, done) = Append::pending();
        self.push(Job::append(batch, done));
        append
    }

    fn append_addendum(&self, run: &RunId, at: Stamp, what: AddendumKind) -> Append {
        let run = run.clone();
        self.note(move |store| store.append_addendum(&run, at, &what))
    }

    fn keep_settled(&self, run: &RunId, at: Stamp) {
        if let Some(writing) = &self.writing {
            writing.instants.add(run, at);
            writing.queue.nudge();
        }
    }

    fn keep_all(&self) -> BoxFuture<()> {
        let instants = self.writing.as_ref().map(|writing| Arc::clone(&writing.instants)).unwrap_or_default();
        if instants.is_empty() {
            return Box::pin(std::future::ready(()));
        }
        let all = instants.oldest(usize::MAX);
        let given = all.clone();
        let kept = self.change(move |store| Ok(store.write_settled(&given)?));
        Box::pin(async move {
            // An instant that could not be written is not on record, and is reported as unknown.
            if kept.await.is_ok() {
                instants.written(&all);
            }
        })
    }

    fn read(&self, run: &RunId) -> BoxFuture<Result<Option<JournaledRun>, JournalError>> {
        let run = run.clone();
        let pending = self.writing.as_ref().map(|writing| writing.instants.pending_of(&run)).unwrap_or_default();
        self.readers.quick.ask(move |connection| {
            Ok(read::run(connection, &run)?.map(|mut stored| {
                pending.add_to(&run, &mut stored);
                stored
            }))
        })
    }

    fn accounts(&self, runs: &[RunId]) -> BoxFuture<Result<Vec<Option<JournaledRun>>, JournalError>> {
        let runs = runs.to_vec();
        self.readers.slow.ask(move |connection| runs.iter().map(|run| read::account(connection, run)).collect())
    }

    fn history(&self, session: &SessionKey) -> BoxFuture<Result<Vec<Arc<Message>>, JournalError>> {
        let session = session.clone();
        self.readers.quick.ask(move |connection| read::history(connection, &session))
    }

    fn last_reported(&self, session: &SessionKey) -> BoxFuture<Result<Option<LastReported>, JournalError>> {
        let session = session.clone();
        self.readers.quick.ask(move |connection| read::last_reported(connection, &session))
    }

    fn history_before(&self, run: &RunId, most: usize) -> BoxFuture<Result<Option<HistoryBefore>, JournalError>> {
        let run = run.clone();
        self.readers.quick.ask(move |connection| read::history_before(connection, &run, most))
    }

    fn unsettled(&self) -> BoxFuture<Result<Vec<RunId>, JournalError>> {
        self.readers.quick.ask(read::unsettled)
    }

    fn trouble(&self) -> Option<JournalError> {
        self.writing.as_ref().and_then(|writing| writing.trouble.get())
    }

    fn claim(&self, run: &RunId, from: Epoch) -> BoxFuture<Result<Option<Epoch>, JournalError>> {
        let run = run.clone();
        self.change(move |store| store.claim(&run, from))
    }

    fn request_cancel(&self, run: &RunId, request: CancelRequest) -> BoxFuture<Result<RequestFate, JournalError>> {
        let run = run.clone();
        self.change(move |store| store.request_cancel(&run, &request))
    }

    fn sessions(&self) -> &dyn Sessions {
        self
    }

    fn shelf(&self) -> &dyn Shelf {
        self
    }
}
