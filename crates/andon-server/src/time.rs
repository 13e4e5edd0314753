//! Instants that are far away: a client or an option may name any time, and no clock can be added to for ever.

use std::time::Duration;

use tokio::time::Instant;

/// A year, which is as good as for ever.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(365 * 86_400);

/// The instant that far away, or a year.
pub(crate) fn after(now: Instant, wait: Duration) -> Instant {
    now + wait.min(FOR_EVER)
}
