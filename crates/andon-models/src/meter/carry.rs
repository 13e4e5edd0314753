//! Whether a model's thinking is read again with the next request.
//!
//! Some providers feed it back while a model works with tools and drop it once it has answered, some always drop it: two
//! switches for each model, learned by which of the two has been nearer to the reported figures.

use serde::{Deserialize, Serialize};

/// Old errors fade by this much with each call.
const MEMORY: f64 = 0.8;

/// The two switches.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Carry {
    after_calls: Switch,
    after_text: Switch,
}

/// Mean errors of both ways.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Switch {
    dropped: f64,
    carried: f64,
    seen: u32,
}

/// What is known about the thinking of an earlier answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Carried {
    /// It is read again.
    pub(crate) again: bool,
    /// This was learned, not assumed.
    pub(crate) learned: bool,
}

impl Carry {
    /// Whether thinking that led to calls, or to a text, is read again. Until something is known: it is not.
    pub(crate) fn carried(&self, after_calls: bool) -> Carried {
        let switch = if after_calls { self.after_calls } else { self.after_text };
        Carried { again: switch.carried < switch.dropped, learned: switch.seen > 0 }
    }

    /// One more call: how far off each way would have been.
    pub(crate) fn learn(&mut self, after_calls: bool, dropped: f64, carried: f64) {
        let switch = if after_calls { &mut self.after_calls } else { &mut self.after_text };
        if dropped.is_finite() && carried.is_finite() {
            switch.dropped = switch.dropped * MEMORY + dropped;
            switch.carried = switch.carried * MEMORY + carried;
            switch.seen = switch.seen.saturating_add(1);
        }
    }

    /// What is read from a store is not trusted.
    pub(crate) fn checked(self) -> Self {
        let good = |switch: Switch| {
            if switch.dropped.is_finite() && switch.carried.is_finite() { switch } else { Switch::default() }
        };
        Self { after_calls: good(self.after_calls), after_text: good(self.after_text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_is_taken_as_dropped_until_the_figures_say_otherwise() {
        let mut carry = Carry::default();
        assert_eq!(carry.carried(true), Carried { again: false, learned: false });
        carry.learn(true, 900.0, 10.0);
        assert_eq!(carry.carried(true), Carried { again: true, learned: true });
        assert_eq!(carry.carried(false), Carried { again: false, learned: false });
    }
}
