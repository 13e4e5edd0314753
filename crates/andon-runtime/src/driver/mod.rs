//! The driver: the one task that advances a run and writes its journal.
//!
//! # The line of one run
//!
//! The run, folded from its events, says the next step; the driver does it; each thing that happens is *staged* (folded
//! into the run) and then *committed* (journaled, then shown). Nothing is shown that is not durable, and what was
//! staged is committed before every effect and every wait.
//!
//! # The line of one cancel
//!
//! A pull leaves news and wakes the driver, whatever it waits for: every wait in here is a [`Watch::race`] that looks for
//! news first. The driver hears the news, the run then says `Settle`, and settling is one more step of the same loop.
//! There is no second path.
//!
//! # Invariants
//!
//! 1. Waits may be dropped, effects may not: inside a race there is only waiting.
//! 2. The model's stream is dropped before the driver waits for the disk.
//! 3. State changes happen in synchronous stretches between waits.

pub(crate) mod aside;
mod before_tool;
mod budget;
mod call_ids;
mod changes;
mod core;
mod history;
mod hooks;
pub(crate) mod learner;
pub(crate) mod mender;
pub(crate) mod metering;
mod model;
pub(crate) mod orphan;
mod reading;
mod settle;
pub(crate) mod stored;
mod tools;
pub(crate) mod unaccounted;
mod watch;

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use andon_core::cancel::Reason;
use andon_core::closing::{decided, refuse};
use andon_core::event::{Accepted, Approval, Event, Record, Refusal, Seq};
use andon_core::history::History;
use andon_core::id::{CallId, RunId};
use andon_core::limits::Limits;
use andon_core::progress::{Call, CallState, RunProgress, RunState, Step};
use andon_core::time::Stamp;

use crate::agent::AgentCore;
use crate::journal::{BatchStanding, JournalError};
use crate::lanes::BoxFuture;
use crate::lanes::caught::panic_text;
use crate::live::cord::Cancel;
use crate::live::{Appended, AsideEnd, Fresh, HookVerdict, Live, News, Services};
use crate::session::{Seat, SessionCore};
use call_ids::CallIds;
pub(crate) use core::RuntimeCore;
use orphan::{DriverGone, Orphan};
use tools::{FinishedTool, RunningTool};
pub(crate) use tools::{box_remains, judge};
use watch::Watch;

/// A new run's id.
pub(crate) fn new_run_id(services: &Services) -> RunId {
    loop {
        // It is made here, so it is always a valid id; the loop is for the compiler.
        if let Ok(id) = RunId::new(services.ids.next("run")) {
            return id;
        }
    }
}

/// How a run begins.
pub(crate) struct Beginning {
    pub(crate) seat: Seat,
    /// Cancels the run when it ends.
    pub(crate) signal: Option<BoxFuture<Cancel>>,
    /// For a run that was waiting when its process died: how far it had come, and how long ago it was accepted.
    pub(crate) resumed: Option<(RunProgress, Duration)>,
}

/// Starts a run's driver.
pub(crate) fn launch(
    runtime: &Arc<RuntimeCore>,
    agent: Arc<AgentCore>,
    session: Arc<SessionCore>,
    live: Arc<Live>,
    accepted: Arc<Accepted>,
    beginning: Beginning,
) {
    let unfinished = Unfinished::new(runtime, &live, &session, accepted);
    let driver = Driver::new(Arc::clone(runtime), agent, session, live, unfinished.accepted.limits, beginning);
    runtime.services.door.spawn(drive(driver, unfinished));
}

/// Drives a run to its end. A panic ends the run and not the process, and so does a journal that cannot be written: the
/// run is then settled from its journal.
#[expect(clippy::manual_async_fn, reason = "the future of an async fn would hold its arguments twice")]
fn drive(mut driver: Driver, mut unfinished: Unfinished) -> impl Future<Output = ()> + Send {
    async move {
        let ended = until_over_or_panic(&unfinished.live, pin!(driver.steps(&unfinished.accepted))).await;
        unfinished.is_over = true;
        let Err(gone) = ended else { return };
        // What has happened and is not yet journaled must not be lost.
        let orphan = unfinished.orphan(std::mem::take(&mut driver.staged), gone);
        drop(driver);
        // Settling may take as long as the disk does, and must not end with the caller's runtime.
        Arc::clone(&orphan.live.services).door.spawn_keeper(orphan::settle(orphan));
    }
}

