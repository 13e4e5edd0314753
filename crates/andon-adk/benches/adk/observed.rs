//! What telemetry takes of the throughput.

use std::cell::Cell;
use std::rc::Rc;

use andon_testkit::bench::now;
use tokio::net::TcpListener;
use tokio::task::spawn_local;

use crate::asking::{all, run_sse, sessions};
use crate::client::Connection;
use crate::collector;
use crate::house::{House, OBSERVED};
use crate::process::on_one_thread;
use crate::streams;
use crate::table::{Goal, Line, median};

const ROUNDS: usize = 7;
const CLIENTS: usize = 16;
const RUNS: usize = 100;
/// How many runs a session has: each run of a long one costs more.
const OF_SESSION: usize = 10;

/// One-word runs per second, with two spans each, and events per second: with figures and spans that are sent to a collector,
/// compared with no telemetry at all. ADK's server is not measured.
pub(crate) fn telemetry() -> Vec<Line> {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let collector = format!("http://{}", port.local_addr().expect("an address"));
    let (plain, observed) = (House::ours(&[]), House::ours(&[OBSERVED, &collector]));
    let batches = Rc::new(Cell::new(0));
    let (mut without, mut with, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    let mut pieces = Vec::new();
    on_one_thread(async {
        port.set_nonblocking(true).expect("a port");
        spawn_local(collector::serve(TcpListener::from_std(port).expect("a port"), Rc::clone(&batches)));
        for _ in 0..ROUNDS {
            let (of_plain, of_observed) = (rate(&plain).await, rate(&observed).await);
            without.push(of_plain.0);
            with.push(of_observed.0);
            cpu.push(of_observed.1 - of_plain.1);
            let of_plain = streams::rate(&plain, "drip", CLIENTS, 5).await.events;
            let of_observed = streams::rate(&observed, "drip", CLIENTS, 5).await.events;
            pieces.push((1.0 - of_observed / of_plain) * 100.0);
        }
    });
    assert!(batches.get() > 0, "the collector got something");
    let lost = (1.0 - median(with.clone()) / median(without.clone())) * 100.0;
    let line = |what: &str, andon, unit, goal| Line { what: what.to_owned(), andon, adk: None, unit, goal };
    vec![
        line("runs of a word a second through /run_sse, 16 clients", median(without), "/s", Goal::None),
        line("… with figures, and spans over OTLP", median(with), "/s", Goal::None),
        line("… what telemetry takes of it", lost, "%", Goal::AtMost(10.0)),
        line("… and of the events a second of answers of 1,000 pieces", median(pieces), "%", Goal::AtMost(10.0)),
        line("… CPU time of the server that it adds to a run", median(cpu), "µs", Goal::None),
    ]
}

/// Runs a second, and microseconds of the server's CPU time for each.
async fn rate(house: &House) -> (f64, f64) {
    let at = house.address;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push((Connection::open(at).await, sessions(at, "hello", RUNS / OF_SESSION).await));
    }
    let (began, before) = (now(), house.process.cpu());
    let clients = clients.into_iter().map(|(mut connection, sessions)| {
        spawn_local(async move {
            for session in sessions.iter().flat_map(|session| std::iter::repeat_n(session, OF_SESSION)) {
                connection.feed(&run_sse("hello", session, "Go.")).await;
                while connection.chunk().await.is_some() {}
            }
        })
    });
    all(clients.collect()).await;
    let runs = (CLIENTS * RUNS) as f64;
    (runs / began.elapsed().as_secs_f64(), (house.process.cpu() - before) * 1e6 / runs)
}
