//! Who reads a run's feed, and what losing the last of them does to the run.
//!
//! The policy is on record with the run, and is a signal that the run's driver waits for beside everything else. So it
//! has no task of its own, ends with the run, and pulls the same cord as everybody.
//!
//! # Invariants
//!
//! 1. For a run that must not go on without a reader, it is on record whether one has come: with the run itself if the
//!    reader came with it, otherwise in a note that is kept with the session. Neither the reader nor a stop waits for
//!    the note.
//! 2. Readers do not survive their process: a run that a dead process left waiting has lost all its readers.
//! 3. A run that this process has driven and takes up again has lost no reader: if a feed ended meanwhile, we ended it.

use std::convert::Infallible;
use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use andon_core::cancel::{CancelRequest, Reason};
use andon_core::event::{Accepted, Event};
use andon_core::id::RunId;
use andon_core::time::Wall;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::journal::sessions::{Attachment, SessionCopy, StateChange};
use crate::journal::{JournalError, JournaledRun};
use crate::lanes::BoxFuture;
use crate::lanes::sync::{AtomicUsize, HashMap, Mutex, Ordering};
use crate::live::Live;
use crate::live::Services;
use crate::live::cord::Cancel;
use crate::live::run::Run;

/// The kind of the note that says whether a run has had a reader. Its name is the run's id.
const NOTE: &str = "reader";

/// The readers of a run's feed.
#[derive(Debug, Clone, Copy, Default)]
struct Readers {
    now: usize,
    /// Whether losing the last reader counts, because one has come; `None` while that is unknown.
    had: Option<bool>,
}

impl Readers {
    fn all_are_gone(&self) -> bool {
        self.had == Some(true) && self.now == 0
    }
}

/// The readers of each run's feed.
#[derive(Default)]
pub(crate) struct Presence {
    runs: Mutex<HashMap<RunId, RunReaders>>,
    /// How many runs are in the map. Most runs are not, and need not take the lock to find out.
    count: AtomicUsize,
}

#[derive(Default)]
struct RunReaders {
    readers: watch::Sender<Readers>,
    origin: Option<Origin>,
}

/// How a run whose policy depends on readers came here. Kept until the run has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// This process drives it, or has driven it.
    Here,
    /// It was imported with its session.
    Imported,
}

impl Presence {
    fn add_reader(&self, run: &RunId) {
        let mut runs = self.runs.lock();
        let entry = runs.entry(run.clone()).or_default();
        entry.readers.send_modify(|readers| *readers = Readers { now: readers.now + 1, had: Some(true) });
        self.count.store(runs.len(), Ordering::Release);
    }

    /// A reader is about to go because it was disconnected on purpose, and may come back. If it is the only one, the
    /// run counts as not read yet.
    fn reader_may_come_back(&self, run: &RunId) {
        if let Some(entry) = self.runs.lock().get(run) {
            entry.readers.send_modify(|readers| readers.had = Some(readers.now > 1));
        }
    }

    fn remove_reader(&self, run: &RunId) {
        self.change(run, |entry| {
            entry.readers.send_modify(|readers| readers.now = readers.now.saturating_sub(1));
        });
    }

    /// The run has settled, or will never be on record: its readers no longer matter.
    pub(crate) fn run_ended(&self, run: &RunId) {
        // A run whose policy depends on readers was counted before it began.
        if self.count.load(Ordering::Acquire) > 0 {
            self.change(run, |entry| entry.origin = None);
        }
    }

    fn change(&self, run: &RunId, change: impl FnOnce(&mut RunReaders)) {
        let mut runs = self.runs.lock();
        let Some(entry) = runs.get_mut(run) else { return };
        change(entry);
        if entry.origin.is_none() && entry.readers.borrow().now == 0 {
            runs.remove(run);
            self.count.store(runs.len(), Ordering::Release);
        }
    }

    /// These runs were imported from another store.
    pub(crate) fn import(&self, imported: Vec<RunId>) {
        let mut runs = self.runs.lock();
        for run in imported {
            runs.entry(run).or_default().origin = Some(Origin::Imported);
        }
        self.count.store(runs.len(), Ordering::Release);
    }

    /// Follows the readers of a run that this process is about to drive.
    fn drive(&self, run: &RunId, change: impl FnOnce(&mut Readers)) -> watch::Receiver<Readers> {
        let mut runs = self.runs.lock();
        let entry = runs.entry(run.clone()).or_default();
        entry.origin = Some(Origin::Here);
        entry.readers.send_modify(change);
        let readers = entry.readers.subscribe();
        self.count.store(runs.len(), Ordering::Release);
        readers
    }

