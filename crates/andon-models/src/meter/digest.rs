//! A hash of texts by which a conversation is known again, at a bounded cost.
//!
//! What it does not see is a text that was changed far from its edges and kept its length, and one of a long history that
//! is not among the samples. Neither is worth reading megabytes at every call.
//!
//! # Invariants
//!
//! 1. At most [`TEXTS`] texts are looked at, and at most `2 * EDGE` bytes of each.
//! 2. Stored hashes stay valid: it is the same on every machine and in every version.

use std::borrow::Cow;

use super::work;

/// The most texts that are looked at: the first and the last, and some in between.
pub(crate) const TEXTS: usize = 64;
/// Of a long text the length, so many bytes of its beginning, and as many of its end tell enough.
const EDGE: usize = 512;

/// A hash of texts.
pub(crate) fn digest(texts: &[Cow<'_, str>]) -> u64 {
    let count = hash(FNV, &(texts.len() as u64).to_le_bytes());
    places(texts.len()).filter_map(|place| texts.get(place)).fold(count, |state, text| text_hash(state, text))
}

/// Which of so many texts are looked at.
fn places(count: usize) -> impl Iterator<Item = usize> {
    let quarter = TEXTS / 4;
    let step = if count <= TEXTS { 1 } else { (count - 2 * quarter).div_ceil(2 * quarter) };
    let end = if count <= TEXTS { count } else { quarter };
    let between = (quarter..count.saturating_sub(quarter)).step_by(step).take(2 * quarter);
    let last = count.saturating_sub(quarter)..count;
    (0..end).chain(between.chain(last).filter(move |_| count > TEXTS))
}

fn text_hash(state: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let start = bytes.get(..EDGE).unwrap_or(bytes);
    let end = bytes.get(bytes.len().saturating_sub(EDGE).max(start.len())..).unwrap_or_default();
    hash(hash(hash(state, &(bytes.len() as u64).to_le_bytes()), start), end)
}

const FNV: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a.
fn hash(state: u64, bytes: &[u8]) -> u64 {
    work::done(bytes.len());
    bytes.iter().fold(state, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(count: usize) -> Vec<Cow<'static, str>> {
        (0..count).map(|number| Cow::Owned(format!("message {number}"))).collect()
    }

    #[test]
    fn of_few_texts_each_counts() {
        for count in [1, 2, 63, 64] {
            for changed in 0..count {
                let mut other = texts(count);
                other[changed] = Cow::Borrowed("something else");
                assert_ne!(digest(&texts(count)), digest(&other), "{changed} of {count}");
            }
        }
    }

    #[test]
    fn of_many_the_number_the_first_and_the_last_count() {
        let many = texts(10_000);
        assert_ne!(digest(&many), digest(&many[..9_999]));
        for changed in [0, 9_990, 9_999] {
            let mut other = many.clone();
            other[changed] = Cow::Borrowed("something else");
            assert_ne!(digest(&many), digest(&other), "{changed}");
        }
    }

    #[test]
    fn no_more_texts_are_looked_at_than_promised_and_none_twice() {
        for count in (0..200).chain([1_000, 99_999]) {
            let mut seen: Vec<usize> = places(count).collect();
            assert_eq!(seen.len(), count.min(TEXTS).min(seen.len()), "{count}");
            assert!(seen.len() >= count.min(TEXTS / 2) && seen.iter().all(|place| *place < count), "{count}");
            let all = seen.len();
            seen.dedup();
            assert_eq!(seen.len(), all, "{count}");
        }
    }
}
