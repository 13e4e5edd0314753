//! Scripts about hooks: each moment, and each thing that a hook may decide there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use andon_runtime::core::event::{Approval, Event, HookChange, HookEnd};
use andon_runtime::core::id::LOCAL;
use andon_runtime::{
    AgentBuilder, AnswerDecision, CallDecision, Cancel, Digest, EndDecision, Ending, FailureKind, FeedItem, Message,
    RequestDecision, ResultDecision, Run, RunDecision, RunState, Session,
};
use serde_json::json;
use tokio::time::sleep;

use crate::explore::World;

use crate::tools::{self, ToolLog};

use super::{ask, call_id, calling, done, earlier_agent, is_question, millis};

const NOTE: &str = "[A note from the program.]";

pub(super) async fn waiting(world: World) {
    let model = world.model([calling("Hooked. ", &[("k", "quick")]), done()]);
    let pause = |pause_ms| move || sleep(millis(pause_ms));
    let (run, model_call, answered, tool, result, end) =
        (pause(5), pause(2_900), pause(10), pause(7), pause(3), pause(1));
    let agent = world
        .agent(&model)
        .tool(tools::quick("quick", &world.tools))
        .before_run(move |_| run())
        .before_model(move |_| model_call())
        .after_model(move |_| answered())
        .before_tool(move |_| tool())
        .after_tool(move |_| result())
        .after_run(move |_| end());
    ask(&world, agent, "Wait.").await;
}

pub(super) async fn denying(world: World) {
    let model = world.model([calling("", &[("no", "quick"), ("yes", "slow")]), done()]);
    let agent = world
        .agent(&model)
        .tool(tools::quick("quick", &world.tools))
        .tool(tools::slow("slow", millis(50), &world.tools))
        .before_tool(|moment| async move {
            sleep(millis(5)).await;
            if moment.call.name == "quick" { CallDecision::deny("not today") } else { CallDecision::GoOn }
        });
    ask(&world, agent, "May I?").await;
}

pub(super) async fn cancelling(world: World) {
    let model = world.model([calling("Then ", &[("x", "slow")]), done()]);
    let agent = world
        .agent(&model)
        .tool(tools::slow("slow", millis(50), &world.tools))
        .after_tool(|_| ResultDecision::Cancel(Cancel::graceful().by("hook").note("enough")))
        .after_run(|_| sleep(millis(30)));
    ask(&world, agent, "Until it is enough.").await;
}

/// What was shown may no longer be what the conversation has, but everything that was decided is in it.
pub(super) async fn changing(world: World) {
    let model = world.model([calling("Four, five. ", &[("c", "quick"), ("s", "slow")]), done()]);
    let agent = world
        .agent(&model)
        .tool(tools::quick("quick", &world.tools))
        .tool(tools::slow("slow", millis(50), &world.tools))
        .before_run(|_| RunDecision::ChangeInput(Message::user("Changed prompt.")))
        .before_model(|moment| async move {
            let mut request = moment.request;
            request.history.push(Arc::new(Message::user(NOTE)));
            request.settings.temperature = Some(0.5);
            sleep(millis(2)).await;
            RequestDecision::Change(request)
        })
        .after_model(|moment| match moment.answer.calls().next() {
            Some(_) => AnswerDecision::ReplaceText("Changed answer.".into()),
            None => AnswerDecision::GoOn,
        })
        .before_tool(|_| async {
            sleep(millis(1)).await;
            CallDecision::ChangeArguments(json!({"n": 2}))
        })
        .after_tool(|_| ResultDecision::replace("Changed result."));
    let session = world.open(agent);
    let Ok(run) = world.start(session.prompt("Prompt.")) else { return };
    world.follow(&run).await;
    for request in model.requests() {
        let noted = request.history.last().is_some_and(|last| last.text() == NOTE);
        if !noted || request.settings.temperature != Some(0.5) {
            world.broken("P3: a request that a hook had changed was sent as it was before");
        }
    }
    check_changes(&world, &session, &run).await;
}

