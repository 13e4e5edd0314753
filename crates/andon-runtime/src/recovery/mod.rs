//! What becomes of the runs that a dead process left open. They use the same fold as a live run, and the same words.
//!
//! A run that was waiting for its session or for a person had nothing open: it goes on with the agent of its name,
//! unless it must not go on without the readers that it lost. Every other run is settled, in one step of the journal:
//! the epoch rises, open calls are closed as unknown, what is known of their usage is written, and the outcome is
//! `lost`, or `cancelled` if a request was on record. What an open model call used is [estimated](crate::driver::unaccounted)
//! afterwards.

mod resume;

use std::collections::VecDeque;
use std::sync::Arc;

use andon_core::cancel::CancelRequest;
use andon_core::closing::close_lost;
use andon_core::event::{Event, Record};
use andon_core::id::{RunId, SessionKey};
use andon_core::outcome::Ending;
use andon_core::progress::{RunProgress, RunState};

use crate::driver::RuntimeCore;
use crate::driver::stored::{entries, fold, number};
use crate::driver::unaccounted::{self, Unaccounted};
use crate::journal::{Append, Batch, BatchStanding, JournalError, JournaledRun};
use crate::live::presence;
use resume::Resumed;

/// How many runs are handed to the journal before we wait for the first, so that one commit can carry many.
const AT_ONCE: usize = 512;

/// A run that a dead process left open, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// The run.
    pub run: RunId,
    /// What became of it.
    pub fate: Fate,
}

impl Recovered {
    /// What became of a run.
    pub fn new(run: RunId, fate: Fate) -> Self {
        Self { run, fate }
    }
}

/// What becomes of a run that a dead process left open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Fate {
    /// It was settled as `lost`; or as `cancelled`, if a request was on record, or if it was waiting and must not go on
    /// without the readers that it lost.
    Settled {
        /// Its session.
        session: SessionKey,
        /// How.
        ending: Arc<Ending>,
    },
    /// It was waiting, for its session or for a person, and goes on.
    LivesOn {
        /// Its session.
        session: SessionKey,
        /// Its state: queued or waiting.
        state: RunState,
    },
    /// It was waiting, and the runtime has no agent of the name that it needs. It goes on when
    /// [`recover`](crate::Runtime::recover) is called again after such an agent was built, and can be cancelled
    /// meanwhile.
    Parked {
        /// Its session, whose app is the agent's name.
        session: SessionKey,
        /// Its state: queued or waiting.
        state: RunState,
    },
    /// Its record cannot be read, and was left as it is.
    Unreadable {
        /// What is wrong with it.
        why: String,
    },
}

impl Fate {
    /// How the run was settled, if it was.
    pub fn ending(&self) -> Option<&Arc<Ending>> {
        match self {
            Self::Settled { ending, .. } => Some(ending),
            Self::LivesOn { .. } | Self::Parked { .. } | Self::Unreadable { .. } => None,
        }
    }
}

/// Settles or revives every unsettled run that has no driver.
pub(crate) async fn recover_all(runtime: &Arc<RuntimeCore>) -> Result<Vec<Recovered>, JournalError> {
    // One at a time: two would take up the same runs.
    let _alone = runtime.recovering.lock().await;
    let mut recovery = Recovery::default();
    let looked = recovery.look_at_all(runtime).await;
    // Observers are told of what is on its way to the journal once it is durable, whatever else has failed.
    let settled = recovery.until_settled(runtime, 0).await;
    looked.and(settled)?;
    recovery.resume(runtime).await?;
    unaccounted::take_up(runtime).await?;
    Ok(recovery.recovered)
}

/// A run that a dead process left open.
pub(crate) struct OpenRun {
    pub(crate) run: RunId,
    pub(crate) stored: JournaledRun,
    pub(crate) progress: RunProgress,
}

impl OpenRun {
    pub(crate) fn session(&self) -> &SessionKey {
        &self.progress.accepted().session
    }

    /// Whether it had nothing open and nobody has asked to stop it.
    fn can_live_on(&self) -> bool {
        let waits = matches!(self.progress.state(), RunState::Queued | RunState::Waiting);
        waits && self.stored.requests.is_empty()
    }
}

#[derive(Default)]
struct Recovery {
    recovered: Vec<Recovered>,
    settling: VecDeque<(Recovered, Settling)>,
    waiting: Vec<OpenRun>,
}

impl Recovery {
    async fn look_at_all(&mut self, runtime: &Arc<RuntimeCore>) -> Result<(), JournalError> {
        let is_live = |run: &RunId| runtime.registry.find_taken(run).is_some();
        let left: Vec<RunId> =
            runtime.services.journal.abandoned().await?.into_iter().filter(|run| !is_live(run)).collect();
        // If the journal fails part of the way, the rest is not forgotten: it can be cancelled, and no cancel of
        // everything is reported as complete without it.
        left.iter().for_each(|run| runtime.park(run));
        for run in left {
            self.look_at(runtime, run).await?;
        }
        Ok(())
    }

