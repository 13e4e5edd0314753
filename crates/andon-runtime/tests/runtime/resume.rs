//! A run that was waiting when its process died lives on: nothing of it was open, so nothing can happen twice (P10).

use andon_runtime::core::event::Approval;
use andon_runtime::{Fate, JournalLayer, Recovered, StartError};
use andon_testkit::check::read_all;

use crate::common::*;

const DONE: Ending = Ending::Completed { stop: ModelStop::EndTurn };

/// A process: its runtime, an agent that may do something dangerous if a person approves it, and what its tools did.
struct Process {
    journal: TestJournal,
    runtime: Runtime,
    model: ScriptedModel,
    tools: ToolLog,
    session: Option<Session>,
    recovered: Vec<Recovered>,
}

fn dangerous(builder: AgentBuilder, log: &ToolLog) -> AgentBuilder {
    builder.tool(tools::quick("danger", log).needs_approval())
}

impl Process {
    fn first(answers: impl IntoIterator<Item = Vec<andon_testkit::Act>>) -> Self {
        let journal = memory();
        let (runtime, model, tools) = (runtime_on(&journal), ScriptedModel::new(answers), ToolLog::new());
        let session = dangerous(Agent::builder().model(model.clone()).runtime(&runtime), &tools).open();
        let session = Some(session.agent().session(LOCAL, "s").unwrap());
        Self { journal, runtime, model, tools, session, recovered: Vec::new() }
    }

    /// The same, with a run that waits for a person.
    async fn asked(answers: impl IntoIterator<Item = Vec<andon_testkit::Act>>) -> (Self, Run) {
        let first = Self::first(answers);
        let run = first.ask().await;
        (first, run)
    }

    /// The process dies, and another one takes up what is durable, with the agent that `build` gives it.
    async fn next(
        &self,
        answers: impl IntoIterator<Item = Vec<andon_testkit::Act>>,
        build: impl FnOnce(AgentBuilder, &ToolLog) -> Option<AgentBuilder>,
    ) -> Self {
        self.journal.crash();
        let journal = TestJournal::new(self.journal.durable(), None);
        let (runtime, model, tools) = (next_runtime_on(&journal), ScriptedModel::new(answers), ToolLog::new());
        let builder = build(Agent::builder().model(model.clone()).runtime(&runtime), &tools);
        let session = builder.map(|builder| builder.build().unwrap().session(LOCAL, "s").unwrap());
        let recovered = runtime.recover().await.unwrap();
        Self { journal, runtime, model, tools, session, recovered }
    }

    async fn restarted(&self, answers: impl IntoIterator<Item = Vec<andon_testkit::Act>>) -> Self {
        self.next(answers, |builder, log| Some(dangerous(builder, log))).await
    }

    fn session(&self) -> &Session {
        self.session.as_ref().expect("this process has an agent")
    }

    async fn find(&self, run: &Run) -> Run {
        self.runtime.find(run.id()).await.unwrap().unwrap()
    }

    fn fates(&self) -> Vec<Fate> {
        self.recovered.iter().map(|recovered| recovered.fate.clone()).collect()
    }

    async fn history(&self) -> Vec<String> {
        texts(&self.session().history().await.unwrap())
    }

    /// Starts the run that waits for a person.
    async fn ask(&self) -> Run {
        let run = self.session().start("Do it.").unwrap();
        until(&run, |event| matches!(event, Event::ApprovalRequested { .. })).await;
        settle_down().await;
        run
    }
}

fn lives_on(process: &Process, state: RunState) -> Fate {
    Fate::LivesOn { session: process.session().key().clone(), state }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_was_open_is_asked_again_and_a_yes_starts_the_tool_once() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;

    let next = first.restarted([says("It is done.")]).await;
    assert_eq!(next.fates(), [lives_on(&next, RunState::Waiting)]);
    let found = next.find(&run).await;
    assert_eq!((found.state(), next.model.calls(), next.tools.started()), (RunState::Waiting, 0, 0));
    settle_down().await;
    assert_eq!((next.model.calls(), next.tools.started()), (0, 0), "nothing happens before a person has decided");

    found.decide(&id("g")).approve().by("ada").send().unwrap();
    assert_eq!(*found.outcome().await.ending, DONE);
    assert_eq!((first.tools.started(), next.tools.started()), (0, 1));
    assert_nothing_lost(&found, &next.session().history().await.unwrap()).await;
    let epochs: Vec<u32> = found.records().iter().map(|record| record.epoch).collect();
    assert!(epochs.is_sorted() && epochs.first() == Some(&1) && epochs.last() == Some(&2), "{epochs:?}");
    assert_eq!(count(&found, |event| matches!(event, Event::ApprovalRequested { .. })), 1, "asked once on record");
}

