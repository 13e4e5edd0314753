//! Estimates the usage of model calls that were open when their process or driver died, from what is on record of them.
//!
//! # Invariants
//!
//! 1. Nobody waits for an estimate: the run settles first, with what the provider had reported, and its receipt says until when a
//!    better figure may come.
//! 2. What is not on record is not claimed. Without the conversation there is no figure for the input, and without an agent that asks
//!    the same model none at all. The agent's instructions and tools may have changed since: they are in the value, not in the bounds.
//! 3. One call is estimated at a time, however many runs a dead process left open.
//! 4. That a lost call is to be estimated is kept before its run settles, until the estimate is on record: if this process ends first,
//!    or has no agent that asks the same model, a later one takes it up, for a month.
//! 5. What a process had no time for, or could not read, is not recorded as unknown: it is left to the next try.

use std::sync::Arc;
use std::time::Duration;

use andon_core::answer::written;
use andon_core::event::{AddendumKind, Entry};
use andon_core::history::History;
use andon_core::id::{RunId, SessionKey};
use andon_core::message::{Message, Part};
use andon_core::progress::RunProgress;
use andon_core::request::RequestChange;
use andon_core::time::Wall;
use andon_core::usage::{Awaited, Figure, Pending, Usage, Used};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

use super::changes;
use super::core::RuntimeCore;
use super::metering::{CallEnd, ESTIMATING, Metered, Times, Unreported, awaited, meter_of};
use crate::agent::AgentCore;
use crate::journal::{HistoryBefore, JournalError, JournaledRun};
use crate::live::observe::ShownAddendum;
use crate::live::{Learning, Live};
use crate::model::{Anchor, ModelRequest};
use crate::session::recorded;

/// How many bytes of the conversation before the run are read.
const MOST: usize = 8 << 20;

/// The kind of value that says that a run's lost call is still to be estimated. Its name is the run's id.
const LOST_CALL: &str = "lost_call";
/// For how long a lost call waits for an agent that asks the same model.
const WAITS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What is kept of a lost call: who may estimate it, and since when it waits.
#[derive(Serialize, Deserialize)]
struct LostCall {
    app: Arc<str>,
    model: Arc<str>,
    at: Wall,
}

/// A request, as far as it is on record.
struct Sent {
    request: ModelRequest,
    /// Whether all of the conversation before it is there.
    is_whole: bool,
    is_anchored: bool,
}

/// A model call that was open, and of which nobody has said what it used.
pub(crate) struct Unaccounted {
    runtime: Arc<RuntimeCore>,
    agent: Arc<AgentCore>,
    run: RunId,
    session: SessionKey,
    call: u32,
    answered_by: Option<String>,
    answer: Vec<Part>,
    /// How hooks had changed its request.
    change: Option<Box<RequestChange>>,
    /// What was said in the run before the answer.
    said: Vec<Arc<Message>>,
    end: CallEnd,
    known: Usage,
    pub(crate) awaited: Awaited,
}

impl Unaccounted {
    /// The open call of a run; `None` if there is none, or none that can be estimated here.
    pub(crate) fn of(runtime: &Arc<RuntimeCore>, progress: &RunProgress) -> Option<Self> {
        let open = progress.open_model().filter(|open| !open.accounted)?;
        let session = &progress.accepted().session;
        let agent = agent_of(runtime, &session.app, &open.model)?;
        meter_of(&*agent.model)?;
        let mut said = progress.messages().to_vec();
        let answer = match said.pop_if(|_| open.answered) {
            Some(answer) => answer.parts.clone(),
            None => written(&open.spans),
        };
        Some(Self {
            runtime: Arc::clone(runtime),
            agent,
            run: progress.accepted().run.clone(),
            session: session.clone(),
            call: open.number,
            answered_by: open.answerer().and_then(|answerer| answerer.model.as_deref()).map(str::to_owned),
            answer,
            change: open.change.clone(),
            said,
            end: if open.answered { CallEnd::Whole } else { CallEnd::Lost },
            known: open.reported(),
            awaited: awaited(runtime.services.clock.now(), Pending::Estimating, ESTIMATING),
        })
    }

    /// Begins to estimate it, once the run has settled.
    pub(crate) fn begin(self) {
        if !self.runtime.estimated.lock().insert(self.run.clone()) {
            return;
        }
        let services = Arc::clone(&self.runtime.services);
        services.door.spawn_keeper(async move {
            let (runtime, run, session, call) =
                (Arc::clone(&self.runtime), self.run.clone(), self.session.clone(), self.call);
            let recorded = match self.used().await {
                Some(used) => record(&runtime, &run, &session, corrected(call, used)).await.is_ok(),
                None => false,
            };
            conclude(&runtime, &run, recorded).await;
        });
    }

    /// Says that this process estimates the call: before its run leaves the registry, so that [`take_up`] finds it in one of the two.
    pub(crate) fn reserve(&self) {
        self.runtime.estimated.lock().insert(self.run.clone());
    }

