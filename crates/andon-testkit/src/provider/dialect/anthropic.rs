//! Anthropic's Messages: `message_start`, blocks with their deltas, `message_delta`, `message_stop`, and a ping now and then.
//!
//! Input is reported first, with a useless figure for the output (one token); the output is reported once, in `message_delta`.

use andon_core::outcome::ModelStop;
use serde_json::{Value, json};

use super::Frame;
use crate::provider::reply::{Reply, Tokens, UsagePlace, UsageWhen};

/// What `message_start` says about the output, whatever it will be.
const USELESS_OUTPUT: u64 = 1;

pub(super) fn frames(reply: &Reply) -> Vec<Frame> {
    let mut stream = Stream { reply, frames: vec![start(reply)], pieces: 0, blocks: 0 };
    if reply.thought.is_some() {
        stream.thinking();
    }
    if !reply.text.is_empty() {
        stream.block(
            &json!({"type": "text", "text": ""}),
            &reply.text,
            |text| json!({"type": "text_delta", "text": text}),
        );
    }
    for call in &reply.calls {
        let opening = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
        // The first delta of a call is empty.
        let fragments: Vec<String> = [String::new()].into_iter().chain(call.arguments.iter().cloned()).collect();
        stream.block(&opening, &fragments, |json| json!({"type": "input_json_delta", "partial_json": json}));
    }
    stream.end();
    stream.frames
}

fn event(data: &Value) -> Frame {
    Frame::event(data.get("type").and_then(Value::as_str).unwrap_or_default(), data)
}

fn start(reply: &Reply) -> Frame {
    let mut message = json!({
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
    });
    let figures = match (reply.usage_when, reply.usage) {
        (UsageWhen::AsUsual, Some(tokens)) => Some(all(tokens, USELESS_OUTPUT)),
        // A gateway that learns the figures at the end has zeros here.
        (UsageWhen::Late, Some(_)) => Some(all(Tokens::default(), 0)),
        (UsageWhen::Twice, Some(tokens)) => Some(all(tokens, tokens.output)),
        _ => reply
            .usage_at(UsagePlace::First, UsageWhen::Early)
            .map(|tokens| all(tokens, tokens.output.max(USELESS_OUTPUT))),
    };
    if let (Some(message), Some(figures)) = (message.as_object_mut(), figures) {
        message.insert("usage".to_owned(), figures);
    }
    event(&json!({"type": "message_start", "message": message}))
}

/// A usage object with everything in it.
fn all(tokens: Tokens, output: u64) -> Value {
    json!({
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation": {"ephemeral_5m_input_tokens": tokens.cache_write, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output,
        "service_tier": "standard",
    })
}

struct Stream<'a> {
    reply: &'a Reply,
    frames: Vec<Frame>,
    /// How many pieces have been sent.
    pieces: usize,
    /// How many blocks have been opened.
    blocks: usize,
}

impl Stream<'_> {
    fn thinking(&mut self) {
        let opening = json!({"type": "thinking", "thinking": "", "signature": ""});
        self.open(&opening);
        for text in self.reply.thoughts() {
            self.delta(text, &json!({"type": "thinking_delta", "thinking": text}));
        }
        if let Some(signature) = self.reply.signature() {
            self.delta("", &json!({"type": "signature_delta", "signature": signature}));
        }
        self.close();
    }

    fn block(&mut self, opening: &Value, pieces: &[String], delta: impl Fn(&str) -> Value) {
        self.open(opening);
        for piece in pieces {
            self.delta(piece, &delta(piece));
        }
        self.close();
    }

    fn open(&mut self, opening: &Value) {
        let start = json!({"type": "content_block_start", "index": self.blocks, "content_block": opening});
        self.frames.push(event(&start));
        if self.blocks == 0 {
            self.frames.push(event(&json!({"type": "ping"})));
        }
    }

    fn delta(&mut self, said: &str, delta: &Value) {
        let data = json!({"type": "content_block_delta", "index": self.blocks, "delta": delta});
        self.frames.push(event(&data).saying(said));
        if said.is_empty() {
            return;
        }
        self.pieces += 1;
        if let Some(tokens) = self.reply.usage_at(UsagePlace::Piece(self.pieces), UsageWhen::Late) {
            self.report(None, Some(&all(tokens, tokens.output)));
        }
    }

    fn close(&mut self) {
        self.frames.push(event(&json!({"type": "content_block_stop", "index": self.blocks})));
        self.blocks += 1;
    }

    fn report(&mut self, stop: Option<&str>, usage: Option<&Value>) {
        let mut data = json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}});
        if let (Some(data), Some(usage)) = (data.as_object_mut(), usage) {
            data.insert("usage".to_owned(), usage.clone());
        }
        self.frames.push(event(&data));
    }

    fn end(&mut self) {
        let usage = self.reply.usage_at(UsagePlace::Last, UsageWhen::Late).map(|tokens| match self.reply.usage_when {
            UsageWhen::AsUsual => json!({"output_tokens": tokens.output}),
            _ => all(tokens, tokens.output),
        });
        let stop = match self.reply.stop {
            ModelStop::EndTurn => "end_turn",
            ModelStop::ToolUse => "tool_use",
            ModelStop::MaxTokens => "max_tokens",
            ModelStop::StopSequence => "stop_sequence",
            ModelStop::Refused => "refusal",
            #[cfg(not(andon_whole))]
            _ => "end_turn",
        };
        self.report(Some(stop), usage.as_ref());
        self.frames.push(event(&json!({"type": "message_stop"})));
    }
}
