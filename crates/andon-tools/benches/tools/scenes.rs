//! What is measured.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use andon_runtime::{Agent, Cancel, Effect, FnTool, Returned, Run, Runtime};
use andon_store::SqliteJournal;
use andon_testkit::bench::{Goal, Line, Scene, median, now, quantile};
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Builder;

use crate::caller::Caller;

/// All of them.
pub(crate) const ALL: [Scene; 4] = [
    Scene { name: "calls", measure: calls },
    Scene { name: "blocking", measure: blocking_calls },
    Scene { name: "told", measure: pull_notice },
    Scene { name: "others", measure: others },
];

fn on_two_threads<T>(future: impl Future<Output = T>) -> T {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime").block_on(future)
}

fn any_object() -> serde_json::Value {
    json!({ "type": "object" })
}

fn quick() -> FnTool {
    FnTool::new("tool", "Returns at once.", any_object(), |_| async { Ok("done".into()) }).effect(Effect::ReadOnly)
}

fn quick_on_a_thread() -> FnTool {
    FnTool::blocking("tool", "Returns at once.", any_object(), |_| Ok("done".into())).effect(Effect::ReadOnly)
}

/// A durable runtime on the disk that the project is built on, removed with its folder.
fn durable() -> (Runtime, TempDir) {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let journal = SqliteJournal::open(folder.path().join("andon.db")).expect("a database");
    (Runtime::builder().journal(Arc::new(journal)).build(), folder)
}

/// Microseconds per call, wall time, with 64 calls in flight.
fn cost(tool: fn() -> FnTool, runs: usize, calls: usize) -> f64 {
    let turns = 12_800 / (runs * calls);
    median(5, || {
        on_two_threads(async {
            let (runtime, _folder) = durable();
            let agent = Agent::builder().model(Caller { turns, calls }).runtime(&runtime).tool(tool()).build();
            let agent = agent.expect("an agent");
            let began = now();
            let started: Vec<Run> = (0..runs)
                .map(|number| {
                    agent.session("bench", format!("s{number}")).expect("a session").start("Go.").expect("a run")
                })
                .collect();
            for run in &started {
                assert_eq!(run.outcome().await.stop_reason(), "end_turn");
            }
            began.elapsed().as_secs_f64() * 1e6 / (runs * calls * turns) as f64
        })
    })
}

fn calls() -> Vec<Line> {
    let line = |what, reached, goal| Line { what, reached, unit: "µs", goal };
    vec![
        line("a tool call without work, 8 runs with 8 calls a turn", cost(quick, 8, 8), Goal::AtMost(60.0)),
        line("a whole turn with one tool call, 64 runs", cost(quick, 64, 1), Goal::None),
    ]
}

fn blocking_calls() -> Vec<Line> {
    let what = "a blocking call without work, 8 runs with 8 calls a turn";
    vec![Line { what, reached: cost(quick_on_a_thread, 8, 8), unit: "µs", goal: Goal::None }]
}