    /// As [`begin`](Self::begin), for a run of this process, whose connection was closed when its driver died. Whoever waits for the
    /// last word on the run waits until the guard is dropped. The call is [reserved](Self::reserve) before.
    pub(crate) fn begin_for(mut self, live: &Arc<Live>, learning: Learning) {
        if self.end == CallEnd::Lost {
            self.end = CallEnd::Cut;
        }
        let (live, services) = (Arc::clone(live), Arc::clone(&self.runtime.services));
        services.door.spawn_keeper(async move {
            let (runtime, run, call) = (Arc::clone(&self.runtime), self.run.clone(), self.call);
            let recorded = match self.used().await {
                Some(used) => live.learn(corrected(call, used)).await.is_ok(),
                None => false,
            };
            drop(learning);
            conclude(&runtime, &run, recorded).await;
        });
    }

    /// The estimate; what was known before, if there is none in time. `None` if there was no time for it, or nothing to make it from
    /// could be read: then a later try may do better.
    async fn used(self) -> Option<Used> {
        let (runtime, known) = (Arc::clone(&self.runtime), Used::cut(self.known));
        let estimating = async {
            let _alone = runtime.estimating.lock().await;
            let end = Instant::now() + ESTIMATING;
            // Whoever cannot read in time has nothing to estimate from. A meter that has no answer in time has none.
            let sent = timeout_at(end, self.sent()).await.ok()?.ok()?;
            let estimated = match sent {
                Some(sent) => timeout_at(end, self.estimate(sent)).await.ok().flatten(),
                None => None,
            };
            Some(estimated.unwrap_or(known))
        };
        // Taken before it waits for its turn, so that those who wait give up, too.
        runtime.services.give_up().unless_given(estimating).await?
    }

    /// What the model was sent, as far as that is on record; `None` if the run is gone.
    async fn sent(&self) -> Result<Option<Sent>, JournalError> {
        let runtime = &self.runtime;
        let Some(before) = runtime.services.journal.history_before(&self.run, MOST).await? else { return Ok(None) };
        let HistoryBefore { messages, unsettled, truncated } = before;
        let is_whole = unsettled.is_empty() && !truncated;
        let history: History = messages.into_iter().chain(self.said.iter().cloned()).collect();
        let anchor = match is_whole {
            true => find_anchor(runtime, &self.session, &self.agent.model_name, &history).await?,
            false => None,
        };
        let is_anchored = anchor.is_some() && self.change.is_none();
        let request = ModelRequest {
            instructions: self.agent.instructions.clone(),
            tools: Arc::clone(&self.agent.specs),
            anchor,
            ..ModelRequest::new(self.run.clone(), self.call, history)
        };
        let request = match &self.change {
            Some(change) => changes::apply(request, change),
            None => request,
        };
        Ok(Some(Sent { request, is_whole, is_anchored }))
    }

    /// `None` if its meter has no answer.
    async fn estimate(&self, sent: Sent) -> Option<Used> {
        let (Sent { request, is_whole, is_anchored }, known) = (sent, self.known);
        let used = self.ask(&request).await?;
        if !is_whole {
            let without_input = |usage: Usage| known.output(usage.output).reasoning(usage.reasoning);
            return Some(Used::new(without_input(used.delivered), without_input(used.billed)));
        }
        if is_anchored || known.input != Figure::UNKNOWN {
            return Some(used);
        }
        let bare = ModelRequest { instructions: None, tools: Arc::from([]), ..request };
        let least = self.ask(&bare).await?;
        let bounded =
            |usage: Usage, least: Usage| usage.input(usage.input.low(usage.input.low.min(least.input.low)).high(None));
        Some(Used::new(bounded(used.delivered, least.delivered), bounded(used.billed, least.billed)))
    }

    /// What its meter estimates if this was the request.
    async fn ask(&self, request: &ModelRequest) -> Option<Used> {
        let mut metered = Metered::of(&*self.agent.model, request)?;
        metered.model.clone_from(&self.answered_by);
        metered.restore_pages(&self.runtime, &self.agent.model_name).await;
        let now = self.runtime.services.clock.now();
        // How long it took is not on record, and says nothing about tokens.
        let times = Times { started: now, first_piece: (!self.answer.is_empty()).then_some(now), ended: now };
        let call = Unreported { metered, answer: self.answer.clone(), end: self.end, times, known: self.known };
        call.estimate_well(&self.runtime.services).await
    }
}

fn corrected(call: u32, used: Used) -> AddendumKind {
    AddendumKind::UsageCorrected { call, used: Box::new(used) }
}

/// Forgets a lost call whose estimate is on record. If it is not, this process or a later one may try again.
async fn conclude(runtime: &RuntimeCore, run: &RunId, is_recorded: bool) {
    if is_recorded {
        // If it cannot be discarded now, the next process finds that it is done.
        let _ = runtime.services.journal.shelf().discard(LOST_CALL, run.as_str()).await;
    } else {
        runtime.estimated.lock().remove(run);
    }
}

/// The agent of this name, if it asks this model.
fn agent_of(runtime: &RuntimeCore, app: &str, model: &str) -> Option<Arc<AgentCore>> {
    runtime.agents.find(app).filter(|agent| *agent.model_name == *model)
}

