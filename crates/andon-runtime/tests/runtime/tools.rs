//! A stop reaches every tool: told, given its grace, dropped, or named; and each call has exactly one result (P2, P5).

use andon_runtime::core::event::ToolEnd;
use andon_runtime::core::message::Content;

use crate::common::*;

fn text(text: &str) -> Content {
    Content::Text { text: text.to_owned() }
}

#[tokio::test(start_paused = true)]
async fn a_cooperative_tool_is_told_at_once_and_recorded_as_cut_with_what_it_returned() {
    let log = ToolLog::new();
    let session = scripted([calls(&[("k", "kind")])]).tool(tools::cooperative("kind", secs(60), &log)).open();
    let run = start_until_tool(&session, "Go.", "k").await;
    let pulled = Instant::now();
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!((pulled.elapsed(), outcome.receipt.cut_in), (secs(0), Some(Phase::Tools)));
    let content = vec![text("This call was stopped before it finished."), text("part of the result")];
    let expected = ToolResult::new(id("k"), ResultStatus::Cut, content);
    assert_eq!(result_of(&session.history().await.unwrap(), "k"), expected);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_returns_within_its_grace_without_looking_at_its_cord_has_finished() {
    let log = ToolLog::new();
    let session = scripted([calls(&[("s", "slow")])]).tool(tools::slow("slow", secs(1), &log)).open();
    let run = start_until_tool(&session, "Go.", "s").await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(outcome.receipt.calls[0].verdict, Verdict::Finished);
    let expected = ToolResult::text(id("s"), ResultStatus::Ok, "slow result");
    assert_eq!(result_of(&session.history().await.unwrap(), "s"), expected);
}

#[tokio::test(start_paused = true)]
async fn a_stubborn_tool_gets_its_grace_and_is_then_dropped() {
    let cases = [
        (Effect::Effect, ResultStatus::Unknown, Verdict::Unknown),
        (Effect::Idempotent, ResultStatus::Cut, Verdict::Cut),
        (Effect::ReadOnly, ResultStatus::Cut, Verdict::Cut),
    ];
    for (effect, status, verdict) in cases {
        let log = ToolLog::new();
        let model = ScriptedModel::new([calls(&[("m", "mule")])]);
        let session = agent(&model).tool(tools::stubborn("mule", secs(60), &log).effect(effect)).open();
        let run = start_until_tool(&session, "Go.", "m").await;
        let pulled = Instant::now();
        let outcome = stop(&session, &run, Cancel::graceful()).await;
        assert_eq!((pulled.elapsed(), log.running()), (millis(500), 0));
        assert_eq!(result_of(&session.history().await.unwrap(), "m").status, status);
        assert_eq!(outcome.receipt.calls[0].verdict, verdict);
        assert_eq!(outcome.receipt.calls[0].took_us, Some(500_000));
        assert!(events(&run).contains(&Event::GraceEnded { calls: [id("m")].into() }));
        assert_eq!(outcome.receipt.leaked, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn force_now_gives_no_grace_and_so_none_ends_on_record() {
    let log = ToolLog::new();
    let session = scripted([calls(&[("m", "mule")])]).tool(tools::stubborn("mule", secs(60), &log)).open();
    let run = start_until_tool(&session, "Go.", "m").await;
    stop(&session, &run, Cancel::now()).await;
    let grace_ended = count(&run, |event| matches!(event, Event::GraceEnded { .. }));
    let finished = count(&run, |event| matches!(event, Event::ToolFinished { .. }));
    assert_eq!((grace_ended, finished, log.running()), (0, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_parallel_batch_keeps_finished_results_in_the_models_order() {
    let log = ToolLog::new();
    let tools =
        [tools::slow("slow", secs(60), &log), tools::quick("quick", &log), tools::cooperative("kind", secs(60), &log)];
    let session = with_tools(scripted([calls(&[("a", "slow"), ("b", "quick"), ("c", "kind"), ("d", "quick")])]), tools);
    let run = session.start("All.").unwrap();
    until(&run, |event| matches!(event, Event::ToolFinished { call, .. } if *call == id("d"))).await;
    stop(&session, &run, Cancel::now()).await;
    let history = session.history().await.unwrap();
    let last = history.last().unwrap();
    assert_eq!(last.role, Role::Tool);
    let results: Vec<_> = last.results().map(|result| (result.call.as_str(), result.status)).collect();
    let (unknown, ok, cut) = (ResultStatus::Unknown, ResultStatus::Ok, ResultStatus::Cut);
    assert_eq!(results, [("a", unknown), ("b", ok), ("c", cut), ("d", ok)]);
    assert_eq!(log.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_sequential_batch_never_starts_the_rest_and_each_has_a_result() {
    let log = ToolLog::new();
    let session = scripted([calls(&[("a", "quick"), ("b", "slow"), ("c", "quick"), ("d", "quick")])])
        .sequential_tools()
        .tool(tools::quick("quick", &log))
        .tool(tools::slow("slow", secs(60), &log))
        .open();
    let run = start_until_tool(&session, "One by one.", "b").await;
    stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(log.started(), 2);
    let history = session.history().await.unwrap();
    let statuses = ["a", "b", "c", "d"].map(|call| result_of(&history, call).status);
    let (ok, unknown, refused) = (ResultStatus::Ok, ResultStatus::Unknown, ResultStatus::Refused);
    assert_eq!(statuses, [ok, unknown, refused, refused]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_panics_ends_its_own_call_and_the_run_goes_on() {
    let log = ToolLog::new();
    let model = ScriptedModel::new([calls(&[("p", "bomb"), ("q", "quick")]), says("Well.")]);
    let session = agent(&model).tool(tools::panicking("bomb", &log)).tool(tools::quick("quick", &log)).open();
    let (_, outcome) = run_to_end(&session, "Boom.").await;
    assert_eq!(outcome.stop_reason(), "end_turn");
    let history = session.history().await.unwrap();
    let result = result_of(&history, "p");
    assert_eq!(result.status, ResultStatus::Error);
    let told = result.to_text();
    assert!(told.starts_with("The tool crashed.") && told.ends_with(tools::ON_PURPOSE), "{told}");
    assert_eq!(result_of(&history, "q").status, ResultStatus::Ok);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_panics_when_it_is_told_to_stop_still_has_one_result() {
    let tool = FnTool::new("sore", "Panics when told.", json!({"type": "object"}), |call| async move {
        call.cord.pulled().await;
        panic!("sore loser")
    });
    let session = scripted([calls(&[("p", "sore")])]).tool(tool).open();
    let run = start_until_tool(&session, "Go.", "p").await;
    stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(result_of(&session.history().await.unwrap(), "p").status, ResultStatus::Error);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_tool_is_told_to_the_model_in_its_own_words() {
    let tool =
        FnTool::new("sad", "Fails.", json!({"type": "object"}), |_| async { Err(ToolError::new("no such page")) });
    let session = scripted([calls(&[("s", "sad")])]).tool(tool).open();
    assert_eq!(session.run("Go.").await.unwrap().stop_reason(), "end_turn");
    let expected = ToolResult::text(id("s"), ResultStatus::Error, "no such page");
    assert_eq!(result_of(&session.history().await.unwrap(), "s"), expected);
}

#[tokio::test(start_paused = true)]
async fn a_tool_may_pull_the_cord_of_its_own_run_and_its_result_is_kept() {
    let tool = FnTool::new("brake", "Stops the run.", json!({"type": "object"}), |call| async move {
        let reply = call.cord.pull(Cancel::graceful().reason(Reason::Policy).by("brake"));
        Ok(reply.kind().as_str().into())
    });
    let model = ScriptedModel::new([calls(&[("b", "brake")])]);
    let session = agent(&model).tool(tool).open();
    let run = session.start("Brake.").unwrap();
    let outcome = cancelled_because(&session, &run, Reason::Policy).await;
    assert_eq!((outcome.receipt.by.as_deref(), model.calls()), (Some("brake"), 1));
    let expected = ToolResult::text(id("b"), ResultStatus::Ok, "accepted");
    assert_eq!(result_of(&session.history().await.unwrap(), "b"), expected);
}

#[tokio::test(start_paused = true)]
async fn time_left_tells_a_tool_how_much_of_its_grace_it_has() {
    let tool = FnTool::new("watch", "Watches the time.", json!({"type": "object"}), |call| async move {
        let before = call.cord.time_left();
        call.cord.pulled().await;
        let told = call.cord.time_left();
        tokio::time::sleep(millis(300)).await;
        let later = call.cord.time_left();
        Ok(format!("{before:?} {told:?} {later:?}").into())
    });
    let model = ScriptedModel::new([calls(&[("w", "watch")])]);
    let session = agent(&model).tool(tool.grace(secs(1)).effect(Effect::ReadOnly)).open();
    let run = start_until_tool(&session, "Go.", "w").await;
    stop(&session, &run, Cancel::graceful()).await;
    let told = result_of(&session.history().await.unwrap(), "w").to_text();
    assert!(told.ends_with("None Some(1s) Some(700ms)"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn no_more_tools_run_together_than_the_agent_allows() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak) = (Arc::clone(&running), Arc::clone(&most));
    let tool = FnTool::new("work", "Works.", json!({"type": "object"}), move |_| {
        let (now, peak) = (Arc::clone(&now), Arc::clone(&peak));
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(secs(1)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok("done".into())
        }
    });
    let ids: Vec<String> = (0..10).map(|number| format!("w{number}")).collect();
    let ten: Vec<(&str, &str)> = ids.iter().map(|id| (id.as_str(), "work")).collect();
    let session = scripted([calls(&ten)]).tools_at_once(3).tool(tool).open();
    let began = Instant::now();
    let (run, _) = run_to_end(&session, "Go.").await;
    assert_eq!((most.load(Ordering::SeqCst), running.load(Ordering::SeqCst)), (3, 0));
    assert_eq!(began.elapsed(), secs(4), "three, three, three, one");
    assert_eq!(count(&run, |event| matches!(event, Event::ToolFinished { end: ToolEnd::Finished, .. })), 10);
}

#[test]
fn a_stop_comes_to_rest_while_one_tool_has_finished_and_another_uses_its_grace() {
    let elapsed = within_ten_real_seconds(|| {
        Box::pin(async {
            let log = ToolLog::new();
            let session = scripted([calls(&[("k", "kind"), ("m", "mule")])])
                .tool(tools::cooperative("kind", secs(60), &log))
                .tool(tools::stubborn("mule", secs(60), &log))
                .after_tool(|_| async {})
                .open();
            let run = start_until_tool(&session, "Go.", "m").await;
            settle_down().await;
            let pulled = Instant::now();
            stop(&session, &run, Cancel::graceful()).await;
            pulled.elapsed()
        })
    });
    assert_eq!(elapsed, millis(500));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_result_of_a_quick_tool_is_shown_while_a_slow_one_runs_on() {
    let runtime = andon_runtime::Runtime::builder().build();
    let log = ToolLog::new();
    // It is chance whether the driver hears of the quick one before or after it begins to wait, so this is repeated
    // often.
    for _ in 0..30 {
        let model = ScriptedModel::new([calls(&[("a", "quick"), ("b", "slow")])]);
        let agent = andon_runtime::Agent::builder().model(model).runtime(&runtime);
        let agent = agent.tool(tools::quick("quick", &log)).tool(tools::slow("slow", secs(3600), &log));
        let run = agent.open().start("Go.").unwrap();
        let finished = until(&run, |event| matches!(event, Event::ToolFinished { .. }));
        tokio::time::timeout(secs(10), finished).await.expect("the quick tool has finished");
        run.cancel(andon_runtime::Cancel::now());
        run.outcome().await;
    }
}
