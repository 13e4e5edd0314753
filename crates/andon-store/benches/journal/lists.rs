//! What lists and a cold session cost when much is recorded.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::event::{Accepted, Entry, Event, ModelEnd, Record};
use andon_runtime::core::id::{RunId, SessionKey};
use andon_runtime::core::message::{Message, Part, Role};
use andon_runtime::core::outcome::{Ending, ModelStop};
use andon_runtime::core::progress::RunProgress;
use andon_runtime::core::time::{Stamp, Wall};
use andon_runtime::{Batch, BatchStanding, Journal, RunFilter, RunState, SessionFilter};
use andon_testkit::bench::{Goal, Line, now, quantile};

use crate::world::{Database, on_one_thread};

const SETTLED: usize = 100_000;
const OPEN: usize = 50_000;
const TURNS: usize = 5_000;

/// A run of one turn, as its driver would append it.
fn turn(number: usize, session: SessionKey, settles: bool) -> Batch {
    let run = RunId::new(format!("run-{number}")).expect("an id");
    let input = Arc::new(Message::user(format!("What about {number}? Tell me in a few words.")));
    let accepted = Arc::new(Accepted::new(run.clone(), session, input));
    let mut progress = RunProgress::new(Arc::clone(&accepted));
    let text = format!("There is little to say about {number}, and this is it.");
    let message = Message::new(Role::Assistant, vec![Part::Text { text }]);
    let stop = ModelStop::EndTurn;
    let mut events = vec![Event::RunStarted, Event::model_started(1, "bench")];
    if settles {
        events.extend([
            Event::Message { message: Arc::new(message) },
            Event::ModelFinished { call: 1, end: ModelEnd::Answered { stop }, first_piece_us: Some(4) },
            Event::RunSettled { outcome: Arc::new(Ending::Completed { stop }) },
        ]);
    }
    for event in &events {
        progress.apply(event).expect("it can happen");
    }
    let wall = Wall(1_000_000 + number as u64);
    let record = |(place, event)| {
        let at = Stamp { wall, mono_us: 0 };
        Entry::Fact(Arc::new(Record::new(place as u64 + 1, 1, at, event)))
    };
    let entries = [Event::RunAccepted { accepted }].into_iter().chain(events).enumerate().map(record).collect();
    Batch::new(run, 1, entries).standing(BatchStanding::of(&progress))
}

async fn write(journal: &dyn Journal, batches: impl Iterator<Item = Batch>) {
    for append in batches.map(|batch| journal.append(batch)).collect::<Vec<_>>() {
        append.await.expect("a durable run");
    }
}

/// The 99th percentile of many answers, in milliseconds.
async fn p99<T, F: Future<Output = T>>(ask: impl Fn() -> F) -> f64 {
    quantile(&mut times(ask).await, 0.99).as_secs_f64() * 1e3
}

async fn p50<T, F: Future<Output = T>>(ask: impl Fn() -> F) -> f64 {
    quantile(&mut times(ask).await, 0.5).as_secs_f64() * 1e3
}

async fn times<T, F: Future<Output = T>>(ask: impl Fn() -> F) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..101 {
        let began = now();
        ask().await;
        times.push(began.elapsed());
    }
    times
}

/// Four apps, a thousand users, twenty thousand sessions; one more app and user have only a few, old runs.
fn somewhere(number: usize) -> SessionKey {
    let (app, user, session) = match number {
        0..100 => ("rare".to_owned(), "rare".to_owned(), number % 10),
        _ => (format!("app-{}", number % 4), format!("user-{}", number % 1_000), number % 20_000),
    };
    SessionKey::new(&app, &user, format!("session-{session}")).expect("a key")
}

/// Lists of twenty, with 100,000 settled runs and 50,000 that have not settled.
pub(crate) fn lists() -> Vec<Line> {
    let database = Database::new();
    let journal = Arc::clone(&database.journal);
    on_one_thread(async {
        write(&*journal, (0..SETTLED).map(|number| turn(number, somewhere(number), true))).await;
        write(&*journal, (SETTLED..SETTLED + OPEN).map(|number| turn(number, somewhere(number), false))).await;
        let some = |text: &str| Some(text.to_owned());
        let of = || SessionFilter::new().limit(20);
        let which = || RunFilter::new().limit(21);
        let sessions = [
            ("sessions, 20 of all", of()),
            ("sessions, 20 of an app", of().app(some("app-1"))),
            ("sessions, those of an app that was used long ago", of().app(some("rare"))),
            ("sessions, 20 of a user", of().user(some("user-1"))),
            ("sessions, those of a user who was here long ago", of().user(some("rare"))),
        ];
        let runs = [
            ("runs, 20 of all", which()),
            ("runs, 20 that are running", which().state(RunState::Running)),
            ("runs, those that wait, of which there are none", which().state(RunState::Waiting)),
            ("runs, 20 that have settled", which().settled(true)),
            ("runs, 20 of an app", which().app(some("app-1"))),
            ("runs, 20 of an app that was used long ago", which().app(some("rare"))),
            ("runs, 20 of a user", which().user(some("user-1"))),
            ("runs, 20 of a user who was here long ago", which().user(some("rare"))),
            ("runs, those of that user that are running: none", which().user(some("rare")).state(RunState::Running)),
            ("runs, 20 of a session", which().session(some("session-7"))),
        ];
        let mut lines = Vec::new();
        let line = |what, reached| Line { what, reached, unit: "ms", goal: Goal::AtMost(5.0) };
        for (what, which) in sessions {
            let reached = p99(|| journal.sessions().list(which.clone())).await;
            lines.push(line(what, reached));
        }
        for (what, which) in runs {
            let reached = p99(|| journal.sessions().runs(which.clone())).await;
            lines.push(line(what, reached));
        }
        lines
    })
}

/// A session of 5,000 turns, read by the next process.
pub(crate) fn cold() -> Vec<Line> {
    let database = Database::new();
    let key = || SessionKey::new("bench", "local", "long").expect("a key");
    on_one_thread(write(&*database.journal, (0..TURNS).map(|number| turn(number, key(), true))));
    let database = database.reopen();
    let journal = &database.journal;
    on_one_thread(async {
        let began = now();
        assert_eq!(journal.history(&key()).await.expect("a history").len(), 2 * TURNS);
        let first = began.elapsed().as_secs_f64() * 1e3;
        let again = p50(|| journal.history(&key())).await;
        let line = |what, reached| Line { what, reached, unit: "ms", goal: Goal::AtMost(10.0) };
        vec![
            line("a session of 5,000 turns, read for the first time", first),
            line("a session of 5,000 turns, read again, p50", again),
        ]
    })
}
