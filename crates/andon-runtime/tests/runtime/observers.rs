//! Observers are told every fact when it is shown, in order, and cannot hurt a run.

use std::sync::mpsc::{Receiver, Sender, channel};

use andon_practice::Practice;
use andon_runtime::core::event::Record;
use andon_runtime::{AgentReply, Observer, Probe, ShownFact, StartError};
use andon_testkit::check::read_all;
use parking_lot::Mutex;

use crate::common::*;

/// Writes down what it is told.
#[derive(Default)]
struct Notes(Mutex<Vec<Arc<Record>>>);

impl Observer for Notes {
    fn fact(&self, seen: &ShownFact<'_>) {
        assert_eq!(seen.past.len() as u64 + 1, seen.record.seq);
        self.0.lock().push(Arc::clone(seen.record));
    }
}

struct Panics;

impl Observer for Panics {
    fn fact(&self, _: &ShownFact<'_>) {
        panic!("an observer that panics");
    }
}

fn watched(observers: impl IntoIterator<Item = Arc<dyn Observer>>) -> Runtime {
    let builder = Runtime::builder().one_lane().seed(7);
    observers.into_iter().fold(builder, |builder, observer| builder.observer(observer)).build()
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_exactly_what_a_reader_of_the_feed_sees() {
    let notes = Arc::new(Notes::default());
    let runtime = watched([Arc::clone(&notes) as Arc<dyn Observer>]);
    let model = ScriptedModel::new([calls(&[("a", "look"), ("b", "look")]), says("Done.")]);
    let agent = Agent::builder().model(model).runtime(&runtime).tool(tools::quick("look", &ToolLog::new()));
    let run = agent.open().start("Go.").unwrap();
    run.outcome().await;
    runtime.idle().await;
    let facts = read_all(&mut run.feed()).await.into_iter().filter_map(|item| match item {
        FeedItem::Fact(fact) => Some(fact.record),
        FeedItem::Delta(_) | FeedItem::TextLost { .. } => None,
        #[cfg(not(andon_whole))]
        _ => None,
    });
    assert_eq!(*notes.0.lock(), facts.collect::<Vec<_>>());
    assert!(runtime.observer::<Notes>().is_some_and(|found| Arc::ptr_eq(&found, &notes)));
    assert!(runtime.observer::<Panics>().is_none());
}

#[test]
fn an_observer_is_found_whether_it_was_given_or_shared() {
    let given = Runtime::builder().observer(Notes::default()).build();
    let shared = Runtime::builder().observer(Panics).observer(Arc::new(Notes::default())).build();
    assert!(given.observer::<Notes>().is_some() && shared.observer::<Notes>().is_some());
    assert!(given.observer::<Panics>().is_none() && shared.observer::<Panics>().is_some());
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_hurts_neither_the_run_nor_the_next_observer() {
    let notes = Arc::new(Notes::default());
    let runtime = watched([Arc::new(Panics) as Arc<dyn Observer>, Arc::clone(&notes) as _]);
    let session = Agent::builder().model(Practice::instant()).runtime(&runtime).open();
    let outcome = session.run("Go.").await.unwrap();
    runtime.idle().await;
    assert_eq!(outcome.stop_reason(), "end_turn");
    let told = notes.0.lock().len() as u64;
    assert!(told > 4);
    assert_eq!(runtime.observer_panics(), told);
}

/// Stays in its call until it is released.
struct Slow {
    is_in: Mutex<Sender<()>>,
    go_on: Mutex<Receiver<()>>,
}

impl Observer for Slow {
    fn fact(&self, seen: &ShownFact<'_>) {
        if matches!(seen.record.event, Event::ModelStarted { .. }) {
            self.is_in.lock().send(()).unwrap();
            self.go_on.lock().recv().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pull_and_a_reader_do_not_wait_for_an_observer() {
    let ((is_in, entered), (let_go, go_on)) = (channel(), channel());
    let slow = Slow { is_in: Mutex::new(is_in), go_on: Mutex::new(go_on) };
    let runtime = Runtime::builder().observer(slow).build();
    let session = Agent::builder().model(Practice::new()).runtime(&runtime).open();
    let run = session.start("Go.").unwrap();
    tokio::task::spawn_blocking(move || entered.recv().unwrap()).await.unwrap();
    // The observer is in its call: the fact that it was told is shown, and the cord can be pulled.
    let mut feed = run.feed();
    let mut kinds = Vec::new();
    while let Some(FeedItem::Fact(record)) = feed.try_next() {
        kinds.push(record.event.kind());
    }
    assert_eq!(kinds.last(), Some(&"model_started"));
    assert!(run.cancel(Cancel::graceful()).is_stopping());
    let_go.send(()).unwrap();
    assert!(run.outcome().await.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn the_end_that_recovery_writes_is_told_with_the_past_of_the_journal() {
    let journal = memory();
    let agent = Agent::builder().model(ScriptedModel::new([says_and_hangs("Half")])).runtime(&runtime_on(&journal));
    let session = agent.open();
    let _run = start_until_shown(&session, "Go.", "Half").await;
    tokio::time::sleep(millis(50)).await;
    journal.crash();

    let notes = Arc::new(Notes::default());
    let durable = Arc::new(TestJournal::new(journal.durable(), None));
    let next = Runtime::builder().journal(durable).observer(Arc::clone(&notes)).build();
    next.recover().await.unwrap();
    let told = notes.0.lock().clone();
    let kinds: Vec<_> = told.iter().map(|record| record.event.kind()).collect();
    assert_eq!(kinds, ["message", "usage", "model_finished", "run_settled"]);
}

/// Whether an observer has heard that a run has settled, and whether anybody else could know it by then.
#[derive(Default)]
struct Heard {
    settled: AtomicBool,
    was_first: Mutex<Option<bool>>,
    run: Mutex<Option<Arc<Run>>>,
}

impl Observer for Heard {
    fn fact(&self, seen: &ShownFact<'_>) {
        if matches!(seen.record.event, Event::RunSettled { .. }) {
            let run = self.run.lock().clone();
            *self.was_first.lock() = run.map(|run| run.try_outcome().is_none() && run.state() != RunState::Settled);
            self.settled.store(true, Ordering::SeqCst);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_outcome_is_there_every_observer_has_heard_that_the_run_has_settled() {
    let heard = Arc::new(Heard::default());
    let runtime = Runtime::builder().observer(Arc::clone(&heard)).build();
    let agent = Agent::builder().model(Practice::instant()).runtime(&runtime).build().unwrap();
    for _ in 0..100 {
        heard.settled.store(false, Ordering::SeqCst);
        let run = agent.start("Go.").unwrap();
        run.outcome().await;
        assert!(heard.settled.load(Ordering::SeqCst));

        heard.settled.store(false, Ordering::SeqCst);
        let run = agent.start("Go.").unwrap();
        read_all(&mut run.feed()).await;
        assert!(heard.settled.load(Ordering::SeqCst), "and when the feed has ended");
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_hears_of_the_end_before_anybody_sees_it() {
    let heard = Arc::new(Heard::default());
    let runtime = watched([Arc::clone(&heard) as Arc<dyn Observer>]);
    let session = Agent::builder().model(ScriptedModel::new([says_and_hangs("Hm")])).runtime(&runtime).open();
    let run = Arc::new(start_until_shown(&session, "Go.", "Hm").await);
    *heard.run.lock() = Some(Arc::clone(&run));
    stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(*heard.was_first.lock(), Some(true));
}

// ---- the end is told before it is shown ----

/// Stays in the call that tells it the first end, until it is released.
struct AtTheEnd {
    is_first: AtomicBool,
    is_in: Mutex<Sender<()>>,
    go_on: Mutex<Receiver<()>>,
}

impl Observer for AtTheEnd {
    fn fact(&self, seen: &ShownFact<'_>) {
        if matches!(seen.record.event, Event::RunSettled { .. }) && self.is_first.swap(false, Ordering::SeqCst) {
            self.is_in.lock().send(()).unwrap();
            self.go_on.lock().recv().unwrap();
        }
    }
}

/// Panics once a model has been called, the first time that the driver looks around after that.
struct PanicsInItsFirstRun(AtomicBool);

impl Probe for PanicsInItsFirstRun {
    fn hit(&self, seam: &'static str) {
        if seam == "driver: piece accepted" && self.0.swap(false, Ordering::SeqCst) {
            panic!("on purpose, at {seam}");
        }
    }
}

/// Cancels an agent while an observer is told the end of its only run, and starts the next run.
async fn cancelled_while_the_end_is_told(driver_panics: bool) {
    let ((is_in, entered), (let_go, go_on)) = (channel(), channel());
    let slow = AtTheEnd { is_first: true.into(), is_in: Mutex::new(is_in), go_on: Mutex::new(go_on) };
    let probe = Arc::new(PanicsInItsFirstRun(driver_panics.into()));
    let runtime = Runtime::builder().observer(Arc::new(slow)).probe(probe).build();
    let agent = Agent::builder().model(Practice::instant()).runtime(&runtime).build().unwrap();
    let ada = agent.session("ada", "monday").unwrap();
    let run = ada.start("Go.").unwrap();
    tokio::task::spawn_blocking(move || entered.recv().unwrap()).await.unwrap();

    assert_eq!((run.try_outcome(), run.state()), (None, RunState::Running), "nobody can see that it is over");
    let reply = agent.cancel();
    let AgentReply::Runs(runs) = &reply else { panic!("{reply:?}: the run that was aimed at is not over") };
    assert_eq!(runs.iter().map(|reply| reply.run_id()).collect::<Vec<_>>(), [run.id()]);
    let told = runs[0].too_late().cloned();
    let next = ada.start("And now?").expect("it waits, as for any run that is ending");
    let_go.send(()).unwrap();

    assert_eq!(told.as_ref(), Some(&*run.outcome().await.ending));
    assert_eq!(next.outcome().await.stop_reason(), "end_turn", "nobody has cancelled this one");
    assert!(!agent.disarm());
    assert_eq!(agent.cancel().kind(), ReplyKind::Armed, "whoever has seen the ends arms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_of_the_agent_while_observers_hear_of_the_end_is_too_late_and_never_hits_the_next_run() {
    cancelled_while_the_end_is_told(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_is_one_while_observers_hear_of_the_end_of_a_run_whose_driver_has_panicked() {
    cancelled_while_the_end_is_told(true).await;
}

/// Asks once more when it hears of the first end.
#[derive(Default)]
struct AsksAgain {
    session: Mutex<Option<Session>>,
    asked: Mutex<Option<Result<Run, StartError>>>,
}

impl Observer for AsksAgain {
    fn fact(&self, seen: &ShownFact<'_>) {
        if matches!(seen.record.event, Event::RunSettled { .. })
            && let Some(session) = self.session.lock().take()
        {
            *self.asked.lock() = Some(session.start("And now?"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_an_observer_starts_when_it_hears_of_the_end_waits_for_it_and_is_not_refused() {
    let asks = Arc::new(AsksAgain::default());
    let runtime = watched([Arc::clone(&asks) as Arc<dyn Observer>]);
    let session = Agent::builder().model(ScriptedModel::new([says("One."), says("Two.")])).runtime(&runtime).open();
    *asks.session.lock() = Some(session.clone());
    run_to_end(&session, "Go.").await;
    let next = asks.asked.lock().take().unwrap().expect("the run before it is over as soon as observers are told");
    assert_eq!(next.outcome().await.text_so_far(), "Two.");
    assert_eq!(texts(&session.history().await.unwrap()), ["Go.", "One.", "And now?", "Two."]);
}
