//! Runs whose model calls a provider over HTTP, in a separate process.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::{Agent, Cancel, FeedItem, Runtime};
use andon_store::SqliteJournal;
use andon_testkit::bench::{Goal, Line, cpu, now, quantile};
use tokio::runtime::Builder;

use crate::apps::prompt;
use crate::house::House;
use crate::models;
use crate::process::{folder, on_one_thread, open_files};
use crate::provider::{self, Provider, Reached};
use crate::scenes::{CLIENTS, Way, by_many, ms, rounds};
use crate::stops::{Held, hold, stop_thousand};

/// The number of trivial runs when their rate is measured.
const RUNS: usize = 12_000;

/// Trivial runs over HTTP, on SQLite.
pub(crate) fn runs() -> Vec<Line> {
    let kinds = [
        (Reached::Plain, "provider over HTTP: trivial run, one client, p50", "… trivial runs a second, 64 clients"),
        (Reached::Tls, "provider over HTTP/2 and TLS: trivial run, one client, p50", "… the same, 64 clients"),
    ];
    let mut lines = Vec::new();
    for (reached, alone, many) in kinds {
        let provider = Provider::start(reached);
        let house = House::asking(&provider);
        let (p50, rate, cpu) = on_one_thread(async {
            drop(rounds(house.address, "asks", 200, Way::Feed).await);
            let mut took = rounds(house.address, "asks", 1_000, Way::Feed).await;
            let (rate, cpu) = by_many(&house, "asks", RUNS).await;
            (quantile(&mut took, 0.5), rate, cpu)
        });
        let line = |what, reached, unit, goal| Line { what, reached, unit, goal };
        lines.push(line(alone, ms(p50), "ms", Goal::None));
        lines.push(line(many, rate, "runs/s", Goal::AtLeast(4_000.0)));
        lines.push(line("… CPU time of the server for each", cpu, "µs", Goal::AtMost(200.0)));
    }
    lines
}

fn on_two_threads<T>(future: impl Future<Output = T>) -> T {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads").block_on(future)
}

/// Trivial runs in this process, in memory.
pub(crate) fn library() -> Vec<Line> {
    let provider = Provider::start(Reached::Plain);
    let (rate, cpu) = on_two_threads(async {
        let runtime = Runtime::builder().build();
        let agent = agent(&runtime, &provider);
        talk(&agent, "warm", 640).await;
        let (began, before) = (now(), cpu());
        talk(&agent, "measured", 4 * RUNS).await;
        let runs = (4 * RUNS / CLIENTS * CLIENTS) as f64;
        (runs / began.elapsed().as_secs_f64(), (cpu() - before).as_secs_f64() * 1e6 / runs)
    });
    vec![
        Line {
            what: "provider over HTTP: runs a second in process, in memory, 64 at once",
            reached: rate,
            unit: "runs/s",
            goal: Goal::AtLeast(9_500.0),
        },
        Line { what: "… CPU time for each", reached: cpu, unit: "µs", goal: Goal::AtMost(200.0) },
    ]
}

fn agent(runtime: &Runtime, provider: &Provider) -> Agent {
    let model = provider::model(provider.url());
    Agent::builder().name("asks").model(model).runtime(runtime).build().expect("an agent")
}

/// Trivial runs, each in its own session, by as many callers as there are clients in the other scenes.
async fn talk(agent: &Agent, name: &'static str, runs: usize) {
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CLIENTS {
        let agent = agent.clone();
        callers.spawn(async move {
            for number in 0..runs / CLIENTS {
                let session = agent.session("bench", format!("{name}-{caller}-{number}")).expect("a session");
                let outcome = session.run(prompt("asks")).await.expect("an outcome");
                assert_eq!(outcome.text_so_far(), models::piece(0), "the provider has answered");
            }
        });
    }
    callers.join_all().await;
}

/// The server's resources.
struct Weight {
    /// In MB.
    memory: f64,
    threads: f64,
    descriptors: f64,
}

impl Weight {
    fn of(house: &House) -> Self {
        let process = &house.process;
        Self {
            memory: process.memory() as f64 / 1e6,
            threads: process.threads() as f64,
            descriptors: process.descriptors() as f64,
        }
    }
}

