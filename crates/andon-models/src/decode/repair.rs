//! Half characters and bytes that are not UTF-8 in a frame.
//!
//! JSON writes a character beyond the first 65,536 as two escapes. A server that cuts its text between them sends only one, which
//! is not valid text. The character is lost; the rest of the answer need not be.
//!
//! # Invariants
//!
//! 1. What is lost is marked until it is known where it belongs.
//! 2. In text it becomes the replacement character.
//! 3. In the arguments of a call it is written as the half that came. So the arguments are not JSON, and no tool is called with
//!    arguments that the model did not write; unless the other half comes next, which makes them what the model wrote.

use std::borrow::Cow;
use std::fmt::Write as _;

use memchr::{memchr, memmem};

/// Marks lost data: a code point that no text uses. The code point after it says what was lost.
const LOST: char = '\u{10fffe}';

/// What follows the mark: for bytes that are not UTF-8, and for the first of the 2,048 halves of a character.
const BYTES: char = '\u{fffd}';
const FIRST_HALF: u32 = 0x0010_f800;
const HALVES: std::ops::RangeInclusive<u32> = 0xd800..=0xdfff;

/// The beginning of an escape with four digits, and its length.
const ESCAPE: &[u8] = b"\\u";
const LENGTH: usize = 6;

/// The data, with each escape that is half a character replaced by a mark.
pub(super) fn surrogates(data: &str) -> Cow<'_, str> {
    let bytes = data.as_bytes();
    let has = |begin: &[u8]| memmem::find(bytes, begin).is_some();
    if !has(b"\\ud") && !has(b"\\uD") {
        return Cow::Borrowed(data);
    }
    let (mut repaired, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        at += found;
        at += match (code(bytes, at), code(bytes, at + LENGTH)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 2 * LENGTH,
            (Some(half), _) if HALVES.contains(&half) => {
                repaired.push_str(data.get(copied..at).unwrap_or_default());
                repaired.push(LOST);
                repaired.extend(char::from_u32(half - HALVES.start() + FIRST_HALF));
                copied = at + LENGTH;
                LENGTH
            }
            // Another escape: what it escapes does not begin one.
            _ => 2,
        };
    }
    if copied == 0 {
        return Cow::Borrowed(data);
    }
    repaired.push_str(data.get(copied..).unwrap_or_default());
    Cow::Owned(repaired)
}

/// Adds bytes to a text, with a mark in place of those that are not UTF-8.
pub(crate) fn add_bytes(text: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.extend([LOST, BYTES]);
        }
    }
}

/// The text with replacement characters in place of the marks (invariant 2).
pub(crate) fn as_words<'a>(text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
    rewritten(text.into(), |out, _| out.push('\u{fffd}'))
}

/// Arguments with the halves that came in place of the marks (invariant 3).
pub(super) fn as_arguments<'a>(text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
    rewritten(text.into(), |out, half| {
        let _ = match half {
            // Writing into a text does not fail.
            Some(half) => write!(out, "\\u{half:04x}"),
            // Two second halves: a first half before them can complete only one, so the arguments stay invalid JSON.
            None => write!(out, "\\udfff\\udfff"),
        };
    })
}

/// The text with each mark replaced. `put` receives the half of a character that was there, if it was one.
fn rewritten(text: Cow<'_, str>, put: impl Fn(&mut String, Option<u32>)) -> Cow<'_, str> {
    // Hardly any text has a character of the last plane.
    if memchr(0xf4, text.as_bytes()).is_none() || !text.contains(LOST) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match rest.peek().filter(|_| c == LOST).map(|next| u32::from(*next)) {
            Some(next) if next == u32::from(BYTES) => {
                put(&mut out, None);
                rest.next();
            }
            Some(next) if next >= FIRST_HALF => {
                put(&mut out, Some(next - FIRST_HALF + HALVES.start()));
                rest.next();
            }
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The number of the escape that begins here, if one does.
fn code(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + LENGTH)?.strip_prefix(ESCAPE)?;
    digits.iter().try_fold(0, |code, digit| Some(code * 16 + char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_is_marked_and_whole_ones_are_left_alone() {
        for whole in
            [r#""plain""#, r#""\ud83d\ude00""#, r#""\\ud83d""#, r#""\u00e9\n""#, r#""\ud8"#, r#""\uD83D\uDE00\"""#]
        {
            assert!(matches!(surrogates(whole), Cow::Borrowed(text) if text == whole), "{whole}");
        }
        let words = |data: &str| as_words(surrogates(data)).into_owned();
        assert_eq!(words(r#""a\ud83d""#), "\"a\u{fffd}\"");
        assert_eq!(words(r#""\ude00 \ud83d\ud83d\ude00\uD83Dx""#), "\"\u{fffd} \u{fffd}\\ud83d\\ude00\u{fffd}x\"");
        assert_eq!(words(r#""\\\ud83d\n""#), "\"\\\\\u{fffd}\\n\"");
    }

    #[test]
    fn arguments_keep_the_halves_that_came() {
        for sent in [r#"{"a":"\ud800"}"#, r#"["\udfff\udfff \udc00"]"#, r#"{"a":"\ud83d\ude00"}"#] {
            assert_eq!(as_arguments(surrogates(sent)), sent);
        }
        let mut torn = String::new();
        add_bytes(&mut torn, b"{\"a\":\"\xff\"}");
        assert_eq!(as_words(torn.as_str()), "{\"a\":\"\u{fffd}\"}");
        assert!(serde_json::from_str::<serde_json::Value>(&as_arguments(torn)).is_err());
    }

    #[test]
    fn text_that_only_looks_like_a_mark_is_left_alone() {
        for text in ["\u{10fffe}", "\u{10fffe}a", "\u{10f800}", "\u{f4}\u{10ffff}"] {
            assert_eq!((as_words(text), as_arguments(text)), (text.into(), text.into()));
        }
    }
}
