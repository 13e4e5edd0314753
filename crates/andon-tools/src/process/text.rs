//! Bytes as text, with nothing lost and nothing invisible.

use std::fmt::Write;

/// Bytes as text that can be turned back into the same bytes.
///
/// UTF-8 is unchanged. If there are other bytes, they are written as `\xNN` and a backslash as `\\`, and a last line says so.
pub(crate) fn lossless(bytes: Vec<u8>) -> String {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return text,
        Err(error) => error.into_bytes(),
    };
    let mut text = String::with_capacity(bytes.len() + 256);
    for chunk in bytes.utf8_chunks() {
        for (number, piece) in chunk.valid().split('\\').enumerate() {
            text.push_str(if number == 0 { "" } else { "\\\\" });
            text.push_str(piece);
        }
        escape(&mut text, chunk.invalid());
    }
    text.push_str("\n[not all of this is UTF-8: other bytes are written as \\xNN, and a backslash as \\\\]");
    text
}

/// Text that arrives in pieces, which may end in the middle of a character.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    /// The beginning of a character whose rest has not arrived yet: at most three bytes.
    begun: Vec<u8>,
}

impl Joiner {
    /// What can be shown now.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        let joined;
        let bytes = if self.begun.is_empty() {
            bytes
        } else {
            joined = [std::mem::take(&mut self.begun).as_slice(), bytes].concat();
            joined.as_slice()
        };
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            if chunks.peek().is_none() && may_go_on(chunk.invalid()) {
                self.begun = chunk.invalid().to_vec();
            } else {
                escape(&mut text, chunk.invalid());
            }
        }
        text
    }

    /// The rest, when nothing more comes.
    pub(crate) fn finish(&mut self) -> String {
        let mut text = String::new();
        escape(&mut text, &std::mem::take(&mut self.begun));
        text
    }
}

/// How many bytes at the end are the beginning of a character whose rest is missing.
pub(crate) fn begun_at_the_end(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map(|chunk| chunk.invalid());
    last.filter(|invalid| may_go_on(invalid)).map_or(0, <[u8]>::len)
}

/// Whether these bytes are the beginning of a character.
fn may_go_on(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf8_is_unchanged_including_its_backslashes() {
        assert_eq!(lossless("a\\x41 ü".into()), "a\\x41 ü");
    }

    #[test]
    fn other_bytes_differ_from_text_that_looks_like_them() {
        let text = lossless(b"a\\xff\xff".to_vec());
        assert!(text.starts_with("a\\\\xff\\xff\n[not all"), "{text}");
    }

    #[test]
    fn a_character_that_comes_in_two_pieces_is_shown_whole() {
        let whole = "aüb€c😀d".as_bytes();
        for cut in 0..=whole.len() {
            let mut joiner = Joiner::default();
            let (left, right) = whole.split_at(cut);
            let text = joiner.push(left) + &joiner.push(right) + &joiner.finish();
            assert_eq!(text, "aüb€c😀d", "cut at {cut}");
        }
    }

    #[test]
    fn a_character_whose_rest_never_comes_is_shown_as_its_bytes() {
        let mut joiner = Joiner::default();
        assert_eq!(joiner.push(b"a\xe2\x82") + &joiner.push(b"b\xe2") + &joiner.finish(), "a\\xe2\\x82b\\xe2");
    }
}
