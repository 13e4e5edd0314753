//! What the page's trace tab shows: the spans of a session's runs, as they are exported, in ADK's words.
//!
//! Ids are strings: JavaScript rounds 64-bit numbers.

use std::sync::Arc;

use andon_runtime::{JournaledRun, RunFilter, RunId, SessionCopy, SessionKey};
use andon_server::dialect::{PathParams, Principal, Problem};
use andon_telemetry::names;
use andon_telemetry::span::{self, Span};
use axum::extract::State;
use axum::response::Response;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::render::answer_id;
use super::story;
use crate::core::Shared;

/// ADK's names of attributes.
const EVENT: &str = "gcp.vertex.agent.event_id";
const INVOCATION: &str = "gcp.vertex.agent.invocation_id";
const REQUEST: &str = "gcp.vertex.agent.llm_request";
const RESPONSE: &str = "gcp.vertex.agent.llm_response";

/// ADK's name for the operation of a model call.
const GENERATE: &str = "generate_content";

/// How many of an app's runs are searched for an event, and how many answers of each.
const RECENT: usize = 200;
const ANSWERS: u64 = 32;

/// The spans of all runs in sessions of this name, of every user within the caller's reach.
pub(crate) async fn of_session(
    State(core): State<Shared>,
    principal: Principal,
    PathParams((app, session)): PathParams<(String, String)>,
) -> Result<Response, Problem> {
    let reading = core.host.read_session().await?;
    let mut keys: Vec<SessionKey> = Vec::new();
    for run in core.host.runtime().list_runs(filter(&principal, &app, Some(session), RECENT)).await? {
        if principal.reaches(&run.session) && !keys.contains(&run.session) {
            keys.push(run.session);
        }
    }
    let mut spans = Vec::new();
    for key in keys {
        let Some(SessionCopy { runs, .. }) =
            core.host.runtime().copy_session_with_attachments(&key, story::EVENT).await?
        else {
            continue;
        };
        spans.extend(runs.iter().flat_map(|(run, stored)| of_run(&key, run, stored)));
    }
    reading.answer(|| spans).await
}

fn filter(principal: &Principal, app: &str, session: Option<String>, limit: usize) -> RunFilter {
    RunFilter::new()
        .tenant(principal.tenant().to_string())
        .app(app.to_owned())
        .user(principal.user().map(str::to_owned))
        .session(session)
        .limit(limit)
}

fn of_run(key: &SessionKey, run: &RunId, stored: &JournaledRun) -> Vec<Value> {
    let records: Vec<_> = stored.facts().map(Arc::clone).collect();
    span::of_run(&records, stored.settled_at).iter().map(|span| shown(key, run, span)).collect()
}

/// A span as the page reads it.
fn shown(key: &SessionKey, run: &RunId, span: &Span) -> Value {
    let mut attributes = match serde_json::to_value(&span.attributes) {
        Ok(Value::Object(attributes)) => attributes,
        _ => Map::new(),
    };
    attributes.insert(INVOCATION.to_owned(), run.as_str().into());
    attributes.insert(names::CONVERSATION.to_owned(), key.session.as_str().into());
    attributes.insert(names::AGENT.to_owned(), (*key.app).into());
    let mut name = span.name.clone();
    if let Some(call) = attributes.get(names::MODEL_CALL).and_then(Value::as_u64) {
        attributes.insert(EVENT.to_owned(), answer_id(run, call).to_string().into());
        attributes.insert(names::OPERATION.to_owned(), GENERATE.into());
        let model = attributes.get(names::MODEL).and_then(Value::as_str).unwrap_or_default();
        name = format!("{GENERATE} {model}");
    }
    json!({
        "name": name,
        "start_time": span.start.0.saturating_mul(1_000),
        "end_time": span.end.0.saturating_mul(1_000),
        "trace_id": span.trace,
        "span_id": span.id,
        "parent_span_id": span.parent,
        "attributes": attributes,
        "logs": [],
    })
}

/// What is known about the model call whose answer an event is: its span, the request and the response.
pub(crate) async fn of_event(
    State(core): State<Shared>,
    principal: Principal,
    PathParams((app, event)): PathParams<(String, String)>,
) -> Result<Response, Problem> {
    let reading = core.host.read_session().await?;
    let missing = || Problem::not_found("no-trace", "Trace not found");
    // Compared as UUIDs: comparing thousands of them as strings would take longer than everything else.
    let id = Uuid::parse_str(&event).ok().filter(|id| id.to_string() == event).ok_or_else(missing)?;
    let runs = core.host.runtime().list_runs(filter(&principal, &app, None, RECENT)).await?;
    let is_of = |run: &RunId| (1..=ANSWERS).any(|call| answer_id(run, call) == id);
    let known = runs.into_iter().find(|run| principal.reaches(&run.session) && is_of(&run.run)).ok_or_else(missing)?;
    let session =
        core.host.runtime().copy_session_with_attachments(&known.session, story::EVENT).await?.ok_or_else(missing)?;
    let stored =
        session.runs.iter().find(|(run, _)| *run == known.run).map(|(_, stored)| stored).ok_or_else(missing)?;
    let spans = of_run(&known.session, &known.run, stored);
    let attributes = spans.into_iter().filter_map(|mut span| Some(span.get_mut("attributes")?.take()));
    let mut attributes =
        attributes.into_iter().find(|attributes| attributes.get(EVENT) == Some(&json!(event))).ok_or_else(missing)?;
    let (events, _) = story::tell(&session);
    let events: Vec<Value> = events.iter().map(|event| json!(event)).collect();
    let place = events.iter().position(|told| told.get("id") == Some(&json!(event)));
    let asked = events.iter().take(place.unwrap_or_default()).filter_map(|told| told.get("content"));
    let request = json!({"model": attributes.get(names::MODEL), "contents": asked.collect::<Vec<_>>(), "config": {}});
    let said = place.and_then(|place| events.get(place)).and_then(|told| told.get("content"));
    if let Value::Object(attributes) = &mut attributes {
        attributes.insert(REQUEST.to_owned(), request.to_string().into());
        attributes.insert(RESPONSE.to_owned(), json!({"content": said}).to_string().into());
    }
    reading.answer(|| attributes).await
}
