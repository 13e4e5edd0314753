//! What is measured: trivial runs, and what a live run costs. Streams and stops have their own files.

use std::io::Write as _;
use std::time::Duration;

use andon_testkit::bench::{Goal, Line, Scene, median, now, quantile};
use memchr::memmem;
use tokio::task::{JoinHandle, spawn_local};

use crate::client::{Connection, get, with_body};
use crate::house::House;
use crate::process::{folder, on_one_thread};
use crate::{apps, provided, reading, stops, streams};

/// All scenes. Those whose names begin with `provider` call one, over HTTP.
pub(crate) const ALL: [Scene; 12] = [
    Scene { name: "disk", measure: disk },
    Scene { name: "live", measure: stops::live },
    Scene { name: "selector", measure: stops::selector },
    Scene { name: "cancel", measure: stops::cancel },
    Scene { name: "pieces", measure: streams::pieces },
    Scene { name: "trivial", measure: trivial },
    Scene { name: "provider-runs", measure: provided::runs },
    Scene { name: "provider-library", measure: provided::library },
    Scene { name: "provider-many", measure: provided::many },
    Scene { name: "provider-live", measure: provided::live },
    Scene { name: "provider-cancel", measure: provided::cancel },
    Scene { name: "provider-stop", measure: provided::stop },
];

/// How a feed says that its run completed.
const COMPLETED: &[u8] = br#""kind":"completed""#;

/// The number of concurrent clients in scenes with many.
pub(crate) const CLIENTS: usize = 64;

/// What the disk can do: pages are written and made durable one after another.
fn disk() -> Vec<Line> {
    const WRITES: u32 = 500;
    let reached = median(3, || {
        let folder = folder();
        let mut file = std::fs::File::create(folder.path().join("file")).expect("a file");
        let began = now();
        for _ in 0..WRITES {
            file.write_all(&[7; 8192]).expect("a page");
            file.sync_data().expect("a durable page");
        }
        began.elapsed().as_secs_f64() * 1e3 / f64::from(WRITES)
    });
    vec![Line { what: "the disk alone: a page of 8 KiB, made durable", reached, unit: "ms", goal: Goal::None }]
}

/// Milliseconds.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Waits for all tasks and returns their results.
pub(crate) async fn all<T: 'static>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut results = Vec::with_capacity(tasks.len());
    for task in tasks {
        results.push(task.await.expect("a client that finishes"));
    }
    results
}

/// A request that starts a run; the response is the run, or its feed.
pub(crate) fn create(app: &str, wants_feed: bool) -> Vec<u8> {
    let accept = if wants_feed { "text/event-stream" } else { "application/json" };
    let body = format!(r#"{{"app":"{app}","input":"{}"}}"#, apps::prompt(app));
    with_body("POST /v1/runs", accept, &body)
}

/// Starts runs, `CLIENTS` at a time, each with its feed on its own connection. `read` gets the first chunk, or all chunks until a
/// provider has said something, and reads on.
pub(crate) async fn with_feeds<T: 'static, F: Future<Output = T> + 'static>(
    house: &House,
    app: &str,
    runs: usize,
    read: impl Fn(Connection, Vec<u8>) -> F,
) -> Vec<JoinHandle<T>> {
    let mut readers = Vec::with_capacity(runs);
    while readers.len() < runs {
        let starting: Vec<_> = (readers.len()..runs.min(readers.len() + CLIENTS))
            .map(|_| {
                let (address, request, asks) = (house.address, create(app, true), apps::asks(app));
                spawn_local(async move {
                    let mut connection = Connection::open(address).await;
                    connection.feed(&request).await;
                    let mut first = connection.chunk().await.expect("a feed with something in it").to_vec();
                    while asks && !reading::has(&first, "delta") {
                        first.extend_from_slice(&connection.chunk().await.expect("an answer"));
                    }
                    (connection, first)
                })
            })
            .collect();
        readers.extend(all(starting).await.into_iter().map(|(connection, first)| spawn_local(read(connection, first))));
    }
    readers
}

/// A run that says one word.
fn trivial() -> Vec<Line> {
    const ALONE: usize = 1_500;
    const MANY: usize = 12_000;
    let house = House::new();
    let at = house.address;
    let (by_feed, by_get, rate, cpu) = on_one_thread(async {
        drop(rounds(at, "hello", 200, Way::Feed).await);
        let mut fed = rounds(at, "hello", ALONE, Way::Feed).await;
        let mut got = rounds(at, "hello", ALONE, Way::PostAndGet).await;
        let (rate, cpu) = by_many(&house, "hello", MANY).await;
        (quantile(&mut fed, 0.5), quantile(&mut got, 0.5), rate, cpu)
    });
    let line = |what, reached, unit, goal| Line { what, reached, unit, goal };
    vec![
        line("trivial run, POST to the end of its feed, one client, p50", ms(by_feed), "ms", Goal::AtMost(1.5)),
        line("trivial run, POST, then GET its feed to the end, p50", ms(by_get), "ms", Goal::AtMost(1.5)),
        line("trivial runs a second, 64 clients", rate, "runs/s", Goal::AtLeast(4_000.0)),
        line("… CPU time of the server for each", cpu, "µs", Goal::None),
    ]
}

/// Trivial runs by many clients: runs per second, and the server's CPU time per run in µs.
pub(crate) async fn by_many(house: &House, app: &'static str, runs: usize) -> (f64, f64) {
    let (began, before) = (now(), house.process.cpu());
    let clients = (0..CLIENTS).map(|_| spawn_local(rounds(house.address, app, runs / CLIENTS, Way::Feed))).collect();
    drop(all(clients).await);
    let runs = (runs / CLIENTS * CLIENTS) as f64;
    (runs / began.elapsed().as_secs_f64(), (house.process.cpu() - before) * 1e6 / runs)
}

#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// The response to the request is the feed.
    Feed,
    /// The run is created, and then its feed is requested.
    PostAndGet,
}

/// Trivial runs, one after another, and how long each took.
pub(crate) async fn rounds(at: std::net::SocketAddr, app: &str, runs: usize, way: Way) -> Vec<Duration> {
    let mut connection = Connection::open(at).await;
    let request = create(app, matches!(way, Way::Feed));
    let mut took = Vec::with_capacity(runs);
    for _ in 0..runs {
        let began = now();
        match way {
            Way::Feed => connection.feed(&request).await,
            Way::PostAndGet => {
                let (status, run) = connection.whole(&request).await;
                assert_eq!(status, 201, "the run is created");
                let run = reading::text(&run, "run_id").expect("a run's id");
                connection.feed(&get(&format!("/v1/runs/{run}/events"))).await;
            }
        }
        let mut completed = false;
        while let Some(chunk) = connection.chunk().await {
            completed |= reading::has(&chunk, "run_settled") && memmem::find(&chunk, COMPLETED).is_some();
        }
        assert!(completed, "the feed tells the run's end, and that it completed");
        took.push(began.elapsed());
    }
    took
}
