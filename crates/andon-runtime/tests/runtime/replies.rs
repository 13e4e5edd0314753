//! What a cancel answers (P6), what the receipt says (P7), what was used (P4), and what each force means.

use andon_runtime::{Figure, Force, Provenance, Reply, Usage, Used};

use crate::common::held::{HeldJournal, is_end};
use crate::common::*;

#[tokio::test(start_paused = true)]
async fn a_second_cancel_changes_nothing_and_a_harder_one_hardens() {
    let model = ScriptedModel::new([calls(&[("m", "mule")])]);
    let log = ToolLog::new();
    let session = agent(&model).tool(tools::stubborn("mule", secs(60), &log)).open();
    let run = start_until_tool(&session, "Go.", "m").await;

    let kinds = [
        Cancel::after_turn(),
        Cancel::after_turn(),
        Cancel::graceful().note("first"),
        Cancel::graceful().note("second"),
        Cancel::after_turn(),
        Cancel::now(),
        Cancel::now(),
        Cancel::graceful(),
    ]
    .map(|cancel| run.cancel(cancel).kind().as_str());

    let (same, harder) = ("already_cancelling", "hardened");
    assert_eq!(kinds, ["accepted", same, harder, same, same, harder, same, same]);
    let outcome = cancelled(&session, &run).await;
    let forces: Vec<Force> = outcome.receipt.requests.iter().map(|request| request.force).collect();
    assert_eq!(forces, [Force::AfterTurn, Force::Graceful, Force::Now]);
    assert_eq!(outcome.receipt.force, Some(Force::Now));
}

#[tokio::test(start_paused = true)]
async fn too_late_says_how_the_run_had_ended_and_changes_nothing() {
    let session = scripted([says("Done.")]).open();
    let run = session.start("Go.").unwrap();
    let outcome = run.outcome().await;
    let events = run.records();
    for cancel in [Cancel::after_turn(), Cancel::graceful(), Cancel::now()] {
        let reply = run.cancel(cancel);
        let ending = Ending::Completed { stop: ModelStop::EndTurn };
        assert_eq!(*reply.kind(), ReplyKind::TooLate { outcome: Arc::new(ending) });
        assert!(!reply.is_stopping());
        assert_eq!(reply.recorded().await, Ok(()));
    }
    settle_down().await;
    assert_eq!((run.records(), run.outcome().await), (events, outcome));
}

#[tokio::test(start_paused = true)]
async fn recorded_waits_until_the_request_is_durable_and_the_reply_does_not() {
    let journal = andon_testkit::TestJournal::slow(None, secs(1));
    let model = ScriptedModel::new([says_and_hangs("Shown.")]);
    let session = andon_runtime::Agent::builder().model(model.clone()).runtime(&runtime_on(&journal)).open();
    let run = start_until_shown(&session, "Go.", "Shown.").await;

    let pulled = Instant::now();
    let first = run.cancel(Cancel::graceful());
    let joined = run.cancel(Cancel::graceful());
    assert_eq!((first.kind().as_str(), joined.kind().as_str()), ("accepted", "already_cancelling"));
    let is_request = |event: &Event| matches!(event, Event::CancelRequested { .. });
    assert!(!journal.has(run.id(), is_request));

    assert_eq!(joined.recorded().await, Ok(()));
    assert!(journal.has(run.id(), is_request));
    assert_eq!(first.recorded().await, Ok(()));
    assert!(pulled.elapsed() >= secs(1));
    cancelled(&session, &run).await;
}

/// A run whose end is decided and not durable yet, and a reply that came too late for it.
async fn too_late_and_not_durable() -> (Arc<HeldJournal>, Run, Reply) {
    let journal = HeldJournal::new(is_end);
    let shared = Arc::clone(&journal);
    let runtime = Runtime::builder().journal(shared).one_lane().clock(Arc::new(TestClock::new())).seed(1).build();
    let session = Agent::builder().model(ScriptedModel::new([says("Done.")])).runtime(&runtime).open();
    let run = session.start("Go.").unwrap();
    journal.until_a_batch_is_held().await;
    let reply = run.cancel(Cancel::graceful());
    assert_eq!(reply.too_late(), Some(&Ending::Completed { stop: ModelStop::EndTurn }));
    let early = tokio::time::timeout(secs(60), reply.recorded()).await;
    assert!(early.is_err(), "reported as durable although it is not");
    (journal, run, reply)
}

