//! Limits how often one principal may cancel runs that are not in progress.
//!
//! # Invariants
//!
//! 1. A cancel of a run in progress is never counted and never refused. Only a cancel that has to look for its run on
//!    disk, and may be remembered, is.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::access::principal::Who;

/// The sustained rate per second.
const A_SECOND: f64 = 200.0;
/// The burst size.
const BURST: f64 = 1_000.0;
/// How many principals are tracked before those with a full bucket are dropped.
const MANY: usize = 10_000;

struct Bucket {
    left: f64,
    since: Instant,
}

impl Bucket {
    fn fill(&mut self, now: Instant) {
        let rested = now.saturating_duration_since(self.since).as_secs_f64();
        *self = Self { left: (self.left + rested * A_SECOND).min(BURST), since: now };
    }
}

/// A token bucket for each principal.
#[derive(Default)]
pub(crate) struct Limiter {
    buckets: Mutex<HashMap<Who, Bucket>>,
}

impl Limiter {
    /// Takes one token; whether the principal had one left.
    pub(crate) fn take(&self, who: Who, now: Instant) -> bool {
        let mut buckets = self.buckets.lock();
        if buckets.len() >= MANY {
            buckets.retain(|_, bucket| {
                bucket.fill(now);
                bucket.left < BURST
            });
        }
        let bucket = buckets.entry(who).or_insert(Bucket { left: BURST, since: now });
        bucket.fill(now);
        let may = bucket.left >= 1.0;
        if may {
            bucket.left -= 1.0;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn who(name: &str) -> Who {
        Who { tenant: "local".into(), name: name.into(), user: None }
    }

    #[tokio::test(start_paused = true)]
    async fn one_principal_has_a_burst_and_then_a_rate_and_takes_nothing_from_others() {
        let limiter = Limiter::default();
        let many = |name: &str| (0..2_000).filter(|_| limiter.take(who(name), Instant::now())).count();
        assert_eq!(many("ada"), 1_000);
        assert_eq!((many("ada"), many("bob")), (0, 1_000));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(many("ada"), 400);
    }

    #[tokio::test(start_paused = true)]
    async fn full_buckets_are_dropped() {
        let limiter = Limiter::default();
        for n in 0..MANY {
            limiter.take(who(&n.to_string()), Instant::now());
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        limiter.take(who("one more"), Instant::now());
        assert_eq!(limiter.buckets.lock().len(), 1);
    }
}
