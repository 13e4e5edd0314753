//! What is measured.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::{Agent, Cancel, FeedItem, Run, Runtime};
use andon_testkit::bench::{Goal, Line, Scene, cpu, median, memory, now, quantile};
use std::future::Future;
use tokio::runtime::Builder;

use crate::models::Does;

/// All of them. Memory first, while the process is small.
pub(crate) const ALL: [Scene; 5] = [
    Scene { name: "memory", measure: memory_of_a_waiting_run },
    Scene { name: "pieces", measure: cost_of_a_piece },
    Scene { name: "runs", measure: trivial_runs },
    Scene { name: "stop", measure: stop_among_live_runs },
    Scene { name: "storm", measure: storm },
];

fn on_one_thread<T>(future: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

fn on_two_threads<T>(future: impl Future<Output = T>) -> T {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime").block_on(future)
}

fn agent(runtime: &Runtime, does: Does) -> Agent {
    Agent::builder().model(does).runtime(runtime).build().expect("an agent")
}

async fn read_to_the_end(run: &Run) -> usize {
    let mut feed = run.feed();
    let mut bytes = 0;
    while let Some(item) = feed.next().await {
        if let FeedItem::Delta(delta) = item {
            bytes += delta.text.len();
        }
    }
    bytes
}

fn cost_of_a_piece() -> Vec<Line> {
    const PIECES: u64 = 2_000_000;
    let cost = |does: Does, threads: fn(u64, Does) -> f64| median(5, || threads(PIECES, does));
    let line = |what, reached| Line { what, reached, unit: "µs", goal: Goal::AtMost(0.5) };
    vec![
        line("CPU a piece, one reader, pieces ready together", cost(Does::Flood(PIECES), stream_on_one)),
        line("CPU a piece, one reader, a driver and a reader poll a piece", cost(Does::Drip(PIECES), stream_on_one)),
        line("CPU a piece, one reader, run and reader on two threads", cost(Does::Flood(PIECES), stream_on_two)),
    ]
}

async fn stream(pieces: u64, does: Does) -> f64 {
    let agent = agent(&Runtime::builder().build(), does);
    let before = cpu();
    let run = agent.start("Stream.").expect("a run");
    let bytes = read_to_the_end(&run).await;
    let took = cpu() - before;
    assert_eq!(bytes as u64, pieces * 5, "the reader has seen every byte");
    took.as_secs_f64() * 1e6 / pieces as f64
}

fn stream_on_one(pieces: u64, does: Does) -> f64 {
    on_one_thread(stream(pieces, does))
}

fn stream_on_two(pieces: u64, does: Does) -> f64 {
    on_two_threads(stream(pieces, does))
}

fn trivial_runs() -> Vec<Line> {
    const CALLERS: usize = 16;
    const RUNS: usize = 10_000;
    let reached = median(5, || {
        on_two_threads(async {
            let runtime = Runtime::builder().build();
            let began = now();
            let mut callers = Vec::new();
            for caller in 0..CALLERS {
                let agent = agent(&runtime, Does::Flood(1));
                #[expect(clippy::disallowed_methods, reason = "the callers are not part of the runtime")]
                callers.push(tokio::spawn(async move {
                    for number in 0..RUNS {
                        let session = agent.session("bench", format!("{caller}-{number}")).expect("a session");
                        session.run("Hi.").await.expect("an outcome");
                    }
                }));
            }
            for caller in callers {
                caller.await.expect("a caller");
            }
            (CALLERS * RUNS) as f64 / began.elapsed().as_secs_f64()
        })
    });
    vec![Line { what: "trivial runs a second, 16 callers", reached, unit: "runs/s", goal: Goal::AtLeast(150_000.0) }]
}

async fn start_many(runtime: &Runtime, does: Does, runs: usize) -> Vec<Arc<Run>> {
    let agent = agent(runtime, does);
    let mut started = Vec::with_capacity(runs);
    for number in 0..runs {
        let session = agent.session("bench", format!("{runs}-{number}")).expect("a session");
        started.push(Arc::new(session.start("Wait.").expect("a run")));
    }
    while started.iter().any(|run| run.passed().models == 0) {
        tokio::task::yield_now().await;
    }
    started
}

fn memory_of_a_waiting_run() -> Vec<Line> {
    const RUNS: usize = 50_000;
    let (without, with) = on_two_threads(async {
        let runtime = Runtime::builder().build();
        // The first runs pay for threads and tables.
        let warm = start_many(&runtime, Does::Silence, 1_000).await;
        let before = memory();
        let runs = start_many(&runtime, Does::Silence, RUNS).await;
        let without = memory() - before;
        let mut readers = Vec::with_capacity(RUNS);
        for run in &runs {
            let mut feed = run.feed();
            while feed.try_next().is_some() {}
            readers.push(feed);
        }
        let with = memory() - before;
        drop((warm, readers, runs));
        runtime.shutdown(Duration::from_secs(60)).await.expect("all is over");
        (without, with)
    });
    let each = |bytes: u64| bytes as f64 / RUNS as f64 / 1024.0;
    let line = |what, reached| Line { what, reached, unit: "KiB", goal: Goal::AtMost(4.0) };
    vec![
        line("memory of a run that waits on its model, no reader", each(without)),
        line("memory of a run that waits on its model, with a reader", each(with)),
    ]
}

fn stop_among_live_runs() -> Vec<Line> {
    const RUNS: usize = 1_000;
    let mut p50s = Vec::new();
    let p99 = median(5, || {
        let (p50, p99) = on_two_threads(async {
            let runtime = Runtime::builder().build();
            let runs = start_many(&runtime, Does::Beat(Duration::from_millis(20)), RUNS).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            let mut took = Vec::with_capacity(RUNS);
            for run in &runs {
                let began = now();
                run.cancel(Cancel::graceful());
                run.outcome().await;
                took.push(began.elapsed());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            (quantile(&mut took, 0.5), quantile(&mut took, 0.99))
        });
        p50s.push(p50.as_secs_f64() * 1e3);
        p99.as_secs_f64() * 1e3
    });
    p50s.sort_by(f64::total_cmp);
    let p50 = p50s.get(p50s.len() / 2).copied().unwrap_or(f64::NAN);
    vec![
        Line {
            what: "pull to settled, 1,000 runs, a piece every 20 ms, p50",
            reached: p50,
            unit: "ms",
            goal: Goal::AtMost(0.5),
        },
        Line {
            what: "pull to settled, 1,000 runs, a piece every 20 ms, p99",
            reached: p99,
            unit: "ms",
            goal: Goal::AtMost(0.5),
        },
    ]
}

fn storm() -> Vec<Line> {
    const RUNS: usize = 10_000;
    let reached = median(7, || {
        on_two_threads(async {
            let runtime = Runtime::builder().build();
            let runs = start_many(&runtime, Does::Silence, RUNS).await;
            let began = now();
            for run in &runs {
                run.cancel(Cancel::graceful());
            }
            for run in &runs {
                run.outcome().await;
            }
            began.elapsed().as_secs_f64() * 1e3
        })
    });
    vec![Line { what: "10,000 live runs pulled at once, all settled", reached, unit: "ms", goal: Goal::AtMost(50.0) }]
}
