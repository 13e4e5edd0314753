//! One tool call can be stopped alone; the run goes on, and the model is told.

use crate::common::*;

#[tokio::test(start_paused = true)]
async fn a_running_call_that_is_cancelled_alone_is_cut_and_the_run_goes_on() {
    let log = ToolLog::new();
    let tools = [tools::slow("slow", secs(5), &log), tools::cooperative("kind", secs(60), &log)];
    let session = with_tools(scripted([calls(&[("keep", "slow"), ("stop", "kind")])]), tools);
    let run = start_until_tool(&session, "Both.", "stop").await;
    settle_down().await;
    assert_eq!(run.cancel_call(&id("stop"), Cancel::graceful()).kind().as_str(), "accepted");
    assert_eq!(run.cancel_call(&id("stop"), Cancel::graceful()).kind().as_str(), "already_cancelling");
    assert_eq!(run.cancel_call(&id("stop"), Cancel::now()).kind().as_str(), "hardened");
    assert_eq!(run.cancel_call(&id("nobody"), Cancel::now()).kind().as_str(), "not_running");

    assert_eq!(settled(&session, &run).await.stop_reason(), "end_turn");
    let history = session.history().await.unwrap();
    assert_eq!(result_of(&history, "stop").status, ResultStatus::Cut);
    assert_eq!(result_of(&history, "keep"), ToolResult::text(id("keep"), ResultStatus::Ok, "slow result"));
    assert_eq!(run.cancel_call(&id("keep"), Cancel::now()).kind().as_str(), "too_late");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_approval_can_be_cancelled_alone() {
    let log = ToolLog::new();
    let model = ScriptedModel::new([calls(&[("g", "danger")]), says("Then not.")]);
    let session = agent(&model).tool(tools::quick("danger", &log).needs_approval()).open();
    let run = start_until(&session, "Do it.", |event| matches!(event, Event::ApprovalRequested { .. })).await;
    assert_eq!(run.cancel_call(&id("g"), Cancel::graceful()).kind().as_str(), "accepted");
    assert_eq!(run.decide(&id("g")).approve().send(), Err(andon_runtime::DecideError::NotWaiting));
    assert_eq!(settled(&session, &run).await.text_so_far(), "Then not.");
    let told = result_of(&session.history().await.unwrap(), "g").to_text();
    assert_eq!((told.as_str(), log.started()), ("Not run: this call was cancelled before it started.", 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_not_started_in_a_sequential_turn_can_be_cancelled_alone() {
    let log = ToolLog::new();
    let model = ScriptedModel::new([calls(&[("a", "slow"), ("b", "slow"), ("c", "slow")])]);
    let session = agent(&model).sequential_tools().tool(tools::slow("slow", secs(1), &log)).open();
    let run = start_until_tool(&session, "Go.", "a").await;
    assert_eq!(run.cancel_call(&id("b"), Cancel::graceful()).kind().as_str(), "accepted");
    assert_eq!(settled(&session, &run).await.stop_reason(), "end_turn");
    let history = session.history().await.unwrap();
    let statuses = ["a", "b", "c"].map(|call| result_of(&history, call).status);
    assert_eq!(statuses, [ResultStatus::Ok, ResultStatus::Refused, ResultStatus::Ok]);
    assert_eq!(log.started(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stop_with_a_shorter_grace_than_a_call_was_given_alone_waits_only_for_the_shorter() {
    let log = ToolLog::new();
    let session = scripted([calls(&[("m", "mule")])]).tool(tools::stubborn("mule", secs(600), &log)).open();
    let run = start_until_tool(&session, "Go.", "m").await;
    settle_down().await;
    run.cancel_call(&id("m"), Cancel::graceful().grace(secs(60)));
    settle_down().await;
    let pulled = Instant::now();
    let outcome = stop(&session, &run, Cancel::graceful().grace(secs(1))).await;
    assert_eq!((pulled.elapsed(), log.running()), (secs(1), 0), "nothing outlives the run");
    assert_eq!(outcome.receipt.leaked, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_alone_while_its_hook_waits_is_not_run_and_the_run_goes_on() {
    let log = ToolLog::new();
    let session = scripted([calls(&[("a", "look"), ("b", "look")]), says("Well.")])
        .tool(tools::quick("look", &log))
        .before_tool(|_| async {
            tokio::time::sleep(secs(1)).await;
        })
        .open();
    let run = start_until(&session, "Look.", |event| matches!(event, Event::HookStarted { .. })).await;
    assert_eq!(run.cancel_call(&id("a"), Cancel::graceful()).kind().as_str(), "accepted");
    let outcome = settled(&session, &run).await;
    assert_eq!(outcome.stop_reason(), "end_turn", "{:?}", outcome.ending);
    let history = session.history().await.unwrap();
    assert_eq!(result_of(&history, "a").status, ResultStatus::Refused);
    assert_eq!(result_of(&history, "b").status, ResultStatus::Ok);
}

#[tokio::test(start_paused = true)]
async fn recorded_after_a_cancel_of_one_call_waits_until_that_is_durable() {
    let journal = TestJournal::slow(None, secs(1));
    let builder = scripted_on(&journal, [calls(&[("m", "mule")])]);
    let session = builder.tool(tools::stubborn("mule", secs(60), &ToolLog::new())).open();
    let run = start_until_tool(&session, "Go.", "m").await;
    let reply = run.cancel_call(&id("m"), Cancel::graceful());
    assert_eq!(reply.recorded().await, Ok(()));
    let is_request = |event: &Event| matches!(event, Event::CallCancelRequested { .. });
    assert!(journal.has(run.id(), is_request), "recorded() said that it is");
    settled(&session, &run).await;
}

#[tokio::test(start_paused = true)]
async fn recorded_after_a_cancel_of_a_call_that_has_not_started_waits_until_that_is_durable() {
    let journal = TestJournal::slow(None, secs(1));
    let builder = scripted_on(&journal, [calls(&[("a", "slow"), ("b", "slow")])]).sequential_tools();
    let session = builder.tool(tools::slow("slow", secs(60), &ToolLog::new())).open();
    let run = start_until_tool(&session, "Go.", "a").await;
    assert_eq!(run.cancel_call(&id("b"), Cancel::graceful()).recorded().await, Ok(()));
    let is_request = |event: &Event| matches!(event, Event::CallCancelRequested { .. });
    assert!(journal.has(run.id(), is_request), "recorded() said that it is");
    settled(&session, &run).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_hook_denied_is_not_running_any_more() {
    let log = ToolLog::new();
    let session = scripted([calls(&[("no", "look"), ("yes", "slow")])])
        .tool(tools::quick("look", &log))
        .tool(tools::slow("slow", secs(60), &log))
        .before_tool(|moment| async move {
            if moment.call.id == id("no") { CallDecision::deny("No.") } else { CallDecision::GoOn }
        })
        .open();
    let run = start_until_tool(&session, "Look.", "yes").await;
    let reply = run.cancel_call(&id("no"), Cancel::graceful());
    stop(&session, &run, Cancel::now()).await;
    assert_eq!(reply.kind().as_str(), "not_running");
}
