//! Hooks run a program's own code before and after a run, a model call and a tool call; none can hold up a stop.

use std::sync::Mutex;

use andon_runtime::core::event::{HookEnd, HookPoint};
use andon_runtime::{AnswerDecision, EndDecision, RequestDecision, ResultDecision, RunDecision};

use crate::common::*;

const POINTS: [HookPoint; 6] = [
    HookPoint::BeforeRun,
    HookPoint::BeforeModel,
    HookPoint::AfterModel,
    HookPoint::BeforeTool,
    HookPoint::AfterTool,
    HookPoint::AfterRun,
];

/// Puts a hook at a point that does this, whichever the point, and lets the run go on.
fn hook<F, R>(agent: AgentBuilder, point: HookPoint, hook: F) -> AgentBuilder
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    match point {
        HookPoint::BeforeRun => agent.before_run(move |_| hook()),
        HookPoint::AfterRun => agent.after_run(move |_| hook()),
        HookPoint::BeforeModel => agent.before_model(move |_| hook()),
        HookPoint::AfterModel => agent.after_model(move |_| hook()),
        HookPoint::BeforeTool => agent.before_tool(move |_| hook()),
        HookPoint::AfterTool => agent.after_tool(move |_| hook()),
        #[cfg(not(andon_whole))]
        _ => agent,
    }
}

/// Puts a hook at a point that cancels the run.
fn cancels(agent: AgentBuilder, point: HookPoint, cancel: Cancel) -> AgentBuilder {
    match point {
        HookPoint::BeforeRun => agent.before_run(move |_| RunDecision::Cancel(cancel.clone())),
        HookPoint::AfterRun => agent.after_run(move |_| EndDecision::Cancel(cancel.clone())),
        HookPoint::BeforeModel => agent.before_model(move |_| RequestDecision::Cancel(cancel.clone())),
        HookPoint::AfterModel => agent.after_model(move |_| AnswerDecision::Cancel(cancel.clone())),
        HookPoint::BeforeTool => agent.before_tool(move |_| CallDecision::Cancel(cancel.clone())),
        HookPoint::AfterTool => agent.after_tool(move |_| ResultDecision::Cancel(cancel.clone())),
        #[cfg(not(andon_whole))]
        _ => agent,
    }
}

/// Puts a hook at a point that fails the run.
fn fails(agent: AgentBuilder, point: HookPoint, why: &'static str) -> AgentBuilder {
    match point {
        HookPoint::BeforeRun => agent.before_run(move |_| RunDecision::fail(why)),
        HookPoint::AfterRun => agent.after_run(move |_| EndDecision::fail(why)),
        HookPoint::BeforeModel => agent.before_model(move |_| RequestDecision::fail(why)),
        HookPoint::AfterModel => agent.after_model(move |_| AnswerDecision::fail(why)),
        HookPoint::BeforeTool => agent.before_tool(move |_| CallDecision::fail(why)),
        HookPoint::AfterTool => agent.after_tool(move |_| ResultDecision::fail(why)),
        #[cfg(not(andon_whole))]
        _ => agent,
    }
}

/// An agent with a tool, whose first answer asks for it once.
fn hooked(log: &ToolLog) -> (AgentBuilder, ScriptedModel) {
    let model = ScriptedModel::new([calls(&[("c", "look")]), says("Done.")]);
    (agent(&model).tool(tools::quick("look", log)), model)
}

async fn wait_forever() {
    std::future::pending().await
}

fn ends(run: &Run) -> Vec<(HookPoint, HookEnd)> {
    let end = |event: Event| match event {
        Event::HookFinished { point, end, .. } => Some((point, end)),
        _ => None,
    };
    events(run).into_iter().filter_map(end).collect()
}

async fn oh_no() {
    panic!("oh no")
}

