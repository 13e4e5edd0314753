//! Ollama's chat: one JSON object per line; the last one says `"done": true` and has the counts.
//!
//! Calls come whole, in a line of their own. Ollama knows no signature and no cache, and counts thinking as output.

use andon_core::outcome::ModelStop;
use serde_json::{Value, json};

use super::{Frame, object};
use crate::provider::reply::{Reply, Tokens, UsagePlace, UsageWhen};

pub(super) fn frames(reply: &Reply) -> Vec<Frame> {
    let mut lines = Vec::new();
    for text in reply.thoughts() {
        lines.push((text.clone(), 1, json!({"role": "assistant", "content": "", "thinking": text})));
    }
    for text in &reply.text {
        lines.push((text.clone(), 1, json!({"role": "assistant", "content": text})));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let function = json!({"index": index, "name": call.name, "arguments": object(&call.arguments)});
        let message =
            json!({"role": "assistant", "content": "", "tool_calls": [{"id": call.id, "function": function}]});
        lines.push((call.arguments.concat(), call.arguments.len(), message));
    }
    let (mut sent, last) = (0, lines.len().saturating_sub(1));
    let mut frames = Vec::new();
    for (number, (said, pieces, message)) in lines.into_iter().enumerate() {
        sent += pieces;
        let first = if number == 0 { reply.usage_at(UsagePlace::First, UsageWhen::Late) } else { None };
        // A running count comes with a line that has a piece.
        let running = reply.usage_at(UsagePlace::Piece(sent), UsageWhen::Late);
        let before_last = if number == last { reply.usage_at(UsagePlace::BeforeLast, UsageWhen::Late) } else { None };
        frames.push(line(reply, &message, running.or(first).or(before_last)).saying(&said));
    }
    frames.push(end(reply));
    frames
}

fn line(reply: &Reply, message: &Value, usage: Option<Tokens>) -> Frame {
    Frame::line(&with_usage(
        json!({"model": reply.model, "created_at": CREATED, "message": message, "done": false}),
        usage,
    ))
}

fn end(reply: &Reply) -> Frame {
    let reason = match reply.stop {
        ModelStop::MaxTokens => "length",
        ModelStop::EndTurn | ModelStop::ToolUse | ModelStop::StopSequence | ModelStop::Refused => "stop",
        #[cfg(not(andon_whole))]
        _ => "stop",
    };
    let data = json!({
        "model": reply.model,
        "created_at": CREATED,
        "message": {"role": "assistant", "content": ""},
        "done": true,
        "done_reason": reason,
        "total_duration": 1_200_000_000_u64,
        "load_duration": 40_000_000,
        "prompt_eval_duration": 60_000_000,
        "eval_duration": 1_100_000_000_u64,
    });
    Frame::line(&with_usage(data, reply.usage_at(UsagePlace::Last, UsageWhen::Late)))
}

const CREATED: &str = "2030-01-01T00:00:00.000000Z";

fn with_usage(mut data: Value, usage: Option<Tokens>) -> Value {
    if let (Some(data), Some(tokens)) = (data.as_object_mut(), usage) {
        data.insert("prompt_eval_count".to_owned(), json!(tokens.prompt()));
        data.insert("eval_count".to_owned(), json!(tokens.output));
    }
    data
}
