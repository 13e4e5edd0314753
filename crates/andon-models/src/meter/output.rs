//! What an answer cost, from what is visible of it.
//!
//! The count of its text by class, the count of its tool calls' JSON, a constant for each call (providers wrap calls in
//! tokens that nobody sees), one for an answer with calls, and one for an answer with text.

use super::Written;
use super::belief::Belief;
use super::count::{CLASSES, Tally, tally, tally_one};
use super::family::{Family, Vocabulary};

/// How many coefficients there are.
pub(crate) const SIZE: usize = CLASSES + 4;

/// What is visible of an answer, counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    text: Tally,
    arguments: Tally,
    calls: usize,
    thinking: Tally,
    /// Parts are counted that are not shown.
    pub(crate) hidden: bool,
}

impl Seen {
    /// Counts an answer.
    pub(crate) fn of(family: Family, written: &Written<'_>) -> Self {
        let calls = written.calls.iter().flat_map(|(name, arguments)| [*name, *arguments]);
        Self {
            text: tally_one(family.vocabulary, &written.text),
            arguments: tally(family.vocabulary, calls),
            calls: written.calls.len(),
            thinking: tally_one(family.vocabulary, &written.thinking),
            hidden: written.hidden,
        }
    }

    /// Nothing has been shown but perhaps thinking.
    pub(crate) fn blank(&self) -> bool {
        self.text.total() == 0.0 && self.calls == 0
    }

    /// Tools were called.
    pub(crate) fn calls(&self) -> bool {
        self.calls > 0
    }

    /// The local count of the thinking that was shown.
    pub(crate) fn thinking(&self) -> f64 {
        self.thinking.total()
    }

    /// The inputs of the regression.
    pub(crate) fn inputs(&self) -> Vec<f64> {
        let flag = |flag: bool| if flag { 1.0 } else { 0.0 };
        let mut inputs = self.text.classes.to_vec();
        inputs.extend([self.arguments.total(), self.calls as f64, flag(self.text.total() > 0.0), flag(self.calls())]);
        inputs
    }

    /// The variance that no calibration takes away: a token or so, a hundredth, and a few tokens for each call.
    pub(crate) fn noise(&self) -> f64 {
        let tokens = self.text.total() + self.arguments.total();
        1.0 + (0.01 * tokens).powi(2) + (3.0 * self.calls as f64).powi(2) + self.text.doubt + self.arguments.doubt
    }

    /// The same for the thinking, of which often only a summary is shown.
    pub(crate) fn thinking_noise(&self) -> f64 {
        4.0 + (0.2 * self.thinking()).powi(2) + self.thinking.doubt
    }
}

/// What is believed about a family's answers before any was seen.
pub(crate) fn prior(family: Family) -> Belief {
    // With the right vocabulary a token is a token. Without one, those who do not publish theirs tend to need more.
    let (slope, apart, together) = match family.vocabulary {
        Vocabulary::Own(_) => (1.0, 0.005, 0.01),
        Vocabulary::Mixed => (1.0, 0.05, 0.1),
    };
    let mut coefficients = vec![(slope, apart); CLASSES];
    coefficients.extend([(1.0, 0.3), (10.0, 15.0), (0.0, 1.5), (0.0, 15.0)]);
    Belief::prior(&coefficients).together(CLASSES, together)
}

/// What is believed about thinking: its tokens for each token of it that is shown.
pub(crate) fn thinking_prior() -> Belief {
    Belief::prior(&[(1.0, 0.5)])
}
