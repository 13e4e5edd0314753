//! Half a character in a frame.
//!
//! JSON writes a character beyond the first 65,536 as two escapes. A server that cuts its text between them sends one
//! alone, which is no text. The character is lost; the rest of the answer need not be.

use std::borrow::Cow;

use memchr::{memchr, memmem};

/// How an escape of four digits begins, and how long it is.
const ESCAPE: &[u8] = b"\\u";
const LENGTH: usize = 6;

/// The data, with each escape that is half a character replaced by the sign for one that is lost.
pub(super) fn surrogates(data: &str) -> Cow<'_, str> {
    let bytes = data.as_bytes();
    let has = |begin: &[u8]| memmem::find(bytes, begin).is_some();
    if !has(b"\\ud") && !has(b"\\uD") {
        return Cow::Borrowed(data);
    }
    let (mut mended, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        at += found;
        at += match (code(bytes, at), code(bytes, at + LENGTH)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 2 * LENGTH,
            (Some(0xd800..=0xdfff), _) => {
                mended.push_str(data.get(copied..at).unwrap_or_default());
                mended.push('\u{fffd}');
                copied = at + LENGTH;
                LENGTH
            }
            // Another escape: what it escapes begins none.
            _ => 2,
        };
    }
    if copied == 0 {
        return Cow::Borrowed(data);
    }
    mended.push_str(data.get(copied..).unwrap_or_default());
    Cow::Owned(mended)
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
        assert_eq!(surrogates(r#""a\ud83d""#), "\"a\u{fffd}\"");
        assert_eq!(surrogates(r#""\ude00 \ud83d\ud83d\ude00\uD83Dx""#), "\"\u{fffd} \u{fffd}\\ud83d\\ude00\u{fffd}x\"");
        assert_eq!(surrogates(r#""\\\ud83d\n""#), "\"\\\\\u{fffd}\\n\"");
    }
}
