//! What a run may use: a plain value that is recorded with the run, so that a run that outlives its process keeps it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a run may use. Reaching a limit pulls the run's cord, and the note of that request names the limit.
///
/// ```
/// # use std::time::Duration;
/// # use andon_core::limits::Limits;
/// let agents = Limits::new().deadline(Duration::from_secs(60)).turns(10);
/// // A prompt may have limits of its own. Of each limit the smaller counts.
/// let prompts = agents.tightened_by(Limits::new().turns(20).tokens(5_000));
/// assert_eq!(prompts, Limits::new().deadline(Duration::from_secs(60)).turns(10).tokens(5_000));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// How long the run may take in all, waiting for its session and for people included.
    #[serde(rename = "deadline_ms", default, skip_serializing_if = "Option::is_none", with = "millis")]
    pub deadline: Option<Duration>,
    /// How long the model may be silent.
    #[serde(rename = "silence_ms", default, skip_serializing_if = "Option::is_none", with = "millis")]
    pub silence: Option<Duration>,
    /// How many answers the model may give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// How many tokens may be read and written in all. Only tokens that are certainly used count: those that the provider has
    /// reported, and of an answer that it reports only at its end, those that it certainly has by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

crate::with!(Limits: deadline: into Option<Duration>, silence: into Option<Duration>, turns: into Option<u32>, tokens: into Option<u64>);

impl Limits {
    /// No limit yet: `Limits::new().turns(3)` has one.
    pub const fn new() -> Self {
        Self::NONE
    }

    /// No limit at all.
    pub const NONE: Self = Self { deadline: None, silence: None, turns: None, tokens: None };

    /// Whether there is no limit.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// These limits and others together: of each limit the smaller.
    #[must_use]
    pub fn tightened_by(self, other: Self) -> Self {
        Self {
            deadline: smaller(self.deadline, other.deadline),
            silence: smaller(self.silence, other.silence),
            turns: smaller(self.turns, other.turns),
            tokens: smaller(self.tokens, other.tokens),
        }
    }

    /// The name of a limit that is zero, and so would stop every run before it began.
    pub fn zero(&self) -> Option<&'static str> {
        if self.deadline.is_some_and(|limit| limit.is_zero()) {
            Some("deadline")
        } else if self.silence.is_some_and(|limit| limit.is_zero()) {
            Some("silence")
        } else if self.turns == Some(0) {
            Some("turns")
        } else if self.tokens == Some(0) {
            Some("tokens")
        } else {
            None
        }
    }
}

/// The smaller of two limits; `None` is no limit.
fn smaller<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// A duration as whole milliseconds, rounded up, so that a limit never becomes zero.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = |time: &Duration| u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        time.as_ref().map(millis).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_survive_a_round_trip_through_json_and_are_never_rounded_to_zero() {
        assert_eq!(serde_json::to_string(&Limits::NONE).unwrap(), "{}");
        let limits = Limits::new().deadline(Duration::from_micros(1_200)).turns(3);
        let json = serde_json::to_string(&limits).unwrap();
        assert_eq!(json, r#"{"deadline_ms":2,"turns":3}"#);
        let read: Limits = serde_json::from_str(&json).unwrap();
        assert_eq!(read, Limits { deadline: Some(Duration::from_millis(2)), ..limits });
    }

    #[test]
    fn a_limit_of_zero_is_named() {
        let limits = Limits {
            deadline: Some(Duration::from_micros(1)),
            silence: Some(Duration::from_micros(1)),
            turns: Some(1),
            tokens: Some(1),
        };
        assert_eq!((limits.zero(), Limits::NONE.zero()), (None, None));
        assert_eq!(Limits { deadline: Some(Duration::ZERO), ..limits }.zero(), Some("deadline"));
        assert_eq!(Limits { silence: Some(Duration::ZERO), ..limits }.zero(), Some("silence"));
        assert_eq!(Limits { turns: Some(0), ..limits }.zero(), Some("turns"));
        assert_eq!(Limits { tokens: Some(0), ..limits }.zero(), Some("tokens"));
    }

    #[test]
    fn of_two_limits_the_smaller_counts_and_no_limit_is_the_largest() {
        let secs = Duration::from_secs;
        let one = Limits { deadline: Some(secs(5)), silence: Some(secs(2)), turns: Some(3), tokens: None };
        let other = Limits { deadline: Some(secs(4)), silence: Some(secs(9)), turns: None, tokens: Some(7) };
        let both = Limits { deadline: Some(secs(4)), silence: Some(secs(2)), turns: Some(3), tokens: Some(7) };
        assert_eq!((one.tightened_by(other), other.tightened_by(one)), (both, both));
        assert_eq!((one.tightened_by(Limits::NONE), Limits::NONE.tightened_by(one)), (one, one));
        let zero = Limits::new().turns(0);
        assert_eq!(one.tightened_by(zero).zero(), Some("turns"), "a limit of zero is an error, not no limit");
    }

    #[test]
    fn a_run_has_no_limits_only_if_none_is_set() {
        assert!(Limits::NONE.is_none());
        assert!(!Limits::new().tokens(1).is_none());
    }
}
