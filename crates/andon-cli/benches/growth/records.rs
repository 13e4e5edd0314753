//! Much on record: sessions of one user, and runs of many.

use tokio::task::spawn_local;

use crate::Length;
use crate::client::Connection;
use crate::process::on_one_thread;
use crate::program::{Program, asking, run};
use crate::table::Table;

/// How many clients fill the record.
const CLIENTS: usize = 64;
/// How often a list is asked for.
const TIMES: usize = 51;

/// What it costs that one user has this many sessions.
pub(crate) fn sessions(length: Length) -> Table {
    let costs =
        &["`/v1/sessions?user=…&limit=20` (ms)", "`/v1/sessions?limit=20` (ms)", "a new run (ms)", "on disk (KB each)"];
    let mut table = Table::new("sessions of one user", costs);
    let paths = ["/v1/sessions?user=one&limit=20", "/v1/sessions?limit=20"];
    let whose = |_: usize| "one".to_owned();
    fill(&mut table, &length.steps([100, 1_000, 10_000, 100_000]), &paths, whose);
    table
}

/// What it costs that this many runs of many users are on record.
pub(crate) fn runs(length: Length) -> Table {
    let costs = &[
        "`/v1/runs?limit=20` (ms)",
        "`…&user=…` (ms)",
        "`…&state=running` (ms)",
        "`/metrics` (ms)",
        "a new run (ms)",
        "on disk (KB each)",
    ];
    let mut table = Table::new("runs on record", costs);
    let paths = ["/v1/runs?limit=20", "/v1/runs?user=user-7&limit=20", "/v1/runs?state=running&limit=20", "/metrics"];
    let whose = |client: usize| format!("user-{client}");
    fill(&mut table, &length.steps([100, 1_000, 10_000, 100_000]), &paths, whose);
    table
}

/// Makes runs, each in its own session, and requests these paths at each step.
fn fill(table: &mut Table, steps: &[usize], paths: &[&str], whose: fn(usize) -> String) {
    let program = Program::start();
    on_one_thread(async {
        let mut done = 0;
        for many in steps {
            make(&program, many - done, whose).await;
            done = *many;
            // The server closes one that has been idle for as long as filling takes.
            let mut connection = Connection::open(program.address).await;
            let mut costs = Vec::new();
            for path in paths {
                costs.push(asking(&mut connection, path, TIMES).await);
            }
            let on_disk = program.on_disk() as f64 / 1e3 / done as f64;
            costs.push(alone(&mut connection, &whose(7)).await);
            done += TIMES;
            costs.push(on_disk);
            table.add(*many, costs);
        }
    });
}

/// Makes this many runs.
async fn make(program: &Program, runs: usize, whose: fn(usize) -> String) {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (address, own) = (program.address, runs / CLIENTS + usize::from(client < runs % CLIENTS));
            spawn_local(async move {
                let (mut connection, user) = (Connection::open(address).await, whose(client));
                for _ in 0..own {
                    run(&mut connection, &user, None, "pieces=1").await;
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("a client that finishes");
    }
}

/// A run, from POST to the end of its feed: the median of some, in ms.
async fn alone(connection: &mut Connection, user: &str) -> f64 {
    let mut took = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let began = andon_testkit::bench::now();
        run(connection, user, None, "pieces=1").await;
        took.push(began.elapsed());
    }
    crate::program::middle(&mut took)
}
