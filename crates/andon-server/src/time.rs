//! Limits how far in the future an instant can be: a client or an option may name any duration, but an `Instant` can
//! overflow.

use std::time::Duration;

use tokio::time::Instant;

/// A year, which is long enough to mean never.
pub(crate) const A_YEAR: Duration = Duration::from_secs(365 * 86_400);

/// The instant after this duration, or after a year if that is shorter.
pub(crate) fn after(now: Instant, wait: Duration) -> Instant {
    now + wait.min(A_YEAR)
}
