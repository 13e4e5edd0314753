//! A model's answer while it streams: pieces come in, [`Span`]s hold them, and the parts of a
//! [`Message`](crate::message::Message) are assembled from them.
//!
//! A span is everything that was streamed since one event, as one text with marks in it. It is append-only, so a reader
//! is a byte position, what is journaled is a suffix (a [`Lump`]), and an answer cut anywhere is assembled by the same
//! code as a whole one.
//!
//! # Invariants
//!
//! 1. `marks` are ordered by `at`, and every byte of `text` stands behind a mark that says whose it is.
//! 2. Assembling the spans of an answer gives back every text byte in them, in order.
//! 3. A call that did not come to its end is not in a cut answer; a thought that did not has no signature.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::Seq;
use crate::id::CallId;
use crate::message::{Part, Signature, ToolCall};
use crate::outcome::ModelStop;
use crate::usage::Usage;

/// What a model adapter hands out, piece by piece.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Words of the answer.
    Text(String),
    /// Words of a thought.
    Thinking(String),
    /// The thought is whole; some providers sign it.
    ThinkingEnd {
        /// The provider's seal.
        signature: Option<Signature>,
    },
    /// A tool call begins. The first in an answer has index 0, the next 1, and so on.
    Call {
        /// The provider's id for it; empty if it gives none.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// A part of a call's arguments.
    CallInput {
        /// Which call of this answer.
        index: usize,
        /// The next bytes of its JSON.
        json: String,
    },
    /// A call's arguments are whole.
    CallEnd {
        /// Which call of this answer.
        index: usize,
    },
    /// What the provider has reported so far.
    Usage(Box<Usage>),
    /// The model came to its end. The last piece.
    End(ModelStop),
}

/// The beginning of a tool call: which one it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallHead {
    /// Its place among the answer's calls.
    pub index: usize,
    /// Its id, unique within the session.
    pub id: CallId,
    /// The tool's name.
    pub name: String,
}

/// Whose bytes come next in a span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The answer's text.
    Text,
    /// A thought.
    Thinking,
    /// A call's arguments.
    ToolInput(Arc<CallHead>),
    /// What a running tool shows of its work. It is no part of the answer.
    ToolOutput(CallId),
}

/// A place in a span and what begins or ends there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The byte of the span's text.
    pub at: usize,
    /// What happens there.
    pub what: What,
}

/// What a [`Mark`] marks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The bytes from here on are of this kind.
    Begins(Kind),
    /// The thought is whole.
    ThinkingEnded {
        /// The provider's seal.
        signature: Option<Signature>,
    },
    /// The call of this index is whole.
    CallEnded {
        /// Which call of the answer.
        index: usize,
    },
    /// The provider reported this much used.
    Used(Box<Usage>),
}

/// Everything that was streamed since one event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Span {
    /// The event that it follows.
    pub after: Seq,
    /// All delta payloads, one after the other.
    pub text: String,
    /// What the bytes are.
    pub marks: Vec<Mark>,
}

/// A suffix of a span, as it is journaled. It takes no seq of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lump {
    /// The version of this form.
    #[serde(deserialize_with = "crate::known_version")]
    pub v: u16,
    /// The byte of the span where the lump begins.
    pub from: usize,
    /// The bytes and marks; mark positions are those of the whole span.
    pub span: Span,
}

/// Bytes of one kind that stand together in a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch<'a> {
    /// Whose bytes they are.
    pub kind: &'a Kind,
    /// The bytes.
    pub text: &'a str,
}

impl Span {
    /// An empty span behind the event `after`.
    pub fn new(after: Seq) -> Self {
        Self { after, ..Self::default() }
    }

    /// Whether nothing was streamed.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Adds bytes of one kind.
    pub fn push(&mut self, kind: &Kind, text: &str) {
        if text.is_empty() {
            return;
        }
        let goes_on = matches!(self.marks.last(), Some(Mark { what: What::Begins(last), .. }) if last == kind);
        if !goes_on {
            self.mark(What::Begins(kind.clone()));
        }
        self.text.push_str(text);
    }

