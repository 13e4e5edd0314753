//! What it costs to ask who asks.

use andon_testkit::bench::now;

use crate::client::Connection;
use crate::house::{GUARDED, House};
use crate::process::on_one_thread;
use crate::table::{Goal, Line, median};

const REQUESTS: u32 = 5_000;
const ROUNDS: usize = 7;

/// The time and the CPU time of a small request, with and without a key. ADK's server has no such thing.
pub(crate) fn auth() -> Vec<Line> {
    let (open, guarded) = (House::ours(&[]), House::ours(&[GUARDED]));
    assert!(open.key.is_none() && guarded.key.is_some(), "one of them asks for a key");
    let (mut time, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (without, with) = (ask(&open), ask(&guarded));
        time.push(with.0 - without.0);
        cpu.push(with.1 - without.1);
    }
    let line = |what: &str, andon, goal| Line { what: what.to_owned(), andon, adk: None, unit: "µs", goal };
    vec![
        line("authentication by key adds to a request", median(time), Goal::AtMost(20.0)),
        line("… CPU time of the server", median(cpu), Goal::AtMost(20.0)),
    ]
}

/// Asks again and again: microseconds of a request, and of the server's CPU time.
fn ask(house: &House) -> (f64, f64) {
    let key = house.key.as_deref().map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
    let request = format!("GET /list-apps HTTP/1.1\r\nHost: localhost\r\n{key}\r\n").into_bytes();
    on_one_thread(async {
        let mut connection = Connection::open(house.address).await;
        let (before, mut took) = (house.process.cpu(), Vec::with_capacity(REQUESTS as usize));
        for _ in 0..REQUESTS {
            let began = now();
            let (status, _) = connection.whole(&request).await;
            assert_eq!(status, 200, "it is answered");
            took.push(began.elapsed().as_secs_f64() * 1e6);
        }
        let cpu = (house.process.cpu() - before) * 1e6 / f64::from(REQUESTS);
        (median(took), cpu)
    })
}
