//! How often a run writes to its journal, and that no stop waits for a read.

#![expect(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use andon_runtime::{
    Agent, Append, Batch, BoxFuture, Cancel, Journal, JournalError, JournalLayer, MemoryJournal, Message, Runtime,
    Session, SessionKey, TestClock,
};
use andon_testkit::{Act, ScriptedModel};

use crate::common::{LOCAL, Open as _};

/// A journal in memory that counts what is appended, and whose history may never come.
#[derive(Default)]
struct CountingJournal {
    memory: MemoryJournal,
    appends: AtomicUsize,
    histories: AtomicUsize,
    history_hangs: bool,
}

impl JournalLayer for CountingJournal {
    fn inner(&self) -> &dyn Journal {
        &self.memory
    }

    fn append(&self, batch: Batch) -> Append {
        self.appends.fetch_add(1, Ordering::SeqCst);
        self.memory.append(batch)
    }

    fn history(&self, session: &SessionKey) -> BoxFuture<Result<Vec<Arc<Message>>, JournalError>> {
        self.histories.fetch_add(1, Ordering::SeqCst);
        if self.history_hangs { Box::pin(std::future::pending()) } else { self.memory.history(session) }
    }
}

fn session_on(journal: &Arc<CountingJournal>, answer: Vec<Act>) -> Session {
    let journal = Arc::clone(journal);
    let runtime = Runtime::builder().journal(journal).one_lane().clock(Arc::new(TestClock::new())).seed(1).build();
    Agent::builder().model(ScriptedModel::new([answer])).runtime(&runtime).open()
}

#[tokio::test(start_paused = true)]
async fn a_trivial_run_is_two_appends() {
    let journal = Arc::new(CountingJournal::default());
    let session = session_on(&journal, vec![Act::text("Hi."), Act::end()]);
    assert_eq!(session.run("Go.").await.unwrap().stop_reason(), "end_turn");
    assert_eq!(journal.appends.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn settling_a_cancelled_run_without_open_calls_is_one_append() {
    let journal = Arc::new(CountingJournal::default());
    let session = session_on(&journal, vec![Act::text("Half"), Act::Silence]);
    let run = session.start("Go.").unwrap();
    let mut feed = run.feed();
    while !matches!(feed.next().await, Some(andon_runtime::FeedItem::Delta(_))) {}
    let before = journal.appends.load(Ordering::SeqCst);
    run.cancel(Cancel::graceful());
    assert_eq!(run.outcome().await.text_so_far(), "Half");
    assert_eq!(journal.appends.load(Ordering::SeqCst) - before, 1);
}

#[tokio::test(start_paused = true)]
async fn cancel_while_the_history_is_being_read_stops_at_once() {
    let journal = Arc::new(CountingJournal { history_hangs: true, ..CountingJournal::default() });
    let session = session_on(&journal, vec![Act::text("Hi."), Act::end()]);
    let run = session.start("Go.").unwrap();
    tokio::task::yield_now().await;
    assert!(run.try_outcome().is_none());
    let reply = run.cancel(Cancel::graceful());
    let outcome = run.outcome().await;
    assert_eq!((outcome.stop_reason(), outcome.receipt.took.settled_us), ("cancelled", Some(0)));
    assert_eq!((reply.recorded().await, run.passed().models), (Ok(()), 0));
}

/// Checks the promise of a question without a session: it reads nothing, so a slow journal does not hold it up.
#[tokio::test(start_paused = true)]
async fn a_question_in_a_session_of_its_own_reads_no_history() {
    let journal = Arc::new(CountingJournal { history_hangs: true, ..CountingJournal::default() });
    let model = ScriptedModel::new([vec![Act::text("One."), Act::end()], vec![Act::text("Two."), Act::end()]]);
    let runtime = Runtime::builder().journal(Arc::clone(&journal)).build();
    let agent = Agent::builder().model(model).runtime(&runtime).build().unwrap();
    let answers = [agent.run("One?").await.unwrap(), agent.run("Two?").await.unwrap()];
    assert_eq!(answers.map(|answer| answer.text_so_far()), ["One.", "Two."]);
    assert_eq!(journal.histories.load(Ordering::SeqCst), 0);
}

/// Says ten thousand bytes in a session with this name, and drops it.
async fn talk(runtime: &Runtime, session: &str) {
    let model = ScriptedModel::new([vec![Act::text("Yes."), Act::end()]]);
    let agent = Agent::builder().name("a").model(model).runtime(runtime).build().unwrap();
    agent.session(LOCAL, session).unwrap().run("x".repeat(10_000)).await.unwrap();
}

fn runtime_with_room(journal: &Arc<CountingJournal>, bytes: usize) -> Runtime {
    Runtime::builder().journal(Arc::clone(journal)).warm_sessions(bytes).build()
}

#[tokio::test]
async fn a_session_that_is_not_in_use_is_read_once() {
    let journal = Arc::<CountingJournal>::default();
    let runtime = runtime_with_room(&journal, 1 << 20);
    for _ in 0..5 {
        talk(&runtime, "s").await;
    }
    assert_eq!(journal.histories.load(Ordering::SeqCst), 1);
    let key = SessionKey::new("a", "local", "s").unwrap();
    assert_eq!(runtime.history(&key).await.unwrap(), journal.memory.history(&key).await.unwrap());
}

#[tokio::test]
async fn sessions_that_there_is_no_room_for_are_read_again_the_least_recently_used_first() {
    let journal = Arc::<CountingJournal>::default();
    let runtime = runtime_with_room(&journal, 35_000);
    for session in ["one", "two", "one", "three", "one"] {
        talk(&runtime, session).await;
    }
    assert_eq!(journal.histories.load(Ordering::SeqCst), 3, "the first is used again and again, and stays");
    talk(&runtime, "two").await;
    assert_eq!(journal.histories.load(Ordering::SeqCst), 4, "the second had to go");
    let cold = runtime_with_room(&journal, 0);
    for _ in 0..2 {
        talk(&cold, "one").await;
    }
    assert_eq!(journal.histories.load(Ordering::SeqCst), 6, "without room, each prompt reads");
}