/// The prompt is changed, and what it brought along is not.
pub(super) async fn changing_after_history(world: World) {
    let model = world.model([done()]);
    let agent = world.agent(&model).before_run(|moment| async move {
        sleep(millis(2)).await;
        RunDecision::ChangeInput(Message::user(moment.input.text().to_uppercase()))
    });
    let session = world.open(agent);
    let history = [Message::user("Hello."), Message::assistant("Good morning.")];
    let Ok(run) = world.start(session.prompt("And now?").history(history.clone())) else { return };
    world.follow(&run).await;
    let Ok(said) = session.history().await else { return };
    let own: Vec<Message> = said.iter().map(|message| (**message).clone()).collect();
    let prompt = if changes(&run).is_empty() { "And now?" } else { "AND NOW?" };
    let begins = history.into_iter().chain([Message::user(prompt)]);
    // A run that was stopped before it started has said nothing.
    let has_started = run.records().iter().any(|record| matches!(record.event, Event::RunStarted));
    if has_started && !begins.eq(own.iter().take(3).cloned()) {
        world.broken(&format!("P3: the prompt became {prompt:?}, and the conversation is {own:?}"));
    }
}

/// P3: every change that is on record is in the conversation, and nothing that it replaced.
async fn check_changes(world: &World, session: &Session, run: &Run) {
    let Ok(history) = session.history().await else { return };
    let own: Vec<_> = history.iter().filter(|message| message.text() != "Go on.").collect();
    for change in changes(run) {
        let is_there = match &change {
            HookChange::Input { input } => own.first().is_some_and(|first| ***first == **input),
            HookChange::Answer { answer, .. } => own.iter().any(|message| ***message == **answer),
            HookChange::Result { result } => own.iter().flat_map(|message| message.results()).any(|is| *is == **result),
            // These are not part of the conversation.
            HookChange::Request { .. } | HookChange::Call { .. } => true,
            #[cfg(not(andon_whole))]
            _ => true,
        };
        if !is_there && !own.is_empty() {
            world.broken(&format!("P3: {change:?} is on record, and the conversation is {own:?}"));
        }
    }
}

fn changes(run: &Run) -> Vec<HookChange> {
    let change = |event: &Event| match event {
        Event::HookFinished { change: Some(change), .. } => Some((**change).clone()),
        _ => None,
    };
    run.records().iter().filter_map(|record| change(&record.event)).collect()
}

pub(super) async fn withdrawing(world: World) {
    let model = world.model([calling("The password is swordfish. ", &[("w", "quick")])]);
    let agent = world.agent(&model).tool(tools::quick("quick", &world.tools)).after_model(|_| async {
        sleep(millis(3)).await;
        AnswerDecision::Withdraw("Withdrawn.".into())
    });
    let session = world.open(agent);
    let Ok(run) = world.start(session.prompt("What is it?")) else { return };
    world.follow(&run).await;
    check_changes(&world, &session, &run).await;
    if world.tools.started() > 0 && !changes(&run).is_empty() {
        world.broken("P3: a call of an answer that was withdrawn was made");
    }
}

pub(super) async fn answering(world: World) {
    let model = world.model([calling("I ask. ", &[("a", "quick"), ("b", "slow")]), done()]);
    let agent = world
        .agent(&model)
        .tool(tools::quick("quick", &world.tools))
        .tool(tools::slow("slow", millis(50), &world.tools))
        .before_tool(|moment| {
            if moment.call.name == "quick" { CallDecision::answer("From the cache.") } else { CallDecision::GoOn }
        });
    ask(&world, agent, "Look.").await;
    let started = world.tools.deeds().into_iter().filter_map(|deed| match deed {
        tools::Deed::Started { call, .. } => Some(call),
        _ => None,
    });
    if started.into_iter().any(|call| call.as_str() == "a") {
        world.broken("P3: a tool was started although a hook had answered the call");
    }
}

