//! The program of somebody who depends on `andon` alone: it names only what is public, makes every value that a user makes with
//! `new` and the methods named like its fields, and has a `_` wherever there may be more tomorrow.

use std::sync::Arc;
use std::time::Duration;

use andon::core::event::{Addendum, AddendumKind};
use andon::core::message::ResultStatus;
use andon::core::time::{Stamp, Wall};
use andon::core::usage::Awaited;
use andon::hook::{CallDecision, RequestDecision};
use andon::journal::{JournaledRun, Record, RunFilter, SessionFilter, StateMap};
use andon::model::{Kind, ModelRequest, ModelSettings, Part, Role, Thinking, ToolCall, ToolChoice, ToolResult};
use andon::run::{Failure, FailureKind, Figure, Pending, Provenance, Used};
use andon::{
    Agent, Cancel, Ending, Event, FeedItem, Force, Limits, Message, Outcome, Practice, Reason, ReplyKind, RunId,
    RunState, SessionKey, Usage, Verdict, WhenBusy,
};

/// What a user's program shows for an event. The kinds that it does not know have a name all the same.
fn line(event: &Event) -> String {
    match event {
        Event::Message { message, .. } => message.text(),
        Event::RunSettled { outcome, .. } => format!("settled: {}", end(outcome)),
        other => other.kind().to_owned(),
    }
}

fn end(ending: &Ending) -> &'static str {
    match ending {
        Ending::Completed { .. } => "done",
        Ending::Cancelled { reason, .. } => match reason {
            Reason::Deadline => "too slow",
            other => other.as_str(),
        },
        other => other.as_str(),
    }
}

#[tokio::test]
async fn a_program_shows_what_it_knows_of_a_run_and_names_the_rest() {
    let agent = Agent::builder().model(Practice::instant()).limits(Limits::new().turns(3)).build().unwrap();
    let run = agent.prompt("hello").limits(Limits::new().turns(2).tokens(100_000)).start().unwrap();
    let mut feed = run.feed();
    let (mut lines, mut streamed) = (Vec::new(), String::new());
    while let Some(item) = feed.next().await {
        match item {
            FeedItem::Fact(fact) => lines.push(line(&fact.event)),
            FeedItem::Delta(delta) if delta.kind == Kind::Text => streamed.push_str(&delta.text),
            _ => {}
        }
    }
    assert_eq!(lines.first().map(String::as_str), Some("run_accepted"));
    assert_eq!(lines.last().map(String::as_str), Some("settled: done"));
    let outcome: Arc<Outcome> = run.outcome().await;
    assert_eq!(streamed, outcome.text_so_far());
    match run.cancel(Cancel::graceful().note("late")).kind() {
        ReplyKind::TooLate { outcome, .. } => assert_eq!(end(outcome), "done"),
        other => panic!("{}", other.as_str()),
    }
}

#[test]
fn limits_and_filters_are_made_by_what_they_limit() {
    let limits = Limits::new().deadline(Duration::from_secs(9)).silence(Duration::from_secs(1)).turns(3).tokens(7);
    assert_eq!((limits.turns, limits.turns(None).turns), (Some(3), None));
    let runs = RunFilter::new().app("support").user("ada").settled(false).state(RunState::Running).limit(5);
    assert_eq!(
        (runs.app.as_deref(), runs.limit, runs.clone().app(None::<String>).app),
        (Some("support"), Some(5), None)
    );
    assert_eq!(SessionFilter::new().app("support").limit(1).limit, Some(1));
    assert_eq!(WhenBusy::default(), WhenBusy::Reject);
}

#[test]
fn a_request_is_made_by_what_it_asks_and_a_decision_by_its_variant() {
    let settings = ModelSettings::new().max_output(100).temperature(0.5).thinking(Thinking::Low);
    let request = ModelRequest::new(RunId::new("r").unwrap(), 1, vec![Arc::new(Message::user("Hello"))])
        .instructions("Be brief.")
        .settings(settings.clone())
        .tool_choice(ToolChoice::None);
    assert_eq!((request.number, request.instructions.as_deref()), (1, Some("Be brief.")));
    assert_eq!((request.settings.clone(), request.tool_choice.clone()), (settings, ToolChoice::None));
    match RequestDecision::Change(request) {
        RequestDecision::Change(request) => assert_eq!(request.prompt(), [Message::user("Hello")]),
        other => panic!("{other:?}"),
    }
    assert!(matches!(CallDecision::deny("no"), CallDecision::Deny(why) if why == "no"));
    let key = SessionKey::new("shop", "ada", "s").unwrap();
    assert_eq!(key.tenant("acme").user("bob").to_string(), "acme:shop/bob/s");
}

#[test]
fn usage_is_unknown_but_for_what_is_said() {
    let guess = Figure::new().value(7).provenance(Provenance::Estimated).low(5).high(9);
    let usage = Usage::new().input(Figure::reported(12)).output(guess);
    assert_eq!((usage.input.value, usage.output.high, usage.reasoning), (Some(12), Some(9), Figure::UNKNOWN));
    assert_eq!(Used::new(usage, Usage::new()).billed, Usage::UNKNOWN);
    assert_eq!(Awaited::new(Pending::Draining, Wall(7)).what, Pending::Draining);
}

#[test]
fn messages_calls_and_results_are_made_from_their_parts() {
    let id = andon::run::CallId::new("c").unwrap();
    let call = ToolCall::new(id.clone(), "look", r#"{"at":"it"}"#);
    let message = Message::new(Role::Assistant, vec![Part::text("So."), Part::ToolCall(call)]);
    assert_eq!((message.text().as_str(), message.calls().count(), message.cut), ("So.", 1, None));
    assert_eq!(ToolResult::new(id, ResultStatus::Ok, vec![]).status, ResultStatus::Ok);
}

#[test]
fn what_a_journal_of_ones_own_returns_is_made_of_whole_values() {
    let session = SessionKey::new("shop", "ada", "s").unwrap().tenant("acme");
    assert_eq!(session.to_string(), "acme:shop/ada/s");
    let record = Record::new(1, 1, Stamp::default(), Event::RunStarted);
    let addendum = Addendum::new(1, Stamp::default(), AddendumKind::Undelivered { call: 1, parts: vec![] });
    let entries = vec![andon::core::event::Entry::Fact(Arc::new(record))];
    let stored = JournaledRun::new().epoch(1).entries(entries).addenda(vec![addendum]);
    assert_eq!((stored.facts().count(), stored.addenda.len()), (1, 1));
    let info =
        andon::journal::RunInfo::new(RunId::new("r").unwrap(), session.clone(), RunState::Settled, Wall(1), "hello");
    assert_eq!(info.ended_at(Wall(2)).ended_at, Some(Wall(2)));
    assert_eq!(andon::journal::SessionCopy::new(session, Wall(1)).state(StateMap::new()).runs.len(), 0);
    let request = andon::core::cancel::CancelRequest::new(Reason::Requested, Force::Now, Stamp::default());
    assert_eq!(request.by("ada").note("enough").by.as_deref(), Some("ada"));
    assert_eq!(Failure::new(FailureKind::Model, "no").to_string(), "no");
    assert_eq!(Verdict::Cut.as_str(), "cut");
}
