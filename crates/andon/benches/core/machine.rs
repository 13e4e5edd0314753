//! What the machine says about this process.

use std::time::{Duration, Instant};

/// Real time.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// CPU time of all threads so far.
pub(crate) fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may contain anything: the 12th and 13th fields are user and system time in ticks of 10 ms.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

/// Resident memory, in bytes.
pub(crate) fn memory() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    pages * 4096
}

/// The median of several rounds.
pub(crate) fn median(rounds: usize, mut measure: impl FnMut() -> f64) -> f64 {
    let mut figures: Vec<f64> = (0..rounds).map(|_| measure()).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(rounds / 2).copied().unwrap_or(f64::NAN)
}

/// The value below which this share of them lies.
pub(crate) fn quantile(values: &mut [Duration], share: f64) -> Duration {
    values.sort();
    let place = ((values.len() as f64 - 1.0) * share).round() as usize;
    values.get(place).copied().unwrap_or_default()
}