/// A person is asked about a call as the hooks left it.
async fn with_a_person(world: World, agent: AgentBuilder) {
    let session = world.open(agent);
    let Ok(run) = world.start(session.prompt("Do it.")) else { return };
    if world.follow_until(&run, is_question).await {
        if world.tools.started() > 0 {
            world.broken("P11: a call was made before a person approved it");
        }
        sleep(Duration::from_secs(5)).await;
        // A run that was stopped first accepts no decision.
        let _ = call_id("c").map(|call| run.decide(&call).approve().by("ada").send());
    }
    world.follow(&run).await;
    let is_yes = |event: &Event| matches!(event, Event::ApprovalResolved { verdict, .. } if matches!(**verdict, Approval::Approved { .. }));
    if world.tools.started() > 0 && !run.records().iter().any(|record| is_yes(&record.event)) {
        world.broken("P11: a call was made, and no person had approved it");
    }
}

pub(super) async fn asking(world: World) {
    let model = world.model([calling("I pay. ", &[("c", "quick")]), done()]);
    let agent = world.agent(&model).tool(tools::quick("quick", &world.tools));
    let agent = agent
        .before_tool(|moment| match moment.is_approved {
            true => CallDecision::GoOn,
            false => CallDecision::ChangeArguments(json!({"n": 3})),
        })
        .before_tool(|_| async {
            sleep(millis(2)).await;
            CallDecision::AskApproval
        });
    with_a_person(world, agent).await;
}

pub(super) async fn needing_approval(world: World) {
    let model = world.model([calling("I look. ", &[("c", "quick")]), done()]);
    let danger = tools::slow("danger", millis(50), &world.tools).needs_approval();
    let agent = world
        .agent(&model)
        .tool(tools::quick("quick", &world.tools))
        .tool(danger)
        .before_tool(|_| CallDecision::ChangeCall("danger".into(), json!({"n": 1})));
    with_a_person(world, agent).await;
}

/// Two hooks change a call, each in the same way every time: a person is asked about what comes of them, and the call is made.
pub(super) async fn changing_in_turn(world: World) {
    let model = world.model([calling("I pay. ", &[("c", "danger")]), done()]);
    let agent = world.agent(&model).tool(tools::quick("danger", &world.tools).needs_approval());
    let agent = agent.before_tool(|_| CallDecision::ChangeArguments(json!({"n": 1}))).before_tool(|_| async {
        sleep(millis(2)).await;
        CallDecision::ChangeArguments(json!({"n": 2}))
    });
    let session = world.open(agent);
    let Ok(run) = world.start(session.prompt("Pay.")) else { return };
    while world.follow_until(&run, is_question).await {
        sleep(millis(5)).await;
        // A run that was stopped first accepts no decision.
        let _ = call_id("c").map(|call| run.decide(&call).approve().by("ada").send());
    }
    world.follow(&run).await;
    let questions = questions(&run);
    if questions > 2 {
        world.broken(&format!("P7: a person was asked {questions} times about one call"));
    }
    let failure = run.try_outcome().and_then(|outcome| match &*outcome.ending {
        Ending::Failed(failure) if failure.error == FailureKind::Hook => Some(failure.message.clone()),
        _ => None,
    });
    if let Some(message) = failure {
        world.broken(&format!("P7: the hooks did the same each time, and the run failed: {message}"));
    }
}

