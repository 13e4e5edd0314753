//! What is measured.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::{Agent, Cancel, Cursor, FnTool, Journal, Run, Runtime, Session};
use andon_testkit::bench::{Goal, Line, Scene, median, now, quantile};
use serde_json::json;

use crate::lists;
use crate::world::{Database, Says, Written, folder, on_one_thread, on_two_threads};

/// All scenes.
pub(crate) const ALL: [Scene; 9] = [
    Scene { name: "disk", measure: disk },
    Scene { name: "facts", measure: facts },
    Scene { name: "runs", measure: trivial_runs },
    Scene { name: "lumps", measure: lumps },
    Scene { name: "recovery", measure: recovery },
    Scene { name: "feed", measure: feed },
    Scene { name: "storm", measure: storm },
    Scene { name: "lists", measure: lists::lists },
    Scene { name: "cold", measure: lists::cold },
];

/// What the disk can do: pages are written and made durable one after another.
fn disk() -> Vec<Line> {
    const WRITES: u32 = 2_000;
    let reached = median(3, || {
        let folder = folder();
        let mut file = std::fs::File::create(folder.path().join("file")).expect("a file");
        let began = now();
        for _ in 0..WRITES {
            file.write_all(&[7; 8192]).expect("a page");
            file.sync_data().expect("a durable page");
        }
        f64::from(WRITES) / began.elapsed().as_secs_f64()
    });
    vec![Line { what: "the disk alone: pages of 8 KiB, each made durable", reached, unit: "/s", goal: Goal::None }]
}

fn facts() -> Vec<Line> {
    let line = |what, runs, goal| {
        let reached = median(3, || facts_a_second(runs));
        Line { what, reached, unit: "facts/s", goal }
    };
    vec![
        line("durable facts a second, one run", 1, Goal::AtLeast(5_000.0)),
        line("durable facts a second, 64 runs in flight", 64, Goal::AtLeast(50_000.0)),
        line("durable facts a second, 512 runs in flight", 512, Goal::None),
    ]
}

/// Each run appends a fact, waits until it is durable, and appends the next.
fn facts_a_second(runs: usize) -> f64 {
    let each = (150_000 / runs).clamp(200, 8_000);
    let database = Database::new();
    let write = |journal: Arc<dyn Journal>, number: usize| async move {
        let mut run = Written::new(&format!("run-{number}"));
        journal.append(run.accepted()).await.expect("a durable fact");
        for _ in 0..each {
            journal.append(run.fact()).await.expect("a durable fact");
        }
    };
    let writing = || async {
        let began = now();
        let runs = (0..runs).map(|number| write(Arc::clone(&database.journal) as _, number));
        all(runs.collect()).await;
        began.elapsed()
    };
    let took = on_one_thread(writing());
    (runs * (each + 1)) as f64 / took.as_secs_f64()
}

/// Waits for all futures, polling only those that were woken.
async fn all<T: Send + 'static>(futures: Vec<impl Future<Output = T> + Send + 'static>) -> Vec<T> {
    let mut set = tokio::task::JoinSet::new();
    for future in futures {
        set.spawn(future);
    }
    set.join_all().await
}

fn agent(runtime: &Runtime, says: Says) -> Agent {
    let schema = json!({ "type": "object" });
    let look = FnTool::new("look", "Looks.", schema, |_| std::future::ready(Ok("seen".to_owned().into())));
    Agent::builder().name("bench").model(says).tool(look).runtime(runtime).build().expect("an agent")
}

fn trivial_runs() -> Vec<Line> {
    const IN_FLIGHT: usize = 1_000;
    const EACH: usize = 40;
    let reached = median(3, || {
        let database = Database::new();
        let agent = agent(&database.runtime(), Says::Hello);
        let talk = |session: Session| async move {
            for _ in 0..EACH {
                session.run("Go.").await.expect("a run");
            }
        };
        let talking = async {
            let sessions =
                (0..IN_FLIGHT).map(|number| agent.session("bench", format!("s{number}")).expect("a session"));
            let began = now();
            all(sessions.map(talk).collect()).await;
            began.elapsed()
        };
        (IN_FLIGHT * EACH) as f64 / on_two_threads(talking).as_secs_f64()
    });
    let what = "durable trivial runs a second, 1,000 in flight";
    vec![Line { what, reached, unit: "runs/s", goal: Goal::AtLeast(8_000.0) }]
}

/// A thousand runs stream for a second: their text shares commits.
fn lumps() -> Vec<Line> {
    const RUNS: usize = 1_000;
    let reached = median(3, || {
        let database = Database::new();
        let runtime = database.runtime();
        let agent = agent(&runtime, Says::AndOn);
        on_two_threads(async {
            let runs: Vec<Run> = start(&agent, RUNS);
            tokio::time::sleep(Duration::from_millis(500)).await;
            let (before, began) = (database.commits.count(), now());
            tokio::time::sleep(Duration::from_secs(1)).await;
            let commits = (database.commits.count() - before) as f64 / began.elapsed().as_secs_f64();
            runtime.shutdown(Duration::from_secs(20)).await.expect("all have settled");
            drop(runs);
            commits
        })
    });
    let what = "commits a second for the text of 1,000 runs that stream";
    // One every 25 ms, split if it is too large.
    vec![Line { what, reached, unit: "/s", goal: Goal::AtMost(40.0 * 8.0) }]
}

fn start(agent: &Agent, runs: usize) -> Vec<Run> {
    let session = |number| agent.session("bench", format!("s{number}")).expect("a session");
    (0..runs).map(|number| session(number).start("Go.").expect("a run")).collect()
}

