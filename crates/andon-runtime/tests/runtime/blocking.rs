//! Code that blocks its thread delays no stop: it is abandoned by name, and what it does later is an addendum (P5, P6).
//!
//! These run on the real clock and on the tools' threads, and are driven by channels.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use andon_runtime::core::event::HookEnd;

use crate::common::*;

/// A tool that blocks its thread until it is released, whatever its cord says.
fn blocking(name: &str) -> (FnTool, SyncSender<()>) {
    let (release, released) = sync_channel(64);
    let released: Arc<Mutex<Receiver<()>>> = Arc::new(Mutex::new(released));
    let tool = FnTool::new(name, "Blocks its thread.", json!({"type": "object"}), move |_| {
        let released = Arc::clone(&released);
        async move {
            released.lock().unwrap().recv().unwrap();
            Ok("late result".into())
        }
    });
    (tool.grace(millis(50)), release)
}

/// An agent whose tools run on separate threads.
fn two_lanes(model: &ScriptedModel) -> AgentBuilder {
    Agent::builder().model(model.clone()).runtime(&Runtime::builder().build())
}

async fn until_running(run: &Run, tools: u64) {
    while run.passed().tools < tools {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_blocks_its_thread_is_abandoned_by_name_and_its_late_result_is_an_addendum() {
    let (tool, release) = blocking("block");
    let model = ScriptedModel::new([calls(&[("b", "block")]), says("Next.")]);
    let session = two_lanes(&model).tool(tool).open();
    let run = session.start("Go.").unwrap();
    until_running(&run, 1).await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(outcome.receipt.calls[0].verdict, Verdict::Leaked);
    assert_eq!(outcome.receipt.leaked, ["block (b)"]);
    assert!(outcome.receipt.took.settled_us.unwrap() >= 50_000, "it had its grace");
    let history = session.history().await.unwrap();
    assert_eq!(result_of(&history, "b").status, ResultStatus::Unknown);
    assert_usable(&session).await;
    let events = run.records();

    release.send(()).unwrap();
    session.agent().runtime().idle().await;

    let receipt = session.agent().runtime().find(run.id()).await.unwrap().unwrap().receipt().unwrap();
    assert_eq!(receipt.calls[0].verdict, Verdict::Late);
    assert_eq!((receipt.leaked, receipt.revision), (Vec::<String>::new(), 1));
    let result = Arc::new(ToolResult::text(id("b"), ResultStatus::Ok, "late result"));
    assert_eq!(receipt.addenda[0].what, AddendumKind::LateResult { call: id("b"), result, remains: None });
    assert_eq!(run.records(), events, "nothing follows the terminal event");
    let believed = session.history().await.unwrap();
    assert_eq!(result_of(&believed, "b"), result_of(&history, "b"), "the late result is not used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_blocks_its_thread_delays_no_other_run() {
    let (tool, release) = blocking("block");
    let runtime = Runtime::builder().build();
    let build = |model: ScriptedModel| Agent::builder().model(model).runtime(&runtime);
    let stuck = build(ScriptedModel::new([calls(&[("b", "block")])])).tool(tool).open();
    let run = stuck.start("Go.").unwrap();
    until_running(&run, 1).await;

    let other = build(ScriptedModel::new([says_and_hangs("Hm")])).name("other").open();
    let second = start_until_shown(&other, "Go.", "Hm").await;
    stop(&other, &second, Cancel::graceful()).await;

    release.send(()).unwrap();
    assert_eq!(settled(&stuck, &run).await.stop_reason(), "end_turn");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn now_abandons_a_blocking_tool_without_waiting_for_its_grace() {
    let (tool, release) = blocking("block");
    let session = two_lanes(&ScriptedModel::new([calls(&[("b", "block")])])).tool(tool.grace(secs(600))).open();
    let run = session.start("Go.").unwrap();
    until_running(&run, 1).await;
    let outcome = stop(&session, &run, Cancel::now()).await;
    assert_eq!(outcome.receipt.leaked, ["block (b)"]);
    release.send(()).unwrap();
    session.agent().runtime().idle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_says_how_many_tasks_it_could_not_stop() {
    let (tool, release) = blocking("block");
    let session = two_lanes(&ScriptedModel::new([calls(&[("b", "block")])])).tool(tool).open();
    let run = session.start("Go.").unwrap();
    until_running(&run, 1).await;
    assert_eq!(session.agent().runtime().shutdown(secs(1)).await, Err(1));
    cancelled_because(&session, &run, andon_runtime::Reason::Shutdown).await;
    release.send(()).unwrap();
    session.agent().runtime().idle().await;
    assert_eq!(session.agent().runtime().tasks(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_blocks_its_thread_is_abandoned_and_named_in_the_receipt() {
    let (release, released) = sync_channel::<()>(1);
    let (entered, inside) = sync_channel::<()>(1);
    let released = Arc::new(Mutex::new(released));
    let session = two_lanes(&ScriptedModel::new([]))
        .before_model(move |_| {
            let (released, entered) = (Arc::clone(&released), entered.clone());
            async move {
                entered.send(()).unwrap();
                released.lock().unwrap().recv().unwrap();
            }
        })
        .open();
    let run = session.start("Go.").unwrap();
    tokio::task::block_in_place(|| inside.recv().unwrap());
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    release.send(()).unwrap();
    session.agent().runtime().idle().await;
    assert_eq!(count(&run, |event| matches!(event, Event::HookFinished { end: HookEnd::Leaked, .. })), 1);
    assert_eq!(outcome.receipt.leaked.len(), 1, "what cannot be stopped is named in the receipt");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_tools_all_block_their_threads_keeps_no_other_runs_tool_from_starting() {
    let (tool, release) = blocking("block");
    let runtime = Runtime::builder().build();
    let ids: Vec<String> = (0..8).map(|number| format!("b{number}")).collect();
    let many: Vec<(&str, &str)> = ids.iter().map(|id| (id.as_str(), "block")).collect();
    let build = |model: ScriptedModel| Agent::builder().model(model).runtime(&runtime);
    let stuck = build(ScriptedModel::new([calls(&many)])).tool(tool).open();
    let run = stuck.start("Go.").unwrap();
    until_running(&run, 2).await;

    let quick = FnTool::new("quick", "Returns.", json!({"type": "object"}), |_| async { Ok("ok".into()) });
    let quick = quick.effect(Effect::ReadOnly);
    let other = build(ScriptedModel::new([calls(&[("q", "quick")])])).name("other").tool(quick).open();
    let outcome = tokio::time::timeout(secs(5), other.run("Go.")).await;

    for _ in 0..8 {
        release.send(()).unwrap();
    }
    settled(&stuck, &run).await;
    assert_eq!(outcome.expect("the other run's tool starts").unwrap().stop_reason(), "end_turn");
}