/// How long after the pull each of 1,000 cooperative tools notices it.
fn pull_notice() -> Vec<Line> {
    const RUNS: usize = 125;
    const CALLS: usize = 8;
    let mut worst = Vec::new();
    let reached = median(5, || {
        on_two_threads(async {
            let heard: Arc<Mutex<Vec<(usize, Instant)>>> = Arc::default();
            let at_work = Arc::new(AtomicUsize::new(0));
            let runtime = Runtime::builder().build();
            let mut runs = Vec::new();
            for number in 0..RUNS {
                let (heard, at_work) = (Arc::clone(&heard), Arc::clone(&at_work));
                let tool = FnTool::new("tool", "Waits for its cord.", any_object(), move |call| {
                    let (heard, at_work) = (Arc::clone(&heard), Arc::clone(&at_work));
                    async move {
                        at_work.fetch_add(1, Ordering::Relaxed);
                        call.cord.pulled().await;
                        heard.lock().push((number, now()));
                        Ok("told".into()) as Returned
                    }
                });
                let agent = Agent::builder().model(Caller { turns: 1, calls: CALLS }).runtime(&runtime).tool(tool);
                runs.push(agent.build().expect("an agent").start("Go.").expect("a run"));
            }
            while at_work.load(Ordering::Relaxed) < RUNS * CALLS {
                tokio::task::yield_now().await;
            }
            let mut took: Vec<Duration> = Vec::with_capacity(RUNS * CALLS);
            for (number, run) in runs.iter().enumerate() {
                let pulled = now();
                run.cancel(Cancel::graceful());
                run.outcome().await;
                let mut heard = heard.lock();
                took.extend(heard.drain(..).filter(|(of, _)| *of == number).map(|(_, at)| at - pulled));
            }
            assert_eq!(took.len(), RUNS * CALLS, "every tool was told");
            worst.push(quantile(&mut took, 1.0).as_secs_f64() * 1e3);
            quantile(&mut took, 0.99).as_secs_f64() * 1e3
        })
    });
    let max = median(worst.len(), || worst.pop().unwrap_or(f64::NAN));
    let line = |what, reached, goal| Line { what, reached, unit: "ms", goal };
    vec![
        line("pull until the tools are told, 1,000 cooperative tools at work, p99", reached, Goal::AtMost(1.0)),
        line("pull until the tools are told, 1,000 cooperative tools at work, worst", max, Goal::None),
    ]
}

/// How soon other runs settle while two async tools block their threads.
fn others() -> Vec<Line> {
    const PULLS: usize = 2_000;
    let measure = |blockers: usize| {
        median(5, || {
            on_two_threads(async {
                let runtime = Runtime::builder().build();
                let release = Arc::new(AtomicBool::new(false));
                let blocked = Arc::new(AtomicUsize::new(0));
                let flag = (Arc::clone(&release), Arc::clone(&blocked));
                let blocker = FnTool::new("tool", "Blocks its thread.", any_object(), move |_| {
                    let (release, blocked) = (Arc::clone(&flag.0), Arc::clone(&flag.1));
                    async move {
                        blocked.fetch_add(1, Ordering::Relaxed);
                        while !release.load(Ordering::Relaxed) {
                            #[expect(clippy::disallowed_methods, reason = "blocking its thread is what it is for")]
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        Ok("released".into()) as Returned
                    }
                });
                let stuck = Agent::builder().model(Caller { turns: 1, calls: 1 }).runtime(&runtime).tool(blocker);
                let stuck = stuck.build().expect("an agent");
                let stuck: Vec<Run> = (0..blockers)
                    .map(|number| {
                        stuck.session("bench", format!("b{number}")).expect("a session").start("Go.").expect("a run")
                    })
                    .collect();
                while blocked.load(Ordering::Relaxed) < blockers {
                    tokio::task::yield_now().await;
                }
                let kind = FnTool::new("tool", "Waits for its cord.", any_object(), |call| async move {
                    call.cord.pulled().await;
                    Ok("told".into()) as Returned
                });
                let agent = Agent::builder().model(Caller { turns: 1, calls: 1 }).runtime(&runtime).tool(kind).build();
                let agent = agent.expect("an agent");
                let mut took = Vec::with_capacity(PULLS);
                for number in 0..PULLS {
                    let run =
                        agent.session("bench", format!("o{number}")).expect("a session").start("Go.").expect("a run");
                    while run.passed().tools == 0 {
                        tokio::task::yield_now().await;
                    }
                    let pulled = now();
                    run.cancel(Cancel::graceful());
                    run.outcome().await;
                    took.push(pulled.elapsed());
                }
                release.store(true, Ordering::Relaxed);
                for run in &stuck {
                    run.outcome().await;
                }
                quantile(&mut took, 0.99).as_secs_f64() * 1e3
            })
        })
    };
    let line = |what, reached, goal| Line { what, reached, unit: "ms", goal };
    vec![
        line("pull to settled of other runs, nothing blocks, p99", measure(0), Goal::None),
        line("pull to settled of other runs, two async tools block, p99", measure(2), Goal::AtMost(1.0)),
    ]
}
