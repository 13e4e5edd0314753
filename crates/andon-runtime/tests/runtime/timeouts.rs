//! A call that takes too long is stopped alone: the run goes on, and the model is told why (P1, P2, P7).

use andon_runtime::ToolSpec;
use andon_runtime::core::message::Content;

use crate::common::*;

const TOO_LONG: &str = "It took too long: its limit of 5s was reached.";
const STOPPED: &str = "This call was stopped before it finished.";
const PERHAPS: &str =
    "This call was stopped before it finished. It may have had its effect: check before you repeat it.";

fn result(status: ResultStatus, texts: &[&str]) -> ToolResult {
    let content = texts.iter().map(|text| Content::Text { text: (*text).to_owned() }).collect();
    ToolResult::new(id("c"), status, content)
}

fn one_tool(tool: FnTool) -> Session {
    scripted([calls(&[("c", "tool")]), says("Well.")]).tool(tool).open()
}

fn verdict(receipt: &Receipt, call: &str) -> Verdict {
    receipt.calls.iter().find(|account| account.call.as_str() == call).expect("the call has an account").verdict
}

fn late(receipt: &Receipt) -> Vec<String> {
    let late = receipt.addenda.iter().filter_map(|addendum| match &addendum.what {
        AddendumKind::LateResult { result, .. } => Some(result.to_text()),
        _ => None,
    });
    late.collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_over_its_limit_is_stopped_as_its_tool_declares_and_the_model_is_told_that_it_took_too_long() {
    let finish = OnCancel::Finish { within: secs(600) };
    // The limit and the grace, if there is one; a tool that may finish after a pull gets no further time.
    let cases =
        [(OnCancel::Cooperate, secs(7)), (OnCancel::Drop, secs(5)), (finish, secs(5)), (OnCancel::Detach, secs(7))];
    for (on_cancel, takes) in cases {
        let log = ToolLog::new();
        let tool = tools::slow("tool", secs(60), &log).on_cancel(on_cancel).timeout(secs(5));
        let model = ScriptedModel::new([calls(&[("c", "tool")]), says("Well.")]);
        let session = agent(&model).tool(tool).open();
        let began = Instant::now();
        let (run, outcome) = run_to_end(&session, "Go.").await;
        assert_eq!((began.elapsed(), outcome.text_so_far().as_str()), (takes, "Well."), "{on_cancel:?}");
        let expected = result(ResultStatus::Unknown, &[PERHAPS, TOO_LONG]);
        assert_eq!(result_of(&session.history().await.unwrap(), "c"), expected, "{on_cancel:?}");
        assert_eq!((verdict(&outcome.receipt, "c"), log.running()), (Verdict::Unknown, 0), "{on_cancel:?}");
        let told = format!("{:?}", model.requests()[1].prompt());
        assert!(told.contains(TOO_LONG), "{told}");
        let is_recorded = |event: &Event| {
            matches!(event, Event::CallCancelRequested { request, .. }
                if request.reason == Reason::Deadline && request.by.as_deref() == Some("limit"))
        };
        assert_eq!(count(&run, is_recorded), 1, "{on_cancel:?}");
        assert_eq!(outcome.receipt.requests, [], "the run was not asked to stop");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_stops_when_its_time_is_over_keeps_what_it_returned() {
    let log = ToolLog::new();
    let session = one_tool(tools::cooperative("tool", secs(60), &log).timeout(secs(5)));
    let began = Instant::now();
    let (_, outcome) = run_to_end(&session, "Go.").await;
    assert_eq!((began.elapsed(), verdict(&outcome.receipt, "c")), (secs(5), Verdict::Cut));
    let expected = result(ResultStatus::Cut, &[STOPPED, TOO_LONG, "part of the result"]);
    assert_eq!(result_of(&session.history().await.unwrap(), "c"), expected);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_checks_its_cord_sees_why_it_must_stop_and_how_long_it_has() {
    let tool = FnTool::new("tool", "Looks.", json!({"type": "object"}), |call| async move {
        call.cord.pulled().await;
        let request = call.cord.request().unwrap();
        Ok(format!("{:?} {:?} {:?}", request.reason, request.by.as_deref(), call.cord.time_left()).into())
    });
    let session = one_tool(tool.timeout(secs(5)).grace(secs(3)));
    assert_eq!(session.run("Go.").await.unwrap().completed().unwrap().text(), "Well.");
    let told = result_of(&session.history().await.unwrap(), "c").to_text();
    assert!(told.ends_with("Deadline Some(\"limit\") Some(3s)"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_returns_just_in_time_has_finished() {
    for takes in [millis(4_999), secs(6)] {
        // Over its limit and within its grace, without checking its cord: it has simply finished.
        let log = ToolLog::new();
        let session = one_tool(tools::slow("tool", takes, &log).timeout(secs(5)));
        let (_, outcome) = run_to_end(&session, "Go.").await;
        assert_eq!(verdict(&outcome.receipt, "c"), Verdict::Finished, "{takes:?}");
        let expected = result(ResultStatus::Ok, &["slow result"]);
        assert_eq!(result_of(&session.history().await.unwrap(), "c"), expected, "{takes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_over_its_limit_stops_no_other_call() {
    let log = ToolLog::new();
    let tools = [tools::stubborn("tool", secs(60), &log).timeout(secs(1)), tools::slow("slow", secs(30), &log)];
    let session = with_tools(scripted([calls(&[("c", "tool"), ("s", "slow")]), says("Well.")]), tools);
    let (_, outcome) = run_to_end(&session, "Go.").await;
    assert_eq!((verdict(&outcome.receipt, "c"), verdict(&outcome.receipt, "s")), (Verdict::Unknown, Verdict::Finished));
    assert_eq!(outcome.text_so_far(), "Well.");
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_never_woken_is_stopped_when_its_time_is_over() {
    let spec = ToolSpec::new("tool", "Is never woken.", json!({"type": "object"}));
    let tool = FnTool::from_spec(spec, |_| Work::task(std::future::pending()));
    let session = one_tool(tool.timeout(secs(5)).grace(millis(1)).effect(Effect::ReadOnly));
    let began = Instant::now();
    assert_eq!(session.run("Go.").await.unwrap().completed().unwrap().text(), "Well.");
    assert_eq!(began.elapsed(), millis(5_001));
    let expected = result(ResultStatus::Cut, &[STOPPED, TOO_LONG]);
    assert_eq!(result_of(&session.history().await.unwrap(), "c"), expected);
}

/// A runtime with one place for blocking tools.
fn one_place() -> Runtime {
    Runtime::builder().one_lane().clock(Arc::new(TestClock::new())).seed(1).blocking_tools(1, 8).build()
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_call_runs_while_it_waits_for_a_thread_and_then_it_is_never_started() {
    let log = ToolLog::new();
    let model = ScriptedModel::new([calls(&[("a", "first"), ("c", "tool")]), says("Well.")]);
    let session = Agent::builder()
        .model(model)
        .runtime(&one_place())
        .tool(tools::on_thread("first", secs(60), false, &log))
        .tool(tools::on_thread("tool", secs(1), false, &log).timeout(secs(5)))
        .open();
    let run = at_work(&session).await;
    let began = Instant::now();
    until(&run, |event| matches!(event, Event::ToolFinished { call, .. } if *call == id("c"))).await;
    assert_eq!((began.elapsed(), log.started()), (secs(5), 1));
    let outcome = settled(&session, &run).await;
    assert_eq!((verdict(&outcome.receipt, "c"), outcome.text_so_far().as_str()), (Verdict::NeverStarted, "Well."));
    let not_run = "Not run: it was stopped before it started.";
    let expected = result(ResultStatus::Refused, &[not_run, TOO_LONG]);
    assert_eq!(result_of(&session.history().await.unwrap(), "c"), expected);
    assert_eq!(log.started(), 1, "its place came, and it was too late");
}

#[tokio::test(start_paused = true)]
async fn a_thread_over_its_limit_is_abandoned_by_name_and_the_run_goes_on() {
    let log = ToolLog::new();
    let session = one_tool(tools::on_thread("tool", secs(60), false, &log).timeout(secs(5)));
    let began = Instant::now();
    let (run, outcome) = run_to_end(&session, "Go.").await;
    assert!(began.elapsed() < secs(6), "limit, half a second of grace, and a last moment: {:?}", began.elapsed());
    assert_eq!((outcome.text_so_far().as_str(), verdict(&outcome.receipt, "c")), ("Well.", Verdict::Leaked));
    assert_eq!(result_of(&session.history().await.unwrap(), "c"), result(ResultStatus::Unknown, &[PERHAPS, TOO_LONG]));
    session.agent().runtime().idle().await;
    let receipt = run.receipt().unwrap();
    assert_eq!((verdict(&receipt, "c"), late(&receipt)), (Verdict::Late, vec!["the thread's result".to_owned()]));
    assert_eq!(receipt.leaked, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_late_result_of_a_thread_that_comes_while_the_run_goes_on_is_in_the_receipt_in_the_end() {
    let log = ToolLog::new();
    let tools = [tools::on_thread("tool", secs(10), false, &log).timeout(secs(5)), tools::slow("slow", secs(60), &log)];
    let session = with_tools(scripted([calls(&[("c", "tool"), ("s", "slow")]), says("Well.")]), tools);
    let (run, _) = run_to_end(&session, "Go.").await;
    for receipt in
        [run.receipt().unwrap(), session.agent().runtime().find(run.id()).await.unwrap().unwrap().receipt().unwrap()]
    {
        assert_eq!((verdict(&receipt, "c"), late(&receipt)), (Verdict::Late, vec!["the thread's result".to_owned()]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_reached_in_the_grace_of_a_pull_grants_no_more_time() {
    for timeout in [secs(1), millis(1_500), secs(3)] {
        let log = ToolLog::new();
        let session = one_tool(tools::slow("tool", secs(60), &log).grace(secs(2)).timeout(timeout));
        let run = at_work(&session).await;
        tokio::time::sleep(secs(1)).await;
        let pulled = Instant::now();
        let outcome = stop(&session, &run, Cancel::graceful()).await;
        assert_eq!((pulled.elapsed(), log.running()), (secs(2).min(timeout + secs(1)), 0), "{timeout:?}");
        assert_eq!(verdict(&outcome.receipt, "c"), Verdict::Unknown);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pull_at_the_very_instant_of_the_limit_leaves_one_result() {
    for cancel in [Cancel::graceful(), Cancel::now(), Cancel::after_turn()] {
        for on_cancel in [OnCancel::Cooperate, OnCancel::Drop, OnCancel::Detach, OnCancel::Finish { within: secs(1) }] {
            let log = ToolLog::new();
            let tool = tools::slow("tool", secs(60), &log).on_cancel(on_cancel).timeout(secs(5)).grace(secs(1));
            let session = one_tool(tool);
            let run = session.start("Go.").unwrap();
            tokio::time::sleep(secs(5)).await;
            let outcome = stop(&session, &run, cancel.clone()).await;
            assert_eq!(outcome.receipt.calls.len(), 1, "{cancel:?} {on_cancel:?}");
            session.agent().runtime().idle().await;
            assert_eq!(log.running(), 0, "{cancel:?} {on_cancel:?}");
            assert_usable(&session).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_reached_while_the_disk_is_slow_is_kept_all_the_same() {
    let (journal, log) = (TestJournal::slow(None, secs(3)), ToolLog::new());
    let builder = scripted_on(&journal, [calls(&[("c", "tool")]), says("Well.")]);
    let session = builder.tool(tools::slow("tool", secs(60), &log).grace(secs(0)).timeout(secs(5))).open();
    let run = session.start("Go.").unwrap();
    while log.started() == 0 {
        tokio::time::sleep(millis(1)).await;
    }
    let began = Instant::now();
    while log.running() > 0 {
        tokio::time::sleep(millis(1)).await;
    }
    assert!(began.elapsed() <= millis(5_001), "{:?}", began.elapsed());
    assert_eq!(settled(&session, &run).await.text_so_far(), "Well.");
}

#[tokio::test(start_paused = true)]
async fn a_detached_call_is_over_when_its_time_is_although_its_run_has_settled() {
    let log = ToolLog::new();
    let session = one_tool(tools::slow("tool", secs(60), &log).on_cancel(OnCancel::Detach).timeout(secs(5)));
    let run = at_work(&session).await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!((verdict(&outcome.receipt, "c"), log.running()), (Verdict::Detached, 1));
    let began = Instant::now();
    session.agent().runtime().idle().await;
    assert_eq!((began.elapsed(), log.running()), (secs(5), 0));
    assert_eq!(late(&run.receipt().unwrap()), [STOPPED]);
}

#[tokio::test(start_paused = true)]
async fn a_detached_thread_over_its_time_is_counted_until_it_ends_and_its_result_is_kept() {
    let log = ToolLog::new();
    let runtime = Runtime::builder().one_lane().clock(Arc::new(TestClock::new())).seed(1).blocking_tools(1, 1).build();
    let model = ScriptedModel::new([calls(&[("c", "tool")]), calls(&[("d", "tool")]), says("Well.")]);
    let tool = tools::on_thread("tool", secs(60), false, &log).on_cancel(OnCancel::Detach).timeout(secs(5));
    let session = Agent::builder().model(model).runtime(&runtime).tool(tool).open();
    let run = at_work(&session).await;
    stop(&session, &run, Cancel::graceful()).await;
    tokio::time::sleep(secs(10)).await;
    assert_eq!(log.running(), 1, "a thread cannot be stopped");
    assert_eq!(late(&run.receipt().unwrap()), Vec::<String>::new(), "it has not ended");

    let outcome = session.run("Again.").await.unwrap();
    assert_eq!(outcome.text_so_far(), "Well.");
    let told = result_of(&session.history().await.unwrap(), "d").to_text();
    assert!(told.starts_with("Not run: 1 blocking tools did not stop"), "{told}");
    runtime.idle().await;
    assert_eq!(late(&run.receipt().unwrap()), ["the thread's result"]);
}