/// Polls the work until it ends. If the run has not settled by then, the error says why.
async fn until_over_or_panic(
    live: &Live,
    mut work: Pin<&mut (impl Future<Output = Result<(), JournalError>> + Send)>,
) -> Result<(), DriverGone> {
    poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| {
            live.hit("driver: poll");
            work.as_mut().poll(cx)
        }));
        match polled {
            Ok(poll) => poll.map_err(DriverGone::Unwritable),
            Err(panic) => Poll::Ready(Err(DriverGone::Panicked(panic_text(&*panic)))),
        }
    })
    .await
}

/// Settles a run whose driver is dropped before its end, as happens when the caller's tokio runtime is shut down.
struct Unfinished {
    runtime: Arc<RuntimeCore>,
    live: Arc<Live>,
    session: Arc<SessionCore>,
    accepted: Arc<Accepted>,
    is_over: bool,
}

impl Unfinished {
    fn new(runtime: &Arc<RuntimeCore>, live: &Arc<Live>, session: &Arc<SessionCore>, accepted: Arc<Accepted>) -> Self {
        let (runtime, live, session) = (Arc::clone(runtime), Arc::clone(live), Arc::clone(session));
        Self { runtime, live, session, accepted, is_over: false }
    }

    fn orphan(&self, unwritten: Vec<Event>, gone: DriverGone) -> Orphan {
        let (live, session, accepted) = (Arc::clone(&self.live), Arc::clone(&self.session), Arc::clone(&self.accepted));
        let runtime = Arc::clone(&self.runtime);
        Orphan { runtime, epoch: live.epoch, live, session, accepted, unwritten, skipped: 0, gone, unaccounted: None }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let door = &self.live.services.door;
        if self.is_over || !door.has_own_threads() {
            return;
        }
        door.spawn_keeper(orphan::settle(self.orphan(Vec::new(), DriverGone::Dropped)));
    }
}

struct Driver {
    runtime: Arc<RuntimeCore>,
    agent: Arc<AgentCore>,
    session: Arc<SessionCore>,
    live: Arc<Live>,
    limits: Limits,
    watch: Watch,
    /// How far the run has come; `None` before it was accepted.
    progress: Option<Box<RunProgress>>,
    /// What was said before this run, and its own messages up to its last model call.
    history: History,
    /// How many of those messages are the run's own.
    own_in_history: usize,
    /// The ids of the session's calls; `None` until there is a call.
    call_ids: Option<Box<CallIds>>,
    /// Events that are folded and not yet journaled.
    staged: Vec<Event>,
    seated: bool,
    running: Vec<RunningTool>,
    /// The end of the hook that the driver waits for.
    hook_end: Option<Box<(u32, AsideEnd<HookVerdict>)>>,
    /// Calls whose after-hooks have not been called yet.
    finished: Vec<FinishedTool>,
    /// The tools that the last request offered, if a hook left some out.
    offered: Option<Arc<[String]>>,
    ran_before_run: bool,
    ran_after_run: bool,
    /// How many model calls in a row have failed.
    failed_attempts: u32,
    /// Streamed text could not be journaled: the run cannot go on.
    journal_failed: Option<Box<JournalError>>,
}

impl Driver {
    fn new(
        runtime: Arc<RuntimeCore>,
        agent: Arc<AgentCore>,
        session: Arc<SessionCore>,
        live: Arc<Live>,
        limits: Limits,
        beginning: Beginning,
    ) -> Self {
        let Beginning { seat, signal, resumed } = beginning;
        let (progress, waited) = resumed.unzip();
        let has_begun = progress.as_ref().is_some_and(|progress| progress.state() != RunState::Queued);
        let watch = Watch::new(Arc::clone(&live), limits.deadline, waited.unwrap_or_default(), signal);
        Self {
            runtime,
            agent,
            session,
            live,
            limits,
            watch,
            progress: progress.map(Box::new),
            history: History::new(),
            own_in_history: 0,
            call_ids: None,
            staged: Vec::new(),
            seated: seat == Seat::Taken,
            running: Vec::new(),
            hook_end: None,
            finished: Vec::new(),
            offered: None,
            ran_before_run: has_begun,
            ran_after_run: false,
            failed_attempts: 0,
            journal_failed: None,
        }
    }