    /// How a waiting run has lost its readers; `None` if it has not (invariants 2 and 3).
    fn lost(&self, run: &RunId) -> Option<ReadersLost> {
        let runs = self.runs.lock();
        match runs.get(run) {
            Some(RunReaders { origin: Some(Origin::Here), .. }) => None,
            Some(entry) if entry.readers.borrow().now > 0 => None,
            Some(RunReaders { origin: Some(Origin::Imported), .. }) => Some(ReadersLost::Imported),
            Some(RunReaders { origin: None, .. }) | None => Some(ReadersLost::Restarted),
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.runs.lock().is_empty()
    }
}

/// The open runs of a session from another store whose policy depends on readers.
pub(crate) fn imported(moved: &SessionCopy) -> Vec<RunId> {
    let minds = |run: &&(RunId, JournaledRun)| {
        let mut facts = run.1.facts().map(|record| &record.event);
        let minds =
            matches!(facts.next(), Some(Event::RunAccepted { accepted }) if !accepted.on_disconnect.is_continue());
        minds && !matches!(facts.next_back(), Some(Event::RunSettled { .. }))
    };
    moved.runs.iter().filter(minds).map(|(run, _)| run.clone()).collect()
}

/// How a run has lost its readers, other than by their going away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadersLost {
    Restarted,
    Imported,
}

impl ReadersLost {
    fn as_str(self) -> &'static str {
        match self {
            Self::Restarted => "the server restarted, and its reader was disconnected",
            Self::Imported => "its session was imported, so it lost its reader",
        }
    }
}

fn cancel(lost: Option<ReadersLost>, patience: Duration) -> Cancel {
    let note = match (lost, patience.is_zero()) {
        (Some(lost), true) => lost.as_str().to_owned(),
        (Some(lost), false) => format!("{}; nobody reconnected within {patience:?}", lost.as_str()),
        (None, true) => "the last reader of its feed went away".to_owned(),
        (None, false) => format!("the last reader of its feed went away, and nobody reconnected within {patience:?}"),
    };
    Cancel::graceful().reason(Reason::ClientDisconnected).by("server").note(note)
}

/// A reader of a run's feed. Dropping this means that the reader has gone away.
#[must_use = "a reader that is dropped has gone away"]
pub struct Watcher {
    services: Arc<Services>,
    run: RunId,
}

