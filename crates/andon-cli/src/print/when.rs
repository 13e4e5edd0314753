//! Times for people.

use std::time::SystemTime;

use andon_runtime::core::time::Wall;

/// A time in UTC, such as `2026-11-15 14:03:22`.
pub(crate) fn utc(wall: Wall) -> String {
    let text = wall.to_string();
    text.get(..19).unwrap_or(&text).replace('T', " ")
}

/// The current time.
pub(crate) fn now() -> Wall {
    Wall::from(SystemTime::now())
}

/// How long ago a time was, or its date if that is long ago.
pub(crate) fn ago(wall: Wall) -> String {
    before(wall, now())
}

fn before(wall: Wall, now: Wall) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    // After a clock was set back, the past can look like the future: show it as now.
    let seconds = now.0.saturating_sub(wall.0) / 1_000_000;
    match seconds {
        0..2 => "just now".to_owned(),
        2..MINUTE => format!("{seconds} s ago"),
        MINUTE..HOUR => format!("{} min ago", seconds / MINUTE),
        HOUR..DAY => format!("{} h ago", seconds / HOUR),
        _ if seconds < 2 * DAY => "yesterday".to_owned(),
        _ if seconds < 14 * DAY => format!("{} days ago", seconds / DAY),
        _ => utc(wall).get(..10).unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_people_say_them() {
        let now = Wall(1_763_204_400_000_000);
        let told = [0, 30, 150, 7_300, 100_000, 300_000, 3_000_000, u64::MAX].map(|seconds: u64| {
            let past = now.0.saturating_sub(seconds.saturating_mul(1_000_000));
            before(Wall(if seconds == u64::MAX { now.0 + 1 } else { past }), now)
        });
        let expected =
            ["just now", "30 s ago", "2 min ago", "2 h ago", "yesterday", "3 days ago", "2025-10-11", "just now"];
        assert_eq!(told, expected);
        assert_eq!(utc(now), "2025-11-15 11:00:00");
    }
}