    /// One step after another, until the run has settled or its journal cannot be written.
    async fn steps(&mut self, accepted: &Arc<Accepted>) -> Result<(), JournalError> {
        self.begin(accepted).await?;
        loop {
            self.live.hit("driver: step");
            self.watch.look();
            self.hear();
            self.check_journal()?;
            let Some(step) = self.progress().next_step(self.agent.tools_at_once) else { return Ok(()) };
            match step {
                Step::CallModel => self.call_model().await?,
                // Boxed, like everything that not every run needs, so that a run that waits for its model is small.
                Step::CallTools { start } => Box::pin(self.call_tools(start)).await?,
                Step::AwaitApproval => self.await_news().await?,
                Step::Settle(ending) => self.settle(ending).await?,
            }
        }
    }

    /// Accepts the run, waits for its session, and starts it. A run that is stopped first never starts, and leaves
    /// nothing in the conversation.
    async fn begin(&mut self, accepted: &Arc<Accepted>) -> Result<(), JournalError> {
        if self.progress.is_none() {
            self.progress = Some(Box::new(RunProgress::new(Arc::clone(accepted))));
            self.staged.push(Event::RunAccepted { accepted: Arc::clone(accepted) });
        }
        self.watch.begin();
        self.watch.look();
        self.hear();
        while !self.seated && !self.is_stopping() {
            self.await_news().await?;
            self.hear();
        }
        if !self.is_stopping() {
            if self.live.services.lease.is_some() {
                // Another process may have had a turn since.
                self.session.forget_history();
            }
            self.history = match self.session.history() {
                Some(history) => history,
                None => Box::pin(self.read_history()).await?,
            };
        }
        self.refuse_second_history(accepted);
        match (self.progress().has_started(), self.is_stopping()) {
            (false, false) => self.stage(Event::RunStarted),
            (false, true) => return self.settle_unstarted().await,
            (true, false) => self.refuse_impossible(),
            (true, true) => {}
        }
        Ok(())
    }

    /// Stops a run that has not started if it brings a history into a session that has one.
    fn refuse_second_history(&mut self, accepted: &Accepted) {
        let begins = self.progress().has_started() || accepted.history.is_empty() || self.history.is_empty();
        if begins || self.is_stopping() {
            return;
        }
        let note = "the session already has a history, and only a new session accepts one with its first prompt";
        self.pull(Cancel::graceful().reason(Reason::Policy).by("session").note(note));
    }

    /// A run that was waiting for a person when its process died still waits. Refuses its calls that the present agent
    /// cannot make, whatever the person says.
    fn refuse_impossible(&mut self) {
        for Call { call, state, .. } in self.progress().calls().to_vec() {
            let is_open = matches!(state, CallState::AwaitingApproval | CallState::Ready);
            let Some(refused) = self.refusal(&call, &[]).filter(|_| is_open) else { continue };
            self.live.forget_call(&call.id);
            if state == CallState::AwaitingApproval {
                self.stage(Event::ApprovalResolved { call: call.id, verdict: Box::new(Approval::Closed) });
            }
            self.stage(refused);
        }
    }

    // ---- what has happened ----

    fn progress(&self) -> &RunProgress {
        // `begin` sets it before anything else happens. Without it there is a bug in the driver, which ends this run
        // alone.
        #[expect(clippy::expect_used, reason = "begin() runs first")]
        self.progress.as_deref().expect("a run is accepted before it is driven")
    }

    /// Folds an event into the run. It is journaled and shown with the next commit.
    fn stage(&mut self, event: Event) {
        if let Some(progress) = self.progress.as_deref_mut()
            && let Err(error) = progress.apply(&event)
        {
            // The fold refuses an event that is not valid here, and such an event must not reach the journal.
            #[expect(clippy::panic, reason = "a bug in the driver ends this run alone")]
            {
                panic!("the driver staged {event:?}: {error}");
            }
        }
        if let (Event::Message { message }, Some(ids)) = (&event, &mut self.call_ids) {
            ids.take(message);
        }
        self.staged.push(event);
    }