#[tokio::test(start_paused = true)]
async fn each_of_the_six_points_is_called_in_order_and_told_what_happens() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let tell = || {
        let seen = Arc::clone(&seen);
        move |told: String| seen.lock().unwrap().push(told)
    };
    let (run, asked, answered, call, returned, end) = (tell(), tell(), tell(), tell(), tell(), tell());
    let (agent, _) = hooked(&ToolLog::new());
    let agent = agent
        .instructions("Be brief.")
        .before_run(move |moment| run(format!("before run: {}", moment.input.text())))
        .before_model(move |moment| {
            let request = &moment.request;
            let (said, tools) = (request.history.len(), request.tools.len());
            asked(format!("before model: {} messages, {tools} tool, {:?}", said, request.instructions));
        })
        .after_model(move |moment| {
            answered(format!("after model {}: {:?}, {}", moment.number, moment.answer.text(), moment.stop.as_str()));
        })
        .before_tool(move |moment| call(format!("before tool: {} {}", moment.call.name, moment.call.arguments)))
        .after_tool(move |moment| {
            let (result, name) = (moment.result.to_text(), moment.call.name);
            returned(format!("after tool: {name} {:?}, {result}", moment.end));
        })
        .after_run(move |moment| {
            let answer = moment.answer.map(|answer| answer.text());
            end(format!("after run: {}, {answer:?}", moment.ending.as_str()));
        });
    let session = agent.open();
    run_to_end(&session, "Look.").await;
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "before run: Look.",
            "before model: 1 messages, 1 tool, Some(\"Be brief.\")",
            "after model 1: \"\", tool_use",
            "before tool: look {}",
            "after tool: look Finished, quick result",
            "before model: 3 messages, 1 tool, Some(\"Be brief.\")",
            "after model 2: \"Done.\", end_turn",
            "after run: completed, Some(\"Done.\")",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn hooks_of_one_point_are_called_in_the_order_in_which_they_were_given() {
    let seen: Arc<Mutex<Vec<u32>>> = Arc::default();
    let mut agent = scripted([]);
    for number in 0..3 {
        let seen = Arc::clone(&seen);
        agent = agent.before_run(move |_| seen.lock().unwrap().push(number));
    }
    agent.open().run("Go.").await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn after_tool_is_called_in_the_order_in_which_the_tools_finished() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = ToolLog::new();
    let hears = Arc::clone(&seen);
    let session = scripted([calls(&[("a", "look"), ("b", "look"), ("c", "look")])])
        .tool(tools::quick("look", &log))
        .after_tool(move |moment| hears.lock().unwrap().push(moment.result.call.to_string()))
        .open();
    let (run, _) = run_to_end(&session, "Look.").await;
    let finished = |event: Event| match event {
        Event::ToolFinished { call, .. } => Some(call.to_string()),
        _ => None,
    };
    let finished: Vec<String> = events(&run).into_iter().filter_map(finished).collect();
    assert_eq!(*seen.lock().unwrap(), finished);
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_take_its_time_and_the_run_waits_for_it() {
    for point in POINTS {
        let (agent, _) = hooked(&ToolLog::new());
        let agent = hook(agent, point, || tokio::time::sleep(secs(5)));
        let session = agent.open();
        let began = Instant::now();
        let run = session.start("Look.").unwrap();
        assert_eq!(settled(&session, &run).await.stop_reason(), "end_turn");
        let times = ends(&run).len();
        assert_eq!(began.elapsed(), secs(5) * u32::try_from(times).unwrap(), "{point:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_denies_a_tool_call_is_quoted_to_the_model_and_the_run_goes_on() {
    let log = ToolLog::new();
    let (agent, _) = hooked(&log);
    let session = agent.before_tool(|_| CallDecision::deny("Not on Sundays.")).open();
    let (_, outcome) = run_to_end(&session, "Look.").await;
    assert_eq!((outcome.text_so_far().as_str(), log.started()), ("Done.", 0));
    let told = "Not run: a rule of this program does not allow it. Not on Sundays.";
    let expected = ToolResult::text(id("c"), ResultStatus::Refused, told);
    assert_eq!(result_of(&session.history().await.unwrap(), "c"), expected);
    let account = &outcome.receipt.calls[0];
    assert_eq!((account.verdict, account.refused), (Verdict::NeverStarted, Some(Refusal::DeniedByHook)));
}

#[tokio::test(start_paused = true)]
async fn a_hook_at_any_point_may_cancel_the_run() {
    for point in POINTS {
        let (agent, model) = hooked(&ToolLog::new());
        let cancel = Cancel::graceful().reason(Reason::Policy).by("guard").note("no more");
        let session = cancels(agent, point, cancel).open();
        let run = session.start("Look.").unwrap();
        let outcome = cancelled_because(&session, &run, Reason::Policy).await;
        assert_eq!(outcome.receipt.by.as_deref(), Some("guard"), "{point:?}");
        assert_eq!(ends(&run), [(point, HookEnd::Cancelled)]);
        let calls = match point {
            HookPoint::BeforeRun | HookPoint::BeforeModel => 0,
            HookPoint::AfterModel | HookPoint::BeforeTool | HookPoint::AfterTool => 1,
            HookPoint::AfterRun => 2,
            #[cfg(not(andon_whole))]
            _ => continue,
        };
        assert_eq!(model.calls(), calls, "{point:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_before_tool_hook_that_panics_ends_that_call_and_the_run_goes_on() {
    let log = ToolLog::new();
    let (agent, _) = hooked(&log);
    let session = agent.before_tool(|_| oh_no()).open();
    let (run, outcome) = run_to_end(&session, "Look.").await;
    assert_eq!((outcome.text_so_far().as_str(), log.started()), ("Done.", 0));
    let told = result_of(&session.history().await.unwrap(), "c").to_text();
    assert!(told.contains("The program's own check crashed: oh no"), "{told}");
    assert_eq!(ends(&run), [(HookPoint::BeforeTool, HookEnd::Panicked)]);
}

#[tokio::test(start_paused = true)]
async fn an_after_tool_hook_that_panics_is_on_record_and_the_result_stands() {
    let (agent, _) = hooked(&ToolLog::new());
    let session = agent.after_tool(|_| oh_no()).open();
    let run = session.start("Look.").unwrap();
    assert_eq!(settled(&session, &run).await.text_so_far(), "Done.");
    assert_eq!(ends(&run), [(HookPoint::AfterTool, HookEnd::Panicked)]);
    assert_eq!(result_of(&session.history().await.unwrap(), "c").status, ResultStatus::Ok);
}

#[tokio::test(start_paused = true)]
async fn any_other_hook_that_panics_fails_the_run_and_the_session_goes_on() {
    let points = [
        (HookPoint::BeforeRun, "before_run"),
        (HookPoint::BeforeModel, "before_model"),
        (HookPoint::AfterModel, "after_model"),
        (HookPoint::AfterRun, "after_run"),
    ];
    for (point, name) in points {
        let (agent, model) = hooked(&ToolLog::new());
        let runtime = runtime();
        let session = hook(agent, point, oh_no).name("a").runtime(&runtime).open();
        let (_, outcome) = run_to_end(&session, "Look.").await;
        let message = format!("the {name} hook panicked");
        assert_eq!(*outcome.ending, Ending::Failed(Failure::new(FailureKind::Hook, message)));

        let plain = andon_runtime::Agent::builder().name("a").model(model).runtime(&runtime).build().unwrap();
        let same = plain.session_by_key(session.key()).unwrap();
        assert_usable(&same).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_waits_forever_is_left_at_once_on_cancel() {
    for point in POINTS.into_iter().filter(|point| *point != HookPoint::AfterRun) {
        let (agent, _) = hooked(&ToolLog::new());
        let session = hook(agent, point, wait_forever).open();
        let run = start_until(&session, "Look.", |event| matches!(event, Event::HookStarted { .. })).await;
        let pulled = Instant::now();
        stop(&session, &run, Cancel::graceful()).await;
        assert_eq!(pulled.elapsed(), secs(0), "{point:?}");
        assert_eq!(ends(&run), [(point, HookEnd::Cut)]);
    }
}

#[tokio::test(start_paused = true)]
async fn after_run_is_called_on_a_graceful_cancel_and_has_a_grace() {
    let session = scripted([says_and_hangs("Half")]).after_run(|_| wait_forever()).open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    let pulled = Instant::now();
    stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(
        (pulled.elapsed(), ends(&run)),
        (andon_runtime::DEFAULT_GRACE, vec![(HookPoint::AfterRun, HookEnd::Cut)])
    );
}

#[tokio::test(start_paused = true)]
async fn after_run_is_called_after_the_turn_that_a_cancel_lets_finish() {
    let agent = scripted([calls(&[("a", "slow")])]).tool(tools::slow("slow", secs(5), &ToolLog::new()));
    let session = agent.after_run(|_| async {}).open();
    let run = at_work(&session).await;
    stop(&session, &run, Cancel::after_turn()).await;
    assert_eq!(ends(&run), [(HookPoint::AfterRun, HookEnd::Continued)]);
}

#[tokio::test(start_paused = true)]
async fn a_grace_that_a_cancel_names_is_for_tools_and_not_for_hooks() {
    let own = |point| if point == HookPoint::AfterRun { andon_runtime::DEFAULT_GRACE } else { secs(0) };
    for point in POINTS {
        let (agent, _) = hooked(&ToolLog::new());
        let session = hook(agent, point, wait_forever).open();
        let run = start_until(&session, "Look.", |event| matches!(event, Event::HookStarted { .. })).await;
        let pulled = Instant::now();
        stop(&session, &run, Cancel::graceful().grace(secs(30))).await;
        assert_eq!((pulled.elapsed(), ends(&run)), (own(point), vec![(point, HookEnd::Cut)]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_on_record_at_once_although_a_hook_takes_its_time() {
    for point in POINTS {
        let (journal, model) = (memory(), ScriptedModel::new([calls(&[("c", "look")]), says("Done.")]));
        let agent = andon_runtime::Agent::builder().model(model).runtime(&runtime_on(&journal));
        let session = hook(agent.tool(tools::quick("look", &ToolLog::new())), point, wait_forever).open();
        let run = start_until(&session, "Look.", |event| matches!(event, Event::HookStarted { .. })).await;
        let asked = Instant::now();
        let reply = run.cancel(Cancel::after_turn());
        assert_eq!((reply.kind().as_str(), reply.recorded().await), ("accepted", Ok(())), "{point:?}");
        assert_eq!(asked.elapsed(), secs(0), "{point:?}");
        assert!(journal.has(run.id(), |event| matches!(event, Event::CancelRequested { .. })), "{point:?}");
        assert_eq!(ends(&run), [], "the hook still runs");

        let hardened = run.cancel(Cancel::graceful());
        assert_eq!((hardened.kind().as_str(), hardened.recorded().await), ("hardened", Ok(())), "{point:?}");
        assert_eq!(asked.elapsed(), secs(0), "{point:?}");
        cancelled(&session, &run).await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_run_is_not_called_with_force_now() {
    let session = scripted([says_and_hangs("Half")]).after_run(|_| wait_forever()).open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    stop(&session, &run, Cancel::now()).await;
    assert_eq!(ends(&run), []);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_in_the_after_run_hook_of_a_finished_run_still_wins() {
    let session = scripted([says("Done.")]).after_run(|_| wait_forever()).open();
    let run = start_until(&session, "Go.", |event| matches!(event, Event::HookStarted { .. })).await;
    assert_eq!(run.cancel(Cancel::now()).kind().as_str(), "accepted");
    assert_eq!(cancelled(&session, &run).await.text_so_far(), "Done.");
}

#[tokio::test(start_paused = true)]
async fn a_tool_does_not_wait_for_the_hook_of_the_call_after_it() {
    let log = ToolLog::new();
    let session = scripted([calls(&[("a", "look"), ("b", "look")])])
        .tool(tools::quick("look", &log))
        .before_tool(|moment| async move {
            if moment.call.id == id("b") {
                wait_forever().await;
            }
        })
        .open();
    let run = start_until(&session, "Look.", |event| matches!(event, Event::ToolFinished { .. })).await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    let verdicts: Vec<Verdict> = outcome.receipt.calls.iter().map(|account| account.verdict).collect();
    assert_eq!((verdicts, log.started()), (vec![Verdict::Finished, Verdict::NeverStarted], 1));
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_watch_the_cord_of_its_run() {
    let session = scripted([])
        .before_run(|moment| async move {
            assert!(!moment.cord.is_pulled());
            assert_eq!(moment.cord.run_id(), &moment.run);
        })
        .open();
    let outcome = session.run("Go.").await.unwrap();
    assert_eq!(*outcome.ending, Ending::Completed { stop: ModelStop::EndTurn });
}

#[tokio::test(start_paused = true)]
async fn the_last_hook_has_its_own_grace_although_a_tool_has_used_up_its_own() {
    let log = ToolLog::new();
    let done = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&done);
    let session = scripted([calls(&[("s", "slow")])])
        .tool(tools::slow("slow", secs(60), &log))
        .after_run(move |_| {
            let flag = Arc::clone(&flag);
            async move {
                tokio::time::sleep(secs(1)).await;
                flag.store(true, Ordering::SeqCst);
            }
        })
        .open();
    let run = start_until_tool(&session, "Go.", "s").await;
    settle_down().await;
    let pulled = Instant::now();
    stop(&session, &run, Cancel::graceful()).await;
    let came_to_its_end = done.load(Ordering::SeqCst);
    assert_eq!((pulled.elapsed(), came_to_its_end), (secs(3), true), "two for the tool, and one for the hook");
}

#[tokio::test(start_paused = true)]
async fn a_hook_at_any_point_may_fail_the_run_and_the_session_goes_on() {
    for point in POINTS {
        let (agent, model) = hooked(&ToolLog::new());
        let runtime = runtime();
        let session = fails(agent, point, "too expensive").name("a").runtime(&runtime).open();
        let (run, outcome) = run_to_end(&session, "Look.").await;
        let message = format!("the {} hook failed the run: too expensive", point.as_str());
        assert_eq!(*outcome.ending, Ending::Failed(Failure::new(FailureKind::Hook, message)), "{point:?}");
        assert_eq!(ends(&run), [(point, HookEnd::Failed)]);

        let plain = andon_runtime::Agent::builder().name("a").model(model).runtime(&runtime).build().unwrap();
        let same = plain.session_by_key(session.key()).unwrap();
        assert_usable(&same).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_stopped_is_not_failed_by_its_last_hook() {
    let session = scripted([says_and_hangs("Half")]).after_run(|_| EndDecision::fail("no")).open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert!(outcome.is_cancelled());
    assert_eq!(ends(&run), [(HookPoint::AfterRun, HookEnd::Failed)]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_return_nothing_a_decision_or_a_future_of_either() {
    let session = scripted([])
        .before_run(|_| {})
        .before_run(|_| RunDecision::GoOn)
        .before_run(|_| async {})
        .before_run(|_| async { RunDecision::GoOn })
        .open();
    let run = session.start("Go.").unwrap();
    assert_eq!(settled(&session, &run).await.stop_reason(), "end_turn");
    assert_eq!(ends(&run), [(HookPoint::BeforeRun, HookEnd::Continued); 4]);
}

#[tokio::test(start_paused = true)]
async fn the_next_last_hook_is_told_how_the_run_ends_after_the_one_before() {
    for (decision, expected) in [
        (EndDecision::fail("no"), "failed"),
        (EndDecision::Cancel(Cancel::graceful()), "cancelled"),
        (EndDecision::GoOn, "completed"),
    ] {
        let seen: Arc<Mutex<Vec<&str>>> = Arc::default();
        let (first, second) = (Arc::clone(&seen), Arc::clone(&seen));
        let session = scripted([says("Done.")])
            .after_run(move |end| {
                first.lock().unwrap().push(end.ending.as_str());
                decision.clone()
            })
            .after_run(move |end| second.lock().unwrap().push(end.ending.as_str()))
            .open();
        let (_, outcome) = run_to_end(&session, "Go.").await;
        assert_eq!(*seen.lock().unwrap(), ["completed", expected]);
        assert_eq!(outcome.ending.as_str(), expected);
    }
}
