//! Events a second through `/run_sse`.

use std::net::SocketAddr;

use andon_testkit::bench::now;
use memchr::memmem;
use tokio::task::spawn_local;

use crate::apps::PIECES;
use crate::asking::{all, run_sse, sessions};
use crate::client::Connection;
use crate::house::{House, Whose};
use crate::models::piece;
use crate::process::on_one_thread;
use crate::table::{Goal, Line, median};

/// How often each server has its turn.
const ROUNDS: usize = 3;

/// What one turn has shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) events: f64,
    pieces: f64,
}

/// Events per second. ADK's model has all pieces ready, which is when ADK is quickest. Ours is measured that way, where pieces that are
/// ready together share an event, and with a model that yields after each piece, where each piece is an event.
pub(crate) fn events() -> Vec<Line> {
    let both = House::both();
    let mut lines = Vec::new();
    for clients in [1, 16] {
        let (mut drip, mut flood, mut adk) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for house in &both {
                match house.whose {
                    // It is quicker, so it runs more often to be measured for as long.
                    Whose::Andon => {
                        drip.push(on_one_thread(rate(house, "drip", clients, 20)));
                        flood.push(on_one_thread(rate(house, "flood", clients, 40)));
                    }
                    Whose::Adk => {
                        let runs = if clients == 1 { 4 } else { 1 };
                        adk.push(on_one_thread(rate(house, "flood", clients, runs)));
                    }
                }
            }
        }
        let events = |of: &[Rate]| median(of.iter().map(|rate| rate.events).collect());
        let pieces = |of: &[Rate]| median(of.iter().map(|rate| rate.pieces).collect());
        let who = if clients == 1 { "one client".to_owned() } else { format!("{clients} clients") };
        let line =
            |what: &str, andon, adk, goal| Line { what: what.to_owned(), andon, adk: Some(adk), unit: "/s", goal };
        let what = format!("events a second through /run_sse, {who}");
        lines.push(line(&what, events(&drip), events(&adk), Goal::TimesAtLeast(20.0)));
        lines.push(line("… pieces ready together: events", events(&flood), events(&adk), Goal::None));
        lines.push(line("… pieces ready together: pieces", pieces(&flood), pieces(&adk), Goal::TimesAtLeast(20.0)));
    }
    lines
}

/// Clients that run one after the other, each in a new session.
pub(crate) async fn rate(house: &House, app: &'static str, clients: usize, runs: usize) -> Rate {
    let at = house.address;
    let mut of_clients = Vec::new();
    for _ in 0..clients {
        of_clients.push(sessions(at, app, runs).await);
    }
    let began = now();
    let clients = of_clients.into_iter().map(|sessions| spawn_local(read(house.whose, at, app, sessions))).collect();
    let told = all(clients).await;
    let took = began.elapsed().as_secs_f64();
    let (runs, events) = told.into_iter().fold((0, 0), |sum, (runs, events)| (sum.0 + runs, sum.1 + events));
    Rate { events: events as f64 / took, pieces: f64::from(PIECES) * runs as f64 / took }
}

/// Runs in each of the sessions, and counts: runs, and events as they are on the wire.
async fn read(whose: Whose, at: SocketAddr, app: &str, sessions: Vec<String>) -> (usize, usize) {
    let whole: String = (0..PIECES).map(piece).collect();
    let mut connection = Connection::open(at).await;
    let mut events = 0;
    for session in &sessions {
        connection.feed(&run_sse(app, session, "Go.")).await;
        let mut last = None;
        while let Some(chunk) = connection.chunk().await {
            events += memmem::find_iter(&chunk, b"\n\n").count();
            last = Some(chunk);
        }
        let last = last.expect("an event");
        let is_whole = memmem::find(&last, whole.as_bytes()).is_some();
        let shown = || String::from_utf8_lossy(last.get(..400).unwrap_or(&last)).into_owned();
        assert!(is_whole || whose == Whose::Adk, "the last event has the whole text: {}", shown());
        if !is_whole {
            // Its events were sent all the same, and count.
            eprintln!("a run of ADK's did not finish: {}", shown());
        }
    }
    (sessions.len(), events)
}
