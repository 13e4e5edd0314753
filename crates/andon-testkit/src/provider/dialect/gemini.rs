//! Google's Gemini: whole small answers one after the other, each with the usage so far.
//!
//! Calls come whole. A thought's signature is on the part that follows it. The finish reason is in the last chunk that says something.
//! `candidatesTokenCount` is the output without the thoughts.

use andon_core::outcome::ModelStop;
use serde_json::{Map, Value, json};

use super::{Frame, object};
use crate::provider::reply::{Reply, Tokens, UsagePlace, UsageWhen};

/// An event whose lines end as Google's do.
pub(super) fn frame(data: &Value) -> Frame {
    Frame::raw(format!("data: {data}\r\n\r\n"))
}

pub(super) fn frames(reply: &Reply) -> Vec<Frame> {
    let parts = parts(reply);
    let (last, mut sent) = (parts.len().saturating_sub(1), 0);
    let chunks = parts.into_iter().enumerate().flat_map(|(number, part)| {
        sent += part.pieces;
        let stop = (number == last).then(|| stop(reply));
        let usage = figures_at(reply, number == 0, number == last, sent);
        let chunk = frame(&chunk(reply, &part.json, stop, usage.as_ref())).saying(&part.said);
        // To report usage twice, the last chunk comes again without text.
        let again = number == last && reply.usage_when == UsageWhen::Twice && reply.usage.is_some();
        let empty = again.then(|| frame(&self::chunk(reply, &json!({"text": ""}), stop, usage.as_ref())));
        [Some(chunk), empty].into_iter().flatten()
    });
    chunks.collect()
}

/// A part of the answer, what it says, and how many pieces of the neutral reply it holds.
struct Part {
    json: Value,
    said: String,
    pieces: usize,
}

fn parts(reply: &Reply) -> Vec<Part> {
    let mut parts = Vec::new();
    for text in reply.thoughts() {
        parts.push(Part { json: json!({"text": text, "thought": true}), said: text.clone(), pieces: 1 });
    }
    let first_said = parts.len();
    for text in &reply.text {
        parts.push(Part { json: json!({"text": text}), said: text.clone(), pieces: 1 });
    }
    for call in &reply.calls {
        let function = json!({"id": call.id, "name": call.name, "args": object(&call.arguments)});
        let said = call.arguments.concat();
        parts.push(Part { json: json!({"functionCall": function}), said, pieces: call.arguments.len() });
    }
    if parts.len() == first_said {
        parts.push(Part { json: json!({"text": ""}), said: String::new(), pieces: 0 });
    }
    let signed = parts.get_mut(first_said).and_then(|part| part.json.as_object_mut());
    if let (Some(part), Some(signature)) = (signed, reply.signature()) {
        part.insert("thoughtSignature".to_owned(), json!(signature));
    }
    parts
}

fn stop(reply: &Reply) -> &'static str {
    match reply.stop {
        ModelStop::EndTurn | ModelStop::ToolUse | ModelStop::StopSequence => "STOP",
        ModelStop::MaxTokens => "MAX_TOKENS",
        ModelStop::Refused => "SAFETY",
        #[cfg(not(andon_whole))]
        _ => "STOP",
    }
}

fn chunk(reply: &Reply, part: &Value, stop: Option<&str>, usage: Option<&Value>) -> Value {
    let mut candidate = json!({"content": {"parts": [part], "role": "model"}, "index": 0});
    if let (Some(candidate), Some(stop)) = (candidate.as_object_mut(), stop) {
        candidate.insert("finishReason".to_owned(), json!(stop));
    }
    let mut chunk = json!({"candidates": [candidate], "modelVersion": reply.model, "responseId": reply.id});
    if let (Some(chunk), Some(usage)) = (chunk.as_object_mut(), usage) {
        chunk.insert("usageMetadata".to_owned(), usage.clone());
    }
    chunk
}

/// The usage in a chunk. The last one's figures are final, even if it is also the first.
fn figures_at(reply: &Reply, first: bool, last: bool, sent: usize) -> Option<Value> {
    let first = first && !matches!(reply.usage_when, UsageWhen::AsUsual | UsageWhen::Running);
    let mut places =
        [last.then_some(UsagePlace::Last), first.then_some(UsagePlace::First), Some(UsagePlace::Piece(sent))]
            .into_iter()
            .flatten();
    let told = places.find_map(|place| reply.usage_at(place, UsageWhen::Running));
    // A provider that reports only at the end sends an object without figures before.
    let late = matches!(reply.usage_when, UsageWhen::Late | UsageWhen::Twice);
    told.map(figures).or_else(|| late.then(|| json!({"trafficType": "ON_DEMAND"})))
}

fn figures(tokens: Tokens) -> Value {
    let visible = tokens.output.saturating_sub(tokens.reasoning);
    let counts = [
        ("promptTokenCount", tokens.prompt(), true),
        ("cachedContentTokenCount", tokens.cache_read, tokens.cache_read > 0),
        ("candidatesTokenCount", visible, visible > 0),
        ("thoughtsTokenCount", tokens.reasoning, tokens.reasoning > 0),
        ("totalTokenCount", tokens.prompt() + tokens.output, true),
    ];
    // Zeros are left out.
    let told = counts.into_iter().filter(|(_, _, told)| *told);
    let mut figures: Map<String, Value> = told.map(|(name, count, _)| (name.to_owned(), json!(count))).collect();
    let details = json!([{"modality": "TEXT", "tokenCount": tokens.prompt()}]);
    figures.insert("promptTokensDetails".to_owned(), details);
    Value::Object(figures)
}