impl Watcher {
    /// The reader is about to go because it was disconnected on purpose, and may come back: this does not count as a
    /// disconnect. If it is the only reader, the run counts as not read yet.
    pub fn leave_without_disconnect(&self) {
        self.services.presence.reader_may_come_back(&self.run);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.services.presence.remove_reader(&self.run);
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Run {
    /// Registers a reader of this run's feed, until the watcher is dropped. Opening a feed does not do that by itself.
    /// The run's [`on_disconnect`](crate::Prompt::on_disconnect) acts when the last watcher is dropped.
    pub fn watch(&self) -> Watcher {
        let Live { services, id, .. } = &**self.live();
        services.presence.add_reader(id);
        Watcher { services: Arc::clone(services), run: id.clone() }
    }
}

/// The signal that cancels a new run when its readers have been gone for too long; `None` if its policy is to go on.
pub(crate) fn signal(live: &Arc<Live>, accepted: &Accepted) -> Option<BoxFuture<Cancel>> {
    let patience = accepted.on_disconnect.patience()?;
    let readers = live.services.presence.drive(&live.id, |_| {});
    Some(NeedsReaders { readers, patience, lost: None }.for_too_long(live, accepted.has_reader))
}

/// As [`signal`], for a waiting run that is taken up again, with what [`had_reader`] said. The time counts from now on.
pub(crate) fn signal_again(live: &Arc<Live>, accepted: &Accepted, had_reader: bool) -> Option<BoxFuture<Cancel>> {
    let patience = accepted.on_disconnect.patience()?;
    let presence = &live.services.presence;
    let lost = presence.lost(&live.id).filter(|_| had_reader);
    let readers = presence.drive(&live.id, |readers| readers.had = Some(readers.now > 0 || lost.is_some()));
    Some(NeedsReaders { readers, patience, lost }.for_too_long(live, had_reader))
}

/// The cancel request for a waiting run that has no driver and has lost its readers, if it must not go on without them.
pub(crate) async fn left_alone(
    services: &Services,
    accepted: &Accepted,
) -> Result<Option<CancelRequest>, JournalError> {
    let patience = accepted.on_disconnect.patience().filter(Duration::is_zero);
    let Some((patience, lost)) = patience.zip(services.presence.lost(&accepted.run)) else { return Ok(None) };
    let is_lost = had_reader(services, accepted).await?;
    Ok(is_lost.then(|| cancel(Some(lost), patience).at(services.clock.now())))
}

/// Whether a run has had a reader, according to its record; `false` if its policy is to go on without one.
pub(crate) async fn had_reader(services: &Services, accepted: &Accepted) -> Result<bool, JournalError> {
    if accepted.on_disconnect.is_continue() {
        return Ok(false);
    }
    let notes = services.journal.sessions().attachments(&accepted.session, NOTE).await?;
    let note = notes.into_iter().find(|note| note.name == accepted.run.as_str());
    Ok(note.map_or(accepted.has_reader, |note| note.value == Value::Bool(true)))
}

/// A run that must not go on without readers.
struct NeedsReaders {
    readers: watch::Receiver<Readers>,
    patience: Duration,
    /// How it has lost its readers; `None` once a reader is back.
    lost: Option<ReadersLost>,
}

impl NeedsReaders {
    /// Waits until all readers have been gone for too long. Meanwhile it records whether one has come.
    fn for_too_long(self, live: &Arc<Live>, on_record: bool) -> BoxFuture<Cancel> {
        let note = keep_on_record(Arc::clone(live), self.readers.clone(), on_record);
        Box::pin(async move {
            let (mut gone, mut note) = (pin!(self.gone_for_too_long()), pin!(note));
            poll_fn(|cx| {
                let gone = gone.as_mut().poll(cx);
                // A stop does not wait for the note.
                if gone.is_pending()
                    && let Poll::Ready(never) = note.as_mut().poll(cx)
                {
                    match never {}
                }
                gone
            })
            .await
        })
    }

    async fn gone_for_too_long(mut self) -> Cancel {
        loop {
            if self.readers.wait_for(Readers::all_are_gone).await.is_err() {
                // No reader can come or go any more.
                pending::<()>().await;
            }
            // Boxed, like everything that not every run needs, so that a run that waits for its model is small.
            if !Box::pin(self.is_back_in_time()).await {
                return cancel(self.lost, self.patience);
            }
            self.lost = None;
        }
    }

    async fn is_back_in_time(&mut self) -> bool {
        if self.patience.is_zero() {
            // Even the shortest timer would take a millisecond.
            return !self.readers.borrow().all_are_gone();
        }
        let back = timeout(self.patience, self.readers.wait_for(|readers| !readers.all_are_gone())).await;
        back.is_ok_and(|back| back.is_ok())
    }
}

/// Notes whether a reader has come, each time that the record says otherwise.
async fn keep_on_record(live: Arc<Live>, mut readers: watch::Receiver<Readers>, mut on_record: bool) -> Infallible {
    loop {
        let is_news = |readers: &Readers| readers.had.is_some_and(|had| had != on_record);
        if readers.wait_for(is_news).await.is_err() {
            pending::<()>().await;
        }
        on_record = !on_record;
        Box::pin(note(&live, on_record)).await;
    }
}

async fn note(live: &Arc<Live>, has_come: bool) {
    // The session is certain to exist only once the run is on record. If it never is, there is nothing to note.
    let _ = Run::new(Arc::clone(live)).accepted().await;
    let (kind, name, value) = (NOTE.to_owned(), live.id.to_string(), Value::Bool(has_come));
    let note = Attachment::new(kind, name, live.now().wall, value);
    // Time 0, because being read does not count as a use of the session: its place in lists stays the same.
    let noted = live.services.journal.sessions().attach(&live.session, Wall(0), vec![note], StateChange::new());
    // If the journal does not accept the note, the run is not stopped for that.
    let _ = noted.await;
}

#[cfg(test)]
mod tests {
    use crate::model::fake::Brief;
    use crate::{Agent, JournalError, OnDisconnect, Runtime};

    #[tokio::test]
    async fn a_run_that_has_settled_or_was_never_on_record_leaves_nothing_behind() {
        let runtime = Runtime::builder().build();
        let agent = Agent::builder().model(Brief).runtime(&runtime).build().unwrap();
        let presence = &runtime.core.services.presence;
        for policy in [OnDisconnect::Continue, OnDisconnect::Cancel] {
            let run = agent.prompt("hello").on_disconnect(policy).with_reader().start().unwrap();
            let reader = run.watch();
            run.outcome().await;
            assert!(!presence.is_empty());
            drop(reader);
            assert!(presence.is_empty());
            drop(run.watch());
            assert!(presence.is_empty(), "of a settled run, too");
            let again = agent.prompt("hello").run_id(run.id().clone()).on_disconnect(policy).start().unwrap();
            assert!(matches!(again.accepted().await, Err(JournalError::RunExists(_))));
            again.outcome().await;
            assert!(presence.is_empty());
        }
    }
}
