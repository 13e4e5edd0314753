//! A connection that is lost, and a server that is away for a while, cost nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use andon_runtime::Journal;
use andon_store::{PostgresJournal, PostgresOptions};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::server::{alone, control, journal, new_schema, shared, sql};
use crate::traffic::write_run;
use crate::wire::Wire;

/// Asks again and again until there is something.
pub(crate) async fn until_some<T>(look: impl Fn() -> Option<T>) -> T {
    loop {
        match look() {
            Some(found) => return found,
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Runs in progress.
struct Traffic {
    journal: Arc<dyn Journal>,
    is_over: Arc<AtomicBool>,
    runs: Vec<JoinHandle<usize>>,
}

#[expect(clippy::disallowed_methods, reason = "these tasks use a journal without a runtime")]
fn start(journal: Arc<dyn Journal>, count: usize) -> Traffic {
    let is_over = Arc::new(AtomicBool::new(false));
    let run = |number: usize| {
        let over = Arc::clone(&is_over);
        tokio::spawn(write_run(Arc::clone(&journal), format!("r{number}"), move || over.load(Ordering::SeqCst)))
    };
    let runs = (0..count).map(run).collect();
    Traffic { journal, is_over, runs }
}

impl Traffic {
    /// Ends all runs; returns how many facts and lumps they have.
    async fn end(self) -> usize {
        self.is_over.store(true, Ordering::SeqCst);
        let mut entries = 0;
        for run in self.runs {
            entries += run.await.unwrap();
        }
        assert_eq!(self.journal.unsettled().await, Ok(vec![]));
        assert_eq!(self.journal.trouble(), None);
        entries
    }
}

/// Checks P10: a fact is stored once, however often its commit has to be sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_at_any_moment_loses_nothing_and_doubles_nothing() {
    let _server = shared();
    let schema = new_schema();
    let traffic = start(Arc::new(journal(&schema)), 12);
    let cut = format!(
        "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE application_name LIKE 'andon writer %{schema}%'"
    );
    let mut cuts = 0;
    for _ in 0..80 {
        tokio::time::sleep(Duration::from_micros(fastrand::u64(1_000..60_000))).await;
        cuts += sql(&cut).len();
    }
    let entries = traffic.end().await;
    println!("{entries} facts and lumps with {cuts} connections cut");
    assert!(cuts > 10, "the writer's connection was found only {cuts} times");
}

/// Checks P10: a commit whose answer was lost is neither repeated nor given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_found_again() {
    let _server = shared();
    let wire = Wire::new();
    let options = PostgresOptions::new().schema(new_schema());
    let journal = PostgresJournal::open_with(&wire.url(), &options).unwrap();
    wire.cut_at_commits();
    let traffic = start(Arc::new(journal), 8);
    while wire.cuts() < 60 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    wire.cut_no_more();
    println!("{} facts and lumps with {} answers lost", traffic.end().await, wire.cuts());
}

/// Checks P10: everything waits for a server that is away, and then goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_for_five_seconds_costs_nothing() {
    let _server = alone();
    let traffic = start(Arc::new(journal(&new_schema())), 20);
    while traffic.journal.unsettled().await.unwrap().len() < 20 {
        tokio::task::yield_now().await;
    }
    control("stop");
    // The outage itself takes real time. The writer must say why it waits before it is over.
    let back = Instant::now() + Duration::from_secs(5);
    let why = until_some(|| traffic.journal.trouble()).await.to_string();
    // A question that is asked meanwhile waits as well.
    let asked = traffic.journal.unsettled();
    tokio::time::sleep_until(back).await;
    control("start");
    assert!(why.contains("the database server cannot be used"), "{why}");
    assert_eq!(asked.await.map(|open| open.len()), Ok(20));
    until_some(|| traffic.journal.trouble().is_none().then_some(())).await;
    println!("{} facts and lumps", traffic.end().await);
}

/// A journal that is closed while the server is away says what it could not write, and does not hang.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_is_closed_while_the_server_is_away_gives_up() {
    let _server = alone();
    let journal = Arc::new(journal(&new_schema()));
    control("stop");
    let kept = journal.shelf().keep("kind", "name", serde_json::Value::Null);
    let closed = std::time::SystemTime::now();
    drop(journal);
    let took = closed.elapsed().unwrap();
    control("start");
    assert!(kept.await.is_err_and(|error| error.may_pass()));
    assert!(took < Duration::from_secs(10), "it took {took:?}");
}
