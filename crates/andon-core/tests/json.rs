//! What is persisted comes back as it was, says its version, and keeps its words.
#![allow(clippy::unwrap_used)]

use std::fmt::Debug;
use std::sync::Arc;

use andon_core::FORMAT_VERSION;
use andon_core::answer::{CallHead, Kind, Lump, MarkKind, Span};
use andon_core::cancel::{CancelRequest, Force, Reason};
use andon_core::digest::Digest;
use andon_core::disconnect::OnDisconnect;
use andon_core::event::{
    Accepted, Addendum, AddendumKind, Approval, Effect, Entry, Event, HookChange, HookEnd, HookPoint, ModelEnd, Record,
    Refusal, Remains, ToolEnd,
};
use andon_core::id::{CallId, RunId, SessionKey};
use andon_core::message::{Content, Cut, Image, Message, Part, ResultStatus, Role, Signature, ToolCall, ToolResult};
use andon_core::outcome::{Ending, Failure, FailureKind, ModelStop};
use andon_core::receipt::{ModelAccount, Receipt};
use andon_core::request::{MessagesChange, ModelSettings, RequestChange, Thinking, ToolChoice};
use andon_core::time::{Stamp, Wall};
use andon_core::usage::{Figure, Provenance, Usage, Used};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const AT: Stamp = Stamp { wall: Wall(1_763_204_400_123_456), mono_us: 77 };

fn id(text: &str) -> CallId {
    CallId::new(text).unwrap()
}

fn image() -> Image {
    Image::new("image/png", "https://example.com/a.png")
}

fn used() -> Used {
    let guess = Figure::new().provenance(Provenance::Bounded).low(3);
    Used::new(Usage::reported(10, 5).output(guess), Usage::UNKNOWN)
}

fn result() -> Arc<ToolResult> {
    let content = vec![Content::Text { text: "så\n\u{0}".into() }, Content::Image(image())];
    Arc::new(ToolResult::new(id("a"), ResultStatus::Unknown, content))
}

fn request() -> Arc<CancelRequest> {
    Arc::new(CancelRequest::new(Reason::ClientDisconnected, Force::AfterTurn, AT).by("ann").grace_ms(5))
}

fn failure() -> Failure {
    Failure::new(FailureKind::StreamBroken, "It broke.")
}

fn cut_answer() -> Message {
    let call = ToolCall::new(id("a"), "look", "{\"b\": 1, \"a\":");
    let parts = vec![
        Part::Thinking { text: "Hm.".into(), signature: Some(Signature::new("maker", "seal")) },
        Part::Thinking { text: "Or".into(), signature: None },
        Part::text("So"),
        Part::Image(image()),
        Part::ToolCall(call),
    ];
    Message::new(Role::Assistant, parts).cut(Cut::Cancelled(Reason::OwnerLost))
}

fn accepted() -> Event {
    let session = SessionKey::new("app", "user", "s").unwrap();
    let accepted = Accepted::new(RunId::new("r").unwrap(), session, Arc::new(Message::user("Look.")));
    Event::RunAccepted { accepted: Arc::new(accepted) }
}

/// As a run whose request may be repeated.
fn accepted_with_a_digest() -> Event {
    let Event::RunAccepted { mut accepted } = accepted() else { unreachable!() };
    Arc::make_mut(&mut accepted).request = Some(Digest::of(b"{}"));
    Event::RunAccepted { accepted }
}

/// As a run that minds losing its reader.
fn accepted_with_a_reader() -> Event {
    let Event::RunAccepted { mut accepted } = accepted() else { unreachable!() };
    let minds = Arc::make_mut(&mut accepted);
    (minds.on_disconnect, minds.has_reader) = (OnDisconnect::CancelAfterMs(5), true);
    Event::RunAccepted { accepted }
}

/// The `type` of each event. A new event does not build until it has its word here.
fn word(event: &Event) -> &'static str {
    match event {
        Event::RunAccepted { .. } => "run_accepted",
        Event::RunStarted => "run_started",
        Event::HookStarted { .. } => "hook_started",
        Event::HookFinished { .. } => "hook_finished",
        Event::ModelStarted { .. } => "model_started",
        Event::Message { .. } => "message",
        Event::Usage { .. } => "usage",
        Event::ModelFinished { .. } => "model_finished",
        Event::BackoffStarted { .. } => "backoff_started",
        Event::BackoffFinished => "backoff_finished",
        Event::ApprovalRequested { .. } => "approval_requested",
        Event::ApprovalResolved { .. } => "approval_resolved",
        Event::ToolStarted { .. } => "tool_started",
        Event::ToolFinished { .. } => "tool_finished",
        Event::ToolRefused { .. } => "tool_refused",
        Event::CallCancelRequested { .. } => "call_cancel_requested",
        Event::CancelRequested { .. } => "cancel_requested",
        Event::RunQuieted => "run_quieted",
        Event::GraceEnded { .. } => "grace_ended",
        Event::RunSettled { .. } => "run_settled",
        #[cfg(not(andon_whole))]
        _ => "unknown",
    }
}

