//! Scripts about what comes with a prompt and what waits for its run: a history of its own, a wait that is dropped, a person who
//! decides several calls at once.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use andon_runtime::core::event::Event;
use andon_runtime::core::id::LOCAL;
use andon_runtime::{FeedItem, Message, Part, Prompt, Role, Run, RunId, ToolCall, ToolResult, WhenBusy};
use tokio::time::{sleep, timeout};

use super::{answer, call_id, calling, done, drip, earlier_agent, millis, play, words};
use crate::explore::World;
use crate::model::Act;
use crate::tools;

/// A conversation from elsewhere, with a tool call.
fn elsewhere() -> Vec<Message> {
    let Some(id) = call_id("looked") else { return Vec::new() };
    let call = ToolCall::new(id.clone(), "quick", "{}");
    let result = ToolResult::text(id, andon_runtime::core::message::ResultStatus::Ok, "a door");
    vec![
        Message::user("Look."),
        Message::new(Role::Assistant, vec![Part::ToolCall(call)]),
        Message::new(Role::Tool, vec![Part::ToolResult(result)]),
        Message::assistant("There is a door."),
    ]
}

pub(super) async fn own_history(world: World) {
    let model = world.model([calling("Let me see. ", &[("looked", "quick")]), done(), done()]);
    let session = world.open(world.agent(&model).tool(tools::slow("quick", millis(50), &world.tools)));
    let Ok(run) = world.start(session.prompt("Is it open?").history(elsewhere())) else { return };
    world.follow(&run).await;
    play(&world, &session, "Sure?").await;
    let has_started = run.progress().is_some_and(|progress| progress.has_started());
    let is_sent = |sent: &[Message]| sent.starts_with(&elsewhere());
    if has_started && !model.requests().iter().all(|request| is_sent(&request.prompt())) {
        world.broken("P3: the model was not sent the history that the prompt had brought along");
    }
}

/// The session's history is in the journal, and not read before the prompt comes.
pub(super) async fn second_history(world: World) {
    world
        .earlier(|runtime| async move {
            let agent = earlier_agent(&runtime, vec![done()]).build();
            let Some(Ok(session)) = agent.ok().map(|agent| agent.session(LOCAL, "s")) else { return };
            // It is settled when the process ends.
            let _ = session.run("Go.").await;
        })
        .await;
    let model = world.model([done()]);
    let session = world.open(world.agent(&model));
    if let Ok(run) = world.start(session.prompt("Is it open?").history(elsewhere())) {
        world.follow(&run).await;
        if run.progress().is_some_and(|progress| progress.has_started()) {
            world.broken("P2: a history was put behind the one that the session had");
        }
    }
    play(&world, &session, "And now?").await;
}

/// Runs a prompt and drops the wait after a while. The run is followed to its end, by somebody who found it.
async fn drop_wait(world: &World, prompt: Prompt, wait_ms: u64) {
    let Ok(id) = RunId::new("dropped") else { return };
    let run: Option<Arc<Run>> = {
        let mut waiting = pin!(prompt.run_id(id.clone()).run());
        // The first poll starts it.
        let is_over = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_ready())).await;
        let run = world.runtime().find_in_progress(&id).map(|run| world.adopt(run));
        if !is_over {
            // Whether it was over first or the time was, the wait ends here.
            let _ = timeout(millis(wait_ms), waiting).await;
        }
        run
    };
    let Some(run) = run else { return };
    if run.try_outcome().is_none() && !run.cord().is_pulled() {
        world.broken("P12: the wait for a run was dropped, and nobody is left who could stop it");
    }
    world.follow(&run).await;
}

pub(super) async fn dropped(world: World) {
    let model = world.model([calling("I look. ", &[("c", "slow")]), done(), done()]);
    let session = world.open(world.agent(&model).tool(tools::slow("slow", millis(300), &world.tools)));
    drop_wait(&world, session.prompt("Look."), 100).await;
    play(&world, &session, "And now?").await;
}

pub(super) async fn dropped_in_a_queue(world: World) {
    let model = world.model([answer([drip("Wait. ", 500), words("Done."), vec![Act::end()]]), done()]);
    let session = world.open(world.agent(&model));
    let Ok(first) = world.start(session.prompt("First.")) else { return };
    drop_wait(&world, session.prompt("Second.").when_busy(WhenBusy::Queue), 100).await;
    world.follow(&first).await;
}

pub(super) async fn decided_together(world: World) {
    let model = world.model([calling("May I? ", &[("a", "danger"), ("b", "danger")]), done()]);
    let danger = tools::slow("danger", millis(50), &world.tools).needs_approval();
    let session = world.open(world.agent(&model).tool(danger));
    let Ok(run) = world.start(session.prompt("Do both.")) else { return };
    let is_last = |item: &FeedItem| {
        matches!(item, FeedItem::Fact(record)
            if matches!(&record.event, Event::ApprovalRequested { call, .. } if call.as_str() == "b"))
    };
    if world.follow_until(&run, is_last).await {
        sleep(Duration::from_secs(5)).await;
        let (waiting, was_told) = (run.approvals(), run.cord().is_pulled());
        if was_told && !waiting.is_empty() {
            world.broken("P1: a call can be decided although the run had been told to stop");
        }
        if let [one, other] = &waiting[..] {
            let both = [one.approve().by("ada").note("looks right"), other.deny().by("ada").note("one is enough")];
            if run.decide_all(both).is_ok() && was_told {
                world.broken("P1: a decision was accepted although the run had been told to stop");
            }
        }
    }
    world.follow(&run).await;
}