/// The resources that many runs leave in use.
pub(crate) fn many() -> Vec<Line> {
    let is_long = std::env::args().any(|word| word == "--long");
    let (most, after) = match is_long {
        true => (100_000, "provider over HTTP, after 100,000 runs: resident memory"),
        false => (20_000, "provider over HTTP, after 20,000 runs: resident memory"),
    };
    let provider = Provider::start(Reached::Plain);
    let house = House::asking(&provider);
    let (few, many) = on_one_thread(async {
        by_many(&house, "asks", 1_000).await;
        let few = Weight::of(&house);
        by_many(&house, "asks", most - 1_000).await;
        (few, Weight::of(&house))
    });
    let ended = house.process.terminate();
    let line = |what, reached, unit, goal| Line { what, reached, unit, goal };
    vec![
        line("provider over HTTP, after 1,000 runs: resident memory", few.memory, "MB", Goal::None),
        line("… threads", few.threads, "", Goal::None),
        line("… descriptors", few.descriptors, "", Goal::None),
        line(after, many.memory, "MB", Goal::AtMost(250.0)),
        line("… threads", many.threads, "", Goal::AtMost(few.threads)),
        line("… descriptors", many.descriptors, "", Goal::None),
        line("… from SIGTERM to the end of the process", ended.as_secs_f64(), "s", Goal::AtMost(10.0)),
    ]
}

/// The memory of live runs with feed and connection, and how soon all of them stop.
pub(crate) fn live() -> Vec<Line> {
    // Over HTTP/1.1 each run takes two of the server's connections, and some machines do not allow that many.
    let runs = 10_000.min(open_files().saturating_sub(2_000) / 2);
    let kinds = [
        (Reached::Plain, "provider over HTTP: live runs with their feeds"),
        (Reached::Tls, "provider over HTTP/2 and TLS: live runs with their feeds"),
    ];
    let hold = |(reached, what)| {
        let provider = Provider::start(reached);
        let Held { each, took, told } = hold(House::asking(&provider), "asks-held", runs);
        let line = |what, reached, unit, goal| Line { what, reached, unit, goal };
        [
            line(what, runs as f64, "", Goal::None),
            line("… memory of each, with its feed and the connection", each, "KiB", Goal::AtMost(40.0)),
            line("… all stopped by one selector and settled on disk", took, "s", Goal::AtMost(1.0)),
            line("… until the last reader has seen the end", told, "s", Goal::None),
        ]
    };
    kinds.into_iter().flat_map(hold).collect()
}

/// How soon one of a thousand live runs stops, over HTTP.
pub(crate) fn cancel() -> Vec<Line> {
    let provider = Provider::start(Reached::Plain);
    let house = || House::asking(&provider);
    let kinds = [
        (1, "provider over HTTP: cancel to 202, 1,000 held runs, one at a time, p50"),
        (16, "provider over HTTP: cancel to 202, 16 at a time, p50"),
    ];
    kinds.into_iter().flat_map(|(at_a_time, what)| stop_thousand(house, "asks-held", at_a_time, what)).collect()
}

/// How soon a run stops in this process.
pub(crate) fn stop() -> Vec<Line> {
    let provider = Provider::start(Reached::Plain);
    let mut lines = Vec::new();
    let mut add = |what, more, mut took: Vec<Duration>, goal| {
        let mut line = |what, share, goal| Line { what, reached: ms(quantile(&mut took, share)), unit: "ms", goal };
        lines.extend([line(what, 0.5, Goal::None), line(more, 0.99, Goal::AtMost(goal))]);
    };
    let took = stop_one_by_one(&Runtime::builder().build(), &provider);
    add("provider over HTTP: pull to settled, in memory, p50", "… p99", took, 0.5);
    let folder = folder();
    let journal = SqliteJournal::open(folder.path().join("andon.db")).expect("a database");
    let took = stop_one_by_one(&Runtime::builder().journal(Arc::new(journal)).build(), &provider);
    add("provider over HTTP: pull to settled, on SQLite, p50", "… p99", took, 1.5);
    lines
}

/// Starts a run, waits for its first word, and stops it, repeatedly.
fn stop_one_by_one(runtime: &Runtime, provider: &Provider) -> Vec<Duration> {
    const STOPS: usize = 2_000;
    on_two_threads(async {
        let agent = agent(runtime, provider);
        let mut took = Vec::with_capacity(STOPS);
        for number in 0..STOPS {
            let session = agent.session("bench", number.to_string()).expect("a session");
            let run = session.start(prompt("asks-held")).expect("a run");
            let mut feed = run.feed();
            while !matches!(feed.next().await, Some(FeedItem::Delta(_))) {}
            let began = now();
            run.cancel(Cancel::graceful());
            run.outcome().await;
            took.push(began.elapsed());
        }
        took
    })
}
