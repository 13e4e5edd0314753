//! A disk that fails or stalls: the stop still takes effect, the caller is told, and nothing that was durable becomes
//! unreadable (P1, P10).

use andon_runtime::JournalLayer;
use andon_runtime::core::receipt::Verdict;
use andon_testkit::check::{check_stored, read_all};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::common::held::{HeldJournal, is_answer, is_end, is_lump};
use crate::common::*;

fn disk_full() -> JournalError {
    JournalError::Storage("disk full".to_owned())
}

/// The run was not started, and nothing of it is on record.
async fn assert_not_started(run: &Run) {
    let message = "the journal could not be written: disk full; the run was not started".to_owned();
    assert_eq!(*run.outcome().await.ending, Ending::Failed(Failure::new(FailureKind::Journal, message)));
    assert_eq!(run.seq(), 0);
}

/// The journal does not accept the run's end: that is reported at once, and the run has not settled.
async fn assert_stalled(run: &Run) {
    assert_eq!(run.settled().await, Err(disk_full()));
    assert_eq!((run.stalled(), run.try_outcome()), (Some(disk_full()), None));
    assert_ne!(run.state(), RunState::Settled);
}

fn failed_by_the_journal() -> Ending {
    let message =
        "the journal could not be written: disk full; the run was stopped, and its record was completed later";
    Ending::Failed(Failure::new(FailureKind::Journal, message.to_owned()))
}

/// The run has settled on disk, as failed by the journal, with one end in its feed; and no task of it is left.
async fn assert_failed_later(session: &Session, run: &Run) -> Arc<Outcome> {
    let outcome = settled(session, run).await;
    assert_eq!(*outcome.ending, failed_by_the_journal());
    assert_eq!((run.stalled(), session.agent().runtime().journal_trouble()), (None, None));
    outcome
}

/// What a journal does with a batch.
#[derive(Clone, Copy)]
enum Does {
    Takes,
    Refuses,
    /// It is durable, and reported as failed.
    TakesAndDenies,
}

/// A journal that fails as a test wants it to.
struct Faulty {
    journal: TestJournal,
    does: Box<dyn Fn(&Batch) -> Does + Send + Sync>,
    /// Each claim takes one of these.
    claims: Arc<Semaphore>,
    claimed: AtomicUsize,
    refused: AtomicUsize,
}

impl Faulty {
    fn new(does: impl Fn(&Batch) -> Does + Send + Sync + 'static) -> Arc<Self> {
        let claims = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        Arc::new(Self {
            journal: memory(),
            does: Box::new(does),
            claims,
            claimed: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        })
    }

    /// It refuses one batch with such an entry, once, and then works again.
    fn once(is_it: fn(&Entry) -> bool) -> Arc<Self> {
        let over = AtomicBool::new(false);
        Self::new(move |batch| match batch.entries.iter().any(is_it) && !over.swap(true, Ordering::SeqCst) {
            true => Does::Refuses,
            false => Does::Takes,
        })
    }

    fn has_refused(&self) -> bool {
        self.refused.load(Ordering::SeqCst) > 0
    }

    /// Lets no claim through from now on.
    fn hold_claims(&self) {
        self.claims.forget_permits(Semaphore::MAX_PERMITS);
    }

    async fn until_a_claim_is_held(&self) {
        while self.claimed.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(millis(1)).await;
        }
    }

    fn let_claims_through(&self) {
        self.claims.add_permits(1_000);
    }

    fn runtime(self: &Arc<Self>) -> Runtime {
        let shared = Arc::clone(self);
        Runtime::builder().journal(shared).one_lane().clock(Arc::new(TestClock::new())).seed(1).build()
    }
}

impl JournalLayer for Faulty {
    fn inner(&self) -> &dyn Journal {
        &self.journal
    }

    fn append(&self, batch: Batch) -> Append {
        match (self.does)(&batch) {
            Does::Takes => self.journal.append(batch),
            Does::Refuses => {
                self.refused.fetch_add(1, Ordering::SeqCst);
                Append::ready(Err(disk_full()))
            }
            Does::TakesAndDenies => {
                drop(self.journal.append(batch));
                Append::ready(Err(disk_full()))
            }
        }
    }

    fn claim(&self, run: &RunId, from: Epoch) -> BoxFuture<Result<Option<Epoch>, JournalError>> {
        let (journal, run, claims) = (self.journal.clone(), run.clone(), Arc::clone(&self.claims));
        self.claimed.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            claims.acquire().await.unwrap().forget();
            journal.claim(&run, from).await
        })
    }
}

