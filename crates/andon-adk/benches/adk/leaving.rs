//! From a closed connection to the model's closed connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use andon_testkit::bench::{now, quantile};
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::asking::{all, run_sse, session};
use crate::client::Connection;
use crate::house::{House, Whose};
use crate::process::on_one_thread;
use crate::table::{Goal, Line, ms};
use crate::upstream::Upstream;

/// How often each server has its turn, and how many leave it in a turn.
const ROUNDS: usize = 4;
const LEAVE: usize = 80;
/// It counts as so long when it takes longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client leaves in the middle of an answer: how soon is the model's own connection closed?
pub(crate) fn disconnect() -> Vec<Line> {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let upstream = Upstream::default();
    let address = port.local_addr().expect("an address");
    let both = House::both_before(&format!("http://{address}/v1"));
    on_one_thread(async {
        upstream.serve(port);
        let mut lines = Vec::new();
        for at_a_time in [1, 16] {
            let (mut andon, mut adk) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                for house in &both {
                    let took = leave(house, &upstream, at_a_time).await;
                    match house.whose {
                        Whose::Andon => andon.extend(took),
                        Whose::Adk => adk.extend(took),
                    }
                }
            }
            let what = format!("disconnect to the model's connection closed, {at_a_time} at a time, p50");
            let mut line = |what: String, share, goal| {
                let (andon, adk) = (ms(quantile(&mut andon, share)), Some(ms(quantile(&mut adk, share))));
                lines.push(Line { what, andon, adk, unit: "ms", goal });
            };
            line(what, 0.5, Goal::None);
            line(format!("… p99 of {}", ROUNDS * LEAVE), 0.99, Goal::TimesAtMost(1.0));
        }
        lines
    })
}

/// How long each of many clients took to leave, `at_a_time` of them at once.
async fn leave(house: &House, upstream: &Upstream, at_a_time: usize) -> Vec<Duration> {
    let (whose, at) = (house.whose, house.address);
    let clients = (0..at_a_time).map(|_| {
        let upstream = upstream.clone();
        spawn_local(async move {
            let mut took = Vec::new();
            for _ in 0..LEAVE / at_a_time {
                took.push(leave_once(whose, at, &upstream).await);
            }
            took
        })
    });
    all(clients.collect()).await.concat()
}

async fn leave_once(whose: Whose, at: SocketAddr, upstream: &Upstream) -> Duration {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let prompt = format!("run-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let session = session(at, "upstream").await;
    let closed = upstream.closed(&prompt);
    let mut connection = Connection::open(at).await;
    connection.feed(&run_sse("upstream", &session, &prompt)).await;
    for _ in 0..3 {
        connection.chunk().await.expect("a piece");
    }
    let left = now();
    drop(connection);
    match timeout(PATIENCE, closed).await {
        Ok(closed) => closed.expect("the upstream is there").saturating_duration_since(left),
        Err(_) => {
            eprintln!("{whose:?} has not closed the model's connection of {session} within {PATIENCE:?}");
            PATIENCE
        }
    }
}
