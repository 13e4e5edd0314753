//! Lines of JSON: bytes go in as they arrive, and each line comes out as a frame.
//!
//! The invariants are those of [`sse`](crate::sse). Blank lines are skipped.

use memchr::memchr;

use crate::decode::Frame;
use crate::sse::{FrameTooLong, MAX_FRAME, text};

/// A decoder of lines.
#[derive(Debug)]
pub struct Lines {
    buffer: Vec<u8>,
    /// Where the unfinished line begins. All before it was given out.
    line: usize,
    /// No line ends between `line` and here.
    searched: usize,
    scratch: String,
    limit: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new(MAX_FRAME)
    }
}

impl Lines {
    /// A decoder of lines that have at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), line: 0, searched: 0, scratch: String::new(), limit }
    }

    /// Takes more bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.line > 0 {
            self.buffer.drain(..self.line);
            self.searched -= self.line;
            self.line = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole line, if there is one.
    pub fn frame(&mut self) -> Result<Option<Frame<'_>>, FrameTooLong> {
        loop {
            let open = self.buffer.get(self.searched..).unwrap_or_default();
            let end = memchr(b'\n', open).map(|at| self.searched + at);
            if end.unwrap_or(self.buffer.len()) - self.line > self.limit {
                return Err(FrameTooLong { limit: self.limit });
            }
            let Some(end) = end else {
                self.searched = self.buffer.len();
                return Ok(None);
            };
            let line = self.line..end;
            (self.line, self.searched) = (end + 1, end + 1);
            if !is_blank(self.buffer.get(line.clone()).unwrap_or_default()) {
                return Ok(Some(self.lend(line)));
            }
        }
    }

    /// The stream has ended: the last line, if it was not finished.
    pub fn rest(&mut self) -> Option<Frame<'_>> {
        let line = self.line..self.buffer.len();
        (self.line, self.searched) = (line.end, line.end);
        if is_blank(self.buffer.get(line.clone()).unwrap_or_default()) {
            return None;
        }
        Some(self.lend(line))
    }

    fn lend(&mut self, line: std::ops::Range<usize>) -> Frame<'_> {
        let data = text(self.buffer.get(line).unwrap_or_default(), &mut self.scratch);
        Frame { event: "", data: data.trim_end_matches('\r') }
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(packets: &[&[u8]], limit: usize) -> (Vec<String>, bool) {
        let mut lines = Lines::new(limit);
        let mut found = Vec::new();
        for packet in packets {
            lines.push(packet);
            loop {
                match lines.frame() {
                    Ok(Some(frame)) => found.push(frame.data.to_owned()),
                    Ok(None) => break,
                    Err(FrameTooLong { .. }) => return (found, true),
                }
            }
        }
        found.extend(lines.rest().map(|frame| frame.data.to_owned()));
        (found, false)
    }

    #[test]
    fn each_line_is_a_frame_and_blank_ones_are_nothing() {
        assert_eq!(decode(&[b"{1}\r\n\r\n\n{2}\n \n{3}"], 9), (vec!["{1}".into(), "{2}".into(), "{3}".into()], false));
    }

    #[test]
    fn a_line_that_never_ends_is_refused() {
        assert_eq!(decode(&[b"{1}\n{234567"], 7), (vec!["{1}".into(), "{234567".into()], false));
        assert_eq!(decode(&[b"{1}\n{2345678"], 7), (vec!["{1}".into()], true));
    }

    proptest! {
        #[test]
        fn any_split_of_the_bytes_gives_the_same_lines(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), Just(0xff_u8), Just(0xc3), Just(0xa9)], 0..80),
            cut in any::<prop::sample::Index>(),
            limit in prop_oneof![Just(MAX_FRAME), 1_usize..20],
        ) {
            let (left, right) = bytes.split_at(cut.index(bytes.len() + 1));
            let whole = decode(&[&bytes], limit);
            prop_assert_eq!(&decode(&[left, right], limit), &whole);
            prop_assert_eq!(&decode(&bytes.chunks(1).collect::<Vec<_>>(), limit), &whole);
        }
    }
}
