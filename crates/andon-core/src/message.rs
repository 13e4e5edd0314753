//! The messages of a conversation.
//!
//! # Invariants
//!
//! 1. A message is stored as it was: the text that was shown, byte for byte; a call's arguments as they were streamed.
//!    [`prompt`](crate::prompt) makes from it what a provider accepts, and stores nothing back.
//! 2. An unfinished answer says so in [`Message::cut`], beside its text and never inside it.
//! 3. A tool call in a stored assistant message has exactly one [`ToolResult`] in the tool message that follows it.

mod image;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::CallId;
use crate::reason::Reason;

pub use image::{Image, ImageError};

/// One message of a conversation.
///
/// ```
/// use andon_core::message::{Message, Role};
///
/// let message = Message::user("Hello");
/// assert_eq!((message.role, message.text()), (Role::User, "Hello".to_owned()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
    /// Why the message is unfinished, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person, or the program on a person's behalf.
    User,
    /// The model.
    Assistant,
    /// The tools, answering the calls of the assistant message before.
    Tool,
}

/// Why an answer is unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by", content = "reason")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Cut {
    /// Somebody pulled the cord.
    Cancelled(Reason),
    /// The model's stream broke.
    Broken,
    /// The process that was reading the answer died.
    Lost,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Part {
    /// Plain text or markdown.
    Text {
        /// The text.
        text: String,
    },
    /// An image, by reference. A `data:` URL is stored with the bytes in it, in the journal, too.
    Image(Image),
    /// What the model thought before it spoke.
    Thinking {
        /// The thought, as far as it was shown.
        text: String,
        /// The provider's signature of the complete thought. A cut thought has none and is not sent back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<Signature>,
    },
    /// A call of a tool.
    ToolCall(ToolCall),
    /// The result of a call.
    ToolResult(ToolResult),
}

/// A provider's signature of a thought. It is sent back only to that provider: a session may change its model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredSignature")]
#[non_exhaustive]
pub struct Signature {
    /// The provider, as its adapter names itself.
    pub by: Arc<str>,
    /// The signature itself, which only the provider can read.
    pub value: String,
}

/// A signature as journals hold it. Early journals did not name the provider: such a signature is kept, and never sent back.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredSignature {
    Whole { by: Arc<str>, value: String },
    Alone(String),
}

impl From<StoredSignature> for Signature {
    fn from(stored: StoredSignature) -> Self {
        match stored {
            StoredSignature::Whole { by, value } => Self { by, value },
            StoredSignature::Alone(value) => Self::new("", value),
        }
    }
}

impl Signature {
    /// A signature by the provider `by`.
    pub fn new(by: impl Into<Arc<str>>, value: impl Into<String>) -> Self {
        Self { by: by.into(), value: value.into() }
    }
}

/// A call of a tool, as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCall {
    /// The call's id, unique within its session.
    pub id: CallId,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// The arguments exactly as the model wrote them. They should be a JSON object, but models make mistakes.
    pub arguments: String,
}

crate::with!(ToolCall: id: CallId, name: into String, arguments: into String);

impl ToolCall {
    /// A call of the tool `name`, with its arguments as the model wrote them.
    pub fn new(id: CallId, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { id, name: name.into(), arguments: arguments.into() }
    }

    /// The arguments as JSON. An empty text is an empty object, because several providers send nothing for one.
    pub fn input(&self) -> Result<serde_json::Value, serde_json::Error> {
        if self.arguments.trim().is_empty() {
            return Ok(serde_json::Value::Object(serde_json::Map::new()));
        }
        serde_json::from_str(&self.arguments)
    }

    /// What an approval of this call, as the model wrote it, is bound to: the arguments, byte for byte. The name is not part of it. If
    /// a hook has given the call another name, an approval is bound to [`digest_with_name`](Self::digest_with_name) instead.
    pub fn digest(&self) -> Digest {
        Digest::of(self.arguments.as_bytes())
    }

    /// What an approval of a call that a hook has renamed is bound to: the name, a zero byte, and the arguments. No JSON has a zero
    /// byte, so no approval of a call as the model wrote it fits.
    pub fn digest_with_name(&self) -> Digest {
        Digest::of([self.name.as_bytes(), &[0], self.arguments.as_bytes()].concat().as_slice())
    }
}

/// The one result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolResult {
    /// The call that it belongs to.
    pub call: CallId,
    /// How the call ended.
    pub status: ResultStatus,
    /// What the model is told.
    pub content: Vec<Content>,
}

/// How a call ended, as the model is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum ResultStatus {
    /// It did what it was asked.
    Ok,
    /// It failed and said why.
    Error,
    /// It was never started.
    Refused,
    /// It was stopped before it ended, and changed nothing that matters.
    Cut,
    /// It was stopped before it ended, and may have had its effect.
    Unknown,
}

impl ResultStatus {
    /// Whether a provider that knows only success and error is told of an error.
    pub fn is_error(self) -> bool {
        match self {
            Self::Ok => false,
            Self::Error | Self::Refused | Self::Cut | Self::Unknown => true,
        }
    }
}

/// What a tool can return.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image, by reference.
    Image(Image),
}

impl Content {
    /// Its text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Image(_) => None,
        }
    }

    /// Roughly how many bytes it takes in memory.
    pub fn weight(&self) -> usize {
        let own = match self {
            Self::Text { text } => text.len(),
            Self::Image(image) => image.reference.len(),
        };
        size_of::<Self>() + own
    }
}

crate::with!(Message: parts: Vec<Part>, cut: into Option<Cut>);

