//! All that was learned about one model.

use serde::{Deserialize, Serialize};

use super::belief::Sums;
use super::carry::Carry;
use super::window::Window;
use super::{input, output};

/// The version of the format that is written.
const VERSION: u32 = 1;
/// How fast it is forgotten that a model hid its thinking.
const MEMORY: f64 = 0.97;
/// A model is taken to hide its thinking if more than this share of its calls did.
const HIDES: f64 = 0.2;
/// What its name tells weighs as much as so many calls.
const NAMED: f64 = 2.0;

/// All that was learned about one model: what persists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page {
    version: u32,
    pub(crate) calls: u64,
    pub(crate) output: Sums,
    pub(crate) thinking: Sums,
    pub(crate) anchored: Sums,
    pub(crate) cold: Sums,
    pub(crate) past: Pasts,
    pub(crate) carry: Carry,
    /// Calls that told about thinking, and those of them that hid it; both fade.
    told: f64,
    hid: f64,
    /// The call at which the provider seemed to count differently.
    pub(crate) changed: Option<u64>,
}

/// The last predictions, by kind.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Pasts {
    pub(crate) text: Window,
    pub(crate) calls: Window,
    pub(crate) thinking: Window,
    pub(crate) anchored: Window,
    pub(crate) cold: Window,
}

impl Page {
    /// Nothing is known yet.
    pub(crate) fn empty() -> Self {
        Self {
            version: VERSION,
            calls: 0,
            output: Sums::none(output::SIZE),
            thinking: Sums::none(1),
            anchored: Sums::none(input::ANCHORED),
            cold: Sums::none(input::COLD),
            past: Pasts::default(),
            carry: Carry::default(),
            told: 0.0,
            hid: 0.0,
            changed: None,
        }
    }

    /// How many calls it stands on.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// What is read from a store is not trusted: a page of another version, or a broken one, is no page.
    pub(crate) fn checked(mut self) -> Option<Self> {
        let sums = self.output.fits(output::SIZE)
            && self.thinking.fits(1)
            && self.anchored.fits(input::ANCHORED)
            && self.cold.fits(input::COLD);
        let counts = [self.told, self.hid].iter().all(|count| count.is_finite() && *count >= 0.0);
        if self.version != VERSION || !sums || !counts {
            return None;
        }
        let past = self.past;
        self.past = Pasts {
            text: past.text.checked(),
            calls: past.calls.checked(),
            thinking: past.thinking.checked(),
            anchored: past.anchored.checked(),
            cold: past.cold.checked(),
        };
        self.carry = self.carry.checked();
        Some(self)
    }

    /// One more call told whether it thought without showing it.
    pub(crate) fn told(&mut self, hid: bool) {
        self.told = self.told * MEMORY + 1.0;
        self.hid = self.hid * MEMORY + if hid { 1.0 } else { 0.0 };
    }

    /// Whether the model must be taken to think without showing it.
    pub(crate) fn hides(&self, named: bool) -> bool {
        let prior = if named { NAMED } else { 0.0 };
        prior + self.hid > HIDES * (NAMED + self.told)
    }

    /// Its calls have shown that it does not think.
    pub(crate) fn never_thinks(&self, named: bool) -> bool {
        !named && self.told >= 4.0 && self.hid == 0.0 && self.past.thinking.past().is_empty()
    }

    /// Starts again: the provider counts differently, and what was learned about the old way would only be in the way.
    pub(crate) fn start_again(&mut self) {
        let (calls, carry, told, hid) = (self.calls, self.carry, self.told, self.hid);
        *self = Self { calls, carry, told, hid, changed: Some(calls), ..Self::empty() };
    }
}
