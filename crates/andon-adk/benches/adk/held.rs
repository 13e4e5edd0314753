//! The memory of a run that is held open.

use tokio::task::spawn_local;

use crate::asking::{all, run_sse, session};
use crate::client::Connection;
use crate::house::House;
use crate::process::on_one_thread;
use crate::table::{Goal, Line, median};

const RUNS: usize = 2_000;
/// The first ones pay for threads and tables.
const WARM: usize = 500;
/// How many are started at once.
const AT_A_TIME: usize = 10;

/// Runs whose model has said one word and is silent, each with its reader.
pub(crate) fn memory() -> Vec<Line> {
    let (mut andon, mut adk) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let [ours, theirs] = House::both();
        andon.push(of_each(&ours));
        adk.push(of_each(&theirs));
    }
    let what = format!("memory of a held run with its reader, {RUNS} of them");
    vec![Line { what, andon: median(andon), adk: Some(median(adk)), unit: "KiB", goal: Goal::TimesAtMost(0.25) }]
}

fn of_each(house: &House) -> f64 {
    on_one_thread(async {
        let warm = hold(house, WARM).await;
        let before = house.process.memory();
        let held = hold(house, RUNS).await;
        let after = house.process.memory();
        assert_eq!(warm.len() + held.len(), WARM + RUNS, "all are open");
        after.saturating_sub(before) as f64 / RUNS as f64 / 1024.0
    })
}

/// Runs that have begun to speak.
async fn hold(house: &House, runs: usize) -> Vec<Connection> {
    let mut held = Vec::with_capacity(runs);
    while held.len() < runs {
        let at = house.address;
        let starting = (0..AT_A_TIME).map(|_| {
            spawn_local(async move {
                let session = session(at, "silent").await;
                let mut connection = Connection::open(at).await;
                connection.feed(&run_sse("silent", &session, "Go.")).await;
                connection.chunk().await.expect("a first event");
                connection
            })
        });
        held.extend(all(starting.collect()).await);
    }
    held
}
