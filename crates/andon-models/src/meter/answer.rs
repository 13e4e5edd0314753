//! What is visible of an answer, counted: text, tool calls, thinking.
//!
//! A tool call costs more than its JSON (providers wrap it in tokens that nobody sees), and an answer more than its text, once it has
//! come to its end.

use andon_core::message::Part;

use super::count::{Tally, tally, tally_one};
use super::family::Family;

/// What is visible of an answer, counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    text: Tally,
    arguments: Tally,
    calls: f64,
    thinking: Tally,
    is_own: bool,
    /// It came to its end.
    ended: bool,
    /// The stream showed that there is thinking, or did not show it all.
    pub(crate) hides: bool,
}

impl Seen {
    /// Counts an answer, which has `ended` or was cut.
    pub(crate) fn of(family: Family, parts: &[Part], ended: bool) -> Self {
        let vocabulary = family.vocabulary;
        let mut seen = Self { is_own: family.is_own(), ended, ..Self::default() };
        for part in parts {
            match part {
                Part::Text { text } => seen.text = seen.text.plus(tally_one(vocabulary, text)),
                Part::Thinking { text, signature } => {
                    seen.hides |= text.is_empty() && signature.is_some();
                    seen.thinking = seen.thinking.plus(tally_one(vocabulary, text));
                }
                Part::ToolCall(call) => {
                    let words = [&*call.name, &*call.arguments];
                    seen.arguments = seen.arguments.plus(tally(vocabulary, words.into_iter()));
                    seen.calls += 1.0;
                }
                Part::Image(_) => seen.hides = true,
                Part::ToolResult(_) => {}
                #[cfg(not(andon_whole))]
                _ => {}
            }
        }
        seen
    }

    /// Nothing has been shown but perhaps thinking.
    pub(crate) fn is_blank(&self) -> bool {
        self.text.total() == 0.0 && self.calls == 0.0
    }

    pub(crate) fn has_calls(&self) -> bool {
        self.calls > 0.0
    }

    /// The local count of the thinking that was shown.
    pub(crate) fn thinking(&self) -> f64 {
        self.thinking.total()
    }

    /// The same without its thinking.
    pub(crate) fn without_thinking(&self) -> Self {
        Self { thinking: Tally::default(), ..*self }
    }

    /// Its thinking and nothing else.
    pub(crate) fn only_thinking(&self) -> Self {
        Self { thinking: self.thinking, ..Self::default() }
    }

    /// What an answer's cost is made of: see [`prior`].
    pub(crate) fn counts(&self) -> [f64; 6] {
        let end = if self.ended { 1.0 } else { 0.0 };
        [self.text.ascii, self.text.other, self.arguments.total(), self.calls, end, self.thinking()]
    }

    /// The variance that no learning takes away: a token or so, a small part of a text, a few tokens for each call.
    pub(crate) fn noise(&self) -> f64 {
        let (tokens, share) = if self.is_own { (0.6, 0.004) } else { (1.5, 0.02) };
        let apart =
            (0.1 * self.arguments.total()).powi(2) + (3.0 * self.calls).powi(2) + (0.1 * self.thinking()).powi(2);
        let doubt = self.text.doubt + self.arguments.doubt + self.thinking.doubt;
        tokens + (share * self.text.total()).powi(2) + apart + doubt
    }
}

/// Which of the costs is that of thinking.
pub(crate) const THINKING: usize = 5;

/// What is assumed of an answer: one token of ASCII, one of another script, one of a call's JSON, a call, the end, one token of
/// the thinking that is shown.
pub(crate) fn prior(family: Family) -> [(f64, f64); 6] {
    let (token, apart) = family.token;
    let other = if family.is_own() { apart } else { 0.3 };
    [family.token, (token, other), (token, 0.3), (10.0, 15.0), family.answer, (1.0, 0.5)]
}
