//! What was streamed since one event, and the lumps of it that are journaled.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::Seq;
use crate::id::CallId;
use crate::message::Signature;
use crate::usage::Usage;

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

#[cfg(test)]
mod tests {
    use super::*;

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
