//! Answers streamed through feeds.

use andon_testkit::bench::{Goal, Line, median, now};

use crate::apps::{PACED, PIECES};
use crate::client::Connection;
use crate::house::House;
use crate::process::on_one_thread;
use crate::reading::Folded;
use crate::scenes::{all, with_feeds};

/// The number of answers streamed at once.
const RUNS: usize = 32;
/// The number of answers that come at their own pace.
const MANY: usize = 1_000;

/// Reads a feed to its end, checks that no piece is lost, and returns the number of events.
async fn fold(mut connection: Connection, first: Vec<u8>, pieces: u32) -> u64 {
    let mut folded = Folded::new();
    folded.take(&first);
    while let Some(chunk) = connection.chunk().await {
        folded.take(&chunk);
    }
    assert_eq!(folded.pieces(), pieces as usize, "nothing is lost");
    folded.events
}

/// How many pieces pass per second, in total.
pub(crate) fn pieces() -> Vec<Line> {
    let mut lines = Vec::new();
    let kinds = [
        ("drip", "pieces a second through SSE, 32 runs, the model yields at each", "… pieces in an event"),
        ("flood", "pieces a second through SSE, 32 runs, pieces ready together", "… pieces in an event"),
    ];
    let house = House::new();
    for (app, what, together) in kinds {
        let mut each = f64::NAN;
        let reached = median(3, || {
            let began = now();
            let events: u64 = on_one_thread(async {
                let readers = with_feeds(&house, app, RUNS, |connection, first| fold(connection, first, PIECES)).await;
                all(readers).await.into_iter().sum()
            });
            let pieces = f64::from(PIECES) * RUNS as f64;
            each = pieces / events as f64;
            pieces / began.elapsed().as_secs_f64()
        });
        lines.push(Line { what, reached, unit: "/s", goal: Goal::AtLeast(100_000.0) });
        lines.push(Line { what: together, reached: each, unit: "", goal: Goal::None });
    }
    lines.extend(paced());
    lines
}

/// A thousand answers with a piece every 20 ms: the rate reached, and the server's CPU time per piece.
fn paced() -> Vec<Line> {
    let house = House::new();
    let (rate, cpu) = on_one_thread(async {
        let (began, before) = (now(), house.process.cpu());
        let readers = with_feeds(&house, "paced", MANY, |connection, first| fold(connection, first, PACED)).await;
        all(readers).await;
        let pieces = f64::from(PACED) * MANY as f64;
        let took = began.elapsed().as_secs_f64();
        (pieces / took, (house.process.cpu() - before) * 1e6 / pieces)
    });
    let line = |what, reached, unit| Line { what, reached, unit, goal: Goal::None };
    vec![
        line("pieces a second, 1,000 runs, one every 20 ms each", rate, "/s"),
        line("… CPU time of the server for each", cpu, "µs"),
    ]
}
