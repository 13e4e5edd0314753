//! What the behaviour tests share: a runtime on a paused clock, and ways to wait for a state instead of a time.
#![allow(dead_code, unused_imports, reason = "each test program uses some of these")]

pub(crate) mod held;

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub(crate) use std::time::Duration;

pub(crate) use andon_runtime::core::event::{AddendumKind, Entry, Epoch, Event, Refusal};
pub(crate) use andon_runtime::core::id::LOCAL;
pub(crate) use andon_runtime::core::message::{Message, ResultStatus, Role, ToolResult};
pub(crate) use andon_runtime::core::progress::Phase;
pub(crate) use andon_runtime::{
    Agent, AgentBuilder, Append, Batch, BoxFuture, CallDecision, Cancel, Cursor, Effect, Ending, Failure, FailureKind,
    FeedItem, FnTool, Invocation, Journal, JournalError, Limits, MemoryJournal, ModelStop, OnCancel, Outcome, Reason,
    Receipt, ReplyKind, Returned, Run, RunId, RunState, Runtime, Session, SessionKey, TestClock, ToolError, Verdict,
    WhenBusy, Work,
};
pub(crate) use andon_testkit::tools::{self, ToolLog};
pub(crate) use andon_testkit::{Act, ScriptedModel, TestJournal, assert_nothing_lost, until, until_shown};
pub(crate) use serde_json::json;
pub(crate) use tokio::time::Instant;

use std::future::Future;
use std::sync::mpsc;

use andon_runtime::CallId;
use andon_testkit::wire::check_history;

/// A runtime whose tools and hooks run on the test's paused clock.
pub(crate) fn runtime() -> Runtime {
    runtime_on(&memory())
}

pub(crate) fn runtime_on(journal: &TestJournal) -> Runtime {
    let clock = Arc::new(TestClock::new());
    Runtime::builder().journal(Arc::new(journal.clone())).one_lane().clock(clock).seed(1).build()
}

/// The runtime of a later process, with other ids than the first.
pub(crate) fn next_runtime_on(journal: &TestJournal) -> Runtime {
    let clock = Arc::new(TestClock::a_day_later());
    Runtime::builder().journal(Arc::new(journal.clone())).one_lane().clock(clock).seed(2).build()
}

pub(crate) fn memory() -> TestJournal {
    TestJournal::new(MemoryJournal::new(), None)
}

/// A builder of an agent with its own runtime.
pub(crate) fn agent(model: &ScriptedModel) -> AgentBuilder {
    Agent::builder().model(model.clone()).runtime(&runtime())
}

/// The same, with a model that gives these answers.
pub(crate) fn scripted(answers: impl IntoIterator<Item = Vec<Act>>) -> AgentBuilder {
    agent(&ScriptedModel::new(answers))
}

pub(crate) fn scripted_on(journal: &TestJournal, answers: impl IntoIterator<Item = Vec<Act>>) -> AgentBuilder {
    Agent::builder().model(ScriptedModel::new(answers)).runtime(&runtime_on(journal))
}

pub(crate) fn with_tools(agent: AgentBuilder, tools: impl IntoIterator<Item = FnTool>) -> Session {
    tools.into_iter().fold(agent, AgentBuilder::tool).open()
}

/// Opens a new session with an agent.
pub(crate) trait Open {
    fn open(self) -> Session;
}

impl Open for AgentBuilder {
    fn open(self) -> Session {
        self.build().unwrap().new_session(LOCAL).unwrap()
    }
}