/// A person is asked about the model's call and about the changed one, and not for ever.
pub(super) async fn changing_anew(world: World) {
    let model = world.model([calling("I pay. ", &[("c", "danger")]), done()]);
    let number = AtomicU64::new(0);
    let agent = world.agent(&model).tool(tools::quick("danger", &world.tools).needs_approval());
    let agent = agent.before_tool(move |_| {
        let n = number.fetch_add(1, Ordering::Relaxed);
        async move {
            sleep(millis(2)).await;
            CallDecision::ChangeArguments(json!({ "n": n }))
        }
    });
    let session = world.open(agent);
    let Ok(run) = world.start(session.prompt("Pay.")) else { return };
    while world.follow_until(&run, is_question).await {
        sleep(millis(5)).await;
        let is_too_often = questions(&run) > 2;
        if is_too_often {
            world.broken("P7: a person was asked again about a call that they had approved as changed");
        }
        // A run that was stopped first accepts no decision.
        let _ = call_id("c").map(|call| {
            let undecided = run.decide(&call);
            if is_too_often { undecided.deny() } else { undecided.approve() }.by("ada").send()
        });
    }
    world.follow(&run).await;
    if world.tools.started() > 0 {
        world.broken("P11: a call was made, and no person had approved it as it was");
    }
}

/// A person's decision arrives twice, and the second time it meets a question about another tool.
pub(super) async fn renaming_after_approval(world: World) {
    let model = world.model([calling("I look. ", &[("c", "quick")]), done()]);
    let tool = |name| tools::quick(name, &world.tools).needs_approval();
    let agent = world.agent(&model).tool(tool("quick")).tool(tool("danger"));
    let agent = agent.before_tool(|_| CallDecision::ChangeCall("danger".into(), json!({})));
    let session = world.open(agent);
    let Ok(run) = world.start(session.prompt("Do it.")) else { return };
    let Some(call) = call_id("c") else { return };
    for _ in 0..2 {
        if world.follow_until(&run, is_question).await {
            sleep(Duration::from_secs(5)).await;
            // A run that was stopped first accepts no decision.
            let _ = run.decide(&call).approve_exactly(Digest::of(b"{}")).by("ada").send();
        }
    }
    sleep(Duration::from_secs(5)).await;
    let _ = run.decide(&call).deny().by("ada").send();
    world.follow(&run).await;
    if world.tools.started() > 0 {
        world.broken("P11: a call was made by another tool than the one that a person had approved");
    }
}

pub(super) async fn misfitting(world: World) {
    let model = world.model([calling("I look. ", &[("a", "quick"), ("b", "quick")]), done()]);
    let agent = world.agent(&model).tool(tools::quick("quick", &world.tools)).before_tool(|moment| async move {
        sleep(millis(1)).await;
        match moment.call.id.as_str() {
            "a" => CallDecision::ChangeArguments(json!({"n": "many"})),
            _ => CallDecision::ChangeCall("nowhere".into(), json!({})),
        }
    });
    ask(&world, agent, "Look.").await;
    if world.tools.started() > 0 {
        world.broken("P2: a call that a hook had changed was made without a check");
    }
}

pub(super) async fn failing_beside_a_tool(world: World) {
    let calls = [("w", "danger"), ("s", "slow"), ("f", "quick"), ("n", "quick")];
    let model = world.model([calling("Both. ", &calls)]);
    let agent = world
        .agent(&model)
        .tool(tools::quick("danger", &world.tools).needs_approval())
        .tool(tools::slow("slow", millis(300), &world.tools))
        .tool(tools::quick("quick", &world.tools))
        .before_tool(|moment| async move {
            sleep(millis(5)).await;
            if moment.call.id.as_str() == "f" { CallDecision::fail("the rules forbid it") } else { CallDecision::GoOn }
        })
        .after_tool(|_| ResultDecision::replace("Changed result."));
    let session = world.open(agent);
    let Ok(run) = world.start(session.prompt("Both.")) else { return };
    let is_failure = |event: &Event| matches!(event, Event::HookFinished { end: HookEnd::Failed, .. });
    let has_failed = |run: &Run| run.records().iter().any(|record| is_failure(&record.event));
    // A hook that panics does not fail the run, and then the person is needed once the tool has finished.
    let is_time = |event: &Event| is_failure(event) || matches!(event, Event::ToolFinished { .. });
    let is_shown = |item: &FeedItem| matches!(item, FeedItem::Fact(record) if is_time(&record.event));
    if world.follow_until(&run, is_shown).await {
        let (has_failed, asked) = (has_failed(&run), run.approvals().len());
        let decided = call_id("w").map(|call| run.decide(&call).approve().by("ada").send());
        if has_failed && (asked > 0 || decided.is_some_and(|decided| decided.is_ok())) {
            world.broken("P7: a person could decide a call after a hook had failed the run");
        }
    }
    world.follow(&run).await;
    if has_failed(&run) && world.tools.started() > 1 {
        world.broken("P1: a call was made after a hook had failed the run");
    }
}