impl Message {
    /// A message of these parts, whole.
    pub const fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, cut: None }
    }

    /// A user's message of plain text.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, parts: vec![Part::text(text)], cut: None }
    }

    /// A complete answer of plain text.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, parts: vec![Part::text(text)], cut: None }
    }

    /// All text parts, joined. Thinking is not part of it.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(Part::as_text).collect()
    }

    /// Roughly how many bytes it takes in memory.
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.parts.iter().map(Part::weight).sum::<usize>()
    }

    /// The tool calls, in the model's order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            Part::Text { .. } | Part::Image(_) | Part::Thinking { .. } | Part::ToolResult(_) => None,
        })
    }

    /// The tool results, in order.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolResult(result) => Some(result),
            Part::Text { .. } | Part::Image(_) | Part::Thinking { .. } | Part::ToolCall(_) => None,
        })
    }

    /// The images, in order, without those in tool results.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.parts.iter().filter_map(|part| match part {
            Part::Image(image) => Some(image),
            Part::Text { .. } | Part::Thinking { .. } | Part::ToolCall(_) | Part::ToolResult(_) => None,
        })
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::user(text)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::user(text)
    }
}

impl Part {
    /// About how many bytes it takes in memory.
    pub fn weight(&self) -> usize {
        let own = match self {
            Self::Text { text } => text.len(),
            Self::Image(image) => image.reference.len(),
            Self::Thinking { text, signature } => {
                text.len() + signature.as_ref().map_or(0, |signature| signature.value.len())
            }
            Self::ToolCall(call) => call.name.len() + call.arguments.len(),
            Self::ToolResult(result) => result.content.iter().map(Content::weight).sum(),
        };
        size_of::<Self>() + own
    }

    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Its text, if it is a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Image(_) | Self::Thinking { .. } | Self::ToolCall(_) | Self::ToolResult(_) => None,
        }
    }
}

impl ToolResult {
    /// The result of `call`.
    pub const fn new(call: CallId, status: ResultStatus, content: Vec<Content>) -> Self {
        Self { call, status, content }
    }

    /// A result of plain text.
    pub fn text(call: CallId, status: ResultStatus, text: impl Into<String>) -> Self {
        Self { call, status, content: vec![Content::Text { text: text.into() }] }
    }

    /// The images, in order.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.content.iter().filter_map(|content| match content {
            Content::Image(image) => Some(image),
            Content::Text { .. } => None,
        })
    }

    /// All texts of the result, joined by line breaks.
    pub fn to_text(&self) -> String {
        let texts = self.content.iter().filter_map(|content| match content {
            Content::Text { text } => Some(text.as_str()),
            Content::Image(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str) -> Image {
        Image { media_type: "image/png".into(), reference: name.into() }
    }

    fn result(content: Vec<Content>) -> ToolResult {
        ToolResult { call: CallId::new("a").unwrap(), status: ResultStatus::Ok, content }
    }

    fn text(text: &str) -> Content {
        Content::Text { text: text.into() }
    }

    /// One part of each kind, whose variable text is `more`.
    fn parts(more: &str) -> Vec<Part> {
        let call = |name: &str, arguments: &str| {
            Part::ToolCall(ToolCall { id: CallId::new("a").unwrap(), name: name.into(), arguments: arguments.into() })
        };
        let thought = |text: &str, signature: &str| Part::Thinking {
            text: text.into(),
            signature: Some(Signature::new("maker", signature)),
        };
        vec![
            Part::text(more),
            Part::Image(image(more)),
            thought(more, "sig"),
            thought("hm", more),
            call(more, "{}"),
            call("look", more),
            Part::ToolResult(result(vec![text(more)])),
            Part::ToolResult(result(vec![text("seen"), Content::Image(image(more))])),
        ]
    }

    #[test]
    fn a_message_weighs_a_byte_more_for_each_byte_in_it_wherever_that_is() {
        let weigh = |part: Part| Message { role: Role::Assistant, parts: vec![part], cut: None }.weight();
        for (short, long) in parts("12345").into_iter().zip(parts("123456789")) {
            assert_eq!(weigh(long.clone()), weigh(short) + 4, "{long:?}");
        }
    }

    #[test]
    fn a_message_weighs_at_least_what_its_parts_take_without_their_text() {
        let empty = |parts: usize| Message { role: Role::User, parts: vec![Part::text(""); parts], cut: None };
        assert_eq!(empty(0).weight(), size_of::<Message>());
        assert_eq!(empty(2).weight(), size_of::<Message>() + 2 * size_of::<Part>());
        let results = |content| Message { role: Role::Tool, parts: vec![Part::ToolResult(result(content))], cut: None };
        let (none, one) = (results(vec![]).weight(), results(vec![text("")]).weight());
        assert_eq!(one, none + size_of::<Content>());
    }

    #[test]
    fn images_and_texts_are_found_among_the_parts_in_order() {
        assert_eq!(
            [text("one"), Content::Image(image("a"))].map(|some| some.as_text().map(str::to_owned)),
            [Some("one".to_owned()), None]
        );
        let found = result(vec![Content::Image(image("a")), text("one"), Content::Image(image("b")), text("two")]);
        assert!(found.images().eq([&image("a"), &image("b")]));
        assert_eq!(found.to_text(), "one\ntwo");
        let parts = vec![Part::Image(image("c")), Part::text("so"), Part::ToolResult(found), Part::Image(image("d"))];
        let message = Message { role: Role::User, parts, cut: None };
        assert!(message.images().eq([&image("c"), &image("d")]), "those of a result are not the message's own");
        assert_eq!(message.text(), "so");
    }

    #[test]
    fn every_result_but_a_success_is_an_error() {
        let failed = [ResultStatus::Error, ResultStatus::Refused, ResultStatus::Cut, ResultStatus::Unknown];
        assert!(failed.into_iter().all(ResultStatus::is_error) && !ResultStatus::Ok.is_error());
    }
}