    async fn look_at(&mut self, runtime: &Arc<RuntimeCore>, run: RunId) -> Result<(), JournalError> {
        let found = match find_with_its_readers(runtime, &run).await {
            Ok(found) => found,
            Err(JournalError::Unreadable(why)) => {
                runtime.unpark(&run);
                self.recovered.push(Recovered { run, fate: Fate::Unreadable { why } });
                return Ok(());
            }
            Err(other) => return Err(other),
        };
        match found {
            None => runtime.unpark(&run),
            Some(open) if open.can_live_on() => self.waiting.push(open),
            Some(open) => {
                let session = open.session().clone();
                let settling = match settle_open(runtime, open) {
                    Ok(settling) => settling,
                    Err(error) => {
                        runtime.unpark(&run);
                        self.recovered.push(Recovered { run, fate: Fate::Unreadable { why: error.to_string() } });
                        return Ok(());
                    }
                };
                let ending = Arc::clone(&settling.ending);
                self.settling.push_back((Recovered { run, fate: Fate::Settled { session, ending } }, settling));
                self.until_settled(runtime, AT_ONCE).await?;
            }
        }
        Ok(())
    }

    /// Revives those that were waiting: many are claimed before we wait for the first.
    async fn resume(&mut self, runtime: &Arc<RuntimeCore>) -> Result<(), JournalError> {
        let mut waiting = std::mem::take(&mut self.waiting);
        // A run that had its session's seat must find it free, so those that were queued for the seat come after it.
        waiting.sort_by_key(|open| open.progress.state() == RunState::Queued);
        for some in waiting.chunks(AT_ONCE) {
            let resuming: Vec<_> = some.iter().map(|open| (open, resume::begin(runtime, open))).collect();
            for (open, resuming) in resuming {
                let (session, state) = (open.session().clone(), open.progress.state());
                let resumed = match resuming {
                    Some(resuming) => resuming.finish().await,
                    None => Ok(Resumed::TurnedAway),
                };
                let fate = match resumed {
                    Err(JournalError::Unreadable(why)) => {
                        runtime.unpark(&open.run);
                        Fate::Unreadable { why }
                    }
                    Err(error) => return Err(error),
                    Ok(Resumed::LivesOn) => {
                        runtime.unpark(&open.run);
                        Fate::LivesOn { session, state }
                    }
                    Ok(Resumed::TurnedAway) => {
                        runtime.park(&open.run);
                        Fate::Parked { session, state }
                    }
                    Ok(Resumed::Over) => {
                        runtime.unpark(&open.run);
                        continue;
                    }
                };
                self.recovered.push(Recovered { run: open.run.clone(), fate });
            }
        }
        Ok(())
    }

    /// Waits until no more than this many are on their way. Returns the first error, if there was one.
    async fn until_settled(&mut self, runtime: &RuntimeCore, left: usize) -> Result<(), JournalError> {
        let mut all = Ok(());
        while self.settling.len() > left {
            let Some((recovered, settling)) = self.settling.pop_front() else { break };
            match settling.finish(runtime).await {
                Ok(_) => {
                    if let Fate::Settled { session, .. } = &recovered.fate {
                        // It may be a run of this process whose writes the journal refused.
                        runtime.forget_history(session);
                    }
                    runtime.services.presence.run_ended(&recovered.run);
                    runtime.unpark(&recovered.run);
                    self.recovered.push(recovered);
                }
                // Another process was faster, and owns it now.
                Err(error) if error.is_anothers() => runtime.unpark(&recovered.run),
                Err(error) => all = all.and(Err(error)),
            }
        }
        all
    }
}

/// An unsettled run; `None` if it has settled meanwhile, or is gone.
pub(crate) async fn find_open(runtime: &Arc<RuntimeCore>, run: &RunId) -> Result<Option<OpenRun>, JournalError> {
    let Some(stored) = runtime.services.journal.read(run).await? else { return Ok(None) };
    let progress = fold(&stored)?;
    Ok(progress.ending().is_none().then(|| OpenRun { run: run.clone(), stored, progress }))
}

/// As [`find_open`]. If the run was waiting and must not go on without its readers, a cancel request is added to
/// it.
async fn find_with_its_readers(runtime: &Arc<RuntimeCore>, run: &RunId) -> Result<Option<OpenRun>, JournalError> {
    let Some(mut open) = find_open(runtime, run).await? else { return Ok(None) };
    if open.can_live_on() {
        let request = presence::left_alone(&runtime.services, open.progress.accepted()).await?;
        open.stored.requests.extend(request.map(Arc::new));
    }
    Ok(Some(open))
}

