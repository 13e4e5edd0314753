//! What hooks change is on record beside what was there before, and the conversation, the receipt and the next request agree.

use std::sync::Mutex;

use andon_runtime::core::event::{Approval, HookChange, HookEnd, HookPoint};
use andon_runtime::core::message::{Part, ToolCall};
use andon_runtime::{
    AnswerDecision, DecideError, ModelRequest, RequestDecision, ResultDecision, RunDecision, ToolChoice,
};

use crate::common::*;

/// An agent with a tool, whose first answer asks for it once and whose second says that it is done.
fn hooked(log: &ToolLog) -> (AgentBuilder, ScriptedModel) {
    let model = ScriptedModel::new([calls(&[("c", "look")]), says("Done.")]);
    (agent(&model).tool(tools::quick("look", log)), model)
}

fn changes(run: &Run) -> Vec<HookChange> {
    let change = |event: Event| match event {
        Event::HookFinished { change, .. } => change.map(|change| *change),
        _ => None,
    };
    events(run).into_iter().filter_map(change).collect()
}

/// A tool that keeps the arguments it gets.
fn keeps(name: &str, kept: &Arc<Mutex<Vec<serde_json::Value>>>) -> FnTool {
    let kept = Arc::clone(kept);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    FnTool::new(name, "Keeps.", schema, move |call: Invocation| {
        kept.lock().unwrap().push(call.input);
        async { Ok("kept".into()) }
    })
}