    /// Adds a mark at the end.
    pub fn mark(&mut self, what: What) {
        self.marks.push(Mark { at: self.text.len(), what });
    }

    /// The bytes of one kind that begin at `byte`, if there are any. A position inside a character is taken back to its
    /// beginning.
    pub fn stretch(&self, byte: usize) -> Option<Stretch<'_>> {
        if byte >= self.text.len() {
            return None;
        }
        let start = self.text.floor_char_boundary(byte);
        let next = self.marks.partition_point(|mark| mark.at <= start);
        let (before, behind) = self.marks.split_at_checked(next)?;
        let begins = |mark: &'_ Mark| matches!(mark.what, What::Begins(_));
        let Some(Mark { what: What::Begins(kind), .. }) = before.iter().rev().find(|mark| begins(mark)) else {
            return None;
        };
        let other = behind.iter().find(|mark| matches!(&mark.what, What::Begins(next) if next != kind));
        let end = other.map_or(self.text.len(), |mark| mark.at);
        Some(Stretch { kind, text: self.text.get(start..end)? })
    }

    /// What stands behind the first `bytes` bytes and `marks` marks, to be journaled; nothing if there is nothing new.
    pub fn lump_from(&self, bytes: usize, marks: usize) -> Option<Lump> {
        let text = self.text.get(bytes..)?;
        let marks = self.marks.get(marks..)?;
        if text.is_empty() && marks.is_empty() {
            return None;
        }
        let span = Span { after: self.after, text: text.to_owned(), marks: marks.to_vec() };
        Some(Lump { v: crate::FORMAT_VERSION, from: bytes, span })
    }

    /// Adds a journaled lump back. `Err` if it does not join on: then bytes are missing between.
    pub fn join(&mut self, lump: &Lump) -> Result<(), LumpGap> {
        if lump.from != self.text.len() {
            return Err(LumpGap { have: self.text.len(), next: lump.from });
        }
        self.text.push_str(&lump.span.text);
        self.marks.extend(lump.span.marks.iter().cloned());
        Ok(())
    }

    /// The provider's latest report in this span, if there is one.
    pub fn reported(&self) -> Option<Usage> {
        let reports = self.marks.iter().filter_map(|mark| match &mark.what {
            What::Used(usage) => Some(**usage),
            What::Begins(_) | What::ThinkingEnded { .. } | What::CallEnded { .. } => None,
        });
        reports.reduce(Usage::corrected_by)
    }
}

/// A lump that does not join on to what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a lump begins at byte {next}, but only {have} bytes stand before it")]
pub struct LumpGap {
    /// Bytes that are there.
    pub have: usize,
    /// Where the lump begins.
    pub next: usize,
}

/// How an answer came to its end, for [`assemble`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerEnd {
    /// The model said that it was done.
    Whole(ModelStop),
    /// It was cut, broke off, or was lost.
    Cut,
}

/// Assembles an answer's parts from its spans.
pub fn assemble<'a>(spans: impl IntoIterator<Item = &'a Span>, end: AnswerEnd) -> Vec<Part> {
    let mut builder = Assembly::default();
    for span in spans {
        builder.add(span);
    }
    builder.finish(end)
}

/// An answer that is being put together.
#[derive(Default)]
struct Assembly {
    parts: Vec<Part>,
    /// For each call: its place in `parts` and whether it is whole.
    calls: Vec<(usize, bool)>,
    /// Whether the next bytes of thought belong to the last part.
    thought_is_open: bool,
}

impl Assembly {
    fn add(&mut self, span: &Span) {
        let mut marks = span.marks.iter().peekable();
        while let Some(mark) = marks.next() {
            let end = marks.peek().map_or(span.text.len(), |next| next.at);
            let text = span.text.get(mark.at..end).unwrap_or_default();
            match &mark.what {
                What::Begins(kind) => self.bytes(kind, text),
                What::ThinkingEnded { signature } => self.end_thought(signature.clone()),
                What::CallEnded { index } => self.end_call(*index),
                What::Used(_) => {}
            }
        }
    }

