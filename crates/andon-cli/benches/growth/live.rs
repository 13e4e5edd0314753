//! Many runs at once, each with its connection to the provider.

use andon_testkit::bench::now;
use tokio::task::spawn_local;

use crate::Length;
use crate::client::{Connection, with_body};
use crate::process::{on_one_thread, open_files};
use crate::program::{Program, asking, id, middle, run, start};
use crate::table::Table;

/// How many clients start them.
const CLIENTS: usize = 64;
/// How many are stopped one by one, and how often a list is asked for.
const TIMES: usize = 51;

/// What it costs that this many runs are live.
pub(crate) fn live(length: Length) -> Table {
    let costs = &[
        "cancel to 202, p50 (ms)",
        "a trivial run, p50 (ms)",
        "`/v1/runs?state=running&limit=20` (ms)",
        "`/metrics` (ms)",
        "memory (MB)",
    ];
    let mut table = Table::new("live runs", costs);
    let program = Program::start();
    on_one_thread(async {
        let mut ids = Vec::new();
        for many in length.steps([100, 1_000, 4_000, 50_000]) {
            // Each has a connection to the provider.
            let many = many.min(open_files().saturating_sub(2_000));
            ids.extend(hold(&program, many - ids.len()).await);
            // The server closes one that has been idle for as long as starting them takes.
            let mut connection = Connection::open(program.address).await;
            let mut costs = vec![stop_some(&mut connection, &mut ids).await];
            costs.push(alone(&mut connection).await);
            costs.push(asking(&mut connection, "/v1/runs?state=running&limit=20", TIMES).await);
            costs.push(asking(&mut connection, "/metrics", TIMES).await);
            costs.push(program.process.memory() as f64 / 1e6);
            table.add(many, costs);
        }
    });
    table
}

/// Starts this many runs that wait for their provider, and returns their ids.
async fn hold(program: &Program, runs: usize) -> Vec<String> {
    let starting: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (address, own) = (program.address, runs / CLIENTS + usize::from(client < runs % CLIENTS));
            spawn_local(async move {
                let mut connection = Connection::open(address).await;
                let request = start("local", None, "pieces=1 hold=1", "application/json");
                let mut ids = Vec::with_capacity(own);
                for _ in 0..own {
                    let (status, run) = connection.whole(&request).await;
                    assert_eq!(status, 201, "the run is created");
                    ids.push(id(&run).expect("a run's id"));
                }
                ids
            })
        })
        .collect();
    let mut ids = Vec::with_capacity(runs);
    for client in starting {
        ids.extend(client.await.expect("a client that finishes"));
    }
    ids
}

/// Stops some of them, one after the other.
async fn stop_some(connection: &mut Connection, ids: &mut Vec<String>) -> f64 {
    let mut took = Vec::with_capacity(TIMES);
    for run in ids.drain(..TIMES) {
        let request = with_body(&format!("POST /v1/runs/{run}/cancel"), "application/json", "{}");
        let began = now();
        let (status, _) = connection.whole(&request).await;
        assert!(status == 202 || status == 200, "it is stopping: {status}");
        took.push(began.elapsed());
    }
    middle(&mut took)
}

/// A run that is not held: the median of some, in ms.
async fn alone(connection: &mut Connection) -> f64 {
    let mut took = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let began = now();
        run(connection, "local", None, "pieces=1").await;
        took.push(began.elapsed());
    }
    middle(&mut took)
}