/// A later process: the same agent and session on what is durable.
async fn next_process(journal: &TestJournal, session: &Session) -> (Session, ScriptedModel) {
    let runtime = next_runtime_on(&TestJournal::new(journal.durable(), None));
    runtime.recover().await.expect("what is durable can be read");
    let model = ScriptedModel::new([]);
    let next = Agent::builder().model(model.clone()).runtime(&runtime).build().unwrap();
    (next.session_by_key(session.key()).unwrap(), model)
}

// ---- a disk that fails ----

#[tokio::test(start_paused = true)]
async fn a_journal_that_fails_from_the_beginning_fails_the_run_before_any_model_call() {
    let journal = memory();
    journal.fail(disk_full());
    let model = ScriptedModel::new([]);
    let agent = Agent::builder().model(model.clone()).runtime(&runtime_on(&journal)).open();
    let run = agent.start("Go.").unwrap();
    assert_not_started(&run).await;
    assert_eq!(model.calls(), 0);
    assert!(agent.current().is_none(), "the session is free");
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_fails_while_tools_run_tells_them_to_end_and_keeps_what_they_returned() {
    let journal = memory();
    let log = ToolLog::new();
    let model = ScriptedModel::new([calls(&[("k", "kind"), ("q", "slow")])]);
    let session = Agent::builder()
        .model(model.clone())
        .runtime(&runtime_on(&journal))
        .tool(tools::cooperative("kind", secs(600), &log))
        .tool(tools::slow("slow", secs(1), &log))
        .open();
    let run = start_until_tool(&session, "Go.", "q").await;
    journal.fail(disk_full());
    assert_stalled(&run).await;
    assert_eq!((log.running(), model.open(), model.calls()), (0, 0, 1));
    journal.heal();
    assert_failed_later(&session, &run).await;
    let history = session.history().await.unwrap();
    assert_eq!(result_of(&history, "q").status, ResultStatus::Ok, "it had finished, and its result is kept");
    session.agent().runtime().idle().await;
    assert_eq!(session.agent().runtime().tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_cannot_be_recorded_says_so_and_is_carried_out_when_the_disk_works_again() {
    let journal = memory();
    let model = ScriptedModel::new([says_and_hangs("Shown")]);
    let agent = Agent::builder().model(model.clone()).runtime(&runtime_on(&journal)).open();
    let run = start_until_shown(&agent, "Go.", "Shown").await;
    journal.fail(disk_full());
    let reply = run.cancel(Cancel::graceful());
    assert_eq!(reply.kind().as_str(), "accepted");
    assert_eq!(reply.recorded().await, Err(disk_full()));
    assert_eq!(model.open(), 0);
    assert_stalled(&run).await;
    journal.heal();
    assert_eq!(cancelled(&agent, &run).await.text_so_far(), "Shown");
    assert_eq!(reply.recorded().await, Ok(()));
    assert!(agent.current().is_none(), "the session is free");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_end_the_journal_does_not_accept_can_be_cancelled_until_it_does() {
    let journal = memory();
    let model = ScriptedModel::new([calls(&[("a", "look")])]);
    let log = ToolLog::new();
    let builder = Agent::builder().model(model.clone()).runtime(&runtime_on(&journal));
    let session = builder.tool(tools::slow("look", secs(1), &log)).open();
    let run = start_until_tool(&session, "Go.", "a").await;
    journal.fail(disk_full());
    assert_stalled(&run).await;
    let runtime = session.agent().runtime();
    assert_eq!(runtime.runs(), [run.id().clone()], "it is in progress");
    assert_eq!(runtime.journal_trouble(), Some(disk_full()));

    let reply = runtime.cancel(run.id(), Cancel::graceful().by("ada")).await.unwrap();
    assert_eq!((reply.kind().as_str(), reply.recorded().await), ("accepted", Err(disk_full())));
    let again = runtime.cancel(run.id(), Cancel::graceful()).await.unwrap();
    assert_eq!(again.kind().as_str(), "already_cancelling");
    assert_eq!(run.try_outcome(), None, "nothing that is undriven counts as settled");

    journal.heal();
    let outcome = cancelled(&session, &run).await;
    assert_eq!(outcome.receipt.by.as_deref(), Some("ada"));
    assert_eq!(runtime.cancel(run.id(), Cancel::now()).await.unwrap().kind().as_str(), "too_late");
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_about_to_complete_completes_when_the_disk_works_again() {
    let journal = memory();
    let model =
        ScriptedModel::new([vec![Act::text("Shown"), Act::Pause(secs(1)), Act::end()], says_and_hangs("Again")]);
    let session = Agent::builder().model(model.clone()).runtime(&runtime_on(&journal)).open();
    let elsewhere = session.agent().session(LOCAL, "elsewhere").unwrap();
    let (completes, stops) = (session.start("Go.").unwrap(), elsewhere.start("Go.").unwrap());
    until_shown(&completes, "Shown").await;
    until_shown(&stops, "Again").await;
    journal.fail(disk_full());
    stops.cancel(Cancel::graceful());
    assert_stalled(&stops).await;
    assert_stalled(&completes).await;
    journal.heal();
    cancelled(&elsewhere, &stops).await;
    // Its answer was complete, and no model is called twice for one answer.
    let outcome = settled(&session, &completes).await;
    assert_eq!((outcome.text_so_far(), model.calls()), ("Shown".to_owned(), 2));
}

#[tokio::test(start_paused = true)]
async fn the_feed_of_a_run_that_cannot_be_recorded_ends_with_its_end_and_not_before() {
    let journal = memory();
    let session = scripted_on(&journal, [says_and_hangs("Shown")]).open();
    let run = start_until_shown(&session, "Go.", "Shown").await;
    journal.fail(disk_full());
    run.cancel(Cancel::graceful());
    let mut feed = run.feed();
    let mut whole = std::pin::pin!(read_all(&mut feed));
    assert!(tokio::time::timeout(secs(60), &mut whole).await.is_err(), "it waits for the end");
    journal.heal();
    let items = whole.await;
    let ends =
        |item: &FeedItem| matches!(item, FeedItem::Fact(record) if matches!(record.event, Event::RunSettled { .. }));
    assert!(items.last().is_some_and(ends));
}

#[tokio::test(start_paused = true)]
async fn text_that_was_shown_is_kept_also_if_the_disk_was_full_when_it_was_shown() {
    let journal = memory();
    let model = ScriptedModel::new([says_and_hangs("Shown")]);
    let session = Agent::builder().model(model.clone()).runtime(&runtime_on(&journal)).open();
    let run = start_until_shown(&session, "Go.", "Shown").await;
    journal.fail(disk_full());
    // A fact in the middle of the answer, which cannot be recorded.
    run.cancel(Cancel::after_turn());
    assert_stalled(&run).await;
    assert_eq!(model.open(), 0);
    journal.heal();
    assert_eq!(cancelled(&session, &run).await.text_so_far(), "Shown");
    assert_eq!(texts(&session.history().await.unwrap()), ["Go.", "Shown [cut]"]);
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_fails_while_text_streams_stops_the_run_and_not_only_at_its_next_fact() {
    let journal = memory();
    let drip = || vec![Act::text("drip "), Act::Pause(millis(20))];
    let session = scripted_on(&journal, [answer((0..1_000).map(|_| drip()))]).open();
    let run = start_until_shown(&session, "Drip.", "drip").await;
    journal.fail(disk_full());
    let failed = Instant::now();
    assert_stalled(&run).await;
    assert!(failed.elapsed() <= millis(200), "{:?} of text were shown that nobody can keep", failed.elapsed());
    journal.heal();
    assert_failed_later(&session, &run).await;
}

#[tokio::test(start_paused = true)]
async fn the_next_prompt_waits_for_a_run_that_cannot_be_recorded_and_is_told_what_it_said() {
    let journal = memory();
    let model = ScriptedModel::new([calls(&[("p", "pay")]), says("Paid once.")]);
    let log = ToolLog::new();
    let builder = Agent::builder().model(model.clone()).runtime(&runtime_on(&journal));
    let session = builder.tool(tools::slow("pay", secs(1), &log)).open();
    let run = start_until_tool(&session, "Pay.", "p").await;
    journal.fail(disk_full());
    assert_stalled(&run).await;
    let refused = session.run("Did you pay?").await.unwrap();
    assert!(
        matches!(&*refused.ending, Ending::Failed(failure) if failure.message.ends_with("the run was not started"))
    );
    assert_eq!(model.calls(), 1, "no model is called that would not know");

    journal.heal();
    let next = session.run("Did you pay?").await.unwrap();
    assert_eq!(next.text_so_far(), "Paid once.");
    assert_eq!(log.started(), 1);
    let asked = model.requests().pop().unwrap();
    assert_eq!(result_of(&asked.history.to_vec(), "p").status, ResultStatus::Ok, "the model is told of the payment");
    assert_failed_later(&session, &run).await;
}

/// Checks P6: a run that can never be written does not affect others.
#[tokio::test(start_paused = true)]
async fn a_run_that_can_never_be_written_keeps_no_other_one_waiting() {
    let poisoned = Arc::<Mutex<Option<RunId>>>::default();
    let refused = Arc::clone(&poisoned);
    let journal = Faulty::new(move |batch| match refused.lock().as_ref() == Some(&batch.run) {
        true => Does::Refuses,
        false => Does::Takes,
    });
    let model = ScriptedModel::new([says_and_hangs("One"), says_and_hangs("Two")]);
    let session = Agent::builder().model(model).runtime(&journal.runtime()).open();
    let elsewhere = session.agent().session(LOCAL, "elsewhere").unwrap();
    let first = start_until_shown(&session, "Go.", "One").await;
    let second = start_until_shown(&elsewhere, "Go.", "Two").await;
    journal.journal.fail(disk_full());
    for run in [&first, &second] {
        run.cancel(Cancel::graceful());
        assert_stalled(run).await;
    }
    *poisoned.lock() = Some(first.id().clone());
    journal.journal.heal();
    cancelled(&elsewhere, &second).await;
    assert_stalled(&first).await;
    *poisoned.lock() = None;
    cancelled(&session, &first).await;
}

/// Checks P6: settling may take as long as the disk does, and the caller's runtime need not last that long.
#[test]
fn a_run_that_is_being_settled_is_not_lost_with_its_callers_runtime() {
    let journal = Faulty::once(is_answer);
    journal.hold_claims();
    let runtime = Runtime::builder().journal(Arc::clone(&journal)).build();
    let session = Agent::builder().model(ScriptedModel::new([says("Said.")])).runtime(&runtime).open();
    let tokio_runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let gone = tokio_runtime();
    let run = gone.block_on(async {
        let run = session.start("Go.").unwrap();
        journal.until_a_claim_is_held().await;
        run
    });
    drop(gone);
    journal.let_claims_through();
    tokio_runtime().block_on(async {
        let outcome = tokio::time::timeout(secs(60), settled(&session, &run)).await.expect("it settles");
        assert!(matches!(*outcome.ending, Ending::Completed { .. }), "its answer was whole: {:?}", outcome.ending);
        assert_eq!(texts(&session.history().await.unwrap()), ["Go.", "Said."]);
    });
}

/// Checks P7: what was heard while one try failed is part of the next.
#[tokio::test(start_paused = true)]
async fn a_request_that_came_after_a_write_that_was_denied_and_done_is_on_record() {
    let batches = AtomicUsize::new(0);
    let is_or_ends = |entry: &Entry| is_answer(entry) || is_end(entry);
    let journal = Faulty::new(move |batch| {
        let is_counted = batch.entries.iter().any(is_or_ends);
        match is_counted.then(|| batches.fetch_add(1, Ordering::SeqCst)) {
            Some(0) => Does::TakesAndDenies,
            Some(1) => Does::Refuses,
            _ => Does::Takes,
        }
    });
    journal.hold_claims();
    let log = ToolLog::new();
    let builder = Agent::builder().model(ScriptedModel::new([calls(&[("a", "look")])])).runtime(&journal.runtime());
    let session = builder.tool(tools::quick("look", &log)).open();
    let run = session.start("Go.").unwrap();
    journal.until_a_claim_is_held().await;
    let reply = run.cancel(Cancel::graceful().by("ada"));
    assert_eq!(reply.kind().as_str(), "accepted");
    journal.let_claims_through();
    let outcome = cancelled(&session, &run).await;
    assert_eq!((outcome.receipt.by.as_deref(), log.started()), (Some("ada"), 0));
    assert_eq!(check_stored(&journal.journal.durable().stored(run.id()).unwrap()), Vec::<String>::new());
}

/// Checks P7: a run that is given up at a shutdown has not settled, and does not say so.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_left_to_recovery_does_not_say_that_it_has_settled() {
    let journal = memory();
    let runtime = runtime_on(&journal);
    let session = Agent::builder().model(ScriptedModel::new([says_and_hangs("Shown")])).runtime(&runtime).open();
    let run = start_until_shown(&session, "Go.", "Shown").await;
    journal.fail(disk_full());
    assert_eq!(runtime.shutdown(secs(10)).await, Ok(()));
    assert_eq!(run.state(), RunState::Running);
    assert_eq!((run.try_outcome(), run.stalled()), (None, Some(disk_full())));
    assert!(matches!(*run.outcome().await.ending, Ending::Failed(_)), "whoever waits for it is told what is known");
    assert_eq!(runtime.parked(), [run.id().clone()]);
}

/// Checks P7: a run that recovery has not reached does not count as settled.
#[tokio::test(start_paused = true)]
async fn what_recovery_could_not_settle_can_be_cancelled() {
    let journal = memory();
    let session = scripted_on(&journal, [says_and_hangs("Shown")]).open();
    let run = start_until_shown(&session, "Go.", "Shown").await;

    let after_a_crash = TestJournal::new(journal.durable(), None);
    let runtime = next_runtime_on(&after_a_crash);
    after_a_crash.fail(disk_full());
    assert_eq!(runtime.recover().await, Err(disk_full()));
    assert_eq!(runtime.parked(), [run.id().clone()]);
    assert!(runtime.cancel(run.id(), Cancel::graceful()).await.is_err(), "it is not reported as ended");
    after_a_crash.heal();
    runtime.cancel(run.id(), Cancel::graceful()).await.unwrap();
    let stored = after_a_crash.durable().stored(run.id()).unwrap();
    assert!(stored.end().is_some());
    assert_eq!(runtime.parked(), []);
}

#[tokio::test(start_paused = true)]
async fn a_tool_whose_intent_could_not_be_recorded_was_never_started_and_is_not_called_unknown() {
    let journal =
        Faulty::once(|entry| entry.fact().is_some_and(|record| matches!(record.event, Event::ToolStarted { .. })));
    let log = ToolLog::new();
    let builder = Agent::builder().model(ScriptedModel::new([calls(&[("a", "look")])])).runtime(&journal.runtime());
    let session = builder.tool(tools::quick("look", &log)).open();
    let run = session.start("Go.").unwrap();
    let outcome = assert_failed_later(&session, &run).await;
    assert_eq!(log.started(), 0);
    let verdicts: Vec<_> = outcome.receipt.calls.iter().map(|call| call.verdict).collect();
    assert_eq!(verdicts, [Verdict::NeverStarted]);
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_fails_once_under_streamed_text_leaves_a_session_that_goes_on() {
    let hiccup = Faulty::once(is_lump);
    let runtime = hiccup.runtime();
    let drip = |text: &str| vec![Act::text(text), Act::Pause(millis(60))];
    let model = ScriptedModel::new([answer([drip("One "), drip("two "), drip("three "), vec![Act::end()]])]);
    let session = Agent::builder().model(model).runtime(&runtime).open();
    let run = session.start("Count.").unwrap();
    let outcome = assert_failed_later(&session, &run).await;
    assert!(hiccup.has_refused());
    assert_eq!(outcome.text_so_far(), "One ", "all that was shown");
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn streamed_text_that_fails_late_fails_the_run_and_keeps_what_was_shown() {
    let held = HeldJournal::new(is_lump);
    let shared = Arc::clone(&held);
    let runtime = Runtime::builder().journal(shared).one_lane().clock(Arc::new(TestClock::new())).seed(1).build();
    let model = ScriptedModel::new([vec![Act::text("One "), Act::Pause(millis(40)), Act::text("two."), Act::end()]]);
    let session = Agent::builder().model(model.clone()).runtime(&runtime).open();
    let run = session.start("Count.").unwrap();
    held.until_a_batch_is_held().await;
    // The rest of the answer comes after the text that waits.
    tokio::time::sleep(secs(1)).await;
    assert_eq!((run.try_outcome(), model.open()), (None, 0));
    held.refuse(&disk_full());
    let outcome = settled(&session, &run).await;
    assert_eq!(outcome.text_so_far(), "One two.");
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn usage_that_is_reported_while_the_disk_stalls_is_kept_also_if_the_disk_then_fails() {
    let held = HeldJournal::new(is_lump);
    let shared = Arc::clone(&held);
    let runtime = Runtime::builder().journal(shared).one_lane().clock(Arc::new(TestClock::new())).seed(1).build();
    let answer = vec![Act::text("One "), Act::Pause(millis(90)), Act::usage(40, 3), Act::Silence];
    let session = Agent::builder().model(ScriptedModel::new([answer])).runtime(&runtime).open();
    let run = session.start("Count.").unwrap();
    held.until_a_batch_is_held().await;
    // By now text would have to wait for the disk.
    tokio::time::sleep(secs(1)).await;
    held.refuse(&disk_full());
    let usage = assert_failed_later(&session, &run).await.usage;
    assert_eq!((usage.delivered.input.value, usage.delivered.output.value), (Some(40), Some(3)));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_nobody_could_settle_before_the_program_ended_is_settled_by_the_next_one() {
    let journal = memory();
    let session = scripted_on(&journal, [says_and_hangs("Shown")]).open();
    let run = start_until_shown(&session, "Go.", "Shown").await;
    journal.fail(disk_full());
    session.agent().runtime().shutdown(secs(10)).await.expect("a full disk does not keep a program from exiting");
    let ending = Arc::clone(&run.outcome().await.ending);
    let message = "the journal could not be written: disk full; the run was stopped, and its record will be completed \
                   by recovery";
    assert_eq!(*ending, Ending::Failed(Failure::new(FailureKind::Journal, message.to_owned())));

    let (next, _) = next_process(&journal, &session).await;
    let found = next.agent().runtime().find(run.id()).await.unwrap().unwrap();
    assert_eq!(*found.try_outcome().unwrap().ending, Ending::Lost);
    assert_usable(&next).await;
}

#[tokio::test(start_paused = true)]
async fn many_runs_that_one_full_disk_stalled_all_settle_when_there_is_room() {
    let journal = memory();
    let agent = scripted_on(&journal, (0..100).map(|_| says_and_hangs("Shown"))).open();
    let sessions: Vec<Session> =
        (0..100).map(|number| agent.agent().session(LOCAL, format!("s{number}")).unwrap()).collect();
    let runs: Vec<Run> = sessions.iter().map(|session| session.start("Go.").unwrap()).collect();
    for run in &runs {
        until_shown(run, "Shown").await;
    }
    journal.fail(disk_full());
    for run in &runs {
        run.cancel(Cancel::graceful());
    }
    for run in &runs {
        assert_stalled(run).await;
    }
    journal.heal();
    let healed = Instant::now();
    for (session, run) in sessions.iter().zip(&runs) {
        cancelled(session, run).await;
    }
    assert!(healed.elapsed() <= secs(2), "they follow the first at once: {:?}", healed.elapsed());
    agent.agent().runtime().idle().await;
    assert_eq!(agent.agent().runtime().tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_on_record_starts_no_run_and_leaves_no_prompt_behind() {
    let journal = memory();
    let model = ScriptedModel::new([says("First.")]);
    let session = Agent::builder().model(model.clone()).runtime(&runtime_on(&journal)).open();
    let id = RunId::new("mine").unwrap();
    session.prompt("One.").run_id(id.clone()).run().await.unwrap();
    let stored = journal.durable().stored(&id).unwrap().entries;

    let again = session.prompt("Two.").run_id(id.clone()).run().await.unwrap();
    let message = format!("{}; the run was not started", JournalError::RunExists(id.clone()));
    assert_eq!(*again.ending, Ending::Failed(Failure::new(FailureKind::Journal, message)));
    assert_eq!(model.calls(), 1);
    assert_eq!(journal.durable().stored(&id).unwrap().entries, stored);
    let history = session.history().await.unwrap();
    assert_eq!(texts(&history), ["One.", "First."]);
    assert_eq!(history, journal.durable().history(session.key()).await.unwrap());
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_fails_once_under_an_answer_fails_that_run_and_the_next_prompt_works() {
    let hiccup = Faulty::once(is_answer);
    let runtime = hiccup.runtime();
    let log = ToolLog::new();
    let builder = Agent::builder().model(ScriptedModel::new([calls(&[("a", "look")])])).runtime(&runtime);
    let session = builder.tool(tools::quick("look", &log)).open();
    let run = session.start("First.").unwrap();
    assert_failed_later(&session, &run).await;
    assert_eq!(log.started(), 0, "no effect without its intent on record");
    assert_usable(&session).await;

    let (next, _) = next_process(&hiccup.journal, &session).await;
    let found = next.agent().runtime().find(run.id()).await.unwrap().unwrap();
    assert_eq!(*found.try_outcome().unwrap().ending, failed_by_the_journal(), "what was told is what is on record");
    assert_usable(&next).await;
}

// ---- a disk that stalls ----

/// An agent on a disk that takes ten seconds for each append.
fn stalling(model: &ScriptedModel) -> (Session, TestJournal) {
    let journal = TestJournal::slow(None, secs(10));
    (Agent::builder().model(model.clone()).runtime(&runtime_on(&journal)).open(), journal)
}

#[tokio::test(start_paused = true)]
async fn a_pull_takes_effect_at_once_although_the_disk_stalls() {
    let model = ScriptedModel::new([vec![Act::text("Shown "), Act::Pause(millis(10)), Act::Flood("more ", 100)]]);
    let (session, _) = stalling(&model);
    let run = start_until_shown(&session, "Go.", "Shown").await;
    let pulled = Instant::now();
    let reply = run.cancel(Cancel::graceful());
    let at_the_pull = run.passed();
    settle_down().await;
    assert_eq!((pulled.elapsed(), model.open()), (secs(0), 0), "the connection does not wait for the disk");
    assert!(run.try_outcome().is_none(), "the outcome does");
    assert_eq!(reply.recorded().await, Ok(()));
    assert!(pulled.elapsed() >= secs(10));
    assert_eq!(cancelled(&session, &run).await.text_so_far(), "Shown ");
    assert_eq!(run.passed(), at_the_pull);
}

#[tokio::test(start_paused = true)]
async fn a_pull_while_a_fact_waits_for_the_stalling_disk_lets_no_model_be_called() {
    let model = ScriptedModel::new([]);
    let (session, _) = stalling(&model);
    let run = session.start("Go.").unwrap();
    settle_down().await;
    stop(&session, &run, Cancel::graceful()).await;
    assert_eq!((model.calls(), run.passed().models), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_pull_while_a_tools_intent_waits_for_the_stalling_disk_lets_no_tool_start() {
    let log = ToolLog::new();
    let journal = TestJournal::slow(None, secs(10));
    let model = ScriptedModel::new([calls(&[("a", "look")])]);
    let builder = Agent::builder().model(model.clone()).runtime(&runtime_on(&journal));
    let session = builder.tool(tools::quick("look", &log)).open();
    let run = session.start("Go.").unwrap();
    while model.calls() == 0 || model.open() > 0 {
        tokio::time::sleep(millis(1)).await;
    }
    settle_down().await;
    stop(&session, &run, Cancel::graceful()).await;
    assert_eq!((log.started(), run.passed().tools), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_tool_gets_its_grace_and_no_more_although_the_disk_stalls() {
    let log = ToolLog::new();
    let journal = TestJournal::slow(None, secs(10));
    let builder = scripted_on(&journal, [calls(&[("m", "mule")])]);
    let session = builder.tool(tools::stubborn("mule", secs(600), &log)).open();
    let run = start_until_tool(&session, "Go.", "m").await;
    run.cancel(Cancel::graceful());
    tokio::time::sleep(millis(501)).await;
    assert_eq!((log.running(), run.try_outcome().is_none()), (0, true));
    cancelled(&session, &run).await;
}

#[tokio::test(start_paused = true)]
async fn showing_waits_once_fifty_milliseconds_of_text_are_not_durable_and_then_goes_on() {
    let drip = || vec![Act::text("."), Act::Pause(millis(10))];
    let model = ScriptedModel::new([answer((0..20).map(|_| drip()).chain([vec![Act::end()]]))]);
    let (session, _) = stalling(&model);
    let run = start_until_shown(&session, "Drip.", ".").await;
    tokio::time::sleep(secs(9)).await;
    let shown = usize::try_from(run.passed().pieces).unwrap();
    assert!((5..=6).contains(&shown), "{shown} pieces were shown in the first 50 ms and none after");
    assert_eq!(settled(&session, &run).await.text_so_far(), ".".repeat(20));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_kept_while_the_disk_stalls() {
    let model = ScriptedModel::new([]);
    let (session, _) = stalling(&model);
    let limits = andon_runtime::Limits::new().deadline(secs(3));
    let run = session.prompt("Go.").limits(limits).start().unwrap();
    cancelled_because(&session, &run, andon_runtime::Reason::Deadline).await;
    assert_eq!(model.calls(), 0);
}