    fn stage_all(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.stage(event);
        }
    }

    /// Journals what was staged, then shows it.
    async fn commit(&mut self) -> Result<(), JournalError> {
        match self.begin_commit() {
            Some(appended) => {
                let (fresh, result) = self.until_durable(appended).await;
                self.finish_commit(fresh, result)
            }
            None => Ok(()),
        }
    }

    /// Waits until a batch is durable.
    async fn until_durable(&mut self, appended: Appended) -> (Fresh, Result<(), JournalError>) {
        let Appended { mut append, fresh } = appended;
        let result = match append.now() {
            Some(result) => result,
            None => self.watch.wait_for_disk(&mut append).await,
        };
        (fresh, result)
    }

    fn begin_commit(&mut self) -> Option<Appended> {
        if self.staged.is_empty() {
            return None;
        }
        self.live.hit("driver: before append");
        let at = self.live.now();
        let records = self.number_staged(at);
        let standing = BatchStanding::of(self.progress());
        Some(self.live.append(records, standing, at))
    }

    fn finish_commit(&mut self, fresh: Fresh, result: Result<(), JournalError>) -> Result<(), JournalError> {
        self.check_written(&fresh.records, result)?;
        self.live.hit("driver: durable");
        self.live.publish(fresh);
        self.live.hit("driver: shown");
        Ok(())
    }

    /// Stages again what could not be written, because whoever settles the run must know it.
    fn check_written(&mut self, records: &[Arc<Record>], result: Result<(), JournalError>) -> Result<(), JournalError> {
        if result.is_err() {
            self.staged.splice(..0, records.iter().map(|record| record.event.clone()));
        }
        result
    }

    fn number_staged(&mut self, at: Stamp) -> Vec<Arc<Record>> {
        let first = self.live.with_log(|log| log.seq()) + 1;
        let number = |(place, event): (usize, Event)| {
            let seq = first + place as Seq;
            Arc::new(Record::new(seq, self.live.epoch, at, event))
        };
        // Also frees the vector's memory, so that a run that waits is small.
        std::mem::take(&mut self.staged).into_iter().enumerate().map(number).collect()
    }

    // ---- news ----

    /// Waits for news and nothing else.
    async fn await_news(&mut self) -> Result<(), JournalError> {
        self.commit().await?;
        self.live.hit("driver: before wait");
        self.watch.news().await;
        Ok(())
    }

    /// Fails once streamed text could not be journaled.
    fn check_journal(&self) -> Result<(), JournalError> {
        self.journal_failed.as_deref().cloned().map_or(Ok(()), Err)
    }

    /// Handles what has reached the run from outside.
    fn hear(&mut self) {
        for news in self.live.take_news() {
            self.take_in(news);
        }
    }

    fn take_in(&mut self, news: News) {
        match news {
            News::Pulled(request) => {
                let delivered_at = self.live.now();
                self.stage(Event::CancelRequested { request, delivered_at });
            }
            News::CallPulled(call, request) => self.hear_call_pulled(call, request),
            News::Decided(call, approval) => self.hear_decided(call, approval),
            News::ToolEnded(ticket, done) => self.hear_tool_ended(ticket, *done),
            News::HookEnded(ticket, end) => self.hook_end = Some(Box::new((ticket, end))),
            News::Seated => self.seated = true,
            News::JournalFailed(error) => self.journal_failed = Some(Box::new(error)),
        }
    }

    fn hear_call_pulled(&mut self, call: CallId, request: Arc<andon_core::cancel::CancelRequest>) {
        let state = self.progress().call(&call).map(|open| open.state.clone());
        self.stage(Event::CallCancelRequested { call: call.clone(), request });
        match state {
            Some(CallState::AwaitingApproval) => {
                self.stage(Event::ApprovalResolved { call: call.clone(), verdict: Box::new(Approval::Closed) });
                self.stage(refuse(call, Refusal::CallCancelled));
            }
            Some(CallState::Ready) => self.stage(refuse(call, Refusal::CallCancelled)),
            // A running call stops itself; an ended one stays as it is.
            _ => {}
        }
    }

    fn hear_decided(&mut self, call: CallId, approval: Approval) {
        if self.awaits_approval(&call) {
            self.stage_all(decided(call, approval));
        }
    }

    fn awaits_approval(&self, call: &CallId) -> bool {
        self.progress().call(call).is_some_and(|open| open.state == CallState::AwaitingApproval)
    }

    /// Pulls the run's own cord, and hears it at once.
    fn pull(&mut self, cancel: Cancel) {
        self.live.pull(cancel.at(self.live.now()));
        self.hear();
    }

    /// Whether the run was told to stop, as far as the driver has heard.
    fn is_stopping(&self) -> bool {
        self.progress().state() == RunState::Cancelling
    }

    /// Whether work in progress must be cut.
    fn is_cut(&self) -> bool {
        self.progress().cancel().is_some_and(|(_, force)| force.cuts())
    }

    fn reason(&self) -> Reason {
        self.progress().cancel().map_or(Reason::Requested, |(reason, _)| reason)
    }
}