fn recovery() -> Vec<Line> {
    const RUNS: usize = 10_000;
    let reached = median(3, || {
        let database = Database::new();
        on_one_thread(async {
            let appends =
                (0..RUNS).map(|number| database.journal.append(Written::new(&format!("run-{number}")).left_open()));
            for append in appends.collect::<Vec<_>>() {
                append.await.expect("a durable run");
            }
        });
        let database = database.reopen();
        let took = on_two_threads(async {
            let began = now();
            let recovered = database.runtime().recover().await.expect("all recovered");
            assert_eq!(recovered.len(), RUNS);
            began.elapsed()
        });
        took.as_secs_f64()
    });
    let what = "10,000 runs that were left open are settled";
    let waiting = "10,000 runs that were waiting live on";
    vec![
        Line { what, reached, unit: "s", goal: Goal::AtMost(2.0) },
        Line { what: waiting, reached: median(3, resume), unit: "s", goal: Goal::AtMost(2.0) },
    ]
}

/// Runs that were queued, each in its own session: each is claimed and gets a driver.
fn resume() -> f64 {
    const RUNS: usize = 10_000;
    let database = Database::new();
    on_one_thread(async {
        let accepted = |number: usize| database.journal.append(Written::new(&format!("run-{number}")).accepted());
        for append in (0..RUNS).map(accepted).collect::<Vec<_>>() {
            append.await.expect("a durable run");
        }
    });
    let database = database.reopen();
    let runtime = database.runtime();
    let agent = agent(&runtime, Says::HelloAndNothing);
    on_two_threads(async {
        let began = now();
        assert_eq!(runtime.recover().await.expect("all recovered").len(), RUNS);
        let took = began.elapsed().as_secs_f64();
        drop(agent);
        runtime.shutdown(Duration::from_secs(60)).await.expect("all have settled");
        took
    })
}

/// A feed of 1,000 events, read from disk.
fn feed() -> Vec<Line> {
    let database = Database::new();
    let runtime = database.runtime();
    let agent = agent(&runtime, Says::Calls(180));
    let reached = on_two_threads(async {
        let run = agent.start("Go.").expect("a run");
        run.outcome().await;
        let (id, events) = (run.id().clone(), run.records().len());
        assert!(events >= 1_000, "{events} events");
        let mut times = Vec::new();
        for _ in 0..501 {
            let began = now();
            let mut feed = runtime.feed(&id, Cursor::default()).await.expect("a feed").expect("the run is there");
            let mut facts = 0;
            while let Some(item) = feed.next().await {
                facts += usize::from(matches!(item, andon_runtime::FeedItem::Fact(_)));
            }
            assert_eq!(facts, events);
            times.push(began.elapsed().mul_f64(1_000.0 / events as f64));
        }
        quantile(&mut times, 0.5).as_secs_f64() * 1e3
    });
    vec![Line { what: "a feed of 1,000 events from disk, warm", reached, unit: "ms", goal: Goal::AtMost(2.0) }]
}

/// Ten thousand runs are stopped at once, and each outcome is durable.
fn storm() -> Vec<Line> {
    const RUNS: usize = 10_000;
    let mut alone = Vec::new();
    let mut receipts = Receipts::default();
    let storm = median(3, || {
        let database = Database::new();
        let runtime = database.runtime();
        let agent = agent(&runtime, Says::HelloAndNothing);
        on_two_threads(async {
            let runs = start(&agent, RUNS);
            tokio::time::sleep(Duration::from_secs(1)).await;
            for run in runs.iter().take(200) {
                let began = now();
                run.cancel(Cancel::graceful());
                run.outcome().await;
                alone.push(began.elapsed());
                receipts.add(run);
            }
            let began = now();
            for run in &runs {
                run.cancel(Cancel::now());
            }
            for run in &runs {
                run.outcome().await;
            }
            began.elapsed().as_secs_f64()
        })
    });
    let ms = |share, alone: &mut [Duration]| quantile(alone, share).as_secs_f64() * 1e3;
    let line = |what, reached, unit, goal| Line { what, reached, unit, goal };
    vec![
        line("from a pull to its outcome on disk, 10,000 live, p50", ms(0.5, &mut alone), "ms", Goal::AtMost(5.0)),
        line("from a pull to its outcome on disk, 10,000 live, p99", ms(0.99, &mut alone), "ms", Goal::AtMost(50.0)),
        line("… by the receipt, to quiet, p50", ms(0.5, &mut receipts.quiet), "ms", Goal::None),
        line("… to the time of the last event, before its commit, p50", ms(0.5, &mut receipts.ended), "ms", Goal::None),
        line("… to settled, on disk, p50", ms(0.5, &mut receipts.settled), "ms", Goal::None),
        line("… to settled, on disk, p99", ms(0.99, &mut receipts.settled), "ms", Goal::None),
        line("10,000 runs stopped at once, all outcomes on disk", storm, "s", Goal::AtMost(2.0)),
    ]
}

/// How long each phase took, according to the receipts of stopped runs.
#[derive(Default)]
struct Receipts {
    quiet: Vec<Duration>,
    ended: Vec<Duration>,
    settled: Vec<Duration>,
}

impl Receipts {
    fn add(&mut self, run: &Run) {
        let receipt = run.receipt().expect("a receipt");
        let requested = receipt.requests.first().expect("a request").requested_at;
        self.ended.extend(run.records().last().map(|end| end.at.since(requested)));
        self.quiet.extend(receipt.took.quiet_us.map(Duration::from_micros));
        self.settled.extend(receipt.took.settled_us.map(Duration::from_micros));
    }
}
