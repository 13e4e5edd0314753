//! When a failed model call is retried.

use std::time::Duration;

use crate::model::{ModelError, ModelErrorKind};

/// When a failed model call is retried. Never after any part of the answer was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// How many times a call is made in all; 1 means no retry.
    pub attempts: u32,
    /// The wait before the first retry; it doubles with each one.
    pub first_delay: Duration,
    /// The longest wait that we choose ourselves.
    pub max_delay: Duration,
    /// The longest wait that a provider may ask for. A longer one fails the run at once.
    pub max_retry_after: Duration,
}

andon_core::with!(Retry: attempts: u32, first_delay: Duration, max_delay: Duration, max_retry_after: Duration);

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 4,
            first_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(20),
            max_retry_after: Duration::from_secs(300),
        }
    }
}

impl Retry {
    /// No retry.
    pub const NEVER: Self =
        Self { attempts: 1, first_delay: Duration::ZERO, max_delay: Duration::ZERO, max_retry_after: Duration::ZERO };

    /// How long to wait after this many failed attempts; `None` if another attempt is not worth making. Half of the
    /// wait that we choose is random, so that many callers do not come back together.
    pub(crate) fn delay(&self, failed: u32, error: &ModelError, random: &mut fastrand::Rng) -> Option<Duration> {
        let after = match error.kind {
            ModelErrorKind::Retryable { after } => after,
            ModelErrorKind::Fatal | ModelErrorKind::ContextOverflow => return None,
        };
        if failed >= self.attempts {
            return None;
        }
        if let Some(after) = after {
            return (after <= self.max_retry_after).then_some(after);
        }
        let doubled = self.first_delay.saturating_mul(1 << failed.saturating_sub(1).min(16));
        let whole = doubled.min(self.max_delay);
        Some(whole.mul_f64(0.5 + 0.5 * random.f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_honoured_and_one_that_is_too_long_fails_at_once() {
        let retry = Retry::default();
        let random = &mut fastrand::Rng::with_seed(1);
        let asks = |seconds| ModelError::retry_after(Duration::from_secs(seconds), "429");
        assert_eq!(retry.delay(1, &asks(30), random), Some(Duration::from_secs(30)));
        assert_eq!(retry.delay(1, &asks(301), random), None);
        assert_eq!(retry.delay(4, &asks(1), random), None);
        assert_eq!(retry.delay(1, &ModelError::fatal("401"), random), None);
    }

    #[test]
    fn back_off_doubles_up_to_its_limit() {
        let retry = Retry::default().attempts(100);
        let random = &mut fastrand::Rng::with_seed(1);
        for (failed, whole_ms) in [(1, 500), (2, 1000), (3, 2000), (40, 20_000)] {
            let delay = retry.delay(failed, &ModelError::retryable("503"), random).unwrap();
            let whole = Duration::from_millis(whole_ms);
            assert!(delay >= whole / 2 && delay <= whole, "{failed}: {delay:?}");
        }
    }
}
