//! What is visible of an answer, counted: text, tool calls, thinking.
//!
//! A tool call costs more than its JSON (providers wrap it in tokens that nobody sees), and an answer more than its text, once it has
//! come to its end.

use andon_core::message::Part;

use super::count::{Tally, tally, tally_one};
use super::family::{Family, Vocabulary};

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
        let is_own = matches!(vocabulary, Vocabulary::Own(_));
        let mut seen = Self { is_own, ended, ..Self::default() };
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

    /// What an answer's cost is made of: see [`prior`].
    pub(crate) fn counts(&self) -> [f64; 5] {
        let end = if self.ended { 1.0 } else { 0.0 };
        [self.text.ascii, self.text.other, self.arguments.total(), self.calls, end]
    }

    /// The variance that no learning takes away: a token or so, a small part of a text, a few tokens for each call.
    pub(crate) fn noise(&self) -> f64 {
        let (tokens, share) = if self.is_own { (0.6, 0.004) } else { (1.5, 0.02) };
        let calls = (0.1 * self.arguments.total()).powi(2) + (3.0 * self.calls).powi(2);
        tokens + (share * self.text.total()).powi(2) + calls + self.text.doubt + self.arguments.doubt
    }

    /// The same for thinking that was shown.
    pub(crate) fn thinking_noise(&self) -> f64 {
        4.0 + (0.1 * self.thinking()).powi(2) + self.thinking.doubt
    }
}

/// What is assumed of an answer: one token of ASCII, one of another script, one of a call's JSON, a call, the end.
pub(crate) fn prior(family: Family) -> [(f64, f64); 5] {
    let (token, apart) = family.token;
    let other = match family.vocabulary {
        Vocabulary::Own(_) => apart,
        Vocabulary::Mixed => 0.3,
    };
    [family.token, (token, other), (token, 0.3), (10.0, 15.0), family.answer]
}

/// What is assumed of thinking: its tokens, for each token of it that is shown.
pub(crate) const THINKING: [(f64, f64); 1] = [(1.0, 0.5)];
