//! What a shim costs, and how soon a tree is dead. `cargo bench -p andon-tools --bench process` prints the table.

#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to measure")]

use std::process::Stdio;
use std::time::Duration;

use andon_testkit::bench::{Goal, Line, Scene, now, quantile, table};
use andon_tools::process::{Command, Stop, Tree};
use tokio::runtime::Runtime;

/// How often a process is started.
const STARTS: usize = 500;
/// How often a tree of 200 is killed.
const TREES: usize = 30;

fn main() {
    andon_shim::init();
    table(&[Scene { name: "spawn", measure: spawn }, Scene { name: "kill", measure: kill }]);
}

struct Never;

impl Stop for Never {
    async fn told(&self) {
        std::future::pending().await
    }

    fn time_left(&self) -> Option<Duration> {
        None
    }
}

/// Start and end of `/bin/true`, alternately plain and under the shim, so that both have the same noise.
fn spawn() -> Vec<Line> {
    let runtime = Runtime::new().expect("a runtime");
    let (mut plain, mut shim) = (Vec::new(), Vec::new());
    runtime.block_on(async {
        for _ in 0..STARTS {
            let begun = now();
            let mut command = tokio::process::Command::new("/bin/true");
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.output().await.expect("/bin/true runs");
            plain.push(begun.elapsed());
            let begun = now();
            let tree = Tree::new();
            Command::new("/bin/true").run(&tree, &Never, |_| {}).await.expect("/bin/true runs");
            tree.end().await;
            shim.push(begun.elapsed());
        }
    });
    let (plain_p50, plain_p99) = (ms(quantile(&mut plain, 0.5)), ms(quantile(&mut plain, 0.99)));
    let (shim_p50, shim_p99) = (ms(quantile(&mut shim, 0.5)), ms(quantile(&mut shim, 0.99)));
    vec![
        line("start and end of /bin/true, plain, p50", plain_p50, Goal::None),
        line("start and end of /bin/true, plain, p99", plain_p99, Goal::None),
        line("start and end of /bin/true, under the shim, p50", shim_p50, Goal::None),
        line("start and end of /bin/true, under the shim, p99", shim_p99, Goal::None),
        line("what the shim adds, p50", shim_p50 - plain_p50, Goal::AtMost(3.0)),
    ]
}

/// From the order to kill to the proof that all 200 are dead.
fn kill() -> Vec<Line> {
    let runtime = Runtime::new().expect("a runtime");
    let script = "i=0; while [ $i -lt 199 ]; do sleep 1000000 & i=$((i + 1)); done; echo up; wait";
    let mut times = Vec::new();
    runtime.block_on(async {
        for _ in 0..TREES {
            let tree = Tree::new();
            let mut running = Command::new("sh").args(["-c", script]).start(&tree).await.expect("sh runs");
            let up = running.stdout.take().expect("its output");
            up.readable().await.expect("it says that it is up");
            let begun = now();
            let remains = tree.end().await;
            times.push(begun.elapsed());
            assert!(remains.is_none(), "all are dead");
        }
    });
    vec![
        line("200 processes dead, p50", ms(quantile(&mut times, 0.5)), Goal::AtMost(100.0)),
        line("200 processes dead, p99", ms(quantile(&mut times, 0.99)), Goal::AtMost(100.0)),
    ]
}

fn line(what: &'static str, reached: f64, goal: Goal) -> Line {
    Line { what, reached, unit: "ms", goal }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
