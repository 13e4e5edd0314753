//! What a process has printed: its beginning and its end, and how much was dropped between them.

use std::collections::VecDeque;

use super::text::{begun_at_the_end, lossless};

/// Collects output as it arrives. It never holds more than its limit, however much comes.
#[derive(Debug)]
pub(crate) struct Collector {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Collector {
    pub(crate) fn new(limit: usize) -> Self {
        Self { half: limit / 2, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = rest.get(rest.len().saturating_sub(self.half)..).unwrap_or_default();
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// Takes what has come so far, and starts again.
    pub(crate) fn take(&mut self) -> Captured {
        std::mem::replace(self, Self::new(self.half * 2)).finish()
    }

    pub(crate) fn finish(self) -> Captured {
        let Self { mut head, tail, total, .. } = self;
        let mut tail = Vec::from(tail);
        let dropped = total - (head.len() + tail.len()) as u64;
        if dropped == 0 {
            head.append(&mut tail);
            return Captured { head, dropped: 0, tail };
        }
        // A character that the gap cuts in two is dropped as a whole, so that the rest is still text.
        let cut = begun_at_the_end(&head);
        head.truncate(head.len() - cut);
        let begun = tail.iter().take(3).take_while(|&&byte| byte & 0xC0 == 0x80).count();
        tail.drain(..begun);
        Captured { head, dropped: dropped + (cut + begun) as u64, tail }
    }
}

/// What a process has printed: all of it, or its beginning and its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Captured {
    /// The beginning, or everything.
    pub head: Vec<u8>,
    /// How many bytes between the beginning and the end were dropped.
    pub dropped: u64,
    /// The end, if anything was dropped.
    pub tail: Vec<u8>,
}

impl Captured {
    /// As text, with a notice where bytes were dropped. Bytes that are not UTF-8 are written as `\xNN`.
    pub fn into_text(self) -> String {
        let Self { mut head, dropped, tail } = self;
        if dropped > 0 {
            head.extend_from_slice(format!("\n[{dropped} bytes of output left out here]\n").as_bytes());
            head.extend_from_slice(&tail);
        }
        lossless(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(limit: usize, pieces: &[&[u8]]) -> Captured {
        let mut collector = Collector::new(limit);
        pieces.iter().for_each(|piece| collector.push(piece));
        collector.finish()
    }

    #[test]
    fn output_below_the_limit_is_kept_whole_however_it_arrives() {
        for size in 1..=10 {
            let pieces: Vec<&[u8]> = b"0123456789".chunks(size).collect();
            assert_eq!(collect(10, &pieces).into_text(), "0123456789", "pieces of {size}");
        }
    }

    #[test]
    fn beginning_and_end_are_kept_and_the_dropped_bytes_are_counted() {
        for size in [1, 3, 7, 100] {
            let all: Vec<u8> = (0..100).map(|number| b'0' + number % 10).collect();
            let pieces: Vec<&[u8]> = all.chunks(size).collect();
            let got = collect(10, &pieces);
            assert_eq!((got.head.as_slice(), got.dropped, got.tail.as_slice()), (&b"01234"[..], 90, &b"56789"[..]));
        }
    }

    #[test]
    fn a_character_at_the_gap_does_not_make_the_text_look_broken() {
        let got = collect(8, &["aüüüüüüüüb".as_bytes()]);
        assert_eq!(got.dropped, 12);
        assert_eq!(got.into_text(), "aü\n[12 bytes of output left out here]\nüb");
    }
}
