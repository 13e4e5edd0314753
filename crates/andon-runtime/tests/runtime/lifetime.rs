//! How long a run lives: until it is done or stopped, whoever drops it and wherever it was started (P5, P12).

use andon_runtime::{ToolError, WaitError};

use crate::common::*;

fn slow_answer() -> ScriptedModel {
    ScriptedModel::new([vec![Act::text("Slowly "), Act::Pause(secs(5)), Act::text("done."), Act::end()]])
}

fn current_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_when_every_handle_on_it_is_dropped() {
    let model = slow_answer();
    let session = agent(&model).open();
    let runtime = session.agent().runtime().clone();
    let run = start_until_shown(&session, "Go.", "Slowly").await;
    let id = run.id().clone();
    drop((run, session));
    runtime.idle().await;
    let outcome = runtime.find(&id).await.unwrap().unwrap().try_outcome().unwrap();
    assert_eq!(*outcome.ending, Ending::Completed { stop: ModelStop::EndTurn });
    assert_eq!(outcome.text_so_far(), "Slowly done.");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_of_agent_run_cancels_the_run_that_nobody_else_can_reach() {
    let model = ScriptedModel::new([says_and_hangs("Half"), says_and_hangs("Again"), says("Well.")]);
    let session = agent(&model).open();
    for (text, wait) in [("Half", session.prompt("Go.")), ("Again", session.prompt("Go.").cancel_on_drop())] {
        assert!(tokio::time::timeout(secs(1), wait.run()).await.is_err());
        let run = session.current().unwrap();
        assert!(run.cord().is_pulled(), "at once");
        let outcome = cancelled_because(&session, &run, Reason::ClientDisconnected).await;
        assert_eq!(outcome.receipt.note.as_deref(), Some("the future that waited for the run was dropped"));
        assert_eq!((outcome.text_so_far().as_str(), model.open()), (text, 0), "what was shown is kept");
    }
    let well = session.run("And now?").await.unwrap();
    assert_eq!(well.completed().unwrap().text(), "Well.");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_after_a_dropped_one_waits_for_it_instead_of_being_refused() {
    let log = ToolLog::new();
    let model = ScriptedModel::new([calls(&[("s", "slow")]), says("Well.")]);
    let session = agent(&model).tool(tools::stubborn("slow", secs(60), &log).grace(secs(1))).open();
    assert!(tokio::time::timeout(millis(100), session.run("Go.")).await.is_err());
    assert_eq!(session.run("And now?").await.unwrap().completed().unwrap().text(), "Well.");
}

#[tokio::test(start_paused = true)]
async fn a_future_of_agent_run_that_was_never_polled_starts_nothing() {
    let model = slow_answer();
    let session = agent(&model).open();
    drop(session.run("Go."));
    settle_down().await;
    assert_eq!((model.calls(), session.agent().runtime().runs().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_for_a_runs_outcome_is_only_a_wait() {
    let session = agent(&slow_answer()).open();
    let run = session.start("Go.").unwrap();
    assert!(tokio::time::timeout(secs(1), run.outcome()).await.is_err());
    assert!(tokio::time::timeout(secs(1), run.settled()).await.is_err());
    assert!(tokio::time::timeout(secs(1), run.last_word()).await.is_err());
    assert_eq!(settled(&session, &run).await.text_so_far(), "Slowly done.");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_has_returned_cancels_nothing() {
    let session = agent(&slow_answer()).open();
    let outcome = session.run("Go.").await.unwrap();
    assert_eq!((outcome.stop_reason(), outcome.receipt.reason), ("end_turn", None));
}

#[tokio::test(start_paused = true)]
async fn cancel_on_drop_cancels_when_the_handle_is_dropped() {
    let model = ScriptedModel::new([says_and_hangs("One")]);
    let session = agent(&model).open();
    let run = session.prompt("Go.").cancel_on_drop().start().unwrap();
    until_shown(&run, "One").await;
    let watched = session.current().unwrap();
    drop(run);
    let outcome = cancelled_because(&session, &watched, Reason::ClientDisconnected).await;
    assert_eq!(outcome.receipt.note.as_deref(), Some("the run's handle was dropped"));
    assert_eq!(model.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_another_handle_on_a_run_does_not_cancel_it() {
    let session = agent(&slow_answer()).open();
    let run = session.prompt("Go.").cancel_on_drop().start().unwrap();
    drop(session.current().unwrap());
    drop(session.agent().runtime().find(run.id()).await.unwrap().unwrap());
    assert_eq!(settled(&session, &run).await.stop_reason(), "end_turn");
}

#[test]
fn a_run_can_be_started_and_stopped_from_a_plain_thread_without_a_tokio_runtime() {
    let runtime = Runtime::builder().build();
    let model = ScriptedModel::new([says_and_hangs("Plain")]);
    let session = Agent::builder().model(model.clone()).runtime(&runtime).open();
    let run = session.start("Go.").unwrap();
    current_thread().block_on(until_shown(&run, "Plain"));
    assert_eq!(run.cancel(Cancel::graceful()).kind().as_str(), "accepted");
    current_thread().block_on(async {
        cancelled(&session, &run).await;
        runtime.idle().await;
    });
    assert_eq!((model.open(), runtime.tasks()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn shutdown_cancels_everything_with_reason_shutdown_and_leaves_no_task() {
    let log = ToolLog::new();
    let model = ScriptedModel::new([says_and_hangs("One"), calls(&[("m", "mule")])]);
    let session = agent(&model).tool(tools::stubborn("mule", secs(60), &log)).open();
    let elsewhere = session.agent().session(LOCAL, "elsewhere").unwrap();
    let first = start_until_shown(&session, "1", "One").await;
    let queued = session.prompt("2").when_busy(WhenBusy::Queue).start().unwrap();
    let tooled = start_until_tool(&elsewhere, "3", "m").await;

    assert_eq!(session.agent().runtime().shutdown(secs(10)).await, Ok(()));
    assert_eq!((session.agent().runtime().tasks(), session.agent().runtime().runs()), (0, vec![]));
    for (session, run) in [(&session, &first), (&session, &queued), (&elsewhere, &tooled)] {
        let outcome = cancelled_because(session, run, Reason::Shutdown).await;
        assert_eq!(outcome.receipt.by.as_deref(), Some("runtime"));
    }
    assert_eq!((model.open(), log.running()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn idle_waits_for_everything_and_stops_nothing() {
    let session = agent(&slow_answer()).open();
    let run = session.start("Go.").unwrap();
    session.agent().runtime().idle().await;
    assert_eq!(run.try_outcome().unwrap().stop_reason(), "end_turn");
    assert_eq!(session.agent().runtime().tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_run_leaves_no_task_behind() {
    let log = ToolLog::new();
    let tools = [tools::slow("slow", secs(600), &log), tools::cooperative("kind", secs(600), &log)];
    let session = with_tools(scripted([calls(&[("a", "slow"), ("b", "kind")])]), tools);
    let run = start_until_tool(&session, "Go.", "b").await;
    stop(&session, &run, Cancel::now()).await;
    session.agent().runtime().idle().await;
    assert_eq!((log.running(), session.agent().runtime().tasks()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_signal_of_the_caller_is_heard_whatever_the_run_waits_for() {
    let log = ToolLog::new();
    let silent = ScriptedModel::new([vec![Act::Silence]]);
    let tooled = ScriptedModel::new([calls(&[("a", "kind")])]);
    let asked = ScriptedModel::new([calls(&[("g", "danger")])]);
    let busy = ScriptedModel::new([vec![Act::Fail(andon_runtime::ModelError::retry_after(secs(200), "429"))]]);
    for model in [silent, tooled, asked, busy] {
        let tools = [tools::cooperative("kind", secs(600), &log), tools::quick("danger", &log).needs_approval()];
        let session = with_tools(agent(&model), tools);
        let began = tokio::time::Instant::now();
        let run = session.prompt("Go.").cancel_when(tokio::time::sleep(secs(3))).start().unwrap();
        let outcome = cancelled(&session, &run).await;
        assert_eq!((began.elapsed(), outcome.receipt.note.as_deref()), (secs(3), Some("the caller's signal")));
    }
}

#[test]
fn a_run_shows_its_text_although_another_tokio_runtime_of_the_process_is_not_driven() {
    let runtime = Runtime::builder().build();
    let build = |model: ScriptedModel, name: &str| Agent::builder().name(name).model(model).runtime(&runtime).open();
    // This runtime has completed its run, and its owner now does something else for a long time.
    let idle = current_thread();
    idle.block_on(build(ScriptedModel::new([says("Quick.")]), "quick").run("Go.")).unwrap();

    let driven = current_thread();
    let drip = |text: &str| vec![Act::text(text), Act::Pause(millis(100))];
    let model = ScriptedModel::new([answer([drip("One "), drip("two "), vec![Act::end()]])]);
    let session = build(model, "slow");
    let outcome = driven.block_on(async { tokio::time::timeout(Duration::from_secs(60), session.run("Go.")).await });
    assert_eq!(
        outcome.expect("the run waits for nobody else's thread").unwrap().completed().unwrap().text(),
        "One two "
    );
    drop(idle);
}

#[test]
fn a_run_whose_tokio_runtime_was_shut_down_is_settled_and_its_session_is_free() {
    let runtime = Runtime::builder().build();
    let session = Agent::builder().model(ScriptedModel::new([says_and_hangs("Half")])).runtime(&runtime).open();
    let gone = current_thread();
    let run = gone.block_on(start_until_shown(&session, "Go.", "Half"));
    drop(gone);

    current_thread().block_on(async {
        let outcome = tokio::time::timeout(secs(60), run.outcome()).await;
        outcome.expect("whoever waits for the outcome is told");
        assert_eq!(count(&run, |event| matches!(event, Event::RunSettled { .. })), 1);
        assert_usable(&session).await;
    });
}

#[test]
fn a_program_without_tokio_starts_a_run_and_blocks_until_it_has_settled() {
    let runtime = Runtime::builder().build();
    let model = ScriptedModel::new([says("Hello."), says_and_hangs("Half")]);
    let agent = Agent::builder().model(model).runtime(&runtime).build().unwrap();
    assert_eq!(agent.start("Go.").unwrap().wait().unwrap().completed().unwrap().text(), "Hello.");

    let run = agent.start("Go.").unwrap();
    let cord = run.cord();
    let waiting = std::thread::spawn(move || run.wait().unwrap().is_cancelled());
    cord.pull(Cancel::graceful());
    assert!(waiting.join().unwrap(), "a stop ends the wait");
}

#[test]
fn a_blocking_wait_inside_tokio_is_refused_and_never_hangs() {
    let runtime = Runtime::builder().build();
    let model = ScriptedModel::new([says_and_hangs("Half")]);
    let agent = Agent::builder().model(model).runtime(&runtime).build().unwrap();
    let run = agent.start("Go.").unwrap();
    current_thread().block_on(async {
        assert_eq!(run.wait().unwrap_err(), WaitError::InsideTokio);
        let text = WaitError::InsideTokio.to_string();
        assert!(text.contains("outcome().await"), "{text}");
    });
    run.cancel(Cancel::now());
    assert!(run.wait().unwrap().is_cancelled());
}

#[test]
fn a_blocking_tool_may_wait_for_a_run_and_an_async_one_may_not() {
    let runtime = Runtime::builder().build();
    let inner = ScriptedModel::new([says("Inner."), says("Inner.")]);
    let inner = Agent::builder().name("inner").model(inner).runtime(&runtime).build().unwrap();
    let waits = move || -> Returned {
        let run = inner.start("Go.").map_err(|error| ToolError(error.to_string()))?;
        let waited = run.wait().map_err(|error| error.to_string());
        // It settles either way.
        Ok(waited.map(|outcome| outcome.text_so_far()).unwrap_or_else(|error| error).into())
    };
    let schema = || json!({"type": "object", "properties": {}});
    let hard = {
        let waits = waits.clone();
        FnTool::blocking("hard", "Waits.", schema(), move |_| waits())
    };
    let soft = FnTool::new("soft", "Waits.", schema(), move |_| std::future::ready(waits()));
    let outer = ScriptedModel::new([calls(&[("h", "hard")]), calls(&[("s", "soft")]), says("Done.")]);
    let outer = Agent::builder().model(outer).runtime(&runtime).tool(hard).tool(soft).build().unwrap();
    let run = outer.start("Go.").unwrap();
    run.wait().unwrap();
    let messages = run.progress().unwrap().messages().to_vec();
    assert_eq!(result_of(&messages, "h").to_text(), "Inner.");
    assert_eq!(result_of(&messages, "s").to_text(), WaitError::InsideTokio.to_string());
}
