//! ADK's dialect as its clients see it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod bad_input;
mod crash;
mod hooks;
#[allow(dead_code, reason = "the server's own tests use the rest")]
#[path = "../../../andon-server/tests/server/house.rs"]
mod house;
#[allow(dead_code, reason = "the server's own tests use the rest")]
#[path = "../../../andon-server/tests/server/inside.rs"]
mod inside;
mod leaving;
mod live;
mod questions;
#[allow(dead_code, reason = "the server's own tests use the rest")]
#[path = "../../../andon-server/tests/server/raw.rs"]
mod raw;
mod restart;
mod sessions;
mod shape;
mod stop;
mod wire;
mod words;
#[allow(dead_code, reason = "the server's own tests use the rest")]
#[path = "../../../andon-server/tests/server/ws.rs"]
mod ws;

use std::sync::Arc;
use std::time::Duration;

use andon_adk::Adk;
use andon_runtime::{AgentBuilder, FnTool, MemoryJournal};
use andon_server::Options;
use andon_testkit::Act;
use andon_testkit::tools::ToolLog;
use axum::body::Body;
use axum::http::{Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::house::{House, agent, endless};
use crate::inside::Inside;

/// The only user in these tests.
pub(crate) const USER: &str = "ada";

/// A request for a run.
pub(crate) fn ask(session: &str, text: &str) -> Value {
    let message = json!({"role": "user", "parts": [{"text": text}]});
    json!({"appName": "shop", "userId": USER, "sessionId": session, "newMessage": message})
}

/// The same, with streaming.
pub(crate) fn stream(session: &str, text: &str) -> Value {
    with(ask(session, text), json!({"streaming": true}))
}

/// A body with more fields.
pub(crate) fn with(mut body: Value, more: Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The path of a session.
pub(crate) fn path(session: &str) -> String {
    format!("/apps/shop/users/{USER}/sessions/{session}")
}

/// A server with this app and the session `s`.
pub(crate) async fn dialect(shop: AgentBuilder) -> Inside {
    let inside = Inside::new(shop).await;
    begin(&inside, "s").await;
    inside
}

/// A server with these settings of the dialect.
pub(crate) async fn speaking(adk: Adk, shop: AgentBuilder) -> Inside {
    Inside::of(Arc::new(MemoryJournal::new()), Options::default(), adk, "shop", shop).await
}

pub(crate) async fn begin(inside: &Inside, session: &str) {
    let (status, told) = inside.post(&format!("/apps/shop/users/{USER}/sessions"), json!({"sessionId": session})).await;
    assert_eq!(status, StatusCode::OK, "{told}");
}

/// The events stored in a session.
pub(crate) async fn stored(inside: &Inside, session: &str) -> Vec<Value> {
    let (status, told) = inside.get(&path(session)).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    told["events"].as_array().unwrap().clone()
}

/// Stops what runs in a session.
pub(crate) async fn cancel(inside: &Inside, session: &str) -> (StatusCode, Value) {
    let response = inside.send(Method::POST, &format!("{}:cancel", path(session)), None, None).await;
    crate::inside::answered(response).await
}

/// An event stream that is being read.
pub(crate) struct Stream {
    body: Body,
}

impl Stream {
    pub(crate) async fn open(inside: &Inside, body: Value) -> Self {
        let response: Response<Body> = inside.send(Method::POST, "/run_sse", None, Some(body)).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        Self { body: response.into_body() }
    }

    /// The next event, which must be a write of its own; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let frame = self.body.frame().await?.unwrap().into_data().unwrap();
            let text = std::str::from_utf8(&frame).unwrap();
            if text == ": \n\n" {
                continue;
            }
            let data = text.strip_prefix("data: ").and_then(|text| text.strip_suffix("\n\n")).unwrap();
            assert!(!data.contains('\n'), "more than one event in a write: {text}");
            return Some(serde_json::from_str(data).unwrap());
        }
    }

    /// The next event that contains these words.
    pub(crate) async fn until(&mut self, words: &str) -> Value {
        loop {
            let event = self.next().await.expect("the stream ended too early");
            if event.to_string().contains(words) {
                return event;
            }
        }
    }

    /// The remaining events.
    pub(crate) async fn rest(mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

/// All events of a run, as they were streamed.
pub(crate) async fn streamed(inside: &Inside, body: Value) -> Vec<Value> {
    Stream::open(inside, body).await.rest().await
}

/// Events without the pieces, and without the fields that only say that there were pieces.
pub(crate) fn whole(events: &[Value]) -> Vec<Value> {
    let whole = events.iter().filter(|event| event["partial"] != true).cloned();
    whole
        .map(|mut event| {
            event.as_object_mut().unwrap().remove("partial");
            event
        })
        .collect()
}

/// The text of an event.
pub(crate) fn text(event: &Value) -> String {
    let parts = event["content"]["parts"].as_array().cloned().unwrap_or_default();
    parts.iter().filter_map(|part| part["text"].as_str()).collect()
}

/// Everything that was streamed of an answer, joined.
pub(crate) fn pieces(events: &[Value]) -> String {
    events.iter().filter(|event| event["partial"] == true).map(text).collect()
}

/// The role of each event with content.
pub(crate) fn turns(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["content"]["role"].as_str()).collect()
}

/// What every provider requires of the next request: each call is followed by one response, and there are never two user turns in
/// a row.
pub(crate) fn is_valid(events: &[Value]) {
    let turns = turns(events);
    assert!(!turns.windows(2).any(|two| two == ["user", "user"]), "{turns:?}");
    let ids = |of: &str| -> Vec<String> {
        let parts = events.iter().flat_map(|event| event["content"]["parts"].as_array().cloned().unwrap_or_default());
        parts.filter_map(|part| Some(part[of]["id"].as_str()?.to_owned())).collect()
    };
    assert_eq!(ids("functionCall"), ids("functionResponse"));
}

/// An answer that calls tools: ids, names and arguments.
pub(crate) fn calls(calls: &[(&str, &str, &str)]) -> Vec<Act> {
    let acts = calls.iter().enumerate().flat_map(|(index, (id, name, json))| Act::call(index, id, name, json));
    acts.chain([Act::usage(12, 9), Act::tool_use()]).collect()
}

/// An answer in these pieces.
pub(crate) fn says(words: &[&str]) -> Vec<Act> {
    let pause = Duration::from_millis(10);
    let acts = words.iter().flat_map(|text| [Act::text(text), Act::Pause(pause)]);
    acts.chain([Act::usage(12, 3), Act::end()]).collect()
}

/// A tool that notes its name in the state, takes a while, and reports it.
pub(crate) fn sleeper(name: &'static str) -> FnTool {
    let schema = json!({"type": "object", "properties": {"ms": {"type": "integer"}}});
    FnTool::new(name, "Sleeps.", schema, move |call| async move {
        let ms = call.input["ms"].as_u64().unwrap_or_default();
        tokio::time::sleep(Duration::from_millis(ms)).await;
        call.state.set("last_tool", name).await?;
        Ok(json!({"slept": ms, "how": "async"}).to_string().into())
    })
}