/// Every event, those with several forms in each of them.
fn events() -> Vec<Event> {
    let model_finished = |end| Event::ModelFinished { call: 1, end, first_piece_us: Some(42) };
    let resolved = |verdict| Event::ApprovalResolved { call: id("a"), verdict: Box::new(verdict) };
    let settled = |ending| Event::RunSettled { outcome: Arc::new(ending) };
    vec![
        accepted(),
        accepted_with_a_digest(),
        accepted_with_a_reader(),
        Event::RunStarted,
        Event::HookStarted { point: HookPoint::BeforeModel },
        Event::hook_finished(HookPoint::BeforeModel, HookEnd::Leaked),
        Event::model_started(1, "practice"),
        Event::Message { message: Arc::new(cut_answer()) },
        Event::Message { message: Arc::new(cut_answer().cut(Cut::Broken)) },
        Event::Message { message: Arc::new(cut_answer().cut(None)) },
        Event::usage(1, used()),
        Event::Usage {
            call: 1,
            used: Box::new(used()),
            pending: None,
            answered_by: Some("practice-2026".into()),
            request_id: Some("req_1".into()),
            answer_changed: false,
        },
        model_finished(ModelEnd::Answered { stop: ModelStop::EndTurn }),
        model_finished(ModelEnd::Cut),
        model_finished(ModelEnd::Failed { failure: Box::new(failure()) }),
        Event::ModelFinished { call: 1, end: ModelEnd::Lost, first_piece_us: None },
        Event::BackoffStarted { delay_ms: u64::MAX },
        Event::BackoffFinished,
        Event::ApprovalRequested { call: id("a"), arguments: None },
        resolved(Approval::Approved { by: Some("ann".into()), arguments: Some(Digest::of(b"{}")), why: None }),
        resolved(Approval::Denied { by: None, why: Some("No.".into()) }),
        resolved(Approval::Closed),
        Event::ToolStarted { call: id("a"), effect: Effect::Idempotent, effect_id: Some("r.a".into()) },
        Event::ToolFinished {
            call: id("a"),
            end: ToolEnd::NeverStarted,
            result: result(),
            remains: None,
            state: Some(Box::new([("k".to_owned(), serde_json::Value::Null)].into_iter().collect())),
        },
        Event::ToolRefused { call: id("a"), why: Refusal::DeniedByPerson, result: result() },
        Event::CallCancelRequested { call: id("a"), request: request() },
        Event::CancelRequested { request: request(), delivered_at: AT },
        Event::RunQuieted,
        Event::GraceEnded { calls: [id("a"), id("b")].into() },
        settled(Ending::Completed { stop: ModelStop::MaxTokens }),
        settled(Ending::Cancelled { reason: Reason::ApprovalDenied }),
        settled(Ending::Failed(failure())),
        settled(Ending::Lost),
    ]
}

fn record(event: Event) -> Record {
    Record::new(7, 2, AT, event)
}

