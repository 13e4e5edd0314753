//! Live runs: what they cost, and how soon they stop.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use andon_testkit::bench::{Goal, Line, median, now, quantile};
use tokio::task::spawn_local;

use crate::client::{Connection, with_body};
use crate::house::House;
use crate::process::on_one_thread;
use crate::reading;
use crate::scenes::{CLIENTS, all, create, ms, with_feeds};

/// The number of live runs in scenes with many.
const LIVE: usize = 10_000;

/// Reads a feed until its run has settled, and returns when that was.
async fn to_the_end(mut connection: Connection) -> Instant {
    let mut seen = None;
    while let Some(chunk) = connection.chunk().await {
        if reading::has(&chunk, "run_settled") {
            seen = Some(now());
        }
    }
    seen.expect("the feed tells the run's end")
}

/// Stops everything, waits until all of it has settled, and returns how long that took.
async fn stop_all(house: &House, runs: usize) -> Duration {
    let mut connection = Connection::open(house.address).await;
    let request = with_body("POST /v1/cancel", "application/json", r#"{"all":true,"wait":true}"#);
    let began = now();
    let (status, answer) = connection.whole(&request).await;
    let took = began.elapsed();
    assert_eq!(status, 200, "all have settled");
    let told = format!(r#"{{"cancelled":{runs},"settled":true"#);
    assert!(answer.starts_with(told.as_bytes()), "all {runs} were stopped");
    took
}

/// The memory of live runs with their feeds, and how soon all of them stop.
pub(crate) fn live() -> Vec<Line> {
    let Held { each, took, told } = hold(House::new(), "silent", LIVE);
    let line = |what, reached, unit, goal| Line { what, reached, unit, goal };
    vec![
        line("memory of a live run and its feed, 10,000 of them", each, "KiB", Goal::AtMost(40.0)),
        line("… all stopped by one selector and settled on disk", took, "s", Goal::AtMost(0.5)),
        line("… until the last of 10,000 readers has seen the end", told, "s", Goal::None),
    ]
}

/// What live runs with their feeds cost.
pub(crate) struct Held {
    /// The memory of each, in KiB.
    pub(crate) each: f64,
    /// Seconds until all were stopped and settled.
    pub(crate) took: f64,
    /// Seconds until the last reader had seen it.
    pub(crate) told: f64,
}

/// Starts runs of this app with their feeds, and stops them all.
pub(crate) fn hold(house: House, app: &str, runs: usize) -> Held {
    const WARM: usize = 500;
    let held = on_one_thread(async {
        // The first runs pay for threads and tables.
        let warm = with_feeds(&house, app, WARM, |connection, _| to_the_end(connection)).await;
        let before = house.process.memory();
        let readers = with_feeds(&house, app, runs, |connection, _| to_the_end(connection)).await;
        let each = (house.process.memory() - before) as f64 / runs as f64 / 1024.0;
        let began = now();
        let took = stop_all(&house, runs + WARM).await.as_secs_f64();
        let last = all(readers).await.into_iter().chain(all(warm).await).max().expect("a reader");
        Held { each, took, told: (last - began).as_secs_f64() }
    });
    let settled = house.kill_and_count_settled();
    assert_eq!(settled, runs + WARM, "all were on disk when the answer came");
    held
}

/// How soon 10,000 runs that nobody watches stop.
pub(crate) fn selector() -> Vec<Line> {
    let reached = median(3, || {
        let house = House::new();
        let took = on_one_thread(async {
            let address = house.address;
            let start = move || async move {
                let mut connection = Connection::open(address).await;
                for _ in 0..LIVE / CLIENTS + 1 {
                    let (status, _) = connection.whole(&create("silent", false)).await;
                    assert_eq!(status, 201, "the run is created");
                }
            };
            all((0..CLIENTS).map(|_| spawn_local(start())).collect()).await;
            stop_all(&house, (LIVE / CLIENTS + 1) * CLIENTS).await
        });
        assert!(house.kill_and_count_settled() >= LIVE, "all were on disk when the answer came");
        took.as_secs_f64()
    });
    let what = "10,000 runs without feeds, one selector, settled on disk";
    vec![Line { what, reached, unit: "s", goal: Goal::AtMost(1.0) }]
}

/// How soon one of a thousand live runs stops.
pub(crate) fn cancel() -> Vec<Line> {
    let mut lines = Vec::new();
    let kinds = [
        ("silent", 1, "cancel to 202, 1,000 silent runs, one at a time, p50"),
        ("silent", 16, "cancel to 202, 1,000 silent runs, 16 at a time, p50"),
        ("slow", 1, "cancel to 202, 1,000 with a piece every 100 ms, p50"),
    ];
    for (app, at_a_time, what) in kinds {
        lines.extend(stop_thousand(House::new, app, at_a_time, what));
    }
    lines
}

/// The median of three rounds of a thousand cancels.
pub(crate) fn stop_thousand(house: impl Fn() -> House, app: &str, at_a_time: usize, what: &'static str) -> [Line; 3] {
    let mut rounds: Vec<Stopped> = (0..3).map(|_| stop_each(house(), app, at_a_time)).collect();
    rounds.sort();
    let Stopped { to_202, to_end, median } = rounds.get(1).copied().unwrap_or_default();
    let line = |what, reached, goal| Line { what, reached: ms(reached), unit: "ms", goal };
    [
        line(what, median, Goal::None),
        line("… p99", to_202, Goal::AtMost(10.0)),
        line("… to the last event at the client, p99", to_end, Goal::AtMost(25.0)),
    ]
}

/// How long a thousand cancels took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Stopped {
    /// Until the response, p99.
    to_202: Duration,
    /// Until the end of the feed, p99.
    to_end: Duration,
    /// Until the response, p50.
    median: Duration,
}

/// Stops a thousand live runs with one request each, and measures the time to the response and to the end of the feed.
fn stop_each(house: House, app: &str, at_a_time: usize) -> Stopped {
    const RUNS: usize = 1_000;
    on_one_thread(async {
        let ids = Rc::new(RefCell::new(Vec::with_capacity(RUNS)));
        let readers = with_feeds(&house, app, RUNS, |connection, first| {
            let number = ids.borrow().len();
            ids.borrow_mut().push(reading::text(&first, "run").expect("a run's id").to_owned());
            async move { (number, to_the_end(connection).await) }
        })
        .await;
        let address = house.address;
        let stopping = (0..at_a_time).map(|first| {
            let ids = Rc::clone(&ids);
            spawn_local(async move {
                let mut connection = Connection::open(address).await;
                let mut stopped = Vec::new();
                for number in (first..RUNS).step_by(at_a_time) {
                    let run = ids.borrow().get(number).cloned().unwrap_or_default();
                    let request = with_body(&format!("POST /v1/runs/{run}/cancel"), "application/json", "{}");
                    let began = now();
                    let (status, _) = connection.whole(&request).await;
                    // The run may have settled by the time its cancel is recorded.
                    assert!(status == 202 || status == 200, "it is stopping: {status}");
                    stopped.push((number, began, began.elapsed()));
                }
                stopped
            })
        });
        let mut stopped: Vec<_> = all(stopping.collect()).await.into_iter().flatten().collect();
        stopped.sort_by_key(|(number, ..)| *number);
        let ends = all(readers).await;
        let mut to_202: Vec<Duration> = stopped.iter().map(|(_, _, took)| *took).collect();
        let both = stopped.iter().zip(&ends);
        let mut to_end: Vec<Duration> = both.map(|((_, began, _), (_, end))| *end - *began).collect();
        Stopped {
            to_202: quantile(&mut to_202, 0.99),
            to_end: quantile(&mut to_end, 0.99),
            median: quantile(&mut to_202, 0.5),
        }
    })
}
