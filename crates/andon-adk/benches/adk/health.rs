//! `/health` while tools block.

use std::net::SocketAddr;
use std::time::Duration;

use andon_testkit::bench::{now, quantile};
use tokio::task::spawn_local;
use tokio::time::interval;

use crate::apps::NAPPERS;
use crate::asking::{all, run_sse, session};
use crate::client::{Connection, get};
use crate::house::{House, Whose};
use crate::process::on_one_thread;
use crate::table::{Goal, Line, ms};

/// How many ask for health, one every [`PACE`], however long the others wait.
const ASKED: usize = 400;
const PACE: Duration = Duration::from_millis(10);

/// Health, asked for at a steady pace: with 500 blocking tools in ours, and with one in theirs.
pub(crate) fn health() -> Vec<Line> {
    let both = House::both();
    let [mut andon, mut adk] = both.each_ref().map(|house| {
        on_one_thread(async {
            let nappers = if house.whose == Whose::Andon { NAPPERS } else { 1 };
            let napping = nap(house.address, nappers).await;
            let took = probe(house.address).await;
            assert!(napping.iter().all(|run| !run.is_finished()), "the tools slept all the while");
            took
        })
    });
    let mut line = |what: String, share, goal| {
        let (andon, adk) = (ms(quantile(&mut andon, share)), Some(ms(quantile(&mut adk, share))));
        Line { what, andon, adk, unit: "ms", goal }
    };
    vec![
        line(format!("/health while {NAPPERS} blocking tools sleep (ADK: one), p50"), 0.5, Goal::None),
        line("… p99".to_owned(), 0.99, Goal::AtMost(5.0)),
    ]
}

/// Runs whose tools are asleep.
async fn nap(at: SocketAddr, runs: usize) -> Vec<tokio::task::JoinHandle<()>> {
    let mut napping = Vec::with_capacity(runs);
    for _ in 0..runs {
        let session = session(at, "napper").await;
        let mut connection = Connection::open(at).await;
        connection.feed(&run_sse("napper", &session, "Go.")).await;
        let call = connection.chunk().await.expect("the call of the tool");
        assert!(memchr::memmem::find(&call, b"functionCall").is_some(), "the model asks for a nap");
        napping.push(spawn_local(async move { while connection.chunk().await.is_some() {} }));
    }
    napping
}

async fn probe(at: SocketAddr) -> Vec<Duration> {
    let mut pace = interval(PACE);
    let mut asked = Vec::with_capacity(ASKED);
    for _ in 0..ASKED {
        pace.tick().await;
        asked.push(spawn_local(async move {
            let began = now();
            let (status, _) = Connection::open(at).await.whole(&get("/health")).await;
            assert_eq!(status, 200, "it is well");
            began.elapsed()
        }));
    }
    all(asked).await
}