/// Keeps that the open call of a run, if there is one, is to be estimated (invariant 4): handed to the journal before the run's end.
pub(crate) fn keep(runtime: &RuntimeCore, progress: &RunProgress) {
    let Some(open) = progress.open_model().filter(|open| !open.accounted) else { return };
    let accepted = progress.accepted();
    let (app, model) = (Arc::clone(&accepted.session.app), Arc::clone(&open.model));
    if agent_of(runtime, &app, &model).is_some_and(|agent| meter_of(&*agent.model).is_none()) {
        return;
    }
    let Ok(lost) = serde_json::to_value(LostCall { app, model, at: runtime.services.clock.now().wall }) else { return };
    // Not awaited: it is written in order, before what follows. Without it, the next process knows nothing of it.
    drop(runtime.services.journal.shelf().keep(LOST_CALL, accepted.run.as_str(), lost));
}

/// Takes up the lost calls that an earlier process did not come to estimate. Those whose agent is not here are left, for a month.
pub(crate) async fn take_up(runtime: &Arc<RuntimeCore>) -> Result<(), JournalError> {
    let journal = &runtime.services.journal;
    let now = runtime.services.clock.now().wall;
    for (name, lost) in journal.shelf().kept(LOST_CALL).await? {
        let run = RunId::new(&name).ok();
        // In this order: a run of this process whose call is lost is reserved before it leaves the registry.
        let is_ours = |run| runtime.registry.find_taken(run).is_some() || runtime.estimated.lock().contains(run);
        if run.as_ref().is_some_and(is_ours) {
            continue;
        }
        let waits = |lost: &LostCall| u128::from(now.0.saturating_sub(lost.at.0)) < WAITS.as_micros();
        let lost = LostCall::deserialize(lost).ok().filter(waits);
        let Some((run, lost)) = run.zip(lost) else {
            drop(journal.shelf().discard(LOST_CALL, &name).await);
            continue;
        };
        // Only those that can be estimated now are read.
        if agent_of(runtime, &lost.app, &lost.model).is_none() {
            continue;
        }
        match journal.read(&run).await?.and_then(|stored| lost_call(&stored)) {
            Some(lost) => Unaccounted::of(runtime, &lost).into_iter().for_each(Unaccounted::begin),
            // It is done, or the run is gone.
            None => drop(journal.shelf().discard(LOST_CALL, &name).await),
        }
    }
    Ok(())
}

/// A settled run as its process left it, with a call that has not been estimated since.
fn lost_call(stored: &JournaledRun) -> Option<RunProgress> {
    let lost = before_the_end(stored)?;
    let number = lost.open_model()?.number;
    let is_it = |learnt: &AddendumKind| matches!(learnt, AddendumKind::UsageCorrected { call, .. } if *call == number);
    let is_done = stored.addenda.iter().any(|addendum| is_it(&addendum.what));
    (!is_done).then_some(lost)
}

/// The run as its process left it: without what its last owner added.
fn before_the_end(stored: &JournaledRun) -> Option<RunProgress> {
    let last = stored.facts().next_back()?.epoch;
    let is_last = |entry: &&Entry| matches!(entry, Entry::Fact(record) if record.epoch == last);
    let entries: Vec<Entry> = stored.entries.iter().take_while(|entry| !is_last(entry)).cloned().collect();
    RunProgress::fold(&entries).ok()
}

/// The call of a session that one to this model, with this history, is measured from.
async fn find_anchor(
    runtime: &RuntimeCore,
    session: &SessionKey,
    model: &str,
    history: &History,
) -> Result<Option<Anchor>, JournalError> {
    let journal = &runtime.services.journal;
    let Some(last) = journal.last_reported(session).await? else { return Ok(None) };
    let said = journal.history(session).await?;
    if journal.last_reported(session).await?.as_ref() != Some(&last) {
        // Another run has settled in between: its answers were counted in one and not in the other.
        return Ok(None);
    }
    let Some((asked, anchor)) = recorded(&said, last) else { return Ok(None) };
    // What later runs reported does not tell what this one was sent.
    Ok((*asked.model == *model && anchor.messages < history.len()).then_some(anchor))
}

/// Records what was learned about a run that is on record only, and tells observers.
async fn record(
    runtime: &RuntimeCore,
    run: &RunId,
    session: &SessionKey,
    word: AddendumKind,
) -> Result<(), JournalError> {
    let services = &runtime.services;
    services.add(run, services.clock.now(), word.clone()).await?;
    if services.observers.is_empty() {
        return Ok(());
    }
    // It is on record; whether it can be read back is another matter.
    let Ok(Some(stored)) = services.journal.read(run).await else { return Ok(()) };
    let facts: Vec<_> = stored.facts().cloned().collect();
    let place = stored.addenda.iter().rposition(|addendum| addendum.what == word);
    if let Some((earlier, [addendum, ..])) = place.and_then(|place| stored.addenda.split_at_checked(place)) {
        services.observers.addendum(&ShownAddendum { run, session, addendum, earlier, facts: &facts });
    }
    Ok(())
}