    fn bytes(&mut self, kind: &Kind, more: &str) {
        match kind {
            Kind::Text => match self.parts.last_mut() {
                Some(Part::Text { text }) => text.push_str(more),
                _ => self.add_part(Part::text(more)),
            },
            Kind::Thinking => match self.parts.last_mut() {
                Some(Part::Thinking { text, .. }) if self.thought_is_open => text.push_str(more),
                _ => self.add_part(Part::Thinking { text: more.to_owned(), signature: None }),
            },
            Kind::ToolInput(head) => self.input(head, more),
            Kind::ToolOutput(_) => return,
        }
        self.thought_is_open = *kind == Kind::Thinking;
    }

    /// Most answers have one part, and answers are kept: no room is taken for more.
    fn add_part(&mut self, part: Part) {
        if self.parts.is_empty() {
            self.parts.reserve_exact(1);
        }
        self.parts.push(part);
    }

    fn input(&mut self, head: &Arc<CallHead>, more: &str) {
        let known = self.calls.get(head.index).and_then(|(place, _)| self.parts.get_mut(*place));
        if let Some(Part::ToolCall(call)) = known {
            call.arguments.push_str(more);
            return;
        }
        self.calls.push((self.parts.len(), false));
        let arguments = more.to_owned();
        self.parts.push(Part::ToolCall(ToolCall { id: head.id.clone(), name: head.name.clone(), arguments }));
    }

    fn end_thought(&mut self, seal: Option<Signature>) {
        match self.parts.last_mut() {
            Some(Part::Thinking { signature, .. }) if self.thought_is_open => *signature = seal,
            // A provider may sign a thought of which it shows nothing: the seal alone is then the thought.
            _ if seal.is_some() => self.parts.push(Part::Thinking { text: String::new(), signature: seal }),
            // No thought is open: the one before keeps its seal.
            _ => {}
        }
        self.thought_is_open = false;
    }

    fn end_call(&mut self, index: usize) {
        if let Some((_, whole)) = self.calls.get_mut(index) {
            *whole = true;
        }
    }

