//! How a client reads a feed.

use memchr::memmem;

use crate::models;

/// Whether a chunk has an event of this type.
pub(crate) fn has(chunk: &[u8], kind: &str) -> bool {
    memmem::find(chunk, format!(r#""type":"{kind}""#).as_bytes()).is_some()
}

/// The first string value of this name.
pub(crate) fn text<'a>(chunk: &'a [u8], name: &str) -> Option<&'a str> {
    let mark = format!(r#""{name}":""#);
    let value = chunk.get(memmem::find(chunk, mark.as_bytes())? + mark.len()..)?;
    let end = memchr::memchr(b'"', value)?;
    std::str::from_utf8(value.get(..end)?).ok()
}

/// The streamed text, folded: each byte is checked, and only the length is kept.
pub(crate) struct Folded {
    /// The text, which repeats.
    cycle: Vec<u8>,
    pub(crate) bytes: usize,
    pub(crate) events: u64,
}

impl Folded {
    pub(crate) fn new() -> Self {
        Self { cycle: (0..10_000).map(models::piece).collect::<String>().into_bytes(), bytes: 0, events: 0 }
    }

    /// Adds the deltas in a chunk.
    pub(crate) fn take(&mut self, chunk: &[u8]) {
        for line in chunk.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"data: ")) {
            self.events += 1;
            if has_delta(line) {
                self.add(text(line, "text").expect("a delta of text").as_bytes());
            }
        }
    }

    fn add(&mut self, mut text: &[u8]) {
        while !text.is_empty() {
            let place = self.bytes % self.cycle.len();
            let expected = self.cycle.get(place..).unwrap_or_default();
            let now = text.len().min(expected.len());
            assert!(text.get(..now) == expected.get(..now), "the text is whole, at byte {}", self.bytes);
            self.bytes += now;
            text = text.get(now..).unwrap_or_default();
        }
    }

    /// The number of the model's pieces.
    pub(crate) fn pieces(&self) -> usize {
        self.bytes / models::piece(0).len()
    }
}

fn has_delta(line: &[u8]) -> bool {
    memmem::find(line, br#""type":"delta""#).is_some()
}
