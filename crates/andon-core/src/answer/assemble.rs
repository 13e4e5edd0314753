//! Assembling an answer from its spans.

use std::sync::Arc;

use super::{CallHead, Kind, MarkKind, Span};
use crate::ending::ModelStop;
use crate::message::{Part, Signature, ToolCall};

/// How an answer ended.
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

/// An answer that is being assembled.
#[derive(Default)]
struct Assembly {
    parts: Vec<Part>,
    /// For each call: its index in `parts`, and whether its arguments are complete.
    calls: Vec<(usize, bool)>,
    /// Whether the last part is a thought to which more text may be added.
    thought_is_open: bool,
}

impl Assembly {
    fn add(&mut self, span: &Span) {
        let mut marks = span.marks.iter().peekable();
        while let Some(mark) = marks.next() {
            let end = marks.peek().map_or(span.text.len(), |next| next.at);
            let text = span.text.get(mark.at..end).unwrap_or_default();
            match &mark.what {
                MarkKind::Begins(kind) => self.bytes(kind, text),
                MarkKind::ThinkingEnded { signature } => self.end_thought(signature.clone()),
                MarkKind::CallEnded { index } => self.end_call(*index),
                MarkKind::Used(_) | MarkKind::Answered(_) => {}
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

    /// Most answers have one part and stay in memory for long, so no capacity is reserved for more.
    fn add_part(&mut self, part: Part) {
        if self.parts.is_empty() {
            self.parts.reserve_exact(1);
        }
        self.parts.push(part);
    }

    fn input(&mut self, head: &Arc<CallHead>, more: &str) {
        let known = self.calls.get(head.index).and_then(|(index, _)| self.parts.get_mut(*index));
        if let Some(Part::ToolCall(call)) = known {
            call.arguments.push_str(more);
            return;
        }
        self.calls.push((self.parts.len(), false));
        let arguments = more.to_owned();
        self.parts.push(Part::ToolCall(ToolCall { id: head.id.clone(), name: head.name.clone(), arguments }));
    }

    fn end_thought(&mut self, signed: Option<Signature>) {
        match self.parts.last_mut() {
            Some(Part::Thinking { signature, .. }) if self.thought_is_open => *signature = signed,
            // A provider may sign a thought that it does not show. Then the signature is all there is of it.
            _ if signed.is_some() => self.parts.push(Part::Thinking { text: String::new(), signature: signed }),
            // No thought is open, and the one before keeps its signature.
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
            // The limit or the filter struck in the middle of whatever had not ended.
            AnswerEnd::Whole(ModelStop::MaxTokens | ModelStop::Refused) | AnswerEnd::Cut => false,
        };
        if !keeps_open_calls {
            let whole: Vec<usize> = self.calls.iter().filter(|(_, whole)| *whole).map(|(index, _)| *index).collect();
            let mut indexes = 0..;
            self.parts.retain(|part| {
                let index = indexes.next();
                match part {
                    // Some providers end a call even if they broke it off: arguments that are not JSON are half a call, too.
                    Part::ToolCall(call) => index.is_some_and(|index| whole.contains(&index)) && call.input().is_ok(),
                    Part::Text { .. } | Part::Image(_) | Part::Thinking { .. } | Part::ToolResult(_) => true,
                }
            });
        }
        self.parts
    }
}

/// All that was written of an answer that may not have come to its end, an incomplete tool call included: it is billed, although it is
/// not kept.
pub fn written<'a>(spans: impl IntoIterator<Item = &'a Span>) -> Vec<Part> {
    assemble(spans, AnswerEnd::Whole(ModelStop::ToolUse))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::CallId;

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
        span.mark(MarkKind::Begins(Kind::ToolInput(head(0))));
        span.push(&Kind::ToolInput(head(0)), "{\"a\":1}");
        span.mark(MarkKind::CallEnded { index: 0 });
        span.push(&Kind::ToolInput(head(1)), "{\"a\"");
        assert_eq!(assemble([&span], AnswerEnd::Cut), vec![Part::text("Let me look."), call(0, "{\"a\":1}")]);
        let all = vec![Part::text("Let me look."), call(0, "{\"a\":1}"), call(1, "{\"a\"")];
        assert_eq!(assemble([&span], AnswerEnd::Whole(ModelStop::ToolUse)), all);
        assert_eq!(written([&span]), all, "half a call was written, too");
    }

    #[test]
    fn interleaved_arguments_of_two_calls_are_assembled_apart() {
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
        span.mark(MarkKind::ThinkingEnded { signature: Some(Signature::new("maker", "sig")) });
        span.push(&Kind::Thinking, "more");
        let whole = vec![
            Part::Thinking { text: "hm".into(), signature: Some(Signature::new("maker", "sig")) },
            Part::Thinking { text: "more".into(), signature: None },
        ];
        assert_eq!(assemble([&span], AnswerEnd::Cut), whole);
    }

    #[test]
    fn a_signed_thought_keeps_its_signature_when_its_end_is_reported_again() {
        let mut span = Span::new(0);
        span.push(&Kind::Thinking, "hm");
        span.mark(MarkKind::ThinkingEnded { signature: Some(Signature::new("maker", "sig")) });
        span.mark(MarkKind::ThinkingEnded { signature: None });
        let signed = vec![Part::Thinking { text: "hm".into(), signature: Some(Signature::new("maker", "sig")) }];
        assert_eq!(assemble([&span], AnswerEnd::Cut), signed);
    }

    #[test]
    fn a_usage_report_or_an_event_in_the_middle_of_a_text_or_a_thought_does_not_divide_it() {
        for (kind, whole) in [
            (Kind::Text, Part::text("one two three")),
            (Kind::Thinking, Part::Thinking { text: "one two three".into(), signature: None }),
        ] {
            let (mut before, mut after) = (Span::new(3), Span::new(4));
            before.push(&kind, "one ");
            before.mark(MarkKind::Used(Box::default()));
            before.push(&kind, "two ");
            after.push(&kind, "three");
            assert_eq!(assemble([&before, &after], AnswerEnd::Cut), vec![whole]);
        }
    }

    #[test]
    fn a_signed_thought_that_is_not_shown_is_kept_as_its_signature_alone() {
        let mut span = Span::new(0);
        let signature = || Some(Signature::new("maker", "sig"));
        span.mark(MarkKind::ThinkingEnded { signature: signature() });
        span.push(&Kind::Text, "So.");
        span.mark(MarkKind::ThinkingEnded { signature: None });
        let parts = vec![Part::Thinking { text: String::new(), signature: signature() }, Part::text("So.")];
        assert_eq!(assemble([&span], AnswerEnd::Whole(ModelStop::EndTurn)), parts);
    }

    #[test]
    fn a_call_that_the_token_limit_broke_off_is_dropped_even_if_the_provider_ended_it() {
        let mut span = Span::new(0);
        span.push(&Kind::ToolInput(head(0)), "{\"a\":1}");
        span.mark(MarkKind::CallEnded { index: 0 });
        span.push(&Kind::ToolInput(head(1)), "{\"a\"");
        span.mark(MarkKind::CallEnded { index: 1 });
        assert_eq!(assemble([&span], AnswerEnd::Whole(ModelStop::MaxTokens)), vec![call(0, "{\"a\":1}")]);
    }
}
