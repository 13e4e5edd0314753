//! Where the time comes from.

use std::time::SystemTime;

use andon_core::time::{Stamp, Wall};
use tokio::time::Instant;

/// Tells the time. Waiting is tokio's business, so that tests can pause it.
pub trait Clock: Send + Sync + 'static {
    /// This instant, on both clocks.
    fn now(&self) -> Stamp;
}

/// The system's clocks: wall time from the system, monotonic time from tokio, which a test can pause.
#[derive(Debug)]
pub struct SystemClock {
    zero: Instant,
}

impl SystemClock {
    /// A clock whose monotonic zero is now.
    pub fn new() -> Self {
        Self { zero: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Stamp {
        Stamp { wall: Wall::from(SystemTime::now()), mono_us: micros_since(self.zero) }
    }
}

/// A clock for tests: wall time begins at a fixed instant and follows tokio's clock, paused or not.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub struct TestClock {
    zero: Instant,
    began: u64,
}

#[cfg(feature = "testing")]
impl TestClock {
    /// 2026-01-01T00:00:00Z, in microseconds since 1970.
    const BEGINNING: u64 = 1_767_225_600_000_000;

    /// A clock that begins now.
    pub fn new() -> Self {
        Self { zero: Instant::now(), began: Self::BEGINNING }
    }

    /// A clock of a later process: its wall time begins a day after the first one's.
    pub fn a_day_later() -> Self {
        Self::days_later(1)
    }

    /// The same, this many days later.
    pub fn days_later(days: u64) -> Self {
        Self { began: Self::BEGINNING + days * 86_400_000_000, ..Self::new() }
    }
}

#[cfg(feature = "testing")]
impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "testing")]
impl Clock for TestClock {
    fn now(&self) -> Stamp {
        let mono_us = micros_since(self.zero);
        Stamp { wall: Wall(self.began + mono_us), mono_us }
    }
}

fn micros_since(zero: Instant) -> u64 {
    // `u64` holds 584,000 years.
    u64::try_from(zero.elapsed().as_micros()).unwrap_or(u64::MAX)
}