/// Settles one run that has no driver. Returns how it ended, or `None` if it has settled meanwhile.
pub(crate) async fn settle_undriven(
    runtime: &Arc<RuntimeCore>,
    run: &RunId,
) -> Result<Option<Arc<Ending>>, JournalError> {
    let Some(open) = find_open(runtime, run).await? else { return Ok(None) };
    let ending = settle_open(runtime, open)?.finish(runtime).await?;
    runtime.services.presence.run_ended(run);
    Ok(Some(ending))
}

/// Settles a run whose record cannot be read, so that it can be deleted: only its end is written.
pub(crate) async fn settle_unreadable(runtime: &Arc<RuntimeCore>, run: &RunId) -> Result<(), JournalError> {
    let Some(stored) = runtime.services.journal.read(run).await? else { return Ok(()) };
    let seq = stored.facts().next_back().map_or(0, |record| record.seq) + 1;
    let (epoch, at) = (stored.epoch.saturating_add(1), runtime.services.clock.now());
    let event = Event::RunSettled { outcome: Arc::new(Ending::Lost) };
    let end = Arc::new(Record::new(seq, epoch, at, event));
    runtime
        .services
        .journal
        .append(Batch::taking_over(run.clone(), stored.epoch, entries(&[Arc::clone(&end)])))
        .await?;
    let settled = runtime.services.clock.now();
    runtime.services.journal.keep_settled(run, settled);
    let mut past: Vec<_> = stored.facts().cloned().collect();
    if let Some(Event::RunAccepted { accepted }) = past.first().map(|first| first.event.clone()) {
        runtime.services.observers.facts(run, &accepted.session, &mut past, vec![end], settled, None);
    }
    Ok(())
}

/// A run that is being settled: its end is on its way to the journal.
struct Settling {
    run: RunId,
    ending: Arc<Ending>,
    append: Append,
    /// What observers are told when it is durable, if there are any.
    for_observers: Option<Box<ForObservers>>,
    /// The model call that was open.
    unaccounted: Option<Unaccounted>,
}

struct ForObservers {
    session: SessionKey,
    past: Vec<Arc<Record>>,
    new: Vec<Arc<Record>>,
}

impl Settling {
    /// Waits until it is durable, and tells observers.
    async fn finish(self, runtime: &RuntimeCore) -> Result<Arc<Ending>, JournalError> {
        self.append.await?;
        let settled = runtime.services.clock.now();
        runtime.services.journal.keep_settled(&self.run, settled);
        if let Some(for_observers) = self.for_observers {
            let ForObservers { session, mut past, new } = *for_observers;
            runtime.services.observers.facts(&self.run, &session, &mut past, new, settled, None);
        }
        if let Some(unaccounted) = self.unaccounted {
            unaccounted.begin();
        }
        Ok(self.ending)
    }
}

/// Hands the journal everything that settles a run, as its new owner: one batch, so one step.
fn settle_open(runtime: &Arc<RuntimeCore>, open: OpenRun) -> Result<Settling, JournalError> {
    let OpenRun { run, stored, mut progress } = open;
    let delivered_at = runtime.services.clock.now();
    let mut requests = Vec::new();
    let mut force = progress.cancel().map(|(_, force)| force);
    for request in &stored.requests {
        // As with a live run: after the first request, only a harder one changes anything.
        if Some(request.force) > force {
            let request = Arc::new(CancelRequest::clone(request).heard_at(delivered_at));
            force = Some(request.force);
            requests.push(Event::CancelRequested { request, delivered_at });
        }
    }
    let epoch = stored.epoch.saturating_add(1);
    let mut records = number(runtime.services.clock.now(), &mut progress, epoch, requests)?;
    let unaccounted = Unaccounted::of(runtime, &progress);
    unaccounted::keep(runtime, &progress);
    let mut events = close_lost(&progress, unaccounted.as_ref().map(|unaccounted| unaccounted.awaited));
    let ending = Arc::new(match progress.cancel() {
        Some((reason, _)) => Ending::Cancelled { reason },
        None => Ending::Lost,
    });
    events.push(Event::RunSettled { outcome: Arc::clone(&ending) });
    records.extend(number(runtime.services.clock.now(), &mut progress, epoch, events)?);
    let batch = Batch::taking_over(run.clone(), stored.epoch, entries(&records)).standing(BatchStanding::of(&progress));
    let append = runtime.services.journal.append(batch);
    let for_observers = (!runtime.services.observers.is_empty()).then(|| {
        let (session, past) = (progress.accepted().session.clone(), stored.facts().cloned().collect());
        Box::new(ForObservers { session, past, new: records })
    });
    Ok(Settling { run, ending, append, for_observers, unaccounted })
}
