//! A run that waits for a person can be answered, refused and stopped, and a late answer is refused.

use andon_runtime::core::event::Approval;
use andon_runtime::{ApprovalDecision, DecideError, Digest};

use crate::common::*;

/// A run that waits for approval of call `g`.
async fn waiting(log: &ToolLog) -> (Session, Run, ScriptedModel) {
    let model = ScriptedModel::new([calls(&[("g", "danger")]), says("Done.")]);
    let session = agent(&model).tool(tools::quick("danger", log).needs_approval()).open();
    let run = start_until(&session, "Do it.", |event| matches!(event, Event::ApprovalRequested { .. })).await;
    (session, run, model)
}

fn verdicts(run: &Run) -> Vec<Approval> {
    let verdict = |event: Event| match event {
        Event::ApprovalResolved { verdict, .. } => Some(*verdict),
        _ => None,
    };
    events(run).into_iter().filter_map(verdict).collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_that_needs_a_yes_waits_for_it_as_long_as_it_takes() {
    let log = ToolLog::new();
    let (session, run, model) = waiting(&log).await;
    tokio::time::sleep(secs(86_400)).await;
    assert_eq!((run.state(), log.started(), model.open()), (RunState::Waiting, 0, 0));
    run.decide(&id("g")).approve().by("ada").send().unwrap();
    let outcome = settled(&session, &run).await;
    assert_eq!((outcome.text_so_far().as_str(), log.started()), ("Done.", 1));
    assert_eq!(
        verdicts(&run),
        [Approval::Approved { by: Some("ada".into()), arguments: Some(Digest::of(b"{}")), why: None }]
    );
    let expected = ToolResult::text(id("g"), ResultStatus::Ok, "quick result");
    assert_eq!(result_of(&session.history().await.unwrap(), "g"), expected);
}

#[tokio::test(start_paused = true)]
async fn a_no_is_told_to_the_model_with_its_reason_and_the_run_goes_on() {
    let log = ToolLog::new();
    let (session, run, model) = waiting(&log).await;
    run.decide(&id("g")).deny().by("ada").note("Too dangerous.").send().unwrap();
    let outcome = settled(&session, &run).await;
    assert_eq!((outcome.stop_reason(), log.started(), model.calls()), ("end_turn", 0, 2));
    let told = "Not run: a person was asked and said no. Too dangerous.";
    let expected = ToolResult::text(id("g"), ResultStatus::Refused, told);
    assert_eq!(result_of(&session.history().await.unwrap(), "g"), expected);
    assert_eq!(outcome.receipt.calls[0].refused, Some(Refusal::DeniedByPerson));
    assert_eq!(verdicts(&run), [Approval::Denied { by: Some("ada".into()), why: Some("Too dangerous.".into()) }]);
}

#[tokio::test(start_paused = true)]
async fn cancel_while_waiting_for_a_person_closes_the_question_at_once_and_refuses_a_late_yes() {
    let log = ToolLog::new();
    let (session, run, _) = waiting(&log).await;
    let pulled = Instant::now();
    run.cancel(Cancel::graceful());
    assert_eq!(run.decide(&id("g")).approve().send(), Err(DecideError::TooLate), "before the run has settled");

    let outcome = cancelled(&session, &run).await;
    assert_eq!((pulled.elapsed(), outcome.receipt.cut_in), (secs(0), Some(Phase::Waiting)));
    assert_eq!(verdicts(&run), [Approval::Closed]);
    assert_eq!(outcome.receipt.calls[0].verdict, Verdict::NeverStarted);
    assert_eq!(run.decide(&id("g")).approve().send(), Err(DecideError::TooLate), "and after it");
    assert_eq!(run.decide(&id("g")).deny().send(), Err(DecideError::TooLate));
    settle_down().await;
    assert_eq!(log.started(), 0);
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_yes_is_accepted_once() {
    let log = ToolLog::new();
    let (session, run, _) = waiting(&log).await;
    assert_eq!(run.decide(&id("g")).approve().send(), Ok(()));
    assert_eq!(run.decide(&id("g")).approve().send(), Err(DecideError::NotWaiting));
    assert_eq!(run.decide(&id("g")).deny().send(), Err(DecideError::NotWaiting));
    settled(&session, &run).await;
    assert_eq!(log.started(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_a_call_that_asked_for_none_is_refused() {
    let (session, run, _) = waiting(&ToolLog::new()).await;
    assert_eq!(run.decide(&id("nobody")).approve().send(), Err(DecideError::NotWaiting));
    stop(&session, &run, Cancel::now()).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_between_a_yes_and_the_start_of_its_tool_wins() {
    let log = ToolLog::new();
    let (session, run, _) = waiting(&log).await;
    run.decide(&id("g")).approve().by("ada").send().unwrap();
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!((outcome.receipt.calls[0].verdict, log.started()), (Verdict::NeverStarted, 0));
    assert_eq!(
        verdicts(&run),
        [Approval::Approved { by: Some("ada".into()), arguments: Some(Digest::of(b"{}")), why: None }],
        "the yes is on record all the same"
    );
}

#[tokio::test(start_paused = true)]
async fn free_calls_of_a_turn_run_while_another_waits_for_a_person() {
    let log = ToolLog::new();
    let tools = [tools::quick("danger", &log).needs_approval(), tools::slow("free", secs(1), &log)];
    let session = with_tools(scripted([calls(&[("g", "danger"), ("f", "free")]), says("Done.")]), tools);
    let run = start_until_tool(&session, "Both.", "f").await;
    assert_eq!(run.state(), RunState::Running);
    until(&run, |event| matches!(event, Event::ToolFinished { .. })).await;
    settle_down().await;
    assert_eq!(run.state(), RunState::Waiting);
    stop(&session, &run, Cancel::graceful()).await;
    let history = session.history().await.unwrap();
    let results: Vec<_> = history.last().unwrap().results().map(|r| (r.call.as_str(), r.status)).collect();
    assert_eq!(results, [("g", ResultStatus::Refused), ("f", ResultStatus::Ok)]);
}

#[tokio::test(start_paused = true)]
async fn after_turn_while_waiting_lets_the_person_decide_and_then_stops() {
    let log = ToolLog::new();
    let (session, run, model) = waiting(&log).await;
    run.cancel(Cancel::after_turn());
    tokio::time::sleep(secs(60)).await;
    assert_eq!((run.state(), log.started()), (RunState::Cancelling, 0));
    assert_eq!(run.decide(&id("g")).approve().send(), Ok(()));
    cancelled(&session, &run).await;
    assert_eq!((log.started(), model.calls()), (1, 1));
}

fn decision(run: &Run, call: &str, is_yes: bool) -> ApprovalDecision {
    let undecided = run.decide(&id(call));
    if is_yes { undecided.approve() } else { undecided.deny() }.by("ada")
}

#[tokio::test(start_paused = true)]
async fn answers_to_several_calls_are_all_accepted_or_none_is() {
    let log = ToolLog::new();
    let model = ScriptedModel::new([calls(&[("a", "danger"), ("b", "danger"), ("c", "safe")]), says("Done.")]);
    let safe = tools::slow("safe", secs(60), &log);
    let session = agent(&model).tool(tools::quick("danger", &log).needs_approval()).tool(safe).open();
    let run = session.start("Do it.").unwrap();
    until(&run, |event| matches!(event, Event::ApprovalRequested { call, .. } if call.as_str() == "b")).await;
    let started = log.started();
    for wrong in [[("a", true), ("c", true)], [("a", true), ("x", false)], [("b", true), ("b", false)]] {
        let decisions = wrong.map(|(call, is_yes)| decision(&run, call, is_yes));
        assert_eq!(run.decide_all(decisions), Err(DecideError::NotWaiting), "{wrong:?}");
    }
    assert_eq!((verdicts(&run), log.started()), (vec![], started), "nothing was decided");
    run.decide_all([decision(&run, "b", false), decision(&run, "a", true)]).unwrap();
    settled(&session, &run).await;
    let history = session.history().await.unwrap();
    assert_eq!(result_of(&history, "a").status, ResultStatus::Ok);
    assert_eq!(result_of(&history, "b").status, ResultStatus::Refused);
    assert_eq!(verdicts(&run).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_is_shown_whole_and_its_approval_is_bound_to_what_was_shown() {
    let log = ToolLog::new();
    let asks = [Act::call(0, "g", "danger", "{\"n\": 7}"), Act::call(1, "h", "danger", "{}"), vec![Act::tool_use()]];
    let model = ScriptedModel::new([answer(asks), says("Done.")]);
    let session = agent(&model).tool(tools::quick("danger", &log).needs_approval()).open();
    let run = start_until(
        &session,
        "Do it.",
        |event| matches!(event, Event::ApprovalRequested { call, .. } if call.as_str() == "h"),
    )
    .await;
    let asked_at =
        run.records().iter().find(|record| matches!(record.event, Event::ApprovalRequested { .. })).unwrap().at;
    tokio::time::sleep(secs(60)).await;

    let waiting = run.approvals();
    let [g, h] = &waiting[..] else { panic!("{waiting:?}") };
    assert_eq!((g.call(), g.tool(), g.arguments(), g.since()), (&id("g"), "danger", "{\"n\": 7}", asked_at));
    assert_eq!((g.input().unwrap(), g.digest()), (serde_json::json!({"n": 7}), Digest::of(b"{\"n\": 7}")));

    g.approve().by("ada").note("Seven is enough.").send().unwrap();
    assert_eq!(run.approvals().iter().map(|call| call.call().clone()).collect::<Vec<_>>(), [id("h")]);
    assert_eq!(g.approve().send(), Err(DecideError::NotWaiting));
    h.deny().by("bob").note("Not this one.").send().unwrap();
    assert!(run.approvals().is_empty(), "at once");
    settled(&session, &run).await;
    let expected = [
        Approval::Approved {
            by: Some("ada".into()),
            arguments: Some(g.digest()),
            why: Some("Seven is enough.".into()),
        },
        Approval::Denied { by: Some("bob".into()), why: Some("Not this one.".into()) },
    ];
    assert_eq!(verdicts(&run), expected);
}

#[tokio::test(start_paused = true)]
async fn a_pull_leaves_nothing_to_decide() {
    let (agent, run, _) = waiting(&ToolLog::new()).await;
    assert_eq!(run.approvals().len(), 1);
    run.cancel(Cancel::graceful());
    assert!(run.approvals().is_empty(), "at once");
    cancelled(&agent, &run).await;
    assert!(run.approvals().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_decision_about_another_runs_call_is_refused() {
    let log = ToolLog::new();
    let (agent, run, _) = waiting(&log).await;
    let (other_agent, other, _) = waiting(&log).await;
    assert_eq!(run.decide_all([other.decide(&id("g")).approve()]), Err(DecideError::NotWaiting));
    assert_eq!((run.approvals().len(), other.approvals().len(), log.started()), (1, 1, 0));
    stop(&agent, &run, Cancel::now()).await;
    stop(&other_agent, &other, Cancel::now()).await;
}
