//! A unique mark for each process that is started, by which its descendants can be found.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(0);
static BEGUN: OnceLock<u64> = OnceLock::new();

/// A mark that no other process of this or any other host has.
pub(crate) fn mark() -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let begun = BEGUN.get_or_init(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0))
    });
    format!("{}.{begun:x}.{number}", std::process::id())
}
