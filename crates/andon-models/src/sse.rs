//! Server-sent events: bytes go in as they arrive, frames come out.
//!
//! # Invariants
//!
//! 1. The frames depend only on the bytes, never on how they were cut into packets.
//! 2. Every byte is copied once, into the buffer; a frame of one data line is lent from there. Only data of several lines and
//!    data that is not UTF-8 are copied once more.
//! 3. A frame has a maximum size: a frame that never ends is refused, not stored.

use std::ops::Range;

use memchr::memchr2;

use crate::decode::Frame;
use crate::decode::repair::add_bytes;

/// How many bytes a frame may have by default. The longest frames repeat a whole answer. The longest answers have a few hundred
/// thousand tokens, about a megabyte of text, and JSON escapes, an encrypted thought and the repeated tools may multiply that.
pub const MAX_FRAME: usize = 8 * 1024 * 1024;

/// A frame that does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("one message of the stream is longer than {limit} bytes, the maximum")]
pub struct FrameTooLong {
    /// The limit.
    pub limit: usize,
}

/// A decoder of server-sent events.
#[derive(Debug)]
pub struct Sse {
    buffer: Vec<u8>,
    /// Where the unfinished frame begins. All before it was given out.
    frame: usize,
    /// Where the unfinished line begins.
    line: usize,
    /// No line ends between `line` and here.
    searched: usize,
    /// The last line ended with CR: an LF right after it belongs to that line's end.
    after_cr: bool,
    /// Whether it is too late for a byte order mark.
    begun: bool,
    data: Data,
    event: Option<Range<usize>>,
    joined: String,
    name: String,
    limit: usize,
}

/// The data of the frame that is being read.
#[derive(Debug, Clone)]
enum Data {
    None,
    /// One line of it, in the buffer.
    Line(Range<usize>),
    /// Several lines, joined.
    Joined,
}

const BOM: &[u8] = b"\xef\xbb\xbf";

impl Default for Sse {
    fn default() -> Self {
        Self::new(MAX_FRAME)
    }
}

impl Sse {
    /// A decoder of frames that have at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            frame: 0,
            line: 0,
            searched: 0,
            after_cr: false,
            begun: false,
            data: Data::None,
            event: None,
            joined: String::new(),
            name: String::new(),
            limit,
        }
    }

    /// Takes more bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.forget_what_was_given();
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if there is one.
    pub fn frame(&mut self) -> Result<Option<Frame<'_>>, FrameTooLong> {
        if !self.begun && !self.skip_byte_order_mark() {
            return Ok(None);
        }
        while let Some(line) = self.next_line()? {
            if line.is_empty() {
                self.frame = self.line;
                if let Some((data, event)) = self.take_fields() {
                    return Ok(Some(self.lend(data, event)));
                }
            } else {
                self.field(line);
            }
        }
        Ok(None)
    }

    /// The stream has ended: returns what follows the last whole frame, if it has data. Its last line need not be whole.
    pub fn rest(&mut self) -> Option<Frame<'_>> {
        let begins = if self.begun { self.line } else { 0 };
        let line = begins..self.buffer.len();
        self.begun = true;
        self.line = line.end;
        if !line.is_empty() {
            self.field(line);
        }
        self.frame = self.line;
        let (data, event) = self.take_fields()?;
        Some(self.lend(data, event))
    }

    /// Whether the beginning has arrived. A mark there is not part of the first line.
    fn skip_byte_order_mark(&mut self) -> bool {
        if self.buffer.len() < BOM.len() && BOM.starts_with(&self.buffer) {
            return false;
        }
        self.begun = true;
        if self.buffer.starts_with(BOM) {
            (self.frame, self.line, self.searched) = (BOM.len(), BOM.len(), BOM.len());
        }
        true
    }

    /// The next line that has ended, without its end.
    fn next_line(&mut self) -> Result<Option<Range<usize>>, FrameTooLong> {
        if self.after_cr && self.line < self.buffer.len() {
            self.after_cr = false;
            if self.buffer.get(self.line) == Some(&b'\n') {
                self.frame += usize::from(self.frame == self.line);
                self.line += 1;
                self.searched = self.searched.max(self.line);
            }
        }
        let open = self.buffer.get(self.searched..).unwrap_or_default();
        let end = memchr2(b'\n', b'\r', open).map(|at| self.searched + at);
        if end.unwrap_or(self.buffer.len()) - self.frame > self.limit {
            return Err(FrameTooLong { limit: self.limit });
        }
        let Some(end) = end else {
            self.searched = self.buffer.len();
            return Ok(None);
        };
        let line = self.line..end;
        self.after_cr = self.buffer.get(end) == Some(&b'\r');
        self.line = end + 1;
        self.searched = self.line;
        Ok(Some(line))
    }

    fn field(&mut self, line: Range<usize>) {
        let bytes = self.buffer.get(line.clone()).unwrap_or_default();
        if let Some(value) = value_of(b"data", bytes) {
            let value = line.end - value.len()..line.end;
            self.add_data(value);
        } else if let Some(value) = value_of(b"event", bytes) {
            self.event = Some(line.end - value.len()..line.end);
        } else if matches!(self.data, Data::None) && self.event.is_none() {
            // A comment or an unknown field between two frames counts towards neither: a server may send them forever.
            self.frame = self.line;
        }
    }

    fn add_data(&mut self, line: Range<usize>) {
        match std::mem::replace(&mut self.data, Data::Joined) {
            Data::None => self.data = Data::Line(line),
            Data::Line(first) => {
                self.joined.clear();
                add_bytes(&mut self.joined, self.buffer.get(first).unwrap_or_default());
                self.joined.push('\n');
                add_bytes(&mut self.joined, self.buffer.get(line).unwrap_or_default());
            }
            Data::Joined => {
                self.joined.push('\n');
                add_bytes(&mut self.joined, self.buffer.get(line).unwrap_or_default());
            }
        }
    }

    /// The fields of a whole frame; `None` if it has no data.
    fn take_fields(&mut self) -> Option<(Data, Option<Range<usize>>)> {
        let event = self.event.take();
        match std::mem::replace(&mut self.data, Data::None) {
            Data::None => None,
            data => Some((data, event)),
        }
    }

    fn lend(&mut self, data: Data, event: Option<Range<usize>>) -> Frame<'_> {
        let event = self.buffer.get(event.unwrap_or(0..0)).unwrap_or_default();
        let data = match data {
            Data::Line(line) => text(self.buffer.get(line).unwrap_or_default(), &mut self.joined),
            Data::None | Data::Joined => &self.joined,
        };
        Frame { event: text(event, &mut self.name), data }
    }

    fn forget_what_was_given(&mut self) {
        let given = self.frame;
        if given == 0 {
            return;
        }
        self.buffer.drain(..given);
        self.frame = 0;
        self.line -= given;
        self.searched -= given;
        let moved = |range: &mut Range<usize>| *range = range.start - given..range.end - given;
        if let Data::Line(line) = &mut self.data {
            moved(line);
        }
        if let Some(event) = &mut self.event {
            moved(event);
        }
    }
}

/// The value, if the line's field has this name. One space after the colon is not part of it.
fn value_of<'a>(name: &[u8], line: &'a [u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(name)? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

/// Bytes as text, through `scratch` if they are not UTF-8.
pub(crate) fn text<'a>(bytes: &'a [u8], scratch: &'a mut String) -> &'a str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => {
            scratch.clear();
            add_bytes(scratch, bytes);
            scratch
        }
    }
}

#[cfg(test)]
#[path = "sse/tests.rs"]
mod tests;
