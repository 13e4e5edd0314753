//! The providers' stream formats: what each really sends, frame by frame.

mod anthropic;
mod gemini;
mod ollama;
mod openai_chat;
mod openai_responses;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde_json::{Value, json};

use super::faults::Refusal;
use super::reply::Reply;

/// A provider's stream format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Anthropic's Messages: named SSE events.
    Anthropic,
    /// OpenAI's Chat Completions: SSE without names, `[DONE]` at the end.
    OpenAiChat,
    /// OpenAI's Responses: named and numbered SSE events.
    OpenAiResponses,
    /// Google's Gemini with `alt=sse`: SSE without names, lines that end in CR LF.
    Gemini,
    /// Ollama's chat: one JSON object per line.
    Ollama,
}

/// One message of a stream: an SSE event, or a line of JSON. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    bytes: Bytes,
    said: String,
}

impl Frame {
    /// A frame of your own, as it goes over the wire.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), said: String::new() }
    }

    /// What goes over the wire.
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// What the model says in it: a piece of thinking, text or arguments; often empty.
    pub fn said(&self) -> &str {
        &self.said
    }

    /// An SSE event with a name.
    pub fn event(name: &str, data: &Value) -> Self {
        Self::raw(format!("event: {name}\ndata: {data}\n\n"))
    }

    /// An SSE event without a name.
    pub fn data(data: &Value) -> Self {
        Self::raw(format!("data: {data}\n\n"))
    }

    /// A comment, with which routers keep an SSE stream open.
    pub fn comment(text: &str) -> Self {
        Self::raw(format!(": {text}\n\n"))
    }

    /// A line of JSON.
    pub fn line(data: &Value) -> Self {
        Self::raw(format!("{data}\n"))
    }

    fn saying(mut self, said: &str) -> Self {
        said.clone_into(&mut self.said);
        self
    }
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 5] = [Self::Anthropic, Self::OpenAiChat, Self::OpenAiResponses, Self::Gemini, Self::Ollama];

    /// A builder for the adapter that speaks it, with a model of this name.
    pub fn adapter(self, model: &str) -> andon_models::Builder {
        match self {
            Self::Anthropic => andon_models::Anthropic::builder(model),
            Self::OpenAiChat => andon_models::OpenAi::builder(model),
            Self::OpenAiResponses => andon_models::OpenAiResponses::builder(model),
            Self::Gemini => andon_models::Gemini::builder(model),
            Self::Ollama => andon_models::Ollama::builder(model),
        }
    }

    /// The frames of a whole answer.
    pub fn frames(self, reply: &Reply) -> Vec<Frame> {
        match self {
            Self::Anthropic => anthropic::frames(reply),
            Self::OpenAiChat => openai_chat::frames(reply),
            Self::OpenAiResponses => openai_responses::frames(reply),
            Self::Gemini => gemini::frames(reply),
            Self::Ollama => ollama::frames(reply),
        }
    }

    /// The whole body of an answer, to be cut at any byte.
    pub fn body(self, reply: &Reply) -> Bytes {
        self.frames(reply).iter().flat_map(Frame::bytes).collect()
    }

    /// A stream's content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Anthropic | Self::OpenAiResponses => "text/event-stream; charset=utf-8",
            Self::OpenAiChat | Self::Gemini => "text/event-stream",
            Self::Ollama => "application/x-ndjson",
        }
    }

    /// An error in the middle of a stream, in the provider's usual format.
    pub fn error_frame(self, refusal: Refusal) -> Frame {
        let body = self.error_body(refusal);
        match self {
            Self::Anthropic => Frame::event("error", &body),
            Self::OpenAiChat => Frame::data(&body),
            Self::OpenAiResponses => openai_responses::error_frame(refusal),
            Self::Gemini => gemini::frame(&body),
            Self::Ollama => Frame::line(&body),
        }
    }

    /// Every known format of an error in the middle of a stream, the usual one first. Most providers have one; Responses has
    /// three.
    pub fn error_frames(self, refusal: Refusal) -> Vec<Frame> {
        let mut frames = vec![self.error_frame(refusal)];
        if self == Self::OpenAiResponses {
            frames.extend(openai_responses::further_error_frames(refusal, &self.error_body(refusal)));
        }
        frames
    }

    /// The body of a refused request, in the provider's own format.
    pub fn error_body(self, refusal: Refusal) -> Value {
        let message = refusal.message();
        match self {
            Self::Anthropic => json!({
                "type": "error",
                "error": {"type": refusal.anthropic(), "message": message},
                "request_id": "req_bad_provider",
            }),
            Self::OpenAiChat | Self::OpenAiResponses => {
                let (kind, code) = refusal.openai();
                json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
            }
            Self::Gemini => {
                let code = refusal.status(self);
                json!({"error": {"code": code, "message": message, "status": refusal.google()}})
            }
            Self::Ollama => json!({"error": message}),
        }
    }

    /// A frame whose JSON breaks off, in a stream that does not.
    pub fn broken_frame(self) -> Frame {
        let json = r#"{"type": "content_block_delta", "choices": [{"delta": {"content": "Hel"#;
        Frame::raw(match self {
            Self::Anthropic => format!("event: content_block_delta\ndata: {json}\n\n"),
            Self::OpenAiResponses => format!("event: response.output_text.delta\ndata: {json}\n\n"),
            Self::OpenAiChat => format!("data: {json}\n\n"),
            Self::Gemini => format!("data: {json}\r\n\r\n"),
            Self::Ollama => format!("{json}\n"),
        })
    }

    /// A frame to flood with: a piece of text of this many letters.
    pub fn text_frame(self, letters: usize) -> Frame {
        let text = "a".repeat(letters);
        let frames = self.frames(&Reply::text([text.as_str()]));
        frames.into_iter().find(|frame| frame.said == text).unwrap_or_else(|| Frame::raw(text))
    }
}

/// The arguments of a call as an object; an empty one if they are not an object.
fn object(arguments: &[String]) -> Value {
    let parsed = serde_json::from_str(&arguments.concat());
    parsed.ok().filter(Value::is_object).unwrap_or_else(|| json!({}))
}
