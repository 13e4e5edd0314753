//! P1 on threads, which the explorer cannot see: after `pull` has returned, not one piece, tool or model call.

#![expect(clippy::expect_used, reason = "a test that cannot start has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use andon_runtime::{Agent, Cancel, Effect, FnTool, GateCounts, Runtime};
use andon_testkit::{Act, ScriptedModel};
use serde_json::json;

/// How many runs are pulled.
fn pulls() -> u64 {
    std::env::var("ANDON_PULLS").ok().and_then(|pulls| pulls.parse().ok()).unwrap_or(100_000)
}

/// A model that floods, and asks for tools in between.
fn flood() -> ScriptedModel {
    let turn = |id: &str| {
        let mut acts = vec![Act::Flood("drop ", 64)];
        acts.extend(Act::call(0, id, "nothing", "{}"));
        acts.extend([Act::Flood("more ", 64), Act::tool_use()]);
        acts
    };
    ScriptedModel::new([turn("a"), turn("b"), turn("c"), vec![Act::Flood("sea ", 1_000_000), Act::end()]])
}

fn nothing() -> FnTool {
    let schema = json!({"type": "object"});
    FnTool::new("nothing", "Does nothing.", schema, |_| async { Ok("done".into()) }).effect(Effect::ReadOnly)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn after_a_pull_has_returned_not_one_piece_tool_or_model_call() {
    let pulls = pulls();
    let late = Arc::new(AtomicU64::new(0));
    let callers = 8;
    let mut threads = Vec::new();
    for caller in 0..callers {
        let late = Arc::clone(&late);
        let handle = tokio::runtime::Handle::current();
        threads.push(std::thread::spawn(move || {
            let _inside = handle.enter();
            let runtime = Runtime::builder().build();
            let mut random = fastrand::Rng::with_seed(caller);
            for _ in 0..pulls / callers {
                let (at_the_pull, in_the_end) = handle.block_on(one_pull(&runtime, &mut random));
                late.fetch_add(u64::from(at_the_pull != in_the_end), Ordering::Relaxed);
            }
        }));
    }
    tokio::task::spawn_blocking(move || {
        for thread in threads {
            thread.join().expect("a caller does not panic");
        }
    })
    .await
    .expect("the callers are done");
    let late = late.load(Ordering::Relaxed);
    println!("{pulls} pulls, {late} of them late");
    assert_eq!(late, 0, "of {pulls} pulls, {late} had something happen after they had returned");
}

/// Starts a run, pulls its cord at a random moment from a thread that drives nothing, and waits for its end.
async fn one_pull(runtime: &Runtime, random: &mut fastrand::Rng) -> (GateCounts, GateCounts) {
    let agent = Agent::builder().model(flood()).tool(nothing()).runtime(runtime).build().expect("an agent");
    let run = agent.start("Flood.").expect("a run");
    for _ in 0..random.u32(0..2_000) {
        std::hint::spin_loop();
    }
    let reply = run.cancel(if random.bool() { Cancel::graceful() } else { Cancel::now() });
    let at_the_pull = run.passed();
    assert!(reply.is_stopping(), "a run that floods forever cannot have ended: {reply:?}");
    let outcome = run.outcome().await;
    assert_eq!(outcome.stop_reason(), "cancelled");
    (at_the_pull, run.passed())
}