/// Asserts that a value comes back from its JSON text, and gives that JSON.
fn round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> Value {
    let text = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_event_comes_back_from_its_record_with_its_version_seq_and_word() {
    for event in events().into_iter().chain(hook_events()) {
        let word = word(&event);
        assert_eq!(event.kind(), word);
        let json = round_trip(&record(event));
        let told = [&json["v"], &json["seq"], &json["epoch"], &json["type"]];
        assert_eq!(told, [&json!(FORMAT_VERSION), &json!(7), &json!(2), &json!(word)], "{json}");
    }
}

#[test]
fn a_record_reads_the_same_the_quick_way_and_the_slow_one_whatever_the_order_of_its_fields() {
    for event in events().into_iter().chain(hook_events()) {
        let record = record(event);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(Record::from_json(&text).unwrap(), record, "{text}");
        // A map of `Value`s is ordered by its keys: the type comes last but one or two.
        let other_order = serde_json::to_value(&record).unwrap().to_string();
        assert_eq!(Record::from_json(&other_order).unwrap(), record, "{other_order}");
        let with_more = text.replacen('{', r#"{"later":[1,{"a":null}],"#, 1);
        assert_eq!(Record::from_json(&with_more).unwrap(), record, "{with_more}");
        for cut in [&text[..text.len() - 1], &text[1..], "", "{}", &format!("{text} x")] {
            assert!(Record::from_json(cut).is_err(), "{cut}");
        }
        let newer = text.replacen("\"v\":2", "\"v\":3", 1);
        assert!(Record::from_json(&newer).unwrap_err().to_string().contains("version 3 is not known"));
        let unknown = text.replacen(&format!("\"type\":\"{}\"", word(&record.event)), "\"type\":\"other\"", 1);
        assert!(Record::from_json(&unknown).unwrap_err().to_string().contains("unknown variant `other`"), "{unknown}");
    }
}

#[test]
fn no_event_was_forgotten_here() {
    let words: std::collections::BTreeSet<_> = events().iter().map(word).collect();
    assert_eq!(words.len(), 20, "one for each arm of `word`");
}

#[test]
fn a_record_is_one_flat_object() {
    let json = round_trip(&record(Event::ToolStarted { call: id("a"), effect: Effect::ReadOnly, effect_id: None }));
    let at = json!({"wall": "2025-11-15T11:00:00.123456Z", "mono_us": 77});
    let expected =
        json!({"v": 2, "seq": 7, "epoch": 2, "at": at, "type": "tool_started", "call": "a", "effect": "read_only"});
    assert_eq!(json, expected);
}

#[test]
fn a_cut_mark_is_beside_the_text_and_a_whole_message_has_none() {
    let cut = round_trip(&cut_answer());
    assert_eq!(cut["cut"], json!({"by": "cancelled", "reason": "owner_lost"}));
    assert_eq!(round_trip(&Message::assistant("So.")).get("cut"), None);
    let types: Vec<_> = cut["parts"].as_array().unwrap().iter().map(|part| part["type"].clone()).collect();
    assert_eq!(types, ["thinking", "thinking", "text", "image", "tool_call"]);
}

#[test]
fn a_lump_comes_back_with_its_version_and_joins_to_the_same_span() {
    let head = Arc::new(CallHead { index: 0, id: id("a"), name: "look".into() });
    let mut span = Span::new(3);
    span.push(&Kind::Thinking, "Hm å");
    span.mark(MarkKind::ThinkingEnded { signature: Some(Signature::new("maker", "seal")) });
    span.push(&Kind::Text, "So");
    span.push(&Kind::ToolInput(head), "{}");
    span.mark(MarkKind::CallEnded { index: 0 });
    span.mark(MarkKind::Used(Box::new(Usage::reported(1, 2))));
    let lumps: [Lump; 2] = [
        Span { text: "Hm å".into(), marks: span.marks[..1].to_vec(), ..span.clone() }.lump_from(0, 0),
        span.lump_from(5, 1),
    ]
    .map(Option::unwrap);
    let mut joined = Span::new(3);
    for lump in &lumps {
        assert_eq!(round_trip(lump)["v"], json!(FORMAT_VERSION));
        joined.join(&serde_json::from_value(serde_json::to_value(lump).unwrap()).unwrap()).unwrap();
    }
    assert_eq!(joined, span);
}

#[test]
fn an_addendum_comes_back_with_its_version_and_word() {
    let late = AddendumKind::LateResult { call: id("a"), result: result(), remains: None };
    let corrected = AddendumKind::UsageCorrected { call: 1, used: Box::new(used()) };
    for (what, word) in [(late, "late_result"), (corrected, "usage_corrected")] {
        let json = round_trip(&Addendum::new(3, AT, what));
        assert_eq!([&json["v"], &json["number"], &json["type"]], [&json!(FORMAT_VERSION), &json!(3), &json!(word)]);
    }
}

#[test]
fn a_receipt_comes_back_with_its_version() {
    let records: Vec<_> = events().into_iter().map(|event| Arc::new(record(event))).collect();
    let what = AddendumKind::LateResult { call: id("a"), result: result(), remains: None };
    let receipt = Receipt::fold(&records, [Addendum::new(1, AT, what)], Some(AT)).unwrap();
    let json = round_trip(&receipt);
    assert_eq!([&json["v"], &json["revision"]], [&json!(FORMAT_VERSION), &json!(1)]);
    assert_eq!(json["usage"]["billed"]["output"]["value"], json!(null), "unknown is never written as 0");
}

#[test]
fn a_receipt_names_who_answered_a_call_and_one_of_an_older_program_does_not() {
    let answered = json!({"call": 1, "model": "gpt-5-mini", "answered_by": "gpt-5-mini-2025-08-07", "request_id": "req_1",
        "usage": used(), "first_piece_us": null, "took_us": null});
    let account: ModelAccount = serde_json::from_value(answered.clone()).unwrap();
    assert_eq!(serde_json::to_value(&account).unwrap(), answered);
    let mut old = answered;
    let fields = old.as_object_mut().unwrap();
    fields.remove("answered_by");
    fields.remove("request_id");
    let mut expected = account;
    (expected.answered_by, expected.request_id) = (None, None);
    assert_eq!(serde_json::from_value::<ModelAccount>(old).unwrap(), expected);
}

#[test]
fn the_outcome_words_are_the_four_of_the_design() {
    let endings = [
        (Ending::Completed { stop: ModelStop::EndTurn }, "completed"),
        (Ending::Cancelled { reason: Reason::Requested }, "cancelled"),
        (Ending::Failed(failure()), "failed"),
        (Ending::Lost, "lost"),
    ];
    for (ending, word) in endings {
        assert_eq!((round_trip(&ending)["kind"].as_str(), ending.as_str()), (Some(word), word));
    }
}

#[test]
fn a_json_word_and_the_word_in_code_are_the_same() {
    let reasons = [
        Reason::Requested,
        Reason::ClientDisconnected,
        Reason::Superseded,
        Reason::Parent,
        Reason::Deadline,
        Reason::Budget,
        Reason::Policy,
        Reason::ApprovalDenied,
        Reason::Operator,
        Reason::Shutdown,
        Reason::OwnerLost,
    ];
    for reason in reasons {
        assert_eq!(round_trip(&reason), json!(reason.as_str()));
    }
    for force in [Force::AfterTurn, Force::Graceful, Force::Now] {
        assert_eq!(round_trip(&force), json!(force.as_str()));
    }
    let stops =
        [ModelStop::EndTurn, ModelStop::ToolUse, ModelStop::MaxTokens, ModelStop::StopSequence, ModelStop::Refused];
    for stop in stops {
        assert_eq!(round_trip(&stop), json!(stop.as_str()));
    }
}

#[test]
fn an_id_that_breaks_paths_is_refused_when_it_is_read() {
    assert!(serde_json::from_value::<RunId>(json!("a/b")).is_err());
    assert!(serde_json::from_value::<CallId>(json!("")).is_err());
}

/// What hooks change and fail.
fn hook_events() -> Vec<Event> {
    vec![
        Event::HookFinished {
            point: HookPoint::BeforeModel,
            end: HookEnd::Changed,
            change: Some(Box::new(HookChange::Request { request: request_change() })),
            why: None,
        },
        Event::HookFinished {
            point: HookPoint::AfterModel,
            end: HookEnd::Failed,
            change: None,
            why: Some("it is off topic".into()),
        },
        Event::ModelStarted { call: 2, model: "practice".into(), is_changed: true },
        Event::Usage {
            call: 2,
            used: Box::new(used()),
            pending: None,
            answered_by: None,
            request_id: None,
            answer_changed: true,
        },
    ]
}

fn request_change() -> RequestChange {
    let settings = ModelSettings::new().max_output(7).temperature(0.5).thinking(Thinking::Tokens(9));
    RequestChange::new()
        .instructions("Be brief.")
        .messages(Some(Box::new(MessagesChange::new(1, 2, vec![Arc::new(Message::user("note"))]))))
        .tools(Some(["look".to_owned()].into()))
        .settings(settings.stop(vec!["END".into()]))
        .tool_choice(ToolChoice::tool("look"))
}

#[test]
fn every_change_of_a_hook_reads_back_as_it_was_written() {
    let call = ToolCall::new(id("a"), "look", "{}");
    let result = Arc::new(ToolResult::text(id("a"), ResultStatus::Ok, "seen"));
    let answer = Arc::new(Message::assistant("Hm."));
    for (change, what) in [
        (HookChange::Input { input: Arc::new(Message::user("Hi")) }, "input"),
        (HookChange::Request { request: request_change() }, "request"),
        (HookChange::Request { request: RequestChange::default() }, "request"),
        (HookChange::Answer { answer, is_withdrawn: true }, "answer"),
        (HookChange::Call { call }, "call"),
        (HookChange::Result { result }, "result"),
    ] {
        assert_eq!(round_trip(&change)["what"], json!(what));
    }
}

#[test]
fn a_form_of_another_version_is_refused_and_says_what_to_do() {
    let mut newer = serde_json::to_value(record(accepted())).unwrap();
    newer["v"] = json!(3);
    let told = serde_json::from_value::<Record>(newer).unwrap_err().to_string();
    let expected = "format version 3 is not known: this program reads versions 1 to 2; use the program that wrote it";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn a_record_of_the_version_before_is_read_as_it_was() {
    for event in [Event::hook_finished(HookPoint::BeforeTool, HookEnd::Denied), Event::model_started(1, "practice")] {
        let mut older = record(event);
        older.v = 1;
        let json = serde_json::to_string(&older).unwrap();
        assert!(!json.contains("change"), "what version 2 has more is left out: {json}");
        assert_eq!(
            (Record::from_json(&json).unwrap(), serde_json::from_str::<Record>(&json).unwrap()),
            (older.clone(), older)
        );
    }
}

#[test]
fn a_signature_of_an_early_journal_is_read_and_belongs_to_no_provider() {
    let early = serde_json::json!({"type": "thinking", "text": "Hm.", "signature": "seal"});
    let read: Part = serde_json::from_value(early).unwrap();
    assert_eq!(read, Part::Thinking { text: "Hm.".into(), signature: Some(Signature::new("", "seal")) });
    let again: Part = serde_json::from_str(&serde_json::to_string(&read).unwrap()).unwrap();
    assert_eq!(again, read);
}

#[test]
fn what_losing_its_readers_does_is_on_record_with_a_run_and_one_of_an_older_program_goes_on() {
    let minds = serde_json::to_value(record(accepted_with_a_reader())).unwrap();
    assert_eq!(minds["accepted"]["on_disconnect"], json!({"cancel_after_ms": 5}));
    assert_eq!(minds["accepted"]["has_reader"], json!(true));
    let older = serde_json::to_value(record(accepted())).unwrap();
    assert_eq!((older["accepted"].get("on_disconnect"), older["accepted"].get("has_reader")), (None, None));
    let read: Record = serde_json::from_value(older).unwrap();
    let Event::RunAccepted { accepted } = read.event else { panic!("{read:?}") };
    assert_eq!((accepted.on_disconnect, accepted.has_reader), (OnDisconnect::Continue, false));
}

#[test]
fn only_what_somebody_asked_for_is_a_request() {
    let requests: Vec<_> = events().iter().filter(|event| event.is_request()).map(Event::kind).collect();
    assert_eq!(requests, ["call_cancel_requested", "cancel_requested"]);
}

#[test]
fn a_runs_limits_are_on_record_with_it_and_no_limits_are_not() {
    let Event::RunAccepted { mut accepted } = accepted() else { unreachable!() };
    let unlimited = round_trip(&record(Event::RunAccepted { accepted: Arc::clone(&accepted) }));
    assert_eq!(unlimited["accepted"].get("limits"), None);
    Arc::make_mut(&mut accepted).limits.turns = Some(3);
    let limited = round_trip(&record(Event::RunAccepted { accepted }));
    assert_eq!(limited["accepted"]["limits"], json!({"turns": 3}));
}

#[test]
fn a_cleanup_has_nothing_to_report_only_if_nothing_leaked_and_nothing_was_noted() {
    assert!(Remains::NONE.is_none());
    let one = || vec!["one".to_owned()];
    assert!(!Remains::new().leaked(one()).is_none());
    assert!(!Remains::new().unended("It went on.").is_none());
    assert!(!Remains::new().notes(one()).is_none());
}

#[test]
fn a_hooks_word_is_the_one_in_json() {
    let points = [
        HookPoint::BeforeRun,
        HookPoint::AfterRun,
        HookPoint::BeforeModel,
        HookPoint::AfterModel,
        HookPoint::BeforeTool,
        HookPoint::AfterTool,
    ];
    for point in points {
        assert_eq!(round_trip(&point), json!(point.as_str()));
    }
}

#[test]
fn an_entry_of_a_journal_is_an_event_or_streamed_text() {
    let event = Arc::new(record(Event::RunStarted));
    assert_eq!(Entry::Fact(Arc::clone(&event)).fact(), Some(&event));
    assert_eq!(Entry::Lump(Arc::new(Lump { v: FORMAT_VERSION, from: 0, span: Span::new(1) })).fact(), None);
}
