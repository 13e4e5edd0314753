//! OpenAI's Responses: events with names and numbers; items with their parts; the whole response at the end.
//!
//! Usage is reported in `response.completed` (or `response.incomplete`) and is `null` before. If a [`UsageWhen`] wants it
//! earlier, it is in the response object of `response.created` and of further `response.in_progress` events.

use andon_core::outcome::ModelStop;
use serde_json::{Map, Value, json};

use super::Frame;
use crate::provider::faults::Refusal;
use crate::provider::reply::{Call, Reply, Tokens, UsagePlace, UsageWhen};

pub(super) fn frames(reply: &Reply) -> Vec<Frame> {
    let mut stream = Stream { reply, frames: Vec::new(), pieces: 0, items: Vec::new() };
    let first = stream.usage(UsagePlace::First);
    stream.lifecycle("response.created", "in_progress", first);
    stream.lifecycle("response.in_progress", "in_progress", first);
    if reply.thought.is_some() {
        stream.reasoning();
    }
    if !reply.text.is_empty() {
        stream.message();
    }
    for call in &reply.calls {
        stream.call(call);
    }
    if let Some(usage) = stream.usage(UsagePlace::BeforeLast) {
        stream.lifecycle("response.in_progress", "in_progress", Some(usage));
    }
    let status = if stopped_early(reply).is_some() { "incomplete" } else { "completed" };
    let last = stream.usage(UsagePlace::Last);
    stream.lifecycle(&format!("response.{status}"), status, last);
    stream.frames
}

/// An error as documented: an event of its own, with everything at the top level.
pub(super) fn error_frame(refusal: Refusal) -> Frame {
    let (kind, code) = refusal.openai();
    let (code, message) = (code.unwrap_or(kind), refusal.message());
    let data = json!({"type": "error", "code": code, "message": message, "param": null, "sequence_number": 99});
    Frame::event("error", &data)
}

/// An error as it also comes: nested, as in a refused request, and as the end of the response.
pub(super) fn further_error_frames(refusal: Refusal, body: &Value) -> [Frame; 2] {
    let inside = with(&with(body, "type", json!("error")), "sequence_number", json!(99));
    let (kind, code) = refusal.openai();
    let error = json!({"code": code.unwrap_or(kind), "message": refusal.message()});
    let response = json!({
        "id": "resp_failed",
        "object": "response",
        "created_at": CREATED,
        "status": "failed",
        "error": error,
        "incomplete_details": null,
        "output": [],
        "usage": null,
    });
    let failed = json!({"type": "response.failed", "sequence_number": 99, "response": response});
    [Frame::event("error", &inside), Frame::event("response.failed", &failed)]
}

/// When everything was made.
const CREATED: u64 = 1_893_456_000;

fn stopped_early(reply: &Reply) -> Option<&'static str> {
    match reply.stop {
        ModelStop::MaxTokens => Some("max_output_tokens"),
        ModelStop::Refused => Some("content_filter"),
        ModelStop::EndTurn | ModelStop::ToolUse | ModelStop::StopSequence => None,
        #[cfg(not(andon_whole))]
        _ => None,
    }
}

struct Stream<'a> {
    reply: &'a Reply,
    frames: Vec<Frame>,
    /// How many pieces have been sent.
    pieces: usize,
    /// The items that are done.
    items: Vec<Value>,
}

