//! What Strands' own cancel tests promise their users, kept here (stop-cases.md, last paragraph).

use andon_testkit::check::read_all;
use tokio_util::sync::CancellationToken;

use crate::common::*;

#[tokio::test(start_paused = true)]
async fn cancel_before_invocation() {
    let model = ScriptedModel::new([]);
    let session = agent(&model).open();
    session.agent().cancel();
    let outcome = session.run("Hello").await.unwrap();
    assert_eq!((outcome.stop_reason(), model.calls()), ("cancelled", 0));
}

#[tokio::test(start_paused = true)]
async fn cancel_during_execution() {
    let session = scripted([says_and_hangs("Thinking about it")]).open();
    let run = start_until_shown(&session, "Hello", "Thinking").await;
    assert_eq!(session.agent().cancel().kind(), ReplyKind::Accepted);
    assert_eq!(cancelled(&session, &run).await.text_so_far(), "Thinking about it");
}

#[tokio::test(start_paused = true)]
async fn cancel_with_tools() {
    let log = ToolLog::new();
    let session = scripted([calls(&[("a", "kind")])]).tool(tools::cooperative("kind", secs(60), &log)).open();
    let run = start_until_tool(&session, "Use it", "a").await;
    session.agent().cancel();
    let outcome = cancelled(&session, &run).await;
    assert_eq!((outcome.receipt.calls[0].verdict, log.running()), (Verdict::Cut, 0));
}

