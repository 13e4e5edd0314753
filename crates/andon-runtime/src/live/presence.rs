//! Who reads a run's feed, and what losing the last of them does to the run.
//!
//! The policy is on record with the run, and it is a signal of the run itself: its driver waits for it beside everything
//! else. So there is no task for it, it ends with the run, and it pulls the same cord as everybody.
//!
//! # Invariants
//!
//! 1. Whether a reader has come is on record, for a run that does not go on without one: with the run itself if the reader
//!    came with it, else in a note that is kept with the session. Nobody waits for the note, neither the reader nor a stop.
//! 2. A process has no reader of the one before it: what a dead process left waiting has lost all readers that it had.
//! 3. A run that this process has driven and takes up again has lost nobody: a feed that ended meanwhile was ended by us.

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

use crate::journal::sessions::{Kept, Moved, StateChange};
use crate::journal::{JournalError, Stored};
use crate::lanes::BoxFuture;
use crate::lanes::sync::{AtomicUsize, HashMap, Mutex, Ordering};
use crate::live::Live;
use crate::live::Services;
use crate::live::cord::Cancel;
use crate::live::run::Run;

/// The kind of the note that says whether a reader of a run has come. Its name is the run's id.
const NOTE: &str = "reader";

/// How many read a run's feed.
#[derive(Debug, Clone, Copy, Default)]
struct Readers {
    now: usize,
    /// Whether one has come that is missed when it goes; nothing before anybody knows.
    had: Option<bool>,
}

impl Readers {
    fn all_are_gone(&self) -> bool {
        self.had == Some(true) && self.now == 0
    }
}

/// Who reads the feed of which run.
#[derive(Default)]
pub(crate) struct Presence {
    runs: Mutex<HashMap<RunId, Entry>>,
    /// How many runs there are. Most runs are not among them, and need not take the lock to find out.
    count: AtomicUsize,
}

#[derive(Default)]
struct Entry {
    readers: watch::Sender<Readers>,
    origin: Option<Origin>,
}

/// How a run that minds its readers came here. It is known until the run has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// This process drives it, or has.
    Here,
    /// With its session, from another store.
    Imported,
}

impl Presence {
    fn come(&self, run: &RunId) {
        let mut runs = self.runs.lock();
        let entry = runs.entry(run.clone()).or_default();
        entry.readers.send_modify(|readers| *readers = Readers { now: readers.now + 1, had: Some(true) });
        self.count.store(runs.len(), Ordering::Release);
    }

    /// One reader goes because it was sent away, and may come back: if nobody else is there, the run is as one that nobody has
    /// read yet.
    fn send_away(&self, run: &RunId) {
        if let Some(entry) = self.runs.lock().get(run) {
            entry.readers.send_modify(|readers| readers.had = Some(readers.now > 1));
        }
    }

    fn go(&self, run: &RunId) {
        self.change(run, |entry| {
            entry.readers.send_modify(|readers| readers.now = readers.now.saturating_sub(1));
        });
    }

    /// The run has settled, or is on no record: nobody wants to know any more.
    pub(crate) fn over(&self, run: &RunId) {
        // One that minds its readers was counted before it began.
        if self.count.load(Ordering::Acquire) > 0 {
            self.change(run, |entry| entry.origin = None);
        }
    }

    fn change(&self, run: &RunId, change: impl FnOnce(&mut Entry)) {
        let mut runs = self.runs.lock();
        let Some(entry) = runs.get_mut(run) else { return };
        change(entry);
        if entry.origin.is_none() && entry.readers.borrow().now == 0 {
            runs.remove(run);
            self.count.store(runs.len(), Ordering::Release);
        }
    }

    /// These runs came from another store.
    pub(crate) fn import(&self, imported: Vec<RunId>) {
        let mut runs = self.runs.lock();
        for run in imported {
            runs.entry(run).or_default().origin = Some(Origin::Imported);
        }
        self.count.store(runs.len(), Ordering::Release);
    }

    /// The readers of a run that this process is about to drive.
    fn drive(&self, run: &RunId, change: impl FnOnce(&mut Readers)) -> watch::Receiver<Readers> {
        let mut runs = self.runs.lock();
        let entry = runs.entry(run.clone()).or_default();
        entry.origin = Some(Origin::Here);
        entry.readers.send_modify(change);
        let readers = entry.readers.subscribe();
        self.count.store(runs.len(), Ordering::Release);
        readers
    }

    /// How a run that waits has lost the readers that it had; nothing if it has not (invariants 2 and 3).
    fn lost(&self, run: &RunId) -> Option<Lost> {
        let runs = self.runs.lock();
        match runs.get(run) {
            Some(Entry { origin: Some(Origin::Here), .. }) => None,
            Some(entry) if entry.readers.borrow().now > 0 => None,
            Some(Entry { origin: Some(Origin::Imported), .. }) => Some(Lost::Imported),
            Some(Entry { origin: None, .. }) | None => Some(Lost::Restarted),
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.runs.lock().is_empty()
    }
}

/// The runs of a session on its way from another store that are open and mind their readers.
pub(crate) fn imported(moved: &Moved) -> Vec<RunId> {
    let minds = |run: &&(RunId, Stored)| {
        let mut facts = run.1.facts().map(|record| &record.event);
        let minds =
            matches!(facts.next(), Some(Event::RunAccepted { accepted }) if !accepted.on_disconnect.is_continue());
        minds && !matches!(facts.next_back(), Some(Event::RunSettled { .. }))
    };
    moved.runs.iter().filter(minds).map(|(run, _)| run.clone()).collect()
}

/// How a run has lost its readers other than by their going away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    Restarted,
    Imported,
}