    fn finish(mut self, end: AnswerEnd) -> Vec<Part> {
        let keeps_open_calls = match end {
            AnswerEnd::Whole(ModelStop::EndTurn | ModelStop::ToolUse | ModelStop::StopSequence) => true,
            // The limit or the filter struck in the middle of whatever was not ended.
            AnswerEnd::Whole(ModelStop::MaxTokens | ModelStop::Refused) | AnswerEnd::Cut => false,
        };
        if !keeps_open_calls {
            let whole: Vec<usize> = self.calls.iter().filter(|(_, whole)| *whole).map(|(place, _)| *place).collect();
            let mut places = 0..;
            self.parts.retain(|part| {
                let place = places.next();
                match part {
                    // Some providers end a call that they had to break off: what is no JSON is half a call, too.
                    Part::ToolCall(call) => place.is_some_and(|place| whole.contains(&place)) && call.input().is_ok(),
                    Part::Text { .. } | Part::Image(_) | Part::Thinking { .. } | Part::ToolResult(_) => true,
                }
            });
        }
        self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(index: usize) -> Arc<CallHead> {
        Arc::new(CallHead { index, id: CallId::new(format!("c{index}")).unwrap(), name: "look".into() })
    }

    fn call(index: usize, arguments: &str) -> Part {
        let head = head(index);
        Part::ToolCall(ToolCall { id: head.id.clone(), name: head.name.clone(), arguments: arguments.into() })
    }

    #[test]
    fn text_is_kept_and_a_half_call_is_dropped_when_an_answer_is_cut() {
        let mut span = Span::new(3);
        span.push(&Kind::Text, "Let me ");
        span.push(&Kind::Text, "look.");
        span.mark(What::Begins(Kind::ToolInput(head(0))));
        span.push(&Kind::ToolInput(head(0)), "{\"a\":1}");
        span.mark(What::CallEnded { index: 0 });
        span.push(&Kind::ToolInput(head(1)), "{\"a\"");
        assert_eq!(assemble([&span], AnswerEnd::Cut), vec![Part::text("Let me look."), call(0, "{\"a\":1}")]);
        assert_eq!(
            assemble([&span], AnswerEnd::Whole(ModelStop::ToolUse)),
            vec![Part::text("Let me look."), call(0, "{\"a\":1}"), call(1, "{\"a\"")]
        );
    }

    #[test]
    fn interleaved_arguments_of_two_calls_are_put_back_together() {
        let mut span = Span::new(0);
        span.push(&Kind::ToolInput(head(0)), "{\"x\":");
        span.push(&Kind::ToolInput(head(1)), "{\"y\":");
        span.push(&Kind::ToolInput(head(0)), "1}");
        span.push(&Kind::ToolInput(head(1)), "2}");
        assert_eq!(
            assemble([&span], AnswerEnd::Whole(ModelStop::ToolUse)),
            vec![call(0, "{\"x\":1}"), call(1, "{\"y\":2}")]
        );
    }

    #[test]
    fn a_cut_thought_has_no_signature_and_a_whole_one_has() {
        let mut span = Span::new(0);
        span.push(&Kind::Thinking, "hm");
        let cut = vec![Part::Thinking { text: "hm".into(), signature: None }];
        assert_eq!(assemble([&span], AnswerEnd::Cut), cut);
        span.mark(What::ThinkingEnded { signature: Some(Signature::new("maker", "sig")) });
        span.push(&Kind::Thinking, "more");
        let whole = vec![
            Part::Thinking { text: "hm".into(), signature: Some(Signature::new("maker", "sig")) },
            Part::Thinking { text: "more".into(), signature: None },
        ];
        assert_eq!(assemble([&span], AnswerEnd::Cut), whole);
    }

    #[test]
    fn a_sealed_thought_keeps_its_seal_when_its_end_is_told_again() {
        let mut span = Span::new(0);
        span.push(&Kind::Thinking, "hm");
        span.mark(What::ThinkingEnded { signature: Some(Signature::new("maker", "sig")) });
        span.mark(What::ThinkingEnded { signature: None });
        let sealed = vec![Part::Thinking { text: "hm".into(), signature: Some(Signature::new("maker", "sig")) }];
        assert_eq!(assemble([&span], AnswerEnd::Cut), sealed);
    }

    #[test]
    fn lumps_of_a_span_join_to_the_same_span_wherever_it_is_divided() {
        let mut span = Span::new(7);
        span.push(&Kind::Thinking, "så");
        span.mark(What::ThinkingEnded { signature: None });
        span.push(&Kind::Text, "gör vi");
        for bytes in (0..=span.text.len()).filter(|byte| span.text.is_char_boundary(*byte)) {
            let marks = span.marks.iter().filter(|mark| mark.at < bytes).count();
            let mut first = span.clone();
            first.text.truncate(bytes);
            first.marks.truncate(marks);
            let mut joined = Span::new(7);
            for lump in [first.lump_from(0, 0), span.lump_from(bytes, marks)].into_iter().flatten() {
                joined.join(&lump).unwrap();
            }
            assert_eq!(joined, span);
        }
    }

    #[test]
    fn a_reader_gets_one_stretch_a_kind_from_any_byte() {
        let mut span = Span::new(0);
        span.push(&Kind::Thinking, "ab");
        span.push(&Kind::Text, "çd");
        assert_eq!(span.stretch(0), Some(Stretch { kind: &Kind::Thinking, text: "ab" }));
        assert_eq!(span.stretch(1), Some(Stretch { kind: &Kind::Thinking, text: "b" }));
        assert_eq!(span.stretch(2), Some(Stretch { kind: &Kind::Text, text: "çd" }));
        assert_eq!(span.stretch(3), Some(Stretch { kind: &Kind::Text, text: "çd" }), "inside ç");
        assert_eq!(span.stretch(4), Some(Stretch { kind: &Kind::Text, text: "d" }));
        assert_eq!(span.stretch(5), None);
    }
}
