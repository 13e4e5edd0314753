//! OpenAI's Chat Completions: a chunk with the role, a chunk for each piece, one with the reason, one with the usage, `[DONE]`.
//!
//! The usage is that of `stream_options.include_usage`: `null` in every chunk but one, which has no choices. Thinking is
//! `reasoning_content`, as many servers of this format have it; there is no place for a signature.

use andon_core::outcome::ModelStop;
use serde_json::{Value, json};

use super::Frame;
use crate::provider::reply::{Reply, Tokens, UsagePlace, UsageWhen};

pub(super) fn frames(reply: &Reply) -> Vec<Frame> {
    let first = reply.usage_at(UsagePlace::First, UsageWhen::Late);
    let role = choice(&json!({"role": "assistant", "content": "", "refusal": null}), None);
    let mut stream = Stream { reply, frames: vec![chunk(reply, &role, first)], pieces: 0 };
    for text in reply.thoughts() {
        stream.piece(text, &json!({"reasoning_content": text}));
    }
    for text in &reply.text {
        stream.piece(text, &json!({"content": text}));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let function = json!({"name": call.name, "arguments": ""});
        let opening = json!({"index": index, "id": call.id, "type": "function", "function": function});
        stream.piece("", &json!({"tool_calls": [opening]}));
        for fragment in &call.arguments {
            stream.piece(fragment, &json!({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}));
        }
    }
    stream.end();
    stream.frames
}

struct Stream<'a> {
    reply: &'a Reply,
    frames: Vec<Frame>,
    /// How many pieces have been sent.
    pieces: usize,
}

impl Stream<'_> {
    fn piece(&mut self, said: &str, delta: &Value) {
        self.pieces += usize::from(!said.is_empty());
        let usage = self.reply.usage_at(UsagePlace::Piece(self.pieces), UsageWhen::Late);
        self.frames.push(chunk(self.reply, &choice(delta, None), usage).saying(said));
    }

    fn end(&mut self) {
        let stop = match self.reply.stop {
            ModelStop::EndTurn | ModelStop::StopSequence => "stop",
            ModelStop::ToolUse => "tool_calls",
            ModelStop::MaxTokens => "length",
            ModelStop::Refused => "content_filter",
            #[cfg(not(andon_whole))]
            _ => "stop",
        };
        let usage = self.reply.usage_at(UsagePlace::BeforeLast, UsageWhen::Late);
        self.frames.push(chunk(self.reply, &choice(&json!({}), Some(stop)), usage));
        if let Some(usage) = self.reply.usage_at(UsagePlace::Last, UsageWhen::Late) {
            self.frames.push(chunk(self.reply, &json!([]), Some(usage)));
        }
        self.frames.push(Frame::raw("data: [DONE]\n\n"));
    }
}

fn choice(delta: &Value, stop: Option<&str>) -> Value {
    json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": stop}])
}

fn chunk(reply: &Reply, choices: &Value, usage: Option<Tokens>) -> Frame {
    Frame::data(&json!({
        "id": reply.id,
        "object": "chat.completion.chunk",
        "created": 1_893_456_000,
        "model": reply.model,
        "service_tier": "default",
        "system_fingerprint": "fp_bad",
        "choices": choices,
        "usage": usage.map(figures),
    }))
}

fn figures(tokens: Tokens) -> Value {
    json!({
        "prompt_tokens": tokens.prompt(),
        "completion_tokens": tokens.output,
        "total_tokens": tokens.prompt() + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": tokens.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    })
}