impl Lost {
    fn as_str(self) -> &'static str {
        match self {
            Self::Restarted => "the server restarted, and the reader of its feed was gone",
            Self::Imported => "its session was imported, and the reader of its feed was elsewhere",
        }
    }
}

fn cancel(lost: Option<Lost>, patience: Duration) -> Cancel {
    let note = match (lost, patience.is_zero()) {
        (Some(lost), true) => lost.as_str().to_owned(),
        (Some(lost), false) => format!("{}; nobody came back in {patience:?}", lost.as_str()),
        (None, true) => "the last reader of its feed went away".to_owned(),
        (None, false) => format!("the last reader of its feed went away, and nobody came back in {patience:?}"),
    };
    Cancel::graceful().reason(Reason::ClientDisconnected).by("server").note(note)
}

/// Somebody who reads a run's feed, and is missed when this is dropped.
#[must_use = "a reader that is dropped has gone away"]
pub struct Watcher {
    services: Arc<Services>,
    run: RunId,
}

impl Watcher {
    /// It goes because it was sent away, and may come back: its going is no disconnect. If nobody else is there, the run is
    /// as one that nobody has read yet.
    pub fn leave_in_peace(&self) {
        self.services.presence.send_away(&self.run);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.services.presence.go(&self.run);
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Run {
    /// Somebody reads this run's feed and wants its answer, until the watcher is dropped. A feed alone does not tell that, so
    /// whoever hands one out says so: the run's [`on_disconnect`](crate::Prompt::on_disconnect) acts when the last watcher goes.
    pub fn watch(&self) -> Watcher {
        let Live { services, id, .. } = &**self.live();
        services.presence.come(id);
        Watcher { services: Arc::clone(services), run: id.clone() }
    }
}

/// The signal that cancels a new run when its readers are gone for too long; nothing if that does not matter to it.
pub(crate) fn signal(live: &Arc<Live>, accepted: &Accepted) -> Option<BoxFuture<Cancel>> {
    let patience = accepted.on_disconnect.patience()?;
    let readers = live.services.presence.drive(&live.id, |_| {});
    Some(Alone { readers, patience, lost: None }.for_too_long(live, accepted.has_reader))
}

/// As [`signal`], for a run that was waiting and is taken up: whether it [`had_reader`] is known. The time counts from now on.
pub(crate) fn signal_again(live: &Arc<Live>, accepted: &Accepted, had_reader: bool) -> Option<BoxFuture<Cancel>> {
    let patience = accepted.on_disconnect.patience()?;
    let presence = &live.services.presence;
    let lost = presence.lost(&live.id).filter(|_| had_reader);
    let readers = presence.drive(&live.id, |readers| readers.had = Some(readers.now > 0 || lost.is_some()));
    Some(Alone { readers, patience, lost }.for_too_long(live, had_reader))
}

/// What losing its readers asks for, of a run that was waiting and that nobody drives: a request if it is not to go on
/// without them.
pub(crate) async fn left_alone(
    services: &Services,
    accepted: &Accepted,
) -> Result<Option<CancelRequest>, JournalError> {
    let patience = accepted.on_disconnect.patience().filter(Duration::is_zero);
    let Some((patience, lost)) = patience.zip(services.presence.lost(&accepted.run)) else { return Ok(None) };
    let is_lost = had_reader(services, accepted).await?;
    Ok(is_lost.then(|| cancel(Some(lost), patience).at(services.clock.now())))
}

/// Whether a reader had come to a run, as its record tells; no, if the run would not mind losing one.
pub(crate) async fn had_reader(services: &Services, accepted: &Accepted) -> Result<bool, JournalError> {
    if accepted.on_disconnect.is_continue() {
        return Ok(false);
    }
    let notes = services.journal.sessions().kept_with(&accepted.session, NOTE).await?;
    let note = notes.into_iter().find(|note| note.name == accepted.run.as_str());
    Ok(note.map_or(accepted.has_reader, |note| note.value == Value::Bool(true)))
}

/// A run that does not want to be left alone.
struct Alone {
    readers: watch::Receiver<Readers>,
    patience: Duration,
    /// How it has lost its readers, as long as none is back.
    lost: Option<Lost>,
}

impl Alone {
    /// Waits until everybody has been gone for too long, and puts on record meanwhile whether anybody has come.
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
                // Nobody can come or go any more.
                pending::<()>().await;
            }
            // Boxed, like everything that not every run comes to: one that waits on its model is to be small.
            if !Box::pin(self.is_back_in_time()).await {
                return cancel(self.lost, self.patience);
            }
            self.lost = None;
        }
    }

    async fn is_back_in_time(&mut self) -> bool {
        if self.patience.is_zero() {
            // The shortest wait takes a millisecond.
            return !self.readers.borrow().all_are_gone();
        }
        let back = timeout(self.patience, self.readers.wait_for(|readers| !readers.all_are_gone())).await;
        back.is_ok_and(|back| back.is_ok())
    }
}

/// Notes whether a reader has come, each time that this is not what the record says.
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
    // Only then is its session there for certain. If it never is, there is nothing to note.
    let _ = Run::new(Arc::clone(live)).accepted().await;
    let (kind, name, value) = (NOTE.to_owned(), live.id.to_string(), Value::Bool(has_come));
    let note = Kept { kind, name, at: live.now().wall, value };
    // To be read is no use of a session: it stays in its place among those that were used.
    let noted = live.services.journal.sessions().keep_with(&live.session, Wall(0), vec![note], StateChange::new());
    // If the journal does not take it, the run has other troubles: it is not stopped for this.
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
