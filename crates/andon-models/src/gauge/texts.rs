//! A call as texts, which is how the meter sees it.

use std::borrow::Cow;

use andon_core::message::Content;
use andon_runtime::{Anchor as Before, Message, Part, Request};

use crate::meter::{Anchor, Asked, Reported, Written};

/// What is visible of an answer.
#[derive(Default)]
pub(super) struct Shown<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) thinking: Cow<'a, str>,
    pub(super) calls: Vec<(&'a str, &'a str)>,
    pub(super) hidden: bool,
}

impl<'a> Shown<'a> {
    pub(super) fn of(parts: &'a [Part]) -> Self {
        let mut shown = Self::default();
        for part in parts {
            match part {
                Part::Text { text } => join(&mut shown.text, text),
                Part::Thinking { text, signature } => {
                    shown.hidden |= text.is_empty() && signature.is_some();
                    join(&mut shown.thinking, text);
                }
                Part::ToolCall(call) => shown.calls.push((&call.name, &call.arguments)),
                Part::Image(_) | Part::ToolResult(_) => {}
            }
        }
        shown
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.text.is_empty() && self.thinking.is_empty() && self.calls.is_empty() && !self.hidden
    }

    pub(super) fn written(self) -> Written<'a> {
        Written { text: self.text, thinking: self.thinking, calls: self.calls, hidden: self.hidden }
    }
}

fn join<'a>(text: &mut Cow<'a, str>, more: &'a str) {
    if text.is_empty() {
        *text = Cow::Borrowed(more);
    } else {
        text.to_mut().push_str(more);
    }
}

/// What a request says, as texts.
pub(super) struct Texts<'a> {
    pub(super) system: Option<&'a str>,
    pub(super) messages: Vec<Cow<'a, str>>,
    pub(super) tools: Vec<Cow<'a, str>>,
    images: usize,
}

impl<'a> Texts<'a> {
    pub(super) fn of(request: &'a Request) -> Self {
        let tool = |spec: &andon_runtime::ToolSpec| {
            let said = serde_json::json!({
                "name": spec.name, "description": spec.description, "parameters": spec.schema,
            });
            Cow::Owned(said.to_string())
        };
        Self {
            system: request.instructions.as_deref(),
            messages: request.history.iter().map(|message| text_of(message)).collect(),
            tools: request.tools.iter().map(|spec| tool(spec)).collect(),
            images: request.history.iter().map(|message| images_in(message)).sum(),
        }
    }

    pub(super) fn asked(&self) -> Asked<'_> {
        Asked { system: self.system, messages: &self.messages, tools: &self.tools, images: self.images }
    }

    /// The call before this one, as the book wants to see it.
    pub(super) fn anchor(&self, request: &Request, before: &Before) -> Option<Anchor> {
        let (asked, _) = self.messages.split_at_checked(before.messages)?;
        let answer = request.history.get(before.messages)?;
        let images = request.history.iter().take(before.messages).map(|message| images_in(message)).sum();
        let asked = Asked { system: self.system, messages: asked, tools: &self.tools, images };
        super::book().anchor(&asked, &Shown::of(&answer.parts).written(), &Reported::of(&before.usage))
    }
}

fn images_in(message: &Message) -> usize {
    let is_image = |content: &&Content| matches!(content, Content::Image(_));
    let parts = message.parts.iter().map(|part| match part {
        Part::Image(_) => 1,
        Part::ToolResult(result) => result.content.iter().filter(is_image).count(),
        Part::Text { .. } | Part::Thinking { .. } | Part::ToolCall(_) => 0,
    });
    parts.sum()
}

/// All words of a message: what is said, called and returned.
fn text_of(message: &Message) -> Cow<'_, str> {
    let words = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(Cow::Borrowed(text.as_str())),
        Part::ToolCall(call) => Some(Cow::Owned(format!("{} {}", call.name, call.arguments))),
        Part::ToolResult(result) => Some(match result.content.as_slice() {
            [Content::Text { text }] => Cow::Borrowed(text.as_str()),
            _ => Cow::Owned(result.to_text()),
        }),
        // Whether a thought is sent back is the provider's affair, and learned by the book.
        Part::Thinking { .. } | Part::Image(_) => None,
    });
    let words: Vec<Cow<'_, str>> = words.collect();
    match <[_; 1]>::try_from(words) {
        // Most messages have one part, and some are long: those are not copied.
        Ok([text]) => text,
        Err(words) => Cow::Owned(words.join("\n")),
    }
}
