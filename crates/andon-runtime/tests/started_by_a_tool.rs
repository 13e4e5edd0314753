//! A run that a tool starts is driven on the drivers' threads: tools that block their threads do not hold it up (P1,
//! P12). A separate process, because it uses up the tools' threads.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "runtime/common/mod.rs"]
mod common;

use std::sync::mpsc::{Receiver, Sender, channel};

use common::*;

/// More tools than they have threads.
const BLOCKERS: usize = 64;

/// A tool that starts a run and says which.
fn starter(inner: &Agent, is_blocking: bool) -> (FnTool, Receiver<Run>) {
    let (tell, told): (Sender<Run>, _) = channel();
    let inner = inner.clone();
    let start = move || -> Returned {
        tell.send(inner.start("Go.").unwrap()).unwrap();
        Ok("started".into())
    };
    let (name, schema) = ("start", json!({"type": "object"}));
    let tool = if is_blocking {
        FnTool::blocking(name, "Starts a run.", schema, move |_| start())
    } else {
        FnTool::new(name, "Starts a run.", schema, move |_| std::future::ready(start()))
    };
    (tool, told)
}

/// Takes all of the tools' threads, until the flag is set.
async fn block_all(runtime: &Runtime, released: &Arc<AtomicBool>) -> Run {
    let blocked = Arc::new(AtomicUsize::new(0));
    let (release, count) = (Arc::clone(released), Arc::clone(&blocked));
    let block = FnTool::new("block", "Blocks its thread.", json!({"type": "object"}), move |_| {
        let (released, blocked) = (Arc::clone(&release), Arc::clone(&count));
        async move {
            blocked.fetch_add(1, Ordering::SeqCst);
            while !released.load(Ordering::SeqCst) {
                std::thread::park_timeout(millis(1));
            }
            Ok("released".into()) as Returned
        }
    });
    let asks: Vec<(String, &str)> = (0..BLOCKERS).map(|number| (format!("b{number}"), "block")).collect();
    let asks: Vec<(&str, &str)> = asks.iter().map(|(id, name)| (id.as_str(), *name)).collect();
    let stuck = Agent::builder().model(ScriptedModel::new([calls(&asks)])).runtime(runtime).tools_at_once(BLOCKERS);
    let run = stuck.tool(block).build().unwrap().start("Go.").unwrap();
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get) * 2;
    while blocked.load(Ordering::SeqCst) < threads.max(16) {
        tokio::task::yield_now().await;
    }
    run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_a_tool_started_can_be_stopped_while_all_of_the_tools_threads_are_blocked() {
    let runtime = Runtime::builder().build();
    let mut inner_runs = Vec::new();
    for is_blocking in [false, true] {
        let inner = ScriptedModel::new([vec![Act::text("Well"), Act::Silence]]);
        let inner = Agent::builder().model(inner).runtime(&runtime).build().unwrap();
        let (start, started) = starter(&inner, is_blocking);
        let outer = ScriptedModel::new([calls(&[("s", "start")]), says("Done.")]);
        let outer = Agent::builder().model(outer).runtime(&runtime).tool(start).build().unwrap();
        assert_eq!(outer.run("Go.").await.unwrap().completed().unwrap().text(), "Done.");
        inner_runs.push(started.recv().unwrap());
    }
    let released = Arc::new(AtomicBool::new(false));
    let blocking = block_all(&runtime, &released).await;

    for run in &inner_runs {
        run.cancel(Cancel::graceful());
        let outcome = tokio::time::timeout(secs(20), run.outcome()).await;
        assert!(outcome.is_ok_and(|outcome| outcome.is_cancelled()), "its driver has no thread");
    }

    released.store(true, Ordering::SeqCst);
    blocking.cancel(Cancel::now());
    blocking.outcome().await;
    runtime.idle().await;
}