pub(super) async fn failing_after_a_model(world: World) {
    let model = world.model([calling("Look. ", &[("x", "quick")])]);
    let agent = world.agent(&model).tool(tools::quick("quick", &world.tools)).after_model(|_| async {
        sleep(millis(5)).await;
        AnswerDecision::fail("it is off topic")
    });
    ask(&world, agent, "Look.").await;
    if world.tools.started() > 0 {
        world.broken("P1: a call was made after a hook had failed the run");
    }
}

pub(super) async fn failing_at_the_end(world: World) {
    let model = world.model([done()]);
    let agent = world.agent(&model).after_run(|_| async {
        sleep(millis(5)).await;
        EndDecision::fail("nobody was thanked")
    });
    ask(&world, agent, "Look.").await;
}

pub(super) async fn impossible(world: World) {
    let model = world.model([calling("Look. ", &[("x", "quick")]), done()]);
    let agent = world.agent(&model).tool(tools::quick("quick", &world.tools)).before_model(|moment| async move {
        let mut request = moment.request;
        // Without the calls before it, the last message has results of nothing.
        let orphans = request.history.iter().filter(|message| message.calls().next().is_none()).cloned().collect();
        request.history = orphans;
        sleep(millis(5)).await;
        RequestDecision::Change(request)
    });
    ask(&world, agent, "Look.").await;
    if model.calls() > 1 {
        world.broken("P2: an impossible request was sent");
    }
}

/// A person is asked in one process and answers in the next.
pub(super) async fn question_after_a_restart(world: World) {
    let asks = |agent: AgentBuilder| {
        agent
            .before_tool(|moment| match moment.is_approved {
                true => CallDecision::GoOn,
                false => CallDecision::ChangeArguments(json!({"n": 7})),
            })
            .before_tool(|_| CallDecision::AskApproval)
            .after_tool(|_| ResultDecision::replace("Changed result."))
    };
    world
        .earlier(|runtime| async move {
            let agent = earlier_agent(&runtime, vec![calling("I pay. ", &[("c", "quick")])]);
            let agent = asks(agent.tool(tools::quick("quick", &ToolLog::new()))).build();
            let Some(Ok(session)) = agent.ok().map(|agent| agent.session(LOCAL, "s")) else { return };
            let Ok(run) = session.start("Pay.") else { return };
            while run.state() != RunState::Waiting {
                sleep(millis(1)).await;
            }
        })
        .await;
    let model = world.model([done()]);
    let session = world.open(asks(world.agent(&model).tool(tools::quick("quick", &world.tools))));
    for run in world.recover().await {
        if world.follow_until(&run, is_question).await {
            sleep(Duration::from_secs(5)).await;
            // A run that was stopped first accepts no decision.
            let _ = call_id("c").map(|call| run.decide(&call).approve().by("ada").send());
        }
        world.follow(&run).await;
        check_changes(&world, &session, &run).await;
        check_asked_once(&world, &run);
    }
}

fn questions(run: &Run) -> usize {
    run.records().iter().filter(|record| matches!(record.event, Event::ApprovalRequested { .. })).count()
}

/// A person's yes is enough: the hook that asked is called again, and does not ask again.
fn check_asked_once(world: &World, run: &Run) {
    let questions = questions(run);
    if questions != 1 {
        world.broken(&format!("P7: a person was asked {questions} times about one call"));
    }
}