impl Stream<'_> {
    fn usage(&self, place: UsagePlace) -> Option<Tokens> {
        self.reply.usage_at(place, UsageWhen::Late)
    }

    fn event(&mut self, name: &str, data: Value) {
        self.saying("", name, data);
    }

    fn saying(&mut self, said: &str, name: &str, data: Value) {
        let mut whole = Map::from_iter([("type".to_owned(), json!(name))]);
        whole.insert("sequence_number".to_owned(), json!(self.frames.len()));
        if let Value::Object(data) = data {
            whole.extend(data);
        }
        self.frames.push(Frame::event(name, &Value::Object(whole)).saying(said));
    }

    fn lifecycle(&mut self, name: &str, status: &str, usage: Option<Tokens>) {
        let reason = if status == "incomplete" { stopped_early(self.reply) } else { None };
        let response = json!({
            "id": self.reply.id,
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "background": false,
            "error": null,
            "incomplete_details": reason.map(|reason| json!({"reason": reason})),
            "model": self.reply.model,
            "output": self.items,
            "parallel_tool_calls": true,
            "store": false,
            "usage": usage.map(figures),
        });
        self.event(name, json!({"response": response}));
    }

    /// One piece of an item.
    fn delta(&mut self, said: &str, name: &str, data: Value) {
        self.saying(said, name, data);
        self.pieces += 1;
        if let Some(usage) = self.usage(UsagePlace::Piece(self.pieces)) {
            self.lifecycle("response.in_progress", "in_progress", Some(usage));
        }
    }

    fn open(&mut self, item: &Value) -> usize {
        let place = self.items.len();
        self.event("response.output_item.added", json!({"output_index": place, "item": item}));
        place
    }

    fn close(&mut self, item: Value) {
        let place = self.items.len();
        self.event("response.output_item.done", json!({"output_index": place, "item": item}));
        self.items.push(item);
    }

    fn reasoning(&mut self) {
        let (id, whole) = ("rs_1", self.reply.thoughts().concat());
        let item = |summary: Value, encrypted: Option<&str>| json!({"id": id, "type": "reasoning", "summary": summary, "encrypted_content": encrypted});
        let place = self.open(&item(json!([]), None));
        let at = json!({"item_id": id, "output_index": place, "summary_index": 0});
        let part = |text: &str| json!({"type": "summary_text", "text": text});
        self.event("response.reasoning_summary_part.added", with(&at, "part", part("")));
        for text in self.reply.thoughts() {
            self.delta(text, "response.reasoning_summary_text.delta", with(&at, "delta", json!(text)));
        }
        self.event("response.reasoning_summary_text.done", with(&at, "text", json!(whole)));
        self.event("response.reasoning_summary_part.done", with(&at, "part", part(&whole)));
        self.close(item(json!([part(&whole)]), self.reply.signature()));
    }

    fn message(&mut self) {
        let (id, whole) = ("msg_1", self.reply.text.concat());
        let item = |status: &str, content: Value| json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content});
        let place = self.open(&item("in_progress", json!([])));
        let at = json!({"item_id": id, "output_index": place, "content_index": 0});
        let part = |text: &str| json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text});
        self.event("response.content_part.added", with(&at, "part", part("")));
        let deltas = with(&at, "logprobs", json!([]));
        for text in &self.reply.text {
            self.delta(text, "response.output_text.delta", with(&deltas, "delta", json!(text)));
        }
        self.event("response.output_text.done", with(&deltas, "text", json!(whole)));
        self.event("response.content_part.done", with(&at, "part", part(&whole)));
        self.close(item("completed", json!([part(&whole)])));
    }

    fn call(&mut self, call: &Call) {
        let (id, whole) = (format!("fc_{}", call.id), call.arguments.concat());
        let item = |status: &str, arguments: &str| {
            json!({
                "id": id,
                "type": "function_call",
                "status": status,
                "arguments": arguments,
                "call_id": call.id,
                "name": call.name,
            })
        };
        let place = self.open(&item("in_progress", ""));
        let at = json!({"item_id": id, "output_index": place});
        for fragment in &call.arguments {
            self.delta(fragment, "response.function_call_arguments.delta", with(&at, "delta", json!(fragment)));
        }
        self.event("response.function_call_arguments.done", with(&at, "arguments", json!(whole)));
        self.close(item("completed", &whole));
    }
}

/// An object with one more field.
fn with(object: &Value, name: &str, value: Value) -> Value {
    let mut object = object.clone();
    if let Some(object) = object.as_object_mut() {
        object.insert(name.to_owned(), value);
    }
    object
}

fn figures(tokens: Tokens) -> Value {
    json!({
        "input_tokens": tokens.prompt(),
        "input_tokens_details": {"cached_tokens": tokens.cache_read},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.prompt() + tokens.output,
    })
}