pub(crate) fn id(text: &str) -> CallId {
    CallId::new(text).unwrap()
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

// ---- scripts ----

/// Joins several scripts into one answer.
pub(crate) fn answer(parts: impl IntoIterator<Item = Vec<Act>>) -> Vec<Act> {
    parts.into_iter().flatten().collect()
}

/// A complete answer of plain text.
pub(crate) fn says(text: &str) -> Vec<Act> {
    vec![Act::text(text), Act::usage(10, 2), Act::end()]
}

/// An answer that shows text and is then silent forever.
pub(crate) fn says_and_hangs(text: &str) -> Vec<Act> {
    vec![Act::text(text), Act::Silence]
}

/// An answer that asks for these tools, each as (id, name), with empty arguments.
pub(crate) fn calls(calls: &[(&str, &str)]) -> Vec<Act> {
    let calls = calls.iter().enumerate().flat_map(|(index, (id, name))| Act::call(index, id, name, "{}"));
    calls.chain([Act::usage(10, 2), Act::tool_use()]).collect()
}

// ---- waiting ----

pub(crate) async fn until_tool_started(run: &Run, call: &str) {
    until(run, |event| matches!(event, Event::ToolStarted { call: started, .. } if started.as_str() == call)).await;
}

/// Starts a run and waits until this event.
pub(crate) async fn start_until(session: &Session, prompt: &str, is_it: impl Fn(&Event) -> bool) -> Run {
    let run = session.start(prompt).unwrap();
    until(&run, is_it).await;
    run
}

/// Starts a run and waits until it has shown this text.
pub(crate) async fn start_until_shown(session: &Session, prompt: &str, text: &str) -> Run {
    let run = session.start(prompt).unwrap();
    until_shown(&run, text).await;
    run
}

/// Starts a run and waits until this call has started.
pub(crate) async fn start_until_tool(session: &Session, prompt: &str, call: &str) -> Run {
    let run = session.start(prompt).unwrap();
    until_tool_started(&run, call).await;
    run
}

/// Starts a run and waits until its tools are at work.
pub(crate) async fn at_work(session: &Session) -> Run {
    let run = session.start("Go.").unwrap();
    until(&run, |event| matches!(event, Event::ToolStarted { .. })).await;
    settle_down().await;
    run
}

/// Lets everything that is ready run, without advancing the clock.
pub(crate) async fn settle_down() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

/// Runs a test's future on a paused clock on a separate thread, and panics if it takes ten real seconds, because a
/// broken promise would make it spin forever.
pub(crate) fn within_ten_real_seconds<T: Send + 'static>(
    work: impl FnOnce() -> std::pin::Pin<Box<dyn Future<Output = T>>> + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let paused = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        // The waiting test may have given up.
        let _ = sender.send(paused.block_on(work()));
    });
    receiver.recv_timeout(secs(10)).expect("the run did not end within ten real seconds")
}

// ---- looking ----

pub(crate) fn events(run: &Run) -> Vec<Event> {
    run.records().iter().map(|record| record.event.clone()).collect()
}

/// The type of each event, as in JSON.
pub(crate) fn event_types(run: &Run) -> Vec<String> {
    let type_of = |event: &Event| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned();
    events(run).iter().map(type_of).collect()
}

pub(crate) fn count(run: &Run, is_it: impl Fn(&Event) -> bool) -> usize {
    events(run).iter().filter(|event| is_it(event)).count()
}

/// The only result of a call, wherever it is in the history.
pub(crate) fn result_of(history: &[Arc<Message>], call: &str) -> ToolResult {
    let results = history.iter().flat_map(|message| message.results());
    let mut own = results.filter(|result| result.call.as_str() == call);
    let result = own.next().unwrap_or_else(|| panic!("call {call} has no result in {history:#?}")).clone();
    assert!(own.next().is_none(), "call {call} has two results");
    result
}

/// The messages' texts, with a mark for those that are cut.
pub(crate) fn texts(history: &[Arc<Message>]) -> Vec<String> {
    let text = |message: &Arc<Message>| match message.cut {
        Some(_) => format!("{} [cut]", message.text()),
        None => message.text(),
    };
    history.iter().map(text).collect()
}

// ---- judging ----

/// Waits for a run's end and checks that nothing was lost and that its session can go on.
pub(crate) async fn settled(session: &Session, run: &Run) -> Arc<Outcome> {
    let outcome = run.outcome().await;
    let history = session.history().await.unwrap();
    assert_nothing_lost(run, &history).await;
    assert_eq!(check_history(&history), Vec::<String>::new());
    outcome
}

/// Starts a run and waits for its end, as [`settled`].
pub(crate) async fn run_to_end(session: &Session, prompt: &str) -> (Run, Arc<Outcome>) {
    let run = session.start(prompt).unwrap();
    let outcome = settled(session, &run).await;
    (run, outcome)
}

/// Cancels a run and waits for its end, as [`cancelled`].
pub(crate) async fn stop(session: &Session, run: &Run, cancel: Cancel) -> Arc<Outcome> {
    run.cancel(cancel);
    cancelled(session, run).await
}

/// As [`settled`], for a run that was cancelled on request.
pub(crate) async fn cancelled(session: &Session, run: &Run) -> Arc<Outcome> {
    cancelled_because(session, run, Reason::Requested).await
}

pub(crate) async fn cancelled_because(session: &Session, run: &Run, reason: Reason) -> Arc<Outcome> {
    let outcome = settled(session, run).await;
    assert_eq!(*outcome.ending, Ending::Cancelled { reason });
    assert_eq!(outcome.stop_reason(), "cancelled");
    outcome
}

/// Checks that the next prompt is answered as if nothing had happened.
pub(crate) async fn assert_usable(session: &Session) {
    let outcome = session.run("And now?").await.unwrap();
    assert_eq!(outcome.stop_reason(), "end_turn", "{:?}", outcome.ending);
    assert_eq!(check_history(&session.history().await.unwrap()), Vec::<String>::new());
}
