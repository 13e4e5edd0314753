//! After a crash every run is settled, open calls are unknown, nothing is run again, and the session goes on (P10).

use std::sync::mpsc::{Receiver, Sender, channel};

use andon_runtime::core::event::Entry;
use andon_runtime::core::event::ModelEnd;
use andon_runtime::core::message::{Cut, Part};
use andon_runtime::core::usage::{Figure, Provenance};
use andon_runtime::{
    Answer, AnswerDecision, JournaledRun, Lesson, Meter, MeteredCall, Model, ModelLayer, ModelRequest, Probe,
    Recovered, ResultDecision, RunDecision, Usage, Used,
};
use andon_testkit::ScriptedMeter;
use andon_testkit::check::{check_last_words, check_stored, read_all};
use andon_testkit::wire::check_history;
use parking_lot::Mutex;

use crate::common::*;

/// The first process: its journal and an agent on it.
fn first_process(model: &ScriptedModel) -> (TestJournal, AgentBuilder) {
    let journal = memory();
    let builder = Agent::builder().model(model.clone()).runtime(&runtime_on(&journal));
    (journal, builder)
}

/// The process dies, and another one recovers what is durable.
struct Next {
    runtime: Runtime,
    recovered: Vec<Recovered>,
    session: Session,
    model: ScriptedModel,
    tools: ToolLog,
}

async fn crash(journal: &TestJournal, session: &Session) -> Next {
    journal.crash();
    let runtime = next_runtime_on(&TestJournal::new(journal.durable(), None));
    let recovered = runtime.recover().await.unwrap();
    let (model, tools) = (ScriptedModel::new([]), ToolLog::new());
    let builder = Agent::builder().model(model.clone()).runtime(&runtime);
    let next = builder.tool(tools::quick("look", &tools)).build().unwrap();
    let session = next.session_by_key(session.key()).unwrap();
    Next { runtime, recovered, session, model, tools }
}

impl Next {
    /// The run as the new process finds it, with every promise checked.
    async fn find(&self, run: &Run) -> Run {
        let found = self.runtime.find(run.id()).await.unwrap().unwrap();
        let history = self.session.history().await.unwrap();
        assert_nothing_lost(&found, &history).await;
        assert_eq!(check_history(&history), Vec::<String>::new());
        found
    }

    fn endings(&self) -> Vec<Ending> {
        self.recovered.iter().filter_map(|recovered| recovered.fate.ending()).map(|ending| (**ending).clone()).collect()
    }

