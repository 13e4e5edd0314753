//! Instants as plain values. This crate reads no clock.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One instant on two clocks: wall time to show, monotonic time to measure.
///
/// Monotonic time is comparable only within one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stamp {
    /// Wall time.
    pub wall: Wall,
    /// Monotonic time in microseconds since the process's own zero.
    pub mono_us: u64,
}

impl Stamp {
    /// The time from `earlier` to this instant, zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.mono_us.saturating_sub(earlier.mono_us))
    }
}

/// Wall time in microseconds since 1970, written as RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Wall(pub u64);

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = UNIX_EPOCH + Duration::from_micros(self.0);
        humantime::format_rfc3339_micros(time).fmt(f)
    }
}

impl From<SystemTime> for Wall {
    fn from(time: SystemTime) -> Self {
        // A clock set before 1970 shows as 1970: it is a time to show, not to measure.
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }
}

impl Serialize for Wall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Wall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_rfc3339(&text).map(Self::from).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_survives_a_round_trip_through_json() {
        let wall = Wall(1_763_204_400_123_456);
        let json = serde_json::to_string(&wall).unwrap();
        assert_eq!(json, "\"2025-11-15T11:00:00.123456Z\"");
        assert_eq!(serde_json::from_str::<Wall>(&json).unwrap(), wall);
    }

    #[test]
    fn time_is_measured_on_the_monotonic_clock_and_never_negative() {
        let stamp = |wall, mono_us| Stamp { wall: Wall(wall), mono_us };
        assert_eq!(stamp(1, 700).since(stamp(9, 500)), Duration::from_micros(200));
        assert_eq!(stamp(9, 500).since(stamp(1, 700)), Duration::ZERO);
    }
}