#[tokio::test(start_paused = true)]
async fn cancelling_three_times_is_cancelling_once() {
    let session = scripted([says_and_hangs("Hm")]).open();
    let run = start_until_shown(&session, "Hello", "Hm").await;
    let kinds: Vec<ReplyKind> = (0..3).map(|_| session.agent().cancel().kind()).collect();
    assert_eq!(kinds, [ReplyKind::Accepted, ReplyKind::AlreadyCancelling, ReplyKind::AlreadyCancelling]);
    cancelled(&session, &run).await;
    assert_eq!(count(&run, |event| matches!(event, Event::CancelRequested { .. })), 1);
    assert_usable(&session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_from_another_thread() {
    let model = ScriptedModel::new([says_and_hangs("Hm")]);
    let runtime = andon_runtime::Runtime::builder().build();
    let session = andon_runtime::Agent::builder().model(model.clone()).runtime(&runtime).open();
    let run = start_until_shown(&session, "Hello", "Hm").await;
    let elsewhere = session.agent().clone();
    std::thread::spawn(move || elsewhere.cancel()).join().unwrap();
    cancelled(&session, &run).await;
}

#[tokio::test(start_paused = true)]
async fn while_streaming_the_final_event_says_cancelled() {
    let session = scripted([says_and_hangs("One two")]).open();
    let run = session.start("Count").unwrap();
    let mut feed = run.feed();
    while let Some(item) = feed.next().await {
        if matches!(item, FeedItem::Delta(_)) {
            session.agent().cancel();
            break;
        }
    }
    let rest = read_all(&mut feed).await;
    let last = serde_json::to_value(rest.last().unwrap()).unwrap();
    assert_eq!(last["type"], "run_settled");
    assert_eq!(last["outcome"], json!({"kind": "cancelled", "reason": "requested"}));
    settled(&session, &run).await;
}

#[tokio::test(start_paused = true)]
async fn before_tool_execution_every_tool_call_gets_an_error_result() {
    let log = ToolLog::new();
    let session = scripted([calls(&[("a", "look"), ("b", "look"), ("c", "look")])])
        .tool(tools::quick("look", &log))
        .after_model(|moment| async move {
            moment.cord.pull(Cancel::graceful());
        })
        .open();
    let run = session.start("Look").unwrap();
    cancelled(&session, &run).await;
    assert_eq!(log.started(), 0);
    let history = session.history().await.unwrap();
    for call in ["a", "b", "c"] {
        let result = result_of(&history, call);
        assert_eq!(result.status, ResultStatus::Refused);
        assert!(result.status.is_error());
    }
}

#[tokio::test(start_paused = true)]
async fn use_the_agent_again_after_a_cancel() {
    let session = scripted([says_and_hangs("Old"), says("New.")]).open();
    let run = start_until_shown(&session, "First", "Old").await;
    session.agent().cancel();
    cancelled(&session, &run).await;
    let outcome = session.run("Second").await.unwrap();
    assert_eq!((outcome.stop_reason(), outcome.text_so_far().as_str()), ("end_turn", "New."));
    assert_eq!(texts(&session.history().await.unwrap()), ["First", "Old [cut]", "Second", "New."]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_owned_signal_works_and_is_left_untouched() {
    let session = scripted([says_and_hangs("Hm")]).open();
    let token = CancellationToken::new();
    let run = session.prompt("Hello").cancel_when(token.clone().cancelled_owned()).start().unwrap();
    until_shown(&run, "Hm").await;
    token.cancel();
    let outcome = cancelled(&session, &run).await;
    assert_eq!(outcome.receipt.by.as_deref(), Some("signal"));

    let unused = CancellationToken::new();
    let run = session.prompt("Again").cancel_when(unused.clone().cancelled_owned()).start().unwrap();
    assert_eq!(run.outcome().await.stop_reason(), "end_turn");
    run.cancel(Cancel::now());
    assert!(!unused.is_cancelled(), "the caller's token is only observed");
}

#[tokio::test(start_paused = true)]
async fn stopping_the_run_otherwise_leaves_the_callers_signal_untouched() {
    let session = scripted([says_and_hangs("Hm")]).open();
    let token = CancellationToken::new();
    let run = session.prompt("Hello").cancel_when(token.clone().cancelled_owned()).start().unwrap();
    until_shown(&run, "Hm").await;
    stop(&session, &run, Cancel::now()).await;
    assert!(!token.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_was_given_before_the_run_makes_no_model_call() {
    let model = ScriptedModel::new([]);
    let session = agent(&model).open();
    let token = CancellationToken::new();
    token.cancel();
    let run = session.prompt("Hello").cancel_when(token.cancelled_owned()).start().unwrap();
    cancelled(&session, &run).await;
    assert_eq!(model.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_tool_sees_the_signal() {
    let tool = FnTool::new("poll", "Looks at its cord.", json!({"type": "object"}), |call| async move {
        assert!(!call.cord.is_pulled());
        while !call.cord.is_pulled() {
            tokio::time::sleep(millis(10)).await;
        }
        Ok("saw it".into())
    });
    let session = scripted([calls(&[("p", "poll")])]).tool(tool.effect(Effect::ReadOnly)).open();
    let run = start_until_tool(&session, "Poll", "p").await;
    session.agent().cancel();
    cancelled(&session, &run).await;
    let result = result_of(&session.history().await.unwrap(), "p");
    assert_eq!(result.status, ResultStatus::Cut);
    assert!(result.to_text().ends_with("saw it"), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn the_sequential_executor_skips_the_rest() {
    let log = ToolLog::new();
    let first = answer([vec![Act::text("Three. ")], calls(&[("a", "quick"), ("b", "kind"), ("c", "quick")])]);
    let session = scripted([first])
        .sequential_tools()
        .tool(tools::quick("quick", &log))
        .tool(tools::cooperative("kind", secs(60), &log))
        .open();
    let run = start_until_tool(&session, "Go", "b").await;
    session.agent().cancel();
    let outcome = cancelled(&session, &run).await;
    let verdicts: Vec<_> = outcome.receipt.calls.iter().map(|call| (call.call.as_str(), call.verdict)).collect();
    assert_eq!(verdicts, [("a", Verdict::Finished), ("c", Verdict::NeverStarted), ("b", Verdict::Cut)]);
    assert_eq!(log.started(), 2);
}
