//! Learning from completed calls costs little, however many there are, and nobody waits for it (P1).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use andon_runtime::{
    Agent, CALIBRATION, Journal, Lesson, Meter, MeteredCall, Model, ModelLayer, Runtime, Session, Usage, Used,
};
use andon_testkit::{Act, ScriptedModel};
use parking_lot::{Condvar, Mutex};
use serde_json::json;

use crate::common::{LOCAL, Open as _, memory, runtime_on, secs};

/// A meter that learns only when the test lets it.
#[derive(Default)]
struct Slow {
    gate: Mutex<bool>,
    opened: Condvar,
    begun: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl Slow {
    fn open(&self) {
        *self.gate.lock() = true;
        self.opened.notify_all();
    }
}

impl Meter for Slow {
    fn cut(&self, _: &MeteredCall<'_>, known: Usage) -> Used {
        Used::cut(known)
    }

    fn learn(&self, _: &MeteredCall<'_>, _: Usage) -> Vec<Lesson> {
        let calls = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let at_once = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        let mut gate = self.gate.lock();
        while !*gate {
            self.opened.wait(&mut gate);
        }
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        vec![Lesson::new("slow", json!({ "calls": calls }))]
    }

    fn recall(&self, _: Vec<Lesson>) -> Vec<Lesson> {
        Vec::new()
    }
}

struct Metered(ScriptedModel, Arc<Slow>);

impl ModelLayer for Metered {
    fn inner(&self) -> &dyn Model {
        &self.0
    }

    fn name(&self) -> &str {
        "metered"
    }

    fn meter(&self) -> Option<Arc<dyn Meter>> {
        Some(Arc::clone(&self.1) as Arc<dyn Meter>)
    }
}

fn agent(runtime: &Runtime, meter: &Arc<Slow>, calls: usize) -> Session {
    let answers = vec![vec![Act::text("Yes."), Act::usage(10, 3), Act::end()]; calls];
    let model = Metered(ScriptedModel::new(answers), Arc::clone(meter));
    Agent::builder().model(model).runtime(runtime).open()
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(secs(60), what).await.expect("it comes in time")
}

/// Completes this many runs, each in its own session, while the meter is held up.
async fn end_runs(session: &Session, runs: usize) {
    for number in 0..runs {
        let session = session.agent().session(LOCAL, format!("s{number}")).unwrap();
        soon(session.run("So?")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_are_learned_from_one_at_a_time_and_only_some_of_them() {
    let (journal, meter) = (memory(), Arc::<Slow>::default());
    let runtime = runtime_on(&journal);
    let agent = agent(&runtime, &meter, 200);
    end_runs(&agent, 200).await;
    // The runs have settled, and only one thread is left of them.
    assert!(meter.begun.load(Ordering::SeqCst) <= 1);
    meter.open();
    soon(runtime.idle()).await;
    let learned = meter.begun.load(Ordering::SeqCst);
    assert!((16..=18).contains(&learned), "{learned} of 200 were learned from");
    assert_eq!(meter.most_at_once.load(Ordering::SeqCst), 1);
    let kept = journal.shelf().kept(CALIBRATION).await.unwrap();
    assert_eq!(kept, [("slow".to_owned(), json!({ "calls": learned }))], "what was learned last is what is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_waits_for_a_limited_number_of_lessons() {
    let (journal, meter) = (memory(), Arc::<Slow>::default());
    let runtime = runtime_on(&journal);
    let agent = agent(&runtime, &meter, 10);
    end_runs(&agent, 10).await;
    while meter.begun.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let shutdown = runtime.shutdown(secs(60));
    let letting = async {
        tokio::task::yield_now().await;
        meter.open();
    };
    let (over, ()) = soon(async { tokio::join!(shutdown, letting) }).await;
    assert_eq!(over, Ok(()));
    assert_eq!(meter.begun.load(Ordering::SeqCst), 5, "the one in progress, and four of the nine that waited");
    assert_eq!(journal.shelf().kept(CALIBRATION).await.unwrap().len(), 1, "what was learned is kept");
}
