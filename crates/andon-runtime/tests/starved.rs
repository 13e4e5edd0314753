//! Async tools that block their threads: even with all the tools' threads taken, a stop still reaches what others have
//! started (P5, P12). A separate process, because it uses up the tools' threads.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "runtime/common/mod.rs"]
mod common;

use andon_runtime::{Remains, ToolSpec};

use common::*;

/// More tools than they have threads.
const BLOCKERS: usize = 64;

/// A tool that blocks its thread until it is released.
fn blocker(released: &Arc<AtomicBool>, blocked: &Arc<AtomicUsize>) -> FnTool {
    let (released, blocked) = (Arc::clone(released), Arc::clone(blocked));
    FnTool::new("block", "Blocks its thread.", json!({"type": "object"}), move |_| {
        let (released, blocked) = (Arc::clone(&released), Arc::clone(&blocked));
        async move {
            blocked.fetch_add(1, Ordering::SeqCst);
            while !released.load(Ordering::SeqCst) {
                std::thread::park_timeout(millis(1));
            }
            Ok("released".into()) as Returned
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_tool_has_started_is_ended_although_no_thread_is_left_for_it_and_a_time_limit_strikes_all_the_same() {
    let (released, blocked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let runtime = Runtime::builder().build();

    // Its work has begun and has started something.
    let (begun, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (is_begun, is_ended) = (Arc::clone(&begun), Arc::clone(&ended));
    let mut spec = ToolSpec::new("process", "Starts something.", json!({"type": "object"}));
    (spec.grace, spec.cleanup) = (millis(50), secs(10));
    let process = FnTool::from_spec(spec, move |_| {
        let (begun, ended) = (Arc::clone(&is_begun), Arc::clone(&is_ended));
        let work = async move {
            begun.store(true, Ordering::SeqCst);
            std::future::pending::<Returned>().await
        };
        Work::task(work).cleanup(move || async move {
            ended.store(true, Ordering::SeqCst);
            Remains::NONE
        })
    });
    let build = |model| Agent::builder().model(model).runtime(&runtime);
    let careful = build(ScriptedModel::new([calls(&[("p", "process")])])).tool(process).build().unwrap();
    let run = careful.start("Go.").unwrap();
    while !begun.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }

    // One of the blockers has a time limit: its task is not polled, and it is still given up.
    let limited = blocker(&released, &blocked).timeout(millis(100)).grace(millis(50));
    let limited = build(ScriptedModel::new([calls(&[("l", "block")]), says("Next.")])).tool(limited).open();
    let outcome = tokio::time::timeout(secs(20), limited.run("Go.")).await.expect("it is given up").unwrap();
    assert_eq!((outcome.stop_reason(), outcome.receipt.calls[0].verdict), ("end_turn", Verdict::Leaked));
    let told = result_of(&limited.history().await.unwrap(), "l");
    assert_eq!(told.status, ResultStatus::Unknown);
    assert!(told.to_text().contains("It took too long: its limit of 100ms was reached."), "{}", told.to_text());

    let asks: Vec<(String, &str)> = (0..BLOCKERS).map(|number| (format!("b{number}"), "block")).collect();
    let asks: Vec<(&str, &str)> = asks.iter().map(|(id, name)| (id.as_str(), *name)).collect();
    let stuck = build(ScriptedModel::new([calls(&asks)])).tools_at_once(BLOCKERS).tool(blocker(&released, &blocked));
    let stuck = stuck.build().unwrap();
    let blocking = stuck.start("Go.").unwrap();
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get) * 2;
    while blocked.load(Ordering::SeqCst) < threads.max(16) {
        tokio::task::yield_now().await;
    }

    run.cancel(Cancel::graceful());
    let outcome = tokio::time::timeout(secs(20), run.outcome()).await.expect("it settles");
    assert_eq!(outcome.receipt.calls[0].verdict, Verdict::Leaked, "its task has no thread to end on");
    let is_ended = async {
        while !ended.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(secs(20), is_ended).await.expect("what it had started is ended");

    released.store(true, Ordering::SeqCst);
    blocking.cancel(Cancel::now());
    blocking.outcome().await;
    runtime.idle().await;
}