#[tokio::test(start_paused = true)]
async fn a_no_after_the_restart_is_told_to_the_model() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    let next = first.restarted([says("As you wish.")]).await;
    let found = next.find(&run).await;
    found.decide(&id("g")).deny().by("ada").note("too late at night").send().unwrap();
    assert_eq!(*found.outcome().await.ending, DONE);
    let result = result_of(&next.session().history().await.unwrap(), "g");
    assert_eq!(result.status, ResultStatus::Refused);
    assert!(result.to_text().contains("too late at night"));
    assert_eq!(next.tools.started(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_back_after_the_restart_gets_what_follows_and_nothing_twice() {
    let (first, run) =
        Process::asked([answer([vec![andon_testkit::Act::text("Shall I?")], calls(&[("g", "danger")])])]).await;
    let mut feed = run.feed();
    let mut seen = Vec::new();
    while seen.len() < 7 {
        seen.push(feed.next().await.unwrap());
    }
    let next = first.restarted([says("Done.")]).await;
    let found = next.find(&run).await;
    found.decide(&id("g")).approve().send().unwrap();
    found.outcome().await;

    let place = seen.last().map(FeedItem::cursor).unwrap();
    let mut rest = next.runtime.feed(run.id(), place).await.unwrap().unwrap();
    seen.extend(read_all(&mut rest).await);
    let mut whole = next.runtime.feed(run.id(), Cursor::default()).await.unwrap().unwrap();
    assert_eq!(seen, read_all(&mut whole).await);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_lives_on_can_be_stopped_like_any_other() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    let next = first.restarted([]).await;
    let reply = next.runtime.cancel(run.id(), Cancel::graceful().by("ada")).await.unwrap();
    assert_eq!(*reply.kind(), ReplyKind::Accepted);
    let found = next.find(&run).await;
    assert_eq!(*found.outcome().await.ending, Ending::Cancelled { reason: Reason::Requested });
    assert_eq!(found.receipt().unwrap().by.as_deref(), Some("ada"));
    let closed =
        |event: &Event| matches!(event, Event::ApprovalResolved { verdict, .. } if **verdict == Approval::Closed);
    assert_eq!(count(&found, closed), 1);
    assert_nothing_lost(&found, &next.session().history().await.unwrap()).await;
    assert_usable(next.session()).await;
}

#[tokio::test(start_paused = true)]
async fn runs_that_were_queued_start_in_their_order_once_the_lost_one_is_settled() {
    let first = Process::first([says_and_hangs("Busy")]);
    let lost = first.session().start("First.").unwrap();
    until_shown(&lost, "Busy").await;
    let queue = |text: &str| first.session().prompt(text).when_busy(WhenBusy::Queue).start().unwrap();
    let queued = [queue("Second."), queue("Third."), queue("Fourth.")];
    for run in &queued {
        until(run, |event| matches!(event, Event::RunAccepted { .. })).await;
    }
    tokio::time::sleep(millis(50)).await;

    let next = first.restarted([says("Two."), says("Three."), says("Four.")]).await;
    let session = next.session().key().clone();
    let mut fates = vec![Fate::Settled { session, ending: Arc::new(Ending::Lost) }];
    fates.extend(std::iter::repeat_n(lives_on(&next, RunState::Queued), 3));
    assert_eq!(next.fates(), fates);
    for run in &queued {
        let found = next.find(run).await;
        assert_eq!(*found.outcome().await.ending, DONE);
        assert_nothing_lost(&found, &next.session().history().await.unwrap()).await;
    }
    let said = ["First.", "Busy [cut]", "Second.", "Two.", "Third.", "Three.", "Fourth.", "Four."];
    assert_eq!(next.history().await, said);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_a_person_keeps_its_seat_and_those_behind_it_wait() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    let queued = first.session().prompt("Then this.").when_busy(WhenBusy::Queue).start().unwrap();
    until(&queued, |event| matches!(event, Event::RunAccepted { .. })).await;
    settle_down().await;

    let next = first.restarted([says("Done."), says("And that.")]).await;
    assert_eq!(next.fates(), [lives_on(&next, RunState::Waiting), lives_on(&next, RunState::Queued)]);
    let refused = next.session().start("Me first!").unwrap_err();
    assert!(matches!(refused, StartError::Busy { run: busy, .. } if busy == *run.id()));
    settle_down().await;
    assert_eq!(next.model.calls(), 0);
    next.find(&run).await.decide(&id("g")).approve().send().unwrap();
    assert_eq!(*next.find(&queued).await.outcome().await.ending, DONE);
    assert_eq!(next.history().await.last().unwrap(), "And that.");
}

#[tokio::test(start_paused = true)]
async fn without_its_agent_a_run_is_parked_and_goes_on_when_the_agent_is_there() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    let next = first.next([says("Done.")], |_, _| None).await;
    let session = run.session().clone();
    assert_eq!(next.fates(), [Fate::Parked { session, state: RunState::Waiting }]);
    let parked = next.find(&run).await;
    assert_eq!((parked.state(), parked.try_outcome().is_none()), (RunState::Waiting, true));

    let builder = Agent::builder().model(next.model.clone()).runtime(&next.runtime);
    let agent = dangerous(builder, &next.tools).open();
    let recovered = next.runtime.recover().await.unwrap();
    assert!(matches!(recovered[0].fate, Fate::LivesOn { .. }), "{recovered:?}");
    let found = next.find(&run).await;
    found.decide(&id("g")).approve().send().unwrap();
    assert_eq!(*found.outcome().await.ending, DONE);
    assert_eq!(next.runtime.recover().await.unwrap(), []);
    drop(agent);
}

#[tokio::test(start_paused = true)]
async fn a_parked_run_can_be_cancelled_and_the_cancel_is_durable_when_it_is_answered() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    let next = first.next([], |_, _| None).await;
    let reply = next.runtime.cancel(run.id(), Cancel::graceful().by("ada").note("enough")).await.unwrap();
    assert_eq!((reply.kind(), reply.recorded().await), (&ReplyKind::Accepted, Ok(())));
    let stored = next.journal.durable().stored(run.id()).unwrap();
    assert_eq!(stored.requests.len(), 1);
    let found = next.find(&run).await;
    assert_eq!(*found.outcome().await.ending, Ending::Cancelled { reason: Reason::Requested });
    assert_eq!(found.receipt().unwrap().note.as_deref(), Some("enough"));
    let again = next.runtime.cancel(run.id(), Cancel::now()).await.unwrap();
    assert_eq!(again.too_late(), Some(&Ending::Cancelled { reason: Reason::Requested }));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_was_left_for_a_run_is_carried_out_by_whoever_recovers_it() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    let middle = first.next([], |_, _| None).await;
    let request = |force, by: &str| {
        andon_runtime::core::cancel::CancelRequest::new(
            Reason::Operator,
            force,
            andon_runtime::core::time::Stamp::default(),
        )
        .by(by)
    };
    use andon_runtime::core::cancel::Force;
    for (force, by) in [(Force::Graceful, "ada"), (Force::Graceful, "bob"), (Force::Now, "cleo")] {
        let left = middle.journal.request_cancel(run.id(), request(force, by)).await.unwrap();
        assert_eq!(left, andon_runtime::RequestFate::Recorded);
    }
    let next = middle.restarted([]).await;
    assert_eq!(
        next.recovered[0].fate.ending().unwrap().to_owned(),
        Arc::new(Ending::Cancelled { reason: Reason::Operator })
    );
    let receipt = next.find(&run).await.receipt().unwrap();
    let by: Vec<_> = receipt.requests.iter().map(|request| request.by.as_deref().unwrap()).collect();
    assert_eq!(by, ["ada", "cleo"], "a request that is not harder than the one before changes nothing");
    assert_usable(next.session()).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_present_agent_cannot_make_is_refused_and_nobody_is_asked() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    let next = first.next([says("Then not.")], |builder, _| Some(builder)).await;
    let found = next.find(&run).await;
    assert_eq!(*found.outcome().await.ending, DONE);
    let result = result_of(&next.session().history().await.unwrap(), "g");
    assert_eq!(result.status, ResultStatus::Refused);
    assert_nothing_lost(&found, &next.session().history().await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn limits_outlive_the_process() {
    let first = Process::first([calls(&[("g", "danger")])]);
    let limits = Limits::new().deadline(secs(3600));
    let run = first.session().prompt("Do it.").limits(limits).start().unwrap();
    until(&run, |event| matches!(event, Event::ApprovalRequested { .. })).await;
    settle_down().await;
    // The next process begins a day later.
    let next = first.restarted([]).await;
    let found = next.find(&run).await;
    assert_eq!(*found.outcome().await.ending, Ending::Cancelled { reason: Reason::Deadline });

    let first = Process::first([calls(&[("g", "danger")])]);
    let limits = Limits::new().turns(1);
    let run = first.session().prompt("Do it.").limits(limits).start().unwrap();
    until(&run, |event| matches!(event, Event::ApprovalRequested { .. })).await;
    settle_down().await;
    let next = first.restarted([says("Never said.")]).await;
    let found = next.find(&run).await;
    found.decide(&id("g")).approve().send().unwrap();
    assert_eq!(*found.outcome().await.ending, Ending::Cancelled { reason: Reason::Budget });
    assert_eq!((next.tools.started(), next.model.calls()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_run_may_outlive_several_processes() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    let second = first.restarted([]).await;
    let third = second.restarted([says("At last.")]).await;
    assert_eq!(third.fates(), [lives_on(&third, RunState::Waiting)]);
    let found = third.find(&run).await;
    found.decide(&id("g")).approve().send().unwrap();
    assert_eq!(found.outcome().await.text_so_far(), "At last.");
    let epochs: Vec<u32> = found.records().iter().map(|record| record.epoch).collect();
    assert_eq!(epochs.last(), Some(&3), "each owner has an epoch of its own");
}

#[tokio::test(start_paused = true)]
async fn the_first_process_can_no_longer_write_when_another_has_revived_its_run() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    // The first process was wrongly taken for dead.
    let other = next_runtime_on(&first.journal);
    let log = ToolLog::new();
    let model = ScriptedModel::new([says("Done.")]);
    let session = dangerous(Agent::builder().model(model).runtime(&other), &log).open();
    other.recover().await.unwrap();
    run.decide(&id("g")).approve().send().unwrap();
    settle_down().await;
    assert_eq!(first.tools.started(), 0, "intent before effect: what could not be recorded was not begun");
    assert_eq!(*run.cancel(Cancel::now()).kind(), ReplyKind::NotRunning, "it is another process's run");

    let found = other.find(run.id()).await.unwrap().unwrap();
    found.decide(&id("g")).approve().send().unwrap();
    assert_eq!((&*found.outcome().await.ending, log.started()), (&DONE, 1));
    assert_eq!(*run.outcome().await.ending, DONE, "as it is on record");
    drop(session);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_has_run_is_not_run_again_and_one_that_has_not_is() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let began = Arc::new(AtomicUsize::new(0));
    let counting = |builder: AgentBuilder| {
        let began = Arc::clone(&began);
        builder.before_run(move |_| {
            began.fetch_add(1, Ordering::SeqCst);
            std::future::ready(())
        })
    };
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    let queued = first.session().prompt("Then this.").when_busy(WhenBusy::Queue).start().unwrap();
    until(&queued, |event| matches!(event, Event::RunAccepted { .. })).await;
    settle_down().await;
    let next = first.next([says("Done."), says("Too.")], |builder, log| Some(counting(dangerous(builder, log)))).await;
    next.find(&run).await.decide(&id("g")).approve().send().unwrap();
    next.find(&queued).await.outcome().await;
    assert_eq!(began.load(Ordering::SeqCst), 1, "only the run that had not begun");
}

// ---- deleting ----

#[tokio::test(start_paused = true)]
async fn deleting_a_session_stops_what_runs_in_it_and_nothing_remains() {
    let first = Process::first([says_and_hangs("Busy")]);
    let run = first.session().start("Go.").unwrap();
    until_shown(&run, "Busy").await;
    let queued = first.session().prompt("Later.").when_busy(WhenBusy::Queue).start().unwrap();
    let key = run.session().clone();

    let deleting = first.runtime.delete_session(&key, Cancel::graceful().by("ada"));
    assert_eq!(deleting.await, Ok(true));
    assert_eq!(run.outcome().await.stop_reason(), "cancelled");
    assert_eq!(queued.outcome().await.stop_reason(), "cancelled");
    assert!(first.journal.durable().run_ids().is_empty());
    assert_eq!(first.session().history().await.unwrap(), []);
    assert_eq!(first.runtime.state(&key).await.unwrap(), None);
    assert!(first.runtime.find(run.id()).await.unwrap().is_none());
    assert_eq!(first.runtime.delete_session(&key, Cancel::graceful()).await, Ok(false), "there is none any more");
    assert_usable(first.session()).await;
    assert_eq!(first.history().await.len(), 2, "it starts from the beginning");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_let_into_a_session_while_it_is_deleted() {
    let journal = crate::common::held::HeldJournal::new(|entry| {
        entry.fact().is_some_and(|record| matches!(record.event, Event::RunSettled { .. }))
    });
    let shared = Arc::clone(&journal);
    let clock = Arc::new(andon_runtime::TestClock::new());
    let runtime = Runtime::builder().journal(shared).one_lane().clock(clock).seed(1).build();
    let model = ScriptedModel::new([says_and_hangs("Busy")]);
    let session = Agent::builder().model(model).runtime(&runtime).open();
    let run = start_until_shown(&session, "Go.", "Busy").await;
    let key = run.session().clone();
    let mut deleting = Box::pin(runtime.delete_session(&key, Cancel::now()));
    let held = async {
        journal.until_a_batch_is_held().await;
        let turned_away = session.start("Me!").unwrap_err();
        assert!(matches!(turned_away, StartError::SessionClosing { .. }), "{turned_away}");
        let twice = runtime.delete_session(&key, Cancel::now()).await;
        assert!(matches!(twice, Err(JournalError::SessionClosing(_))), "{twice:?}");
        journal.release().await;
    };
    let (deleted, ()) = tokio::join!(&mut deleting, held);
    assert_eq!(deleted, Ok(true));
    drop(deleting);
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_parked_run_is_settled_before_its_session_is_deleted() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    let next = first.next([], |_, _| None).await;
    assert_eq!(next.runtime.delete_session(run.session(), Cancel::graceful()).await, Ok(true));
    assert!(next.journal.durable().run_ids().is_empty());
    assert_eq!(next.runtime.recover().await.unwrap(), []);
}

// ---- two at once ----

#[tokio::test(start_paused = true)]
async fn two_recoveries_at_once_take_a_run_up_once() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    first.journal.crash();
    let journal = TestJournal::new(first.journal.durable(), None);
    let (runtime, model, log) = (next_runtime_on(&journal), ScriptedModel::new([says("Done.")]), ToolLog::new());
    let session = dangerous(Agent::builder().model(model).runtime(&runtime), &log).open();
    let (one, other) = tokio::join!(runtime.recover(), runtime.recover());
    let fates = [one.unwrap(), other.unwrap()].concat();
    assert_eq!(fates.len(), 1, "{fates:?}");
    let found = runtime.find(run.id()).await.unwrap().unwrap();
    found.decide(&id("g")).approve().send().unwrap();
    assert_eq!((&*found.outcome().await.ending, log.started()), (&DONE, 1));
    drop(session);
}

/// A journal whose claims and histories wait until the test releases them.
struct Late {
    journal: TestJournal,
    claims: Arc<tokio::sync::Semaphore>,
    histories: Arc<tokio::sync::Semaphore>,
}

impl Late {
    fn on(journal: &TestJournal) -> (Arc<Self>, Runtime) {
        let gate = || Arc::new(tokio::sync::Semaphore::new(0));
        let late = Arc::new(Self { journal: journal.clone(), claims: gate(), histories: gate() });
        let shared = Arc::clone(&late);
        let builder = Runtime::builder().journal(shared).one_lane().clock(Arc::new(andon_runtime::TestClock::new()));
        (late, builder.seed(2).build())
    }
}

impl JournalLayer for Late {
    fn inner(&self) -> &dyn Journal {
        &self.journal
    }

    fn history(
        &self,
        session: &andon_runtime::SessionKey,
    ) -> BoxFuture<Result<Vec<Arc<andon_runtime::Message>>, JournalError>> {
        let (reading, gate) = (self.journal.history(session), Arc::clone(&self.histories));
        Box::pin(async move {
            let history = reading.await;
            gate.acquire().await.unwrap().forget();
            history
        })
    }

    fn claim(&self, run: &RunId, from: Epoch) -> BoxFuture<Result<Option<Epoch>, JournalError>> {
        let (journal, run, gate) = (self.journal.clone(), run.clone(), Arc::clone(&self.claims));
        Box::pin(async move {
            gate.acquire().await.unwrap().forget();
            journal.claim(&run, from).await
        })
    }
}

/// A parked run in a runtime whose journal is late, and its session with the agent that it needs.
async fn parked() -> (Process, Run, Arc<Late>, Runtime, Session) {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    first.journal.crash();
    let (late, runtime) = Late::on(&TestJournal::new(first.journal.durable(), None));
    assert!(matches!(runtime.recover().await.unwrap()[0].fate, Fate::Parked { .. }));
    let builder = Agent::builder().model(ScriptedModel::new([says("Done.")])).runtime(&runtime);
    let session = dangerous(builder, &ToolLog::new()).build().unwrap().session(LOCAL, "s").unwrap();
    (first, run, late, runtime, session)
}

#[tokio::test(start_paused = true)]
async fn a_parked_run_that_is_cancelled_while_it_is_taken_up_is_cancelled_and_its_session_is_free() {
    // The claim is on its way when the cancel comes.
    let (_first, run, late, runtime, session) = parked().await;
    let recovering = async {
        let recovered = runtime.recover().await.unwrap();
        assert!(matches!(recovered[0].fate, Fate::LivesOn { .. }), "{recovered:?}");
    };
    let cancelling = async {
        settle_down().await;
        let reply = runtime.cancel(run.id(), Cancel::graceful().by("ada")).await.unwrap();
        assert_eq!(*reply.kind(), ReplyKind::Accepted);
        late.claims.add_permits(1);
        late.histories.add_permits(9);
        assert_eq!(reply.recorded().await, Ok(()));
    };
    tokio::join!(recovering, cancelling);
    let found = runtime.find(run.id()).await.unwrap().unwrap();
    assert_eq!(*found.outcome().await.ending, Ending::Cancelled { reason: Reason::Requested });
    assert_eq!(found.receipt().unwrap().by.as_deref(), Some("ada"));
    assert_eq!(runtime.runs(), [], "nothing is left of it");
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_settled_before_it_could_be_claimed_is_not_taken_up() {
    let (_first, run, late, runtime, session) = parked().await;
    let recovering = async { assert_eq!(runtime.recover().await.unwrap(), []) };
    let settling = async {
        settle_down().await;
        // Another runtime on the same journal was faster.
        let other = next_runtime_on(&late.journal);
        other.recover().await.unwrap();
        other.cancel(run.id(), Cancel::graceful()).await.unwrap();
        late.claims.add_permits(1);
        late.histories.add_permits(9);
    };
    tokio::join!(recovering, settling);
    assert_eq!(runtime.runs(), []);
    assert_usable(&session).await;
    let reply = runtime.cancel(run.id(), Cancel::graceful()).await.unwrap();
    assert_eq!(reply.too_late(), Some(&Ending::Cancelled { reason: Reason::Requested }));
}

#[tokio::test(start_paused = true)]
async fn what_recovery_settles_while_a_history_is_read_is_in_the_next_one() {
    let first = Process::first([says_and_hangs("Shown and kept")]);
    let lost = first.session().start("Tell.").unwrap();
    until_shown(&lost, "kept").await;
    tokio::time::sleep(millis(50)).await;
    first.journal.crash();
    let (late, runtime) = Late::on(&TestJournal::new(first.journal.durable(), None));
    let model = ScriptedModel::new([says("B."), says("C.")]);
    let session = Agent::builder().model(model.clone()).runtime(&runtime).build().unwrap().session(LOCAL, "s").unwrap();
    let run = session.start("b").unwrap();
    settle_down().await;
    runtime.recover().await.unwrap();
    late.histories.add_permits(9);
    run.outcome().await;
    session.run("c").await.unwrap();
    let said = ["Tell.", "Shown and kept [cut]", "b", "B.", "c", "C."];
    assert_eq!(texts(&session.history().await.unwrap()), said);
    assert_eq!(model.requests()[1].history.len(), 5);
    assert_eq!(texts(&late.journal.history(session.key()).await.unwrap()), said);
}

// ---- agents and sessions ----

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_kept_is_found_although_a_later_one_of_its_name_is_gone() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    first.journal.crash();
    let runtime = next_runtime_on(&TestJournal::new(first.journal.durable(), None));
    let build = || Agent::builder().model(ScriptedModel::new([says("Done.")])).runtime(&runtime);
    let kept = dangerous(build(), &ToolLog::new()).build().unwrap();
    drop(build().build().unwrap());
    assert!(matches!(runtime.recover().await.unwrap()[0].fate, Fate::LivesOn { .. }));
    let found = runtime.find(run.id()).await.unwrap().unwrap();
    found.decide(&id("g")).approve().send().unwrap();
    assert_eq!(*found.outcome().await.ending, DONE);
    drop(kept);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_was_armed_stops_the_run_that_comes_back() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    first.journal.crash();
    let runtime = next_runtime_on(&TestJournal::new(first.journal.durable(), None));
    let session = Agent::builder().model(ScriptedModel::new([])).runtime(&runtime).open();
    assert_eq!(session.agent().cancel().kind(), ReplyKind::Armed);
    runtime.recover().await.unwrap();
    let found = runtime.find(run.id()).await.unwrap().unwrap();
    assert_eq!(*found.outcome().await.ending, Ending::Cancelled { reason: Reason::Requested });
}

#[tokio::test(start_paused = true)]
async fn a_deadline_counts_from_when_the_run_was_accepted_and_does_not_restart() {
    let first = Process::first([calls(&[("g", "danger")])]);
    // A day and ten seconds: the next process begins a day later.
    let limits = Limits::new().deadline(secs(24 * 3600 + 10));
    let run = first.session().prompt("Do it.").limits(limits).start().unwrap();
    until(&run, |event| matches!(event, Event::ApprovalRequested { .. })).await;
    settle_down().await;
    let next = first.restarted([]).await;
    let found = next.find(&run).await;
    let began = tokio::time::Instant::now();
    assert_eq!(*found.outcome().await.ending, Ending::Cancelled { reason: Reason::Deadline });
    let waited = began.elapsed();
    assert!(waited <= secs(11), "it waited {waited:?} more");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_approved_before_the_driver_looked_is_refused_all_the_same_if_it_cannot_be_made() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    let next = first.next([says("Then not.")], |builder, _| Some(builder)).await;
    let found = next.find(&run).await;
    // Whether the approval is accepted or not: there is no such tool.
    let _ = found.decide(&id("g")).approve().send();
    assert_eq!(*found.outcome().await.ending, DONE);
    assert_eq!(result_of(&next.session().history().await.unwrap(), "g").status, ResultStatus::Refused);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_its_session_does_not_let_in_is_parked_and_can_be_taken_up_later() {
    let (first, run) = Process::asked([calls(&[("g", "danger")])]).await;
    let next = first.next([says("Done.")], |_, _| None).await;
    let builder = Agent::builder().model(next.model.clone()).runtime(&next.runtime);
    let session = dangerous(builder, &next.tools).build().unwrap().session(LOCAL, "s").unwrap();
    // The session has a run that never finishes stopping: sixty-four more may wait for it.
    let busy: Vec<Run> = (0..65).map(|_| session.prompt("Wait.").when_busy(WhenBusy::Queue).start().unwrap()).collect();
    let recovered = next.runtime.recover().await.unwrap();
    assert!(matches!(recovered[0].fate, Fate::Parked { .. }), "{recovered:?}");
    assert_eq!(next.runtime.runs().len(), 65, "the one that was turned away is not among them");
    for waits in &busy {
        waits.cancel(Cancel::now());
        waits.outcome().await;
    }
    assert!(matches!(next.runtime.recover().await.unwrap()[0].fate, Fate::LivesOn { .. }));
    let found = next.find(&run).await;
    found.decide(&id("g")).approve().send().unwrap();
    assert_eq!(*found.outcome().await.ending, DONE);
}

#[test]
fn a_run_that_waits_is_left_as_it_is_when_the_tokio_runtime_of_its_driver_ends() {
    let journal = Arc::new(andon_runtime::MemoryJournal::new());
    let tokio = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first = tokio();
    let runtime = Runtime::builder().journal(Arc::clone(&journal)).build();
    let builder = Agent::builder().model(ScriptedModel::new([calls(&[("g", "danger")])])).runtime(&runtime);
    let session = dangerous(builder, &ToolLog::new()).build().unwrap().session(LOCAL, "s").unwrap();
    let run = first.block_on(async {
        let run = start_until(&session, "Do it.", |event| matches!(event, Event::ApprovalRequested { .. })).await;
        while run.state() != RunState::Waiting {
            tokio::task::yield_now().await;
        }
        run
    });
    drop(first);
    let second = tokio();
    let outcome = second.block_on(run.outcome());
    assert!(matches!(&*outcome.ending, Ending::Failed(failure) if failure.message.contains("Runtime::recover")));
    assert!(journal.stored(run.id()).unwrap().facts().all(|record| record.event.kind() != "run_settled"));
    second.block_on(async {
        let log = ToolLog::new();
        let builder = Agent::builder().model(ScriptedModel::new([says("Done.")])).runtime(&runtime);
        let session = dangerous(builder, &log).open();
        assert!(matches!(runtime.recover().await.unwrap()[0].fate, Fate::LivesOn { .. }));
        let found = runtime.find(run.id()).await.unwrap().unwrap();
        found.decide(&id("g")).approve().send().unwrap();
        assert_eq!((&*found.outcome().await.ending, log.started()), (&DONE, 1));
        drop(session);
    });
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_hook_changed_and_asked_about_is_made_as_it_was_changed_by_the_next_process() {
    let journal = memory();
    let runtime = runtime_on(&journal);
    let model = ScriptedModel::new([calls(&[("c", "keep")])]);
    let agent = Agent::builder().model(model.clone()).runtime(&runtime).tool(keeps(&Arc::default()));
    let agent = agent
        .before_tool(|_| CallDecision::ChangeArguments(json!({"n": 7})))
        .before_tool(|_| CallDecision::AskApproval)
        .build()
        .unwrap()
        .session(LOCAL, "s")
        .unwrap();
    let run = start_until(&agent, "Keep.", |event| matches!(event, Event::ApprovalRequested { .. })).await;
    settle_down().await;
    journal.crash();

    // Its agent has no hooks any more: what they decided is on record.
    let journal = TestJournal::new(journal.durable(), None);
    let (next, kept) = (next_runtime_on(&journal), Arc::default());
    let model = ScriptedModel::new([says("Done.")]);
    let agent =
        Agent::builder().model(model).runtime(&next).tool(keeps(&kept)).build().unwrap().session(LOCAL, "s").unwrap();
    next.recover().await.unwrap();
    let found = next.find(run.id()).await.unwrap().unwrap();
    assert_eq!((found.state(), kept.lock().unwrap().len()), (RunState::Waiting, 0));
    found.decide(&id("c")).approve().by("ada").send().unwrap();
    assert_eq!(*found.outcome().await.ending, DONE);
    assert_eq!(*kept.lock().unwrap(), [json!({"n": 7})]);
    assert_nothing_lost(&found, &agent.history().await.unwrap()).await;
}

/// A tool that keeps the arguments it gets.
fn keeps(kept: &Arc<std::sync::Mutex<Vec<serde_json::Value>>>) -> FnTool {
    let kept = Arc::clone(kept);
    FnTool::new("keep", "Keeps.", json!({"type": "object"}), move |call: Invocation| {
        kept.lock().unwrap().push(call.input);
        async { Ok("kept".into()) }
    })
}