#[tokio::test(start_paused = true)]
async fn a_changed_prompt_is_what_the_conversation_has_and_what_was_asked_stays_on_record() {
    let model = ScriptedModel::new([says("Done.")]);
    let session = agent(&model)
        .before_run(|moment| RunDecision::ChangeInput(Message::user(moment.input.text().to_uppercase())))
        .before_run(|moment| RunDecision::ChangeInput(Message::user(format!("{}!", moment.input.text()))))
        .open();
    let (run, _) = run_to_end(&session, "Look").await;
    assert_eq!(session.history().await.unwrap()[0], Arc::new(Message::user("LOOK!")));
    assert_eq!(model.requests()[0].prompt(), [Message::user("LOOK!")]);
    let asked = events(&run).into_iter().find_map(|event| match event {
        Event::RunAccepted { accepted } => Some(accepted.input.text()),
        _ => None,
    });
    assert_eq!(asked.as_deref(), Some("Look"));
    let inputs = ["LOOK", "LOOK!"].map(|text| HookChange::Input { input: Arc::new(Message::user(text)) });
    assert_eq!(changes(&run), inputs);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_with_its_own_history_is_changed_and_the_history_stays() {
    let model = ScriptedModel::new([says("Done.")]);
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let sees = Arc::clone(&seen);
    let session = agent(&model)
        .before_run(move |moment| {
            sees.lock().unwrap().push(moment.input.text());
            RunDecision::ChangeInput(Message::user("LOOK"))
        })
        .open();
    let history = [Message::user("Hi."), Message::assistant("Hello.")];
    let run = session.prompt("Look").history(history).start().unwrap();
    assert_eq!(settled(&session, &run).await.text_so_far(), "Done.");
    assert_eq!(*seen.lock().unwrap(), ["Look"], "the hook sees the prompt, not what it brought along");
    assert_eq!(texts(&session.history().await.unwrap()), ["Hi.", "Hello.", "LOOK", "Done."]);
    assert_eq!(model.requests()[0].prompt().last(), Some(&Message::user("LOOK")));
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_nobody_can_ask_fails_the_run() {
    for input in [Message::assistant("Hi"), Message::user("").parts(vec![])] {
        let model = ScriptedModel::new([]);
        let session = agent(&model).before_run(move |_| RunDecision::ChangeInput(input.clone())).open();
        let outcome = session.run("Look").await.unwrap();
        let Ending::Failed(failure) = &*outcome.ending else { panic!("{:?}", outcome.ending) };
        assert!(failure.message.contains("the hook's prompt cannot be used"), "{}", failure.message);
        assert_eq!((failure.error, model.calls()), (FailureKind::Hook, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_request_is_sent_and_the_conversation_stays_as_it_is() {
    let (agent, model) = hooked(&ToolLog::new());
    let session = agent
        .instructions("Be brief.")
        .before_model(|moment| {
            let mut request = moment.request;
            request.history.push(Arc::new(Message::user("A note.")));
            request.instructions = Some("Be long.".into());
            RequestDecision::Change(request)
        })
        .before_model(|moment| {
            let mut request = moment.request;
            assert_eq!(request.instructions.as_deref(), Some("Be long."), "it sees what the one before it changed");
            request.settings.temperature = Some(0.5);
            request.tool_choice = ToolChoice::tool("look");
            RequestDecision::Change(request)
        })
        .open();
    let (run, outcome) = run_to_end(&session, "Look").await;
    assert_eq!(outcome.text_so_far(), "Done.");
    for request in model.requests() {
        assert_eq!(request.history.last().unwrap().text(), "A note.");
        assert_eq!(request.instructions.as_deref(), Some("Be long."));
        assert_eq!((request.settings.temperature, &request.tool_choice), (Some(0.5), &ToolChoice::tool("look")));
    }
    let history = session.history().await.unwrap();
    assert!(history.iter().all(|message| message.text() != "A note."), "{history:?}");
    let changed = |event: &Event| matches!(event, Event::ModelStarted { is_changed: true, .. });
    assert_eq!((changes(&run).len(), count(&run, changed)), (4, 2));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_sent_fails_the_run_before_the_model_is_called() {
    type Spoil = fn(&mut ModelRequest);
    let cases: [(Spoil, &str); 9] = [
        (|request| request.history = Default::default(), "the history is empty"),
        (|request| request.history.push(Arc::new(Message::assistant("Hi"))), "end with a user message"),
        (
            |request| {
                let orphan = Part::ToolResult(ToolResult::text(id("x"), ResultStatus::Ok, "seen"));
                request.history.push(Arc::new(Message::new(Role::Tool, vec![orphan])));
            },
            "the result of x matches no open call",
        ),
        (|request| request.tool_choice = ToolChoice::tool("shred"), "the tool \"shred\" must be called"),
        (
            |request| {
                request.keep_tools(|_| false);
                request.tool_choice = ToolChoice::Required;
            },
            "a tool must be called, but there are none",
        ),
        (
            |request| {
                let shred = andon_runtime::ToolSpec::new("shred", "Shreds.", json!({"type": "object"}));
                request.tools = Arc::from([Arc::new(shred)]);
            },
            "the agent has no tool \"shred\"",
        ),
        (|request| request.settings.temperature = Some(f32::NAN), "use 0 or more"),
        (|request| request.settings.max_output = Some(0), "max_output is 0: raise it"),
        (|request| request.settings.stop = vec![String::new()], "a stop text is empty"),
    ];
    for (spoil, wrong) in cases {
        let (agent, model) = hooked(&ToolLog::new());
        let agent = agent.before_model(move |moment| {
            let mut request = moment.request;
            spoil(&mut request);
            RequestDecision::Change(request)
        });
        let outcome = agent.open().run("Look").await.unwrap();
        let Ending::Failed(failure) = &*outcome.ending else { panic!("{wrong}: {:?}", outcome.ending) };
        assert!(failure.message.contains(wrong), "{}", failure.message);
        assert!(failure.message.contains("the before_model hook failed the run"), "{}", failure.message);
        assert_eq!((failure.error, model.calls()), (FailureKind::Hook, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_a_hook_left_out_is_refused_even_if_the_model_calls_it() {
    let log = ToolLog::new();
    let (agent, model) = hooked(&log);
    let session = agent
        .before_model(|moment| {
            let mut request = moment.request;
            request.keep_tools(|tool| tool.name != "look");
            RequestDecision::Change(request)
        })
        .open();
    run_to_end(&session, "Look").await;
    assert_eq!((model.requests()[0].tools.len(), log.started()), (0, 0));
    let told = result_of(&session.history().await.unwrap(), "c").to_text();
    assert_eq!(told, "Not run: there is no tool of this name. It was not offered this time.");
}

#[tokio::test(start_paused = true)]
async fn a_replaced_answer_keeps_its_calls_and_what_was_shown_stays_on_record() {
    let log = ToolLog::new();
    let said = vec![Act::text("My password is swordfish. ")];
    let model = ScriptedModel::new([[said, calls(&[("c", "look")])].concat(), says("Done.")]);
    let session = agent(&model)
        .tool(tools::quick("look", &log))
        .after_model(|moment| match moment.answer.text().contains("swordfish") {
            true => AnswerDecision::ReplaceText("My password is secret.".into()),
            false => AnswerDecision::GoOn,
        })
        .open();
    let (run, _) = run_to_end(&session, "Look").await;
    let history = session.history().await.unwrap();
    assert_eq!((history[1].text().as_str(), history[1].calls().count()), ("My password is secret.", 1));
    assert_eq!(log.started(), 1);
    assert_eq!(model.requests()[1].history.get(1).unwrap().text(), "My password is secret.");
    assert!(events(&run).iter().any(|event| {
        matches!(event, Event::Message { message } if message.text() == "My password is swordfish. ")
    }));
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_answer_makes_no_call_and_the_run_ends_as_refused() {
    let log = ToolLog::new();
    let (agent, _) = hooked(&log);
    let agent = agent.tool(tools::quick("danger", &log).needs_approval());
    let session = agent.after_model(|_| AnswerDecision::Withdraw("Withdrawn.".into())).open();
    let (_, outcome) = run_to_end(&session, "Look").await;
    assert_eq!((outcome.stop_reason(), outcome.text_so_far().as_str(), log.started()), ("refused", "Withdrawn.", 0));
    let expected = [Message::user("Look"), Message::assistant("Withdrawn.")].map(Arc::new);
    assert_eq!(session.history().await.unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_person_is_not_asked_about_a_call_that_a_hook_withdraws() {
    let model = ScriptedModel::new([calls(&[("g", "danger")])]);
    let agent = agent(&model).tool(tools::quick("danger", &ToolLog::new()).needs_approval());
    let session = agent.after_model(|_| AnswerDecision::Withdraw(String::new())).open();
    let (run, outcome) = run_to_end(&session, "Do it.").await;
    assert_eq!(outcome.text_so_far(), "");
    assert_eq!(count(&run, |event| matches!(event, Event::ApprovalRequested { .. })), 0);
}

#[tokio::test(start_paused = true)]
async fn a_tool_gets_changed_arguments_and_the_model_keeps_its_own_words() {
    let kept = Arc::default();
    let model = ScriptedModel::new([calls(&[("c", "keep")]), says("Done.")]);
    let session = agent(&model)
        .tool(keeps("keep", &kept))
        .before_tool(|_| CallDecision::ChangeArguments(json!({"n": 2})))
        .before_tool(|moment| assert_eq!(moment.call.arguments, r#"{"n":2}"#))
        .open();
    let (run, outcome) = run_to_end(&session, "Keep.").await;
    assert_eq!(*kept.lock().unwrap(), [json!({"n": 2})]);
    let history = session.history().await.unwrap();
    assert_eq!(history[1].calls().next().unwrap().arguments, "{}");
    assert!(outcome.receipt.calls[0].changed_by_hook);
    let call = ToolCall::new(id("c"), "keep", r#"{"n":2}"#);
    assert_eq!(changes(&run), [HookChange::Call { call }]);
}

#[tokio::test(start_paused = true)]
async fn a_changed_name_calls_the_other_tool_and_the_receipt_names_it() {
    let (log, kept) = (ToolLog::new(), Arc::default());
    let (agent, _) = hooked(&log);
    let agent = agent.tool(keeps("keep", &kept).effect(Effect::Idempotent));
    let session = agent.before_tool(|_| CallDecision::ChangeCall("keep".into(), json!({"n": 1}))).open();
    let (run, outcome) = run_to_end(&session, "Look.").await;
    assert_eq!((log.started(), kept.lock().unwrap().len()), (0, 1));
    assert_eq!(outcome.receipt.calls[0].tool, "keep");
    assert_eq!(count(&run, |event| matches!(event, Event::ToolStarted { effect: Effect::Idempotent, .. })), 1);
}

#[tokio::test(start_paused = true)]
async fn a_changed_call_that_cannot_be_made_is_an_error_result_for_the_model() {
    let changes = [
        (CallDecision::ChangeArguments(json!({"n": "many"})), Refusal::BadArguments),
        (CallDecision::ChangeArguments(json!(7)), Refusal::BadArguments),
        (CallDecision::ChangeCall("nowhere".into(), json!({})), Refusal::UnknownTool),
    ];
    for (change, refused) in changes {
        let log = ToolLog::new();
        let (agent, _) = hooked(&log);
        let session = agent.before_tool(move |_| change.clone()).open();
        let (_, outcome) = run_to_end(&session, "Look.").await;
        assert_eq!((outcome.text_so_far().as_str(), log.started()), ("Done.", 0));
        assert_eq!(outcome.receipt.calls[0].refused, Some(refused));
        let told = result_of(&session.history().await.unwrap(), "c").to_text();
        assert!(told.ends_with("A rule of this program had changed the call."), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_call_needs_approval_if_its_tool_does_and_an_earlier_approval_does_not_count() {
    let kept = Arc::default();
    let model = ScriptedModel::new([calls(&[("g", "danger")]), says("Done.")]);
    let session = agent(&model)
        .tool(keeps("danger", &kept).needs_approval())
        .before_tool(|_| CallDecision::ChangeArguments(json!({"n": 9})))
        .open();
    let is_question = |event: &Event| matches!(event, Event::ApprovalRequested { .. });
    let run = start_until(&session, "Do it.", is_question).await;
    run.decide(&id("g")).approve().by("ada").send().unwrap();
    let changed = ToolCall::new(id("g"), "danger", r#"{"n":9}"#);
    let is_second = |event: &Event| matches!(event, Event::ApprovalRequested { arguments, .. } if *arguments == Some(changed.digest()));
    until(&run, is_second).await;
    settle_down().await;
    assert_eq!((run.state(), kept.lock().unwrap().len()), (RunState::Waiting, 0));
    run.decide(&id("g")).approve_exactly(changed.digest()).by("ada").send().unwrap();
    assert_eq!(settled(&session, &run).await.text_so_far(), "Done.");
    assert_eq!((count(&run, is_question), kept.lock().unwrap().clone()), (2, vec![json!({"n": 9})]));
}

#[tokio::test(start_paused = true)]
async fn an_approval_does_not_fit_a_call_of_another_tool_with_the_same_arguments() {
    let (looked, kept) = (Arc::default(), Arc::default());
    let model = ScriptedModel::new([calls(&[("g", "look")]), says("Done.")]);
    let session = agent(&model)
        .tool(keeps("look", &looked).needs_approval())
        .tool(keeps("danger", &kept).needs_approval())
        .before_tool(|_| CallDecision::ChangeCall("danger".into(), json!({})))
        .open();
    let is_question = |event: &Event| matches!(event, Event::ApprovalRequested { .. });
    let run = start_until(&session, "Do it.", is_question).await;
    let first = run.approvals().remove(0);
    run.decide(&id("g")).approve_exactly(first.digest()).by("ada").send().unwrap();
    let danger = ToolCall::new(id("g"), "danger", "{}");
    let is_second = |event: &Event| matches!(event, Event::ApprovalRequested { arguments, .. } if *arguments == Some(danger.digest_with_name()));
    until(&run, is_second).await;
    settle_down().await;
    // The client sends its decision once more, or what it saw of the call is used again.
    assert_eq!(run.decide(&id("g")).approve_exactly(first.digest()).send(), Err(DecideError::OtherArguments));
    assert_eq!(first.approve().send(), Err(DecideError::OtherArguments));
    let second = run.approvals().remove(0);
    assert_eq!((second.tool(), second.digest()), ("danger", danger.digest_with_name()));
    assert_eq!((run.state(), kept.lock().unwrap().len()), (RunState::Waiting, 0));
    second.approve().by("ada").send().unwrap();
    assert_eq!(settled(&session, &run).await.text_so_far(), "Done.");
    let none: Vec<serde_json::Value> = Vec::new();
    assert_eq!((looked.lock().unwrap().clone(), kept.lock().unwrap().clone()), (none, vec![json!({})]));
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_ask_a_person_and_asks_once() {
    let log = ToolLog::new();
    let (agent, _) = hooked(&log);
    let seen: Arc<Mutex<Vec<bool>>> = Arc::default();
    let sees = Arc::clone(&seen);
    let session = agent
        .before_tool(move |moment| {
            sees.lock().unwrap().push(moment.is_approved);
            CallDecision::AskApproval
        })
        .open();
    let run = start_until(&session, "Look.", |event| matches!(event, Event::ApprovalRequested { .. })).await;
    settle_down().await;
    assert_eq!((run.state(), log.started()), (RunState::Waiting, 0));
    run.decide(&id("c")).approve().by("ada").send().unwrap();
    assert_eq!(settled(&session, &run).await.text_so_far(), "Done.");
    assert_eq!((log.started(), seen.lock().unwrap().clone()), (1, vec![false, true]));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_changes_a_call_anew_after_each_approval_fails_the_run_instead_of_asking_for_ever() {
    let (kept, number) = (Arc::default(), std::sync::atomic::AtomicU64::new(0));
    let model = ScriptedModel::new([calls(&[("c", "danger")])]);
    let session = agent(&model)
        .tool(keeps("danger", &kept).needs_approval())
        .before_tool(move |_| {
            let n = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            CallDecision::ChangeArguments(json!({ "n": n }))
        })
        .open();
    let is_question = |event: &Event| matches!(event, Event::ApprovalRequested { .. });
    let run = start_until(&session, "Do it.", is_question).await;
    run.decide(&id("c")).approve().by("ada").send().unwrap();
    settle_down().await;
    assert_eq!((run.state(), count(&run, is_question)), (RunState::Waiting, 2), "the changed call is another one");
    run.decide(&id("c")).approve().by("ada").send().unwrap();
    let outcome = settled(&session, &run).await;
    let Ending::Failed(failure) = &*outcome.ending else { panic!("{:?}", outcome.ending) };
    assert!(
        failure
            .message
            .contains("the hooks changed call c of danger again after a person had approved the changed call"),
        "{failure:?}"
    );
    assert_eq!((count(&run, is_question), kept.lock().unwrap().len()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_changed_after_a_hook_had_asked_about_it_is_asked_about_once_more() {
    let kept = Arc::default();
    let model = ScriptedModel::new([calls(&[("c", "keep")]), says("Done.")]);
    let session = agent(&model)
        .tool(keeps("keep", &kept))
        .before_tool(|_| CallDecision::AskApproval)
        .before_tool(|_| CallDecision::ChangeArguments(json!({"n": 9})))
        .open();
    let is_question = |event: &Event| matches!(event, Event::ApprovalRequested { .. });
    let run = start_until(&session, "Do it.", is_question).await;
    run.decide(&id("c")).approve().by("ada").send().unwrap();
    settle_down().await;
    assert_eq!(
        (run.state(), kept.lock().unwrap().len()),
        (RunState::Waiting, 0),
        "nobody has approved the changed call"
    );
    run.decide(&id("c")).approve().by("ada").send().unwrap();
    assert_eq!(settled(&session, &run).await.text_so_far(), "Done.");
    assert_eq!((count(&run, is_question), kept.lock().unwrap().clone()), (2, vec![json!({"n": 9})]));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_hook_asked_about_can_be_denied_or_stopped() {
    let asking = |log: &ToolLog| hooked(log).0.before_tool(|_| CallDecision::AskApproval).open();
    let is_question = |event: &Event| matches!(event, Event::ApprovalRequested { .. });
    let log = ToolLog::new();
    let session = asking(&log);
    let run = start_until(&session, "Look.", is_question).await;
    run.decide(&id("c")).deny().by("ada").note("no").send().unwrap();
    assert_eq!(settled(&session, &run).await.receipt.calls[0].refused, Some(Refusal::DeniedByPerson));

    let session = asking(&log);
    let run = start_until(&session, "Look.", is_question).await;
    assert!(stop(&session, &run, Cancel::graceful()).await.is_cancelled());
    assert_eq!(log.started(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_answer_a_call_instead_of_its_tool() {
    let log = ToolLog::new();
    let (agent, _) = hooked(&log);
    let session = agent.before_tool(|_| CallDecision::answer("From the cache.")).open();
    let (_, outcome) = run_to_end(&session, "Look.").await;
    let expected = ToolResult::text(id("c"), ResultStatus::Ok, "From the cache.");
    assert_eq!((result_of(&session.history().await.unwrap(), "c"), log.started()), (expected, 0));
    let account = &outcome.receipt.calls[0];
    assert_eq!((account.verdict, account.refused), (Verdict::NeverStarted, Some(Refusal::AnsweredByHook)));
}

#[tokio::test(start_paused = true)]
async fn a_replaced_result_is_what_the_model_gets_and_how_the_call_ended_stays() {
    let model = ScriptedModel::new([calls(&[("a", "look"), ("b", "fail")]), says("Done.")]);
    let fail = FnTool::new("fail", "Fails.", json!({"type": "object"}), |_| async { Err(ToolError::new("code 4711")) });
    let session = agent(&model)
        .tool(tools::quick("look", &ToolLog::new()))
        .tool(fail)
        .after_tool(|moment| ResultDecision::replace(format!("{}: hidden", moment.call.name)))
        .open();
    let (run, outcome) = run_to_end(&session, "Look.").await;
    let history = session.history().await.unwrap();
    assert_eq!(result_of(&history, "a"), ToolResult::text(id("a"), ResultStatus::Ok, "look: hidden"));
    assert_eq!(result_of(&history, "b"), ToolResult::text(id("b"), ResultStatus::Error, "fail: hidden"));
    assert!(outcome.receipt.calls.iter().all(|account| account.changed_by_hook));
    assert!(
        events(&run)
            .iter()
            .any(|event| { matches!(event, Event::ToolFinished { result, .. } if result.to_text() == "code 4711") })
    );
    let sent = model.requests()[1].prompt();
    assert!(!format!("{sent:?}").contains("4711"), "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_hook_can_be_cancelled_alone_whatever_the_hook_decides() {
    for decision in
        [CallDecision::AskApproval, CallDecision::answer("x"), CallDecision::ChangeArguments(json!({"n": 1}))]
    {
        let log = ToolLog::new();
        let (agent, _) = hooked(&log);
        let session = agent
            .before_tool(move |_| {
                let decision = decision.clone();
                async move {
                    tokio::time::sleep(secs(1)).await;
                    decision
                }
            })
            .open();
        let run = start_until(&session, "Look.", |event| matches!(event, Event::HookStarted { .. })).await;
        assert_eq!(run.cancel_call(&id("c"), Cancel::graceful()).kind().as_str(), "accepted");
        assert_eq!(settled(&session, &run).await.text_so_far(), "Done.");
        assert_eq!((log.started(), changes(&run)), (0, vec![]));
        assert_eq!(result_of(&session.history().await.unwrap(), "c").status, ResultStatus::Refused);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_the_run_lets_a_running_tool_come_to_its_end() {
    let log = ToolLog::new();
    let model = ScriptedModel::new([calls(&[("s", "slow"), ("f", "look"), ("n", "look")])]);
    let session = agent(&model)
        .tool(tools::slow("slow", secs(5), &log))
        .tool(tools::quick("look", &log))
        .before_tool(|moment| if moment.call.id == id("f") { CallDecision::fail("no") } else { CallDecision::GoOn })
        .open();
    let (run, outcome) = run_to_end(&session, "Both.").await;
    assert_eq!((outcome.stop_reason(), log.started()), ("failed", 1));
    let verdicts: Vec<_> =
        outcome.receipt.calls.iter().map(|account| (account.call.as_str(), account.verdict)).collect();
    let in_order_of_end = [("f", Verdict::NeverStarted), ("n", Verdict::NeverStarted), ("s", Verdict::Finished)];
    assert_eq!(verdicts, in_order_of_end);
    let called = count(&run, |event| matches!(event, Event::HookStarted { point: HookPoint::BeforeTool }));
    assert_eq!(called, 2, "no hook of a later call");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_about_a_call_once_a_hook_has_failed_the_run_although_a_tool_still_runs() {
    let log = ToolLog::new();
    let model = ScriptedModel::new([calls(&[("w", "danger"), ("s", "slow"), ("f", "look")])]);
    let session = agent(&model)
        .tool(tools::quick("danger", &log).needs_approval())
        .tool(tools::slow("slow", secs(5), &log))
        .tool(tools::quick("look", &log))
        .before_tool(|moment| if moment.call.id == id("f") { CallDecision::fail("no") } else { CallDecision::GoOn })
        .open();
    let is_failure = |event: &Event| matches!(event, Event::HookFinished { end: HookEnd::Failed, .. });
    let run = start_until(&session, "All.", is_failure).await;
    settle_down().await;
    assert_eq!((run.state(), log.started(), run.approvals().len()), (RunState::Running, 1, 0));
    assert_eq!(run.decide(&id("w")).approve().send(), Err(DecideError::NotWaiting));
    assert_eq!(run.cancel_call(&id("w"), Cancel::graceful()).kind().as_str(), "not_running");
    let outcome = settled(&session, &run).await;
    assert_eq!((outcome.stop_reason(), log.started()), ("failed", 1));
    let of_w = |event: &Event| match event {
        Event::ApprovalResolved { call, verdict } if *call == id("w") => Some((**verdict).clone()),
        _ => None,
    };
    assert_eq!(events(&run).iter().find_map(of_w), Some(Approval::Closed));
    assert_eq!(result_of(&session.history().await.unwrap(), "w").status, ResultStatus::Refused);
}

/// A run whose only call needs approval and goes through these hooks, as far as its second question.
async fn asked_twice(hooks: impl FnOnce(AgentBuilder) -> AgentBuilder) -> (Session, Run, Kept) {
    let kept = Arc::default();
    let model = ScriptedModel::new([calls(&[("c", "danger")]), says("Done.")]);
    let session = hooks(agent(&model).tool(keeps("danger", &kept).needs_approval())).open();
    let run = start_until(&session, "Do it.", |event| matches!(event, Event::ApprovalRequested { .. })).await;
    run.decide(&id("c")).approve().by("ada").send().unwrap();
    settle_down().await;
    assert_eq!((run.state(), run.approvals()[0].arguments()), (RunState::Waiting, r#"{"n":2}"#));
    (session, run, kept)
}

type Kept = Arc<Mutex<Vec<serde_json::Value>>>;

#[tokio::test(start_paused = true)]
async fn hooks_that_each_make_the_same_change_every_time_need_one_approval_of_what_comes_of_them() {
    let (session, run, kept) = asked_twice(|agent| {
        agent
            .before_tool(|_| CallDecision::ChangeArguments(json!({"n": 1})))
            .before_tool(|moment| {
                let is_first = moment.call.arguments == r#"{"n":1}"#;
                CallDecision::ChangeArguments(json!({"n": if is_first { 2 } else { 0 }}))
            })
            .before_tool(|_| CallDecision::AskApproval)
    })
    .await;
    run.approvals()[0].approve().by("ada").send().unwrap();
    assert_eq!(settled(&session, &run).await.stop_reason(), "end_turn");
    assert_eq!(kept.lock().unwrap().clone(), [json!({"n": 2})], "exactly what was approved");
    assert_eq!(count(&run, |event| matches!(event, Event::ApprovalRequested { .. })), 2);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_changes_only_what_nobody_has_approved_sees_the_approved_call_as_approved() {
    let (session, run, kept) = asked_twice(|agent| {
        agent.before_tool(|_| CallDecision::ChangeArguments(json!({"n": 1}))).before_tool(|moment| {
            match moment.is_approved {
                true => CallDecision::GoOn,
                false => CallDecision::ChangeArguments(json!({"n": 2})),
            }
        })
    })
    .await;
    run.approvals()[0].approve().by("ada").send().unwrap();
    assert_eq!(settled(&session, &run).await.stop_reason(), "end_turn");
    assert_eq!(kept.lock().unwrap().clone(), [json!({"n": 2})]);
}

#[tokio::test(start_paused = true)]
async fn a_run_fails_if_its_hooks_make_something_else_of_a_call_than_was_approved_whichever_of_them_does() {
    let turn = || {
        let calls = std::sync::atomic::AtomicU64::new(0);
        move || calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    };
    let (first, last) = (turn(), turn());
    // Each does something else the second time: after the second approval.
    let (session, run, kept) = asked_twice(|agent| {
        agent
            .before_tool(move |_| match first() {
                1 => CallDecision::ChangeArguments(json!({"n": 7})),
                _ => CallDecision::ChangeArguments(json!({"n": 2})),
            })
            .before_tool(|_| ())
    })
    .await;
    run.approvals()[0].approve().by("ada").send().unwrap();
    assert_eq!((settled(&session, &run).await.stop_reason(), kept.lock().unwrap().len()), ("failed", 0));

    let (session, run, kept) = asked_twice(|agent| {
        agent.before_tool(|_| CallDecision::ChangeArguments(json!({"n": 1}))).before_tool(move |_| match last() {
            1 => CallDecision::GoOn,
            _ => CallDecision::ChangeArguments(json!({"n": 2})),
        })
    })
    .await;
    run.approvals()[0].approve().by("ada").send().unwrap();
    assert_eq!((settled(&session, &run).await.stop_reason(), kept.lock().unwrap().len()), ("failed", 0));
}
