//! What was streamed since one event, and the lumps in which it is journaled.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Answerer;
use crate::id::{CallId, Seq};
use crate::message::Signature;
use crate::usage::Usage;

/// Identifies a tool call whose arguments are still streaming.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallHead {
    /// Its index in the answer.
    pub index: usize,
    /// Its id, unique within the session.
    pub id: CallId,
    /// The tool's name.
    pub name: String,
}

/// What bytes of a span belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Kind {
    /// The answer's text.
    Text,
    /// A thought.
    Thinking,
    /// A call's arguments.
    ToolInput(Arc<CallHead>),
    /// What a running tool shows of its work. It is not part of the answer.
    ToolOutput(CallId),
}

/// A position in a span, and what begins or ends there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The byte offset in the span's text.
    pub at: usize,
    /// What begins or ends there.
    pub what: MarkKind,
}

/// What a [`Mark`] marks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// Bytes of this kind begin here.
    Begins(Kind),
    /// The thought is complete.
    ThinkingEnded {
        /// The provider's signature.
        signature: Option<Signature>,
    },
    /// The arguments of the call with this index are complete.
    CallEnded {
        /// The call's index in the answer.
        index: usize,
    },
    /// The provider reported this usage.
    Used(Box<Usage>),
    /// The provider said who answers.
    Answered(Box<Answerer>),
}

/// Everything that was streamed since one event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Span {
    /// The event that it follows.
    pub after: Seq,
    /// All delta payloads, concatenated.
    pub text: String,
    /// What the bytes belong to.
    pub marks: Vec<Mark>,
}

/// A suffix of a span, as it is journaled. It has no seq of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lump {
    /// The version of this form.
    #[serde(deserialize_with = "crate::format_version::known_version")]
    pub v: u16,
    /// The byte offset in the span at which the lump begins.
    pub from: usize,
    /// The bytes and marks. The positions of the marks are those in the whole span.
    pub span: Span,
}

/// Consecutive bytes of one kind in a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch<'a> {
    /// What the bytes belong to.
    pub kind: &'a Kind,
    /// The bytes.
    pub text: &'a str,
}

impl Span {
    /// An empty span that follows the event `after`.
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
        let continues = matches!(self.marks.last(), Some(Mark { what: MarkKind::Begins(last), .. }) if last == kind);
        if !continues {
            self.mark(MarkKind::Begins(kind.clone()));
        }
        self.text.push_str(text);
    }

    /// Adds a mark at the end.
    pub fn mark(&mut self, what: MarkKind) {
        self.marks.push(Mark { at: self.text.len(), what });
    }

    /// The bytes of one kind from `byte` on, or `None` at the end of the span. An offset inside a character is moved back to
    /// that character's start.
    pub fn stretch(&self, byte: usize) -> Option<Stretch<'_>> {
        if byte >= self.text.len() {
            return None;
        }
        let start = self.text.floor_char_boundary(byte);
        let next = self.marks.partition_point(|mark| mark.at <= start);
        let (before, after) = self.marks.split_at_checked(next)?;
        let begins = |mark: &'_ Mark| matches!(mark.what, MarkKind::Begins(_));
        let Some(Mark { what: MarkKind::Begins(kind), .. }) = before.iter().rev().find(|mark| begins(mark)) else {
            return None;
        };
        let other = after.iter().find(|mark| matches!(&mark.what, MarkKind::Begins(next) if next != kind));
        let end = other.map_or(self.text.len(), |mark| mark.at);
        Some(Stretch { kind, text: self.text.get(start..end)? })
    }

    /// The lump that follows the first `bytes` bytes and `marks` marks, or `None` if there is nothing new.
    pub fn lump_from(&self, bytes: usize, marks: usize) -> Option<Lump> {
        let text = self.text.get(bytes..)?;
        let marks = self.marks.get(marks..)?;
        if text.is_empty() && marks.is_empty() {
            return None;
        }
        let span = Span { after: self.after, text: text.to_owned(), marks: marks.to_vec() };
        Some(Lump { v: crate::format_version::FORMAT_VERSION, from: bytes, span })
    }

    /// Appends a journaled lump, or returns `Err` if bytes are missing before it.
    pub fn join(&mut self, lump: &Lump) -> Result<(), LumpGap> {
        if lump.from != self.text.len() {
            return Err(LumpGap { have: self.text.len(), next: lump.from });
        }
        self.text.push_str(&lump.span.text);
        self.marks.extend(lump.span.marks.iter().cloned());
        Ok(())
    }

    /// The usage that the provider has reported in this span, if it has.
    pub fn reported(&self) -> Option<Usage> {
        let reports = self.marks.iter().filter_map(|mark| match &mark.what {
            MarkKind::Used(usage) => Some(**usage),
            MarkKind::Begins(_)
            | MarkKind::ThinkingEnded { .. }
            | MarkKind::CallEnded { .. }
            | MarkKind::Answered(_) => None,
        });
        reports.reduce(Usage::corrected_by)
    }

    /// Who answers, if the provider has said it in this span.
    pub fn answerer(&self) -> Option<&Answerer> {
        self.marks.iter().rev().find_map(|mark| match &mark.what {
            MarkKind::Answered(answerer) => Some(&**answerer),
            MarkKind::Begins(_) | MarkKind::ThinkingEnded { .. } | MarkKind::CallEnded { .. } | MarkKind::Used(_) => {
                None
            }
        })
    }
}

/// A lump before which bytes are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a lump begins at byte {next}, but only {have} bytes come before it")]
#[non_exhaustive]
pub struct LumpGap {
    /// How many bytes there are.
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
        span.mark(MarkKind::ThinkingEnded { signature: None });
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

    #[test]
    fn a_span_is_empty_until_something_is_pushed_or_marked() {
        assert!(Span::new(3).is_empty());
        let (mut pushed, mut marked) = (Span::new(3), Span::new(3));
        pushed.push(&Kind::Text, "");
        assert!(pushed.is_empty(), "no bytes are nothing");
        pushed.push(&Kind::Text, "a");
        marked.mark(MarkKind::CallEnded { index: 0 });
        assert!(!pushed.is_empty() && !marked.is_empty());
    }

    #[test]
    fn a_mark_without_text_is_journaled_and_nothing_new_is_not() {
        let mut span = Span::new(3);
        span.push(&Kind::Text, "a");
        assert_eq!(span.lump_from(1, 1), None);
        span.mark(MarkKind::Used(Box::new(Usage::reported(1, 2))));
        let lump = span.lump_from(1, 1).unwrap();
        assert_eq!((lump.from, lump.span.text.as_str(), lump.span.marks.len()), (1, "", 1));
    }
}