#[tokio::test(start_paused = true)]
async fn recorded_of_a_reply_that_came_too_late_waits_for_the_outcome() {
    let (journal, run, reply) = too_late_and_not_durable().await;
    journal.release().await;
    assert_eq!(reply.recorded().await, Ok(()));
    assert_eq!(reply.too_late(), Some(&*run.outcome().await.ending));
    assert!(journal.durable.has(run.id(), |event| matches!(event, Event::RunSettled { .. })));
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_the_disk_refused_once_is_recorded_as_the_reply_that_came_too_late_said() {
    let (journal, run, reply) = too_late_and_not_durable().await;
    let disk_full = JournalError::Storage("disk full".to_owned());
    journal.refuse(&disk_full);
    assert_eq!(reply.recorded().await, Ok(()));
    assert_eq!(reply.too_late(), Some(&*run.outcome().await.ending));
    assert!(journal.durable.has(run.id(), |event| matches!(event, Event::RunSettled { .. })));
}

#[tokio::test(start_paused = true)]
async fn the_receipt_says_who_why_when_and_where_it_was_cut() {
    let session = scripted([vec![Act::usage(7, 1), Act::text("Half"), Act::Silence]]).open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    tokio::time::sleep(secs(3)).await;
    run.cancel(Cancel::graceful().reason(Reason::Operator).by("ada").note("stop button"));

    let receipt = cancelled_because(&session, &run, Reason::Operator).await.receipt.clone();
    assert_eq!(receipt.outcome.as_deref(), Some(&Ending::Cancelled { reason: Reason::Operator }));
    let who_and_why = (receipt.reason, receipt.by.as_deref(), receipt.note.as_deref(), receipt.force);
    assert_eq!(who_and_why, (Some(Reason::Operator), Some("ada"), Some("stop button"), Some(Force::Graceful)));
    assert_eq!((receipt.run.clone(), receipt.session.clone()), (run.id().clone(), run.session().clone()));
    let at = Some(andon_runtime::core::time::Wall(receipt.accepted_at.0 + 3_000_000));
    let instants = (receipt.requested_at, receipt.delivered_at, receipt.quiet_at, receipt.settled_at);
    assert_eq!(instants, (at, at, at, at));
    assert_eq!(receipt.took, andon_runtime::core::receipt::Took::new().delivered_us(0).quiet_us(0).settled_us(0));
    assert_eq!((receipt.cut_in, receipt.run_us), (Some(Phase::Model), 3_000_000));
    assert_eq!(receipt.first_piece_us, Some(0));
    assert_eq!((receipt.leaked, receipt.revision), (Vec::<String>::new(), 0));
}

#[tokio::test(start_paused = true)]
async fn usage_of_a_stopped_answer_is_what_was_reported_so_far_and_what_is_billed_is_bounded_below() {
    let session = scripted([vec![Act::usage(40, 3), Act::text("Half"), Act::Silence]]).open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    let running = |value| Figure::exact(value, Provenance::ReportedRunning);
    let at_least = |low| Figure::new().provenance(Provenance::Bounded).low(low);
    let delivered = Usage::new().input(running(40)).output(running(3));
    let billed = delivered.output(at_least(3));
    assert_eq!(outcome.usage, Used::new(delivered, billed));
    assert_eq!(outcome.receipt.usage, outcome.usage);
}

#[tokio::test(start_paused = true)]
async fn usage_that_nobody_reported_is_unknown_and_never_zero() {
    let session = scripted([says_and_hangs("Half")]).open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(outcome.receipt.model_calls[0].usage, Used::UNKNOWN);
    for figure in [outcome.usage.delivered.input, outcome.usage.delivered.output, outcome.usage.billed.output] {
        assert_eq!((figure.value, figure.high), (None, None));
    }
    let json = serde_json::to_value(&outcome.receipt).unwrap();
    assert_eq!(json["usage"]["billed"]["output"]["value"], serde_json::Value::Null);
}

#[tokio::test(start_paused = true)]
async fn usage_of_a_run_is_the_sum_of_its_turns_and_one_unknown_turn_leaves_only_a_lower_bound() {
    let model = ScriptedModel::new([calls(&[("a", "look")]), says_and_hangs("Half")]);
    let session = agent(&model).tool(tools::quick("look", &ToolLog::new())).open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    let expected = Figure::new().provenance(Provenance::Bounded).low(2);
    assert_eq!(outcome.usage.delivered.output, expected);
    let calls: Vec<u32> = outcome.receipt.model_calls.iter().map(|account| account.call).collect();
    assert_eq!(calls, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn after_turn_lets_the_answer_and_its_tools_finish_and_makes_no_further_model_call() {
    let log = ToolLog::new();
    let first = answer([vec![Act::text("I look. "), Act::Pause(secs(1))], calls(&[("a", "look")])]);
    let model = ScriptedModel::new([first]);
    let session = agent(&model).tool(tools::slow("look", secs(3), &log)).open();
    let run = start_until_shown(&session, "Look.", "I look.").await;
    let pulled = Instant::now();
    assert_eq!(*run.cancel(Cancel::after_turn()).kind(), ReplyKind::Accepted);
    settle_down().await;
    assert_eq!(run.state(), RunState::Cancelling);

    let outcome = cancelled(&session, &run).await;
    assert_eq!(pulled.elapsed(), secs(4), "one for the answer, three for its tool");
    assert_eq!((model.calls(), outcome.receipt.force), (1, Some(Force::AfterTurn)));
    assert_eq!(outcome.receipt.calls[0].verdict, Verdict::Finished);
    let history = session.history().await.unwrap();
    assert_eq!(result_of(&history, "a").to_text(), "slow result");
    assert_eq!(history[1].cut, None, "the answer is complete");
}

#[tokio::test(start_paused = true)]
async fn after_turn_in_the_last_turn_ends_completed_with_the_request_on_record() {
    let model = ScriptedModel::new([vec![Act::text("Nearly "), Act::Pause(secs(1)), Act::text("done."), Act::end()]]);
    let session = agent(&model).open();
    let run = start_until_shown(&session, "Go.", "Nearly").await;
    let reply = run.cancel(Cancel::after_turn().by("ada"));
    assert_eq!(*reply.kind(), ReplyKind::Accepted);
    let outcome = settled(&session, &run).await;
    assert_eq!(*outcome.ending, Ending::Completed { stop: ModelStop::EndTurn });
    assert_eq!(outcome.text_so_far(), "Nearly done.");
    assert_eq!(reply.recorded().await, Ok(()));
    assert_eq!(outcome.receipt.requests[0].by.as_deref(), Some("ada"));
}

#[tokio::test(start_paused = true)]
async fn after_turn_in_a_back_off_ends_it_at_once_because_no_turn_has_begun() {
    let model = ScriptedModel::new([vec![Act::Fail(andon_runtime::ModelError::retry_after(secs(60), "429"))]]);
    let session = agent(&model).open();
    let run = start_until(&session, "Go.", |event| matches!(event, Event::BackoffStarted { .. })).await;
    let pulled = Instant::now();
    stop(&session, &run, Cancel::after_turn()).await;
    assert_eq!((pulled.elapsed(), model.calls()), (secs(0), 1));
}

#[tokio::test(start_paused = true)]
async fn graceful_gives_a_tool_its_grace_and_now_gives_none() {
    for (cancel, grace) in [(Cancel::graceful(), millis(500)), (Cancel::now(), secs(0))] {
        let log = ToolLog::new();
        let session = scripted([calls(&[("m", "mule")])]).tool(tools::stubborn("mule", secs(60), &log)).open();
        let run = start_until_tool(&session, "Go.", "m").await;
        let pulled = Instant::now();
        stop(&session, &run, cancel).await;
        assert_eq!((pulled.elapsed(), log.running()), (grace, 0));
        assert_eq!(result_of(&session.history().await.unwrap(), "m").status, ResultStatus::Unknown);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_may_name_a_grace_in_place_of_each_tools_own() {
    let model = ScriptedModel::new([calls(&[("m", "mule")])]);
    let session = agent(&model).tool(tools::stubborn("mule", secs(60), &ToolLog::new())).open();
    let run = start_until_tool(&session, "Go.", "m").await;
    let pulled = Instant::now();
    stop(&session, &run, Cancel::graceful().grace(secs(7))).await;
    assert_eq!(pulled.elapsed(), secs(7));
}

#[tokio::test(start_paused = true)]
async fn a_harder_cancel_ends_the_grace_that_a_softer_one_gave() {
    let model = ScriptedModel::new([calls(&[("m", "mule")])]);
    let session = agent(&model).tool(tools::stubborn("mule", secs(60), &ToolLog::new()).grace(secs(30))).open();
    let run = start_until_tool(&session, "Go.", "m").await;
    run.cancel(Cancel::graceful());
    tokio::time::sleep(secs(1)).await;
    assert_eq!(run.state(), RunState::Cancelling);
    let pulled = Instant::now();
    assert_eq!(*run.cancel(Cancel::now()).kind(), ReplyKind::Hardened);
    cancelled(&session, &run).await;
    assert_eq!(pulled.elapsed(), secs(0));
}