    async fn assert_usable_and_nothing_was_rerun(&self) {
        assert_eq!((self.model.calls(), self.tools.started()), (0, 0), "recovery runs nothing");
        assert_usable(&self.session).await;
        assert_eq!((self.model.calls(), self.tools.started()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_in_the_middle_of_text_keeps_what_was_durable_and_the_run_is_lost() {
    let (journal, builder) = first_process(&ScriptedModel::new([says_and_hangs("Half an answer")]));
    let session = builder.open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    tokio::time::sleep(millis(50)).await;

    let next = crash(&journal, &session).await;
    assert_eq!(next.endings(), [Ending::Lost]);
    let found = next.find(&run).await;
    let expected = Message::new(Role::Assistant, vec![Part::text("Half an answer")]).cut(Cut::Lost);
    assert_eq!(found.outcome().await.message.as_deref(), Some(&expected));
    assert_eq!(found.outcome().await.usage.delivered.output.value, None, "unknown is not zero");
    assert_eq!(count(&found, |event| matches!(event, Event::ModelFinished { end: ModelEnd::Lost, .. })), 1);
    next.assert_usable_and_nothing_was_rerun().await;
    let sent = next.model.requests()[0].prompt();
    let note = "[Your previous answer broke off because the program ended, and is incomplete.]";
    assert!(sent.last().unwrap().text().starts_with(note), "{sent:#?}");
}

/// A run whose model had said how much it read and who it is, and "Half an answer", when its process died.
async fn cut_by_a_crash() -> (TestJournal, Run) {
    let answer = vec![Act::usage(12, 0), Act::text("Half an answer"), Act::Silence];
    let (journal, builder) = first_process(&ScriptedModel::new([answer]));
    let session = builder.name("a").build().unwrap().session(LOCAL, "s").unwrap();
    let run = start_until_shown(&session, "Go.", "Half").await;
    let is_durable = |stored: JournaledRun| stored.entries.iter().any(|entry| matches!(entry, Entry::Lump(_)));
    while !journal.durable().stored(run.id()).is_some_and(is_durable) {
        tokio::task::yield_now().await;
    }
    journal.crash();
    (TestJournal::new(journal.durable(), None), run)
}

#[tokio::test]
async fn what_a_call_used_that_a_crash_cut_is_estimated_from_what_is_on_record() {
    let (journal, run) = cut_by_a_crash().await;
    let runtime = next_runtime_on(&journal);
    let model = ScriptedModel::new([]).metered(&Arc::new(ScriptedMeter::unprepared()));
    let _agent = Agent::builder().name("a").model(model).runtime(&runtime).open();
    runtime.recover().await.unwrap();
    runtime.idle().await;
    let receipt = runtime.find(run.id()).await.unwrap().unwrap().receipt().unwrap();
    let account = &receipt.model_calls[0];
    assert_eq!((account.pending, receipt.revision), (None, 1));
    assert_eq!(account.usage.delivered.input.value, Some(12), "what the provider has said stays");
    let output = account.usage.delivered.output;
    assert_eq!((output.value, output.provenance), (Some(4), Provenance::Estimated));
    assert_eq!(receipt.usage.delivered.output, output, "the sum has it, too");
    assert_eq!(check_last_words(&journal.durable().stored(run.id()).unwrap()), Vec::<String>::new());
}

/// A meter that is never prepared.
struct Stuck(Arc<ScriptedMeter>, Mutex<Receiver<()>>);

impl Meter for Stuck {
    fn cut(&self, call: &MeteredCall<'_>, known: Usage) -> Used {
        self.0.cut(call, known)
    }

    fn prepare(&self, _: &MeteredCall<'_>) {
        // Until the test ends.
        let _ = self.1.lock().recv();
    }

    fn learn(&self, call: &MeteredCall<'_>, reported: Usage) -> Vec<Lesson> {
        self.0.learn(call, reported)
    }

    fn recall(&self, lessons: Vec<Lesson>) -> Vec<Lesson> {
        self.0.recall(lessons)
    }
}

struct StuckModel(ScriptedModel, Arc<Stuck>);

impl Model for StuckModel {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        self.0.call(request)
    }

    fn meter(&self) -> Option<Arc<dyn Meter>> {
        Some(Arc::clone(&self.1) as Arc<dyn Meter>)
    }
}

#[tokio::test]
async fn an_estimate_that_a_second_crash_came_before_is_made_by_the_process_after_it() {
    let (journal, run) = cut_by_a_crash().await;
    let (runtime, _session, end) = with_a_stuck_meter(&journal);
    runtime.recover().await.unwrap();
    journal.crash();

    let journal = TestJournal::new(journal.durable(), None);
    let runtime = next_runtime_on(&journal);
    runtime.recover().await.unwrap();
    assert!(runtime.find(run.id()).await.unwrap().unwrap().receipt().unwrap().model_calls[0].pending.is_some());
    let model = ScriptedModel::new([]).metered(&Arc::default());
    let _agent = Agent::builder().name("a").model(model).runtime(&runtime).open();
    // The agent was not there the first time.
    for _ in 0..2 {
        runtime.recover().await.unwrap();
        runtime.idle().await;
        let receipt = runtime.find(run.id()).await.unwrap().unwrap().receipt().unwrap();
        let account = &receipt.model_calls[0];
        assert_eq!((account.pending, receipt.revision), (None, 1));
        assert_eq!(account.usage.delivered.output.value, Some(4));
    }
    assert_eq!(runtime.shelf().kept("lost_call").await.unwrap(), []);
    drop(end);
}

/// Asserts that a process with an agent that can estimate the lost call does so, and that nothing is left to do.
async fn assert_estimated_next(journal: &TestJournal, run: &Run) {
    let runtime = next_runtime_on(journal);
    let model = ScriptedModel::new([]).metered(&Arc::default());
    let _agent = Agent::builder().name("a").model(model).runtime(&runtime).open();
    runtime.recover().await.unwrap();
    runtime.idle().await;
    let receipt = runtime.find(run.id()).await.unwrap().unwrap().receipt().unwrap();
    let account = &receipt.model_calls[0];
    assert_eq!((account.pending, account.usage.delivered.output.value), (None, Some(4)), "{account:?}");
    assert_eq!(runtime.shelf().kept("lost_call").await.unwrap(), []);
}

/// The runtime of a later process, with an agent whose meter is stuck until the sender is dropped.
fn with_a_stuck_meter(journal: &TestJournal) -> (Runtime, Session, Sender<()>) {
    let (end, never) = channel();
    let runtime = next_runtime_on(journal);
    let stuck = StuckModel(ScriptedModel::new([]), Arc::new(Stuck(Arc::default(), Mutex::new(never))));
    let session = Agent::builder().name("a").model(stuck).runtime(&runtime).open();
    (runtime, session, end)
}

#[tokio::test]
async fn an_estimate_that_a_shutdown_came_before_is_made_by_the_process_after_it() {
    let (journal, run) = cut_by_a_crash().await;
    let (runtime, _session, end) = with_a_stuck_meter(&journal);
    runtime.recover().await.unwrap();
    assert_eq!(runtime.shutdown(millis(200)).await, Err(1), "the meter's thread");
    drop(end);
    runtime.idle().await;
    assert_estimated_next(&TestJournal::new(journal.durable(), None), &run).await;
}

#[tokio::test]
async fn an_estimate_without_a_conversation_to_read_is_made_once_it_can_be_read() {
    let (journal, run) = cut_by_a_crash().await;
    journal.hide_history(Some(JournalError::Storage("busy".into())));
    let runtime = next_runtime_on(&journal);
    let model = ScriptedModel::new([]).metered(&Arc::default());
    let _agent = Agent::builder().name("a").model(model).runtime(&runtime).open();
    let account = async || {
        runtime.recover().await.unwrap();
        runtime.idle().await;
        runtime.find(run.id()).await.unwrap().unwrap().receipt().unwrap().model_calls[0].clone()
    };
    assert!(account().await.pending.is_some());
    journal.hide_history(None);
    let estimated = account().await;
    assert_eq!((estimated.pending, estimated.usage.delivered.output.value), (None, Some(4)));
}

/// Panics when the driver is polled, once it is armed.
#[derive(Default)]
struct PanicOnPoll(AtomicBool);

impl Probe for PanicOnPoll {
    fn hit(&self, seam: &'static str) {
        assert!(seam != "driver: poll" || !self.0.swap(false, Ordering::SeqCst), "on purpose");
    }
}

#[tokio::test]
async fn an_estimate_for_a_run_whose_driver_panicked_survives_a_crash() {
    let (journal, probe) = (memory(), Arc::new(PanicOnPoll::default()));
    let builder = Runtime::builder().journal(Arc::new(journal.clone())).one_lane().clock(Arc::new(TestClock::new()));
    let runtime = builder.seed(1).probe(Arc::clone(&probe) as Arc<dyn Probe>).build();
    let (end, never) = channel();
    let model = ScriptedModel::new([vec![Act::usage(12, 0), Act::text("Half an answer"), Act::Silence]]);
    let stuck = StuckModel(model, Arc::new(Stuck(Arc::default(), Mutex::new(never))));
    let session = Agent::builder().name("a").model(stuck).runtime(&runtime).open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    probe.0.store(true, Ordering::SeqCst);
    run.cancel(Cancel::graceful());
    assert!(run.outcome().await.receipt.model_calls[0].pending.is_some());
    runtime.recover().await.unwrap();
    journal.crash();
    assert_estimated_next(&TestJournal::new(journal.durable(), None), &run).await;
    drop(end);
}

#[tokio::test]
async fn an_estimate_for_a_run_whose_driver_panicked_leaves_nothing_to_do() {
    let (journal, probe) = (memory(), Arc::new(PanicOnPoll::default()));
    let builder = Runtime::builder().journal(Arc::new(journal.clone())).one_lane().clock(Arc::new(TestClock::new()));
    let runtime = builder.seed(1).probe(Arc::clone(&probe) as Arc<dyn Probe>).build();
    let model = ScriptedModel::new([vec![Act::text("Half an answer"), Act::Silence]]).metered(&Arc::default());
    let session = Agent::builder().name("a").model(model).runtime(&runtime).open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    probe.0.store(true, Ordering::SeqCst);
    run.cancel(Cancel::graceful());
    let receipt = run.last_word().await.unwrap();
    let account = &receipt.model_calls[0];
    assert_eq!((account.pending, account.usage.delivered.output.value), (None, Some(4)));
    runtime.idle().await;
    assert_eq!(runtime.shelf().kept("lost_call").await.unwrap(), []);
}

#[tokio::test]
async fn a_lost_call_whose_agent_has_not_come_back_for_a_month_is_no_longer_looked_at() {
    let (journal, run) = cut_by_a_crash().await;
    next_runtime_on(&journal).recover().await.unwrap();
    assert_eq!(journal.shelf().kept("lost_call").await.unwrap().len(), 1);
    let clock = Arc::new(TestClock::days_later(32));
    let runtime = Runtime::builder().journal(Arc::new(journal.clone())).one_lane().clock(clock).seed(3).build();
    runtime.recover().await.unwrap();
    assert_eq!(journal.shelf().kept("lost_call").await.unwrap(), []);
    assert_eq!(runtime.find(run.id()).await.unwrap().unwrap().receipt().unwrap().revision, 0);
}

#[tokio::test]
async fn a_call_that_a_crash_cut_is_estimated_once_there_is_an_agent_that_asked_it() {
    let (journal, run) = cut_by_a_crash().await;
    let account = async |runtime: &Runtime| {
        runtime.recover().await.unwrap();
        runtime.idle().await;
        runtime.find(run.id()).await.unwrap().unwrap().receipt().unwrap().model_calls[0].clone()
    };
    // Neither an agent of another model nor none at all can estimate it.
    let runtime = next_runtime_on(&journal);
    let other = Renamed(ScriptedModel::new([]).metered(&Arc::default()));
    let other = Agent::builder().name("a").model(other).runtime(&runtime).open();
    assert_eq!(account(&runtime).await.usage.delivered.output, Figure::UNKNOWN);
    drop(other);
    assert_eq!(account(&runtime).await.usage.delivered.output, Figure::UNKNOWN);
    journal.crash();

    let journal = TestJournal::new(journal.durable(), None);
    let runtime = next_runtime_on(&journal);
    let model = ScriptedModel::new([]).metered(&Arc::default());
    let _agent = Agent::builder().name("a").model(model).runtime(&runtime).open();
    assert_eq!(account(&runtime).await.usage.delivered.output.value, Some(4));
    assert_eq!(runtime.shelf().kept("lost_call").await.unwrap(), []);
}

#[tokio::test]
async fn a_call_that_a_crash_cut_says_who_answered_it() {
    let (journal, run) = cut_by_a_crash().await;
    let runtime = next_runtime_on(&journal);
    runtime.recover().await.unwrap();
    let account = runtime.find(run.id()).await.unwrap().unwrap().receipt().unwrap().model_calls[0].clone();
    assert_eq!((account.answered_by.as_deref(), account.request_id.as_deref()), (Some("scripted-1"), Some("req-1")));
    assert_eq!(account.pending, None, "without the agent, nobody can estimate it");
    assert_eq!(account.usage.delivered.output, Figure::UNKNOWN);
}

/// A model of another name.
struct Renamed(ScriptedModel);

impl ModelLayer for Renamed {
    fn inner(&self) -> &dyn Model {
        &self.0
    }

    fn name(&self) -> &str {
        "another"
    }
}

#[tokio::test]
async fn an_agent_that_asks_another_model_now_does_not_estimate_what_the_earlier_one_used() {
    let (journal, run) = cut_by_a_crash().await;
    let runtime = next_runtime_on(&journal);
    let other = Renamed(ScriptedModel::new([]).metered(&Arc::default()));
    let _agent = Agent::builder().name("a").model(other).runtime(&runtime).open();
    runtime.recover().await.unwrap();
    runtime.idle().await;
    let receipt = runtime.find(run.id()).await.unwrap().unwrap().receipt().unwrap();
    assert_eq!((receipt.revision, receipt.usage.delivered.output), (0, Figure::UNKNOWN));
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_millisecond_loses_at_most_the_last_fifty_of_what_was_shown() {
    for at in (1..200).step_by(7) {
        let drip = (0..400).flat_map(|_| [Act::text("."), Act::Pause(millis(1))]).collect();
        let (journal, builder) = first_process(&ScriptedModel::new([drip]));
        let session = builder.open();
        let run = session.start("Drip.").unwrap();
        tokio::time::sleep(millis(at)).await;
        let shown = run.passed().pieces;
        let next = crash(&journal, &session).await;
        let kept = next.find(&run).await.outcome().await.text_so_far().len() as u64;
        assert!(kept <= shown && shown - kept <= 50, "{kept} of {shown} after {at} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_was_acknowledged_survives_the_crash() {
    let log = ToolLog::new();
    let (journal, builder) = first_process(&ScriptedModel::new([calls(&[("m", "mule")])]));
    let session = builder.tool(tools::stubborn("mule", secs(60), &log)).open();
    let run = start_until_tool(&session, "Go.", "m").await;
    let reply = run.cancel(Cancel::graceful().by("ada").note("stop button"));
    assert_eq!(reply.recorded().await, Ok(()));

    let next = crash(&journal, &session).await;
    assert_eq!(next.endings(), [Ending::Cancelled { reason: Reason::Requested }]);
    let receipt = next.find(&run).await.receipt().unwrap();
    assert_eq!((receipt.by.as_deref(), receipt.note.as_deref()), (Some("ada"), Some("stop button")));
    assert_eq!(receipt.calls[0].verdict, Verdict::Unknown);
    assert_eq!(receipt.took.settled_us, None, "two processes have two clocks");
    next.assert_usable_and_nothing_was_rerun().await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_ran_at_the_crash_is_unknown_and_never_run_again() {
    let log = ToolLog::new();
    let (journal, builder) =
        first_process(&ScriptedModel::new([calls(&[("a", "quick"), ("b", "look"), ("c", "quick")])]));
    let session =
        builder.tool(tools::quick("quick", &log)).tool(tools::slow("look", secs(60), &log)).sequential_tools().open();
    let run = start_until_tool(&session, "Look.", "b").await;

    let next = crash(&journal, &session).await;
    assert_eq!(next.endings(), [Ending::Lost]);
    let found = next.find(&run).await;
    let history = next.session.history().await.unwrap();
    let statuses = ["a", "b", "c"].map(|call| result_of(&history, call).status);
    assert_eq!(statuses, [ResultStatus::Ok, ResultStatus::Unknown, ResultStatus::Refused]);
    let refused: Vec<_> = found.receipt().unwrap().calls.iter().map(|account| account.refused).collect();
    assert_eq!(refused, [None, None, Some(Refusal::Lost)]);
    next.assert_usable_and_nothing_was_rerun().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_in_a_back_off_or_a_hook_ends_it_on_record() {
    let busy = vec![Act::Fail(andon_runtime::ModelError::retry_after(secs(60), "429"))];
    let (journal, builder) = first_process(&ScriptedModel::new([busy]));
    let session = builder.open();
    let run = start_until(&session, "Go.", |event| matches!(event, Event::BackoffStarted { .. })).await;
    let next = crash(&journal, &session).await;
    assert_eq!(count(&next.find(&run).await, |event| matches!(event, Event::BackoffFinished)), 1);
    next.assert_usable_and_nothing_was_rerun().await;

    let (journal, builder) = first_process(&ScriptedModel::new([]));
    let session = builder.before_model(|_| std::future::pending::<()>()).open();
    let run = start_until(&session, "Go.", |event| matches!(event, Event::HookStarted { .. })).await;
    let next = crash(&journal, &session).await;
    assert_eq!(count(&next.find(&run).await, |event| matches!(event, Event::HookFinished { .. })), 1);
    next.assert_usable_and_nothing_was_rerun().await;
}

/// Two hooks at one moment: the first changes what it sees, and the process dies while the second waits. Returns the conversation
/// in the next process, and the run there.
async fn crash_after_a_change(
    answers: Vec<Vec<Act>>,
    hooks: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> (Vec<Arc<Message>>, Run) {
    let (journal, builder) = first_process(&ScriptedModel::new(answers));
    let session = hooks(builder.tool(tools::quick("slow", &ToolLog::new()))).open();
    let is_changed = |event: &Event| matches!(event, Event::HookFinished { change: Some(_), .. });
    let run = start_until(&session, "Go.", is_changed).await;
    settle_down().await;
    let next = crash(&journal, &session).await;
    let found = next.find(&run).await;
    assert_eq!(*found.outcome().await.ending, Ending::Lost);
    let history = next.session.history().await.unwrap();
    assert_nothing_lost(&found, &history).await;
    next.assert_usable_and_nothing_was_rerun().await;
    (history, found)
}

#[tokio::test(start_paused = true)]
async fn what_a_hook_changed_holds_after_a_crash_that_came_before_its_effect() {
    let wait = || std::future::pending::<()>();
    let (history, _) = crash_after_a_change(vec![says("Done.")], |agent| {
        let changed = || RunDecision::ChangeInput(Message::user("Changed."));
        agent.before_run(move |_| changed()).before_run(move |_| wait())
    })
    .await;
    assert_eq!(history, [Arc::new(Message::user("Changed."))]);

    let (history, _) = crash_after_a_change(vec![says("Done.")], |agent| {
        agent.after_model(|_| AnswerDecision::ReplaceText("Changed.".into())).after_model(move |_| wait())
    })
    .await;
    assert_eq!(history, [Message::user("Go."), Message::assistant("Changed.")].map(Arc::new));

    let (history, run) = crash_after_a_change(vec![calls(&[("c", "slow")])], |agent| {
        agent.before_tool(|_| CallDecision::ChangeArguments(json!({"n": 1}))).before_tool(move |_| wait())
    })
    .await;
    let account = &run.receipt().unwrap().calls[0];
    assert_eq!((account.refused, account.changed_by_hook), (Some(Refusal::Lost), true));
    assert_eq!(result_of(&history, "c").status, ResultStatus::Refused);

    let (history, _) = crash_after_a_change(vec![calls(&[("c", "slow")])], |agent| {
        agent.after_tool(|_| ResultDecision::replace("Changed.")).after_tool(move |_| wait())
    })
    .await;
    assert_eq!(result_of(&history, "c"), ToolResult::text(id("c"), ResultStatus::Ok, "Changed."));
}

#[tokio::test(start_paused = true)]
async fn recovering_again_changes_nothing_and_a_settled_run_is_left_alone() {
    let (journal, builder) = first_process(&ScriptedModel::new([says("Done."), says_and_hangs("Half")]));
    let session = builder.open();
    let done = session.start("First.").unwrap();
    done.outcome().await;
    let lost = start_until_shown(&session, "Second.", "Half").await;

    let next = crash(&journal, &session).await;
    let recovered: Vec<_> = next.recovered.iter().map(|recovered| recovered.run.clone()).collect();
    assert_eq!(recovered, [lost.id().clone()]);
    assert_eq!(next.find(&done).await.records(), done.records());
    let before = next.find(&lost).await.records();
    assert_eq!(next.runtime.recover().await.unwrap(), []);
    assert_eq!(next.find(&lost).await.records(), before);
    let reply = next.runtime.cancel(lost.id(), Cancel::now()).await.unwrap();
    assert_eq!(reply.too_late(), Some(&Ending::Lost));
}

#[tokio::test(start_paused = true)]
async fn the_writer_that_was_thought_dead_can_no_longer_write() {
    let journal = memory();
    let model = ScriptedModel::new([says_and_hangs("Half")]);
    let session = Agent::builder().model(model.clone()).runtime(&runtime_on(&journal)).open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    tokio::time::sleep(millis(50)).await;

    let other = next_runtime_on(&journal);
    assert_eq!(other.recover().await.unwrap()[0].fate.ending(), Some(&Arc::new(Ending::Lost)));
    run.cancel(Cancel::graceful());
    run.outcome().await;
    assert_eq!(model.open(), 0);
    let stored = journal.durable().stored(run.id()).unwrap();
    assert_eq!(check_stored(&stored), Vec::<String>::new(), "one terminal event");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_taken_over_is_not_told_as_cancelled_by_the_one_and_lost_by_the_other() {
    let journal = memory();
    let agent = Agent::builder().model(ScriptedModel::new([says_and_hangs("Half")])).runtime(&runtime_on(&journal));
    let session = agent.open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    let other = next_runtime_on(&journal);
    assert_eq!(other.recover().await.unwrap()[0].fate.ending(), Some(&Arc::new(Ending::Lost)));
    run.cancel(Cancel::graceful());
    assert_eq!(*run.outcome().await.ending, Ending::Lost, "as it is on record");
    assert!(session.agent().runtime().find_in_progress(run.id()).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_a_run_that_was_taken_over_is_told_that_it_is_not_on_record() {
    let journal = memory();
    let agent = Agent::builder().model(ScriptedModel::new([says_and_hangs("Half")])).runtime(&runtime_on(&journal));
    let session = agent.open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    next_runtime_on(&journal).recover().await.unwrap();
    let reply = run.cancel(Cancel::graceful());
    assert_eq!(reply.kind().as_str(), "accepted");
    assert!(reply.recorded().await.is_err());
    assert!(!journal.has(run.id(), |event| matches!(event, Event::CancelRequested { .. })));
}

#[tokio::test(start_paused = true)]
async fn recover_leaves_the_runs_alone_that_this_process_drives() {
    let (journal, builder) = first_process(&ScriptedModel::new([vec![
        Act::text("Half "),
        Act::Pause(secs(1)),
        Act::text("and half."),
        Act::end(),
    ]]));
    let session = builder.open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    assert_eq!(session.agent().runtime().recover().await.unwrap(), []);
    let outcome = settled(&session, &run).await;
    assert_eq!(*outcome.ending, Ending::Completed { stop: ModelStop::EndTurn });
    assert_eq!(outcome.text_so_far(), "Half and half.");
    assert_eq!(check_stored(&journal.durable().stored(run.id()).unwrap()), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_given_up_because_the_journal_failed_can_be_cancelled_once_the_journal_works_again() {
    let (journal, builder) = first_process(&ScriptedModel::new([says_and_hangs("Half")]));
    let session = builder.open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    journal.fail(JournalError::Storage("disk full".to_owned()));
    session.agent().runtime().shutdown(secs(10)).await.unwrap();
    assert_eq!(run.receipt(), Some(run.outcome().await.receipt.clone()));

    let runtime = session.agent().runtime();
    let refused = runtime.cancel(run.id(), Cancel::graceful()).await.unwrap_err();
    assert_eq!(refused, JournalError::Storage("disk full".to_owned()), "no answer says that it has ended");
    journal.heal();
    let reply = runtime.cancel(run.id(), Cancel::graceful()).await.unwrap();
    assert_eq!((reply.kind(), reply.recorded().await), (&ReplyKind::Accepted, Ok(())));
    let found = runtime.find(run.id()).await.unwrap().unwrap();
    assert_eq!(found.try_outcome().unwrap().stop_reason(), "cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_saw_more_than_survived_is_told_that_text_was_lost() {
    let (journal, builder) = first_process(&ScriptedModel::new([says_and_hangs("Never durable")]));
    let session = builder.open();
    let run = session.start("Go.").unwrap();
    let mut feed = run.feed();
    let seen = loop {
        match feed.next().await.unwrap() {
            FeedItem::Delta(delta) => break delta.at,
            FeedItem::Fact(_) | FeedItem::TextLost { .. } => {}
            #[cfg(not(andon_whole))]
            _ => {}
        }
    };
    let next = crash(&journal, &session).await;
    let mut rest = next.runtime.feed(run.id(), seen).await.unwrap().unwrap();
    let items = read_all(&mut rest).await;
    assert_eq!(items[0], FeedItem::TextLost { at: Cursor { byte: 0, ..seen } });
    let last = items.last().unwrap();
    assert!(matches!(last, FeedItem::Fact(record) if matches!(record.event, Event::RunSettled { .. })));
    next.assert_usable_and_nothing_was_rerun().await;
}

#[tokio::test(start_paused = true)]
async fn usage_that_was_reported_before_the_crash_is_kept() {
    let (journal, builder) =
        first_process(&ScriptedModel::new([vec![Act::usage(40, 3), Act::text("Half"), Act::Silence]]));
    let session = builder.open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    tokio::time::sleep(millis(50)).await;
    let next = crash(&journal, &session).await;
    let usage = next.find(&run).await.outcome().await.usage;
    assert_eq!((usage.delivered.input.value, usage.delivered.output.value), (Some(40), Some(3)));
    assert_eq!((usage.billed.output.value, usage.billed.output.low), (None, Some(3)));
}

#[tokio::test(start_paused = true)]
async fn histories_of_a_recovered_session_are_the_same_from_memory_and_from_the_journal() {
    let (journal, builder) = first_process(&ScriptedModel::new([calls(&[("a", "look")]), says("One.")]));
    let session = builder.tool(tools::quick("look", &ToolLog::new())).open();
    session.run("First.").await.unwrap();
    let memory: Vec<Arc<Message>> = session.history().await.unwrap();
    let next = crash(&journal, &session).await;
    assert_eq!(next.session.history().await.unwrap(), memory);
}
