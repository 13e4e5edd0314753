//! What must hold for any bytes that a provider sends.
//!
//! The first byte of an input says how the others are cut into packets.

pub mod bedrock;

use std::collections::VecDeque;

use andon_runtime::{Piece, Usage};
use andon_models::decode::{Decode, Frame};
use andon_models::lines::Lines;
use andon_models::sse::{FrameTooLong, Sse};

/// Small enough that a fuzzer gets over it.
const LIMIT: usize = 1024;

/// An event's name and its data.
type Owned = (String, String);

/// The frames of packets, and whether one was too long.
type Frames = (Vec<Owned>, bool);

fn owned(frame: Frame<'_>) -> Owned {
    (frame.event.to_owned(), frame.data.to_owned())
}

fn packets(data: &[u8]) -> Option<(usize, &[u8])> {
    let (first, bytes) = data.split_first()?;
    Some((usize::from(*first) + 1, bytes))
}

fn sse_frames(bytes: &[u8], packet: usize, limit: usize) -> Frames {
    let (mut sse, mut frames) = (Sse::new(limit), Vec::new());
    for packet in bytes.chunks(packet) {
        sse.push(packet);
        loop {
            match sse.frame() {
                Ok(Some(frame)) => frames.push(owned(frame)),
                Ok(None) => break,
                Err(FrameTooLong { .. }) => return (frames, true),
            }
        }
    }
    frames.extend(sse.rest().map(owned));
    (frames, false)
}

fn line_frames(bytes: &[u8], packet: usize, limit: usize) -> Frames {
    let (mut lines, mut frames) = (Lines::new(limit), Vec::new());
    for packet in bytes.chunks(packet) {
        lines.push(packet);
        loop {
            match lines.frame() {
                Ok(Some(frame)) => frames.push(owned(frame)),
                Ok(None) => break,
                Err(FrameTooLong { .. }) => return (frames, true),
            }
        }
    }
    frames.extend(lines.rest().map(owned));
    (frames, false)
}

/// Any packets give the same frames.
pub fn sse(data: &[u8]) {
    if let Some((packet, bytes)) = packets(data) {
        assert_eq!(sse_frames(bytes, packet, LIMIT), sse_frames(bytes, bytes.len().max(1), LIMIT));
    }
}

/// Any packets give the same lines.
pub fn lines(data: &[u8]) {
    if let Some((packet, bytes)) = packets(data) {
        assert_eq!(line_frames(bytes, packet, LIMIT), line_frames(bytes, bytes.len().max(1), LIMIT));
    }
}

/// A stream of server-sent events, decoded.
pub fn sse_stream<D: Decode + Default>(data: &[u8]) {
    if let Some((packet, bytes)) = packets(data) {
        decode::<D>(&sse_frames(bytes, packet, bytes.len() + 1).0);
    }
}

/// A stream of lines, decoded.
pub fn line_stream<D: Decode + Default>(data: &[u8]) {
    if let Some((packet, bytes)) = packets(data) {
        decode::<D>(&line_frames(bytes, packet, bytes.len() + 1).0);
    }
}

/// Whatever comes, the figures stay, an error is an error to the end, and the pieces make sense.
fn decode<D: Decode + Default>(frames: &[Owned]) {
    let (mut decoder, mut pieces) = (D::default(), VecDeque::new());
    let mut known = Usage::UNKNOWN;
    let mut has_failed = false;
    for (event, data) in frames {
        has_failed |= decoder.frame(Frame { event, data }, &mut pieces).is_err();
        let usage = decoder.usage();
        assert!(known.input.value.is_none() || usage.input.value.is_some(), "a figure was forgotten");
        assert!(known.output.value.is_none() || usage.output.value.is_some(), "a figure was forgotten");
        known = usage;
    }
    let lost_first = frames.len() % 2 == 1;
    let lost = lost_first.then(|| decoder.lost(&mut pieces));
    let finished = decoder.finish(&mut pieces);
    let is_good = finished.is_ok();
    assert!(!has_failed || !is_good, "an error was forgotten");
    assert!(lost.is_none_or(|lost| lost.is_err() || is_good), "an end was taken back");
    sense(&pieces, is_good);
    let _ = (decoder.model(), decoder.id());
}

/// The pieces make sense: calls are begun before they go on, nothing of one comes after its end, and the end of all is
/// the last and comes once.
fn sense(pieces: &VecDeque<Piece>, has_ended: bool) {
    let ends = pieces.iter().filter(|piece| matches!(piece, Piece::End(_))).count();
    assert!(ends <= 1, "the end came {ends} times");
    assert_eq!(has_ended, ends == 1, "it ended without an end, or the other way round");
    assert!(ends == 0 || matches!(pieces.back(), Some(Piece::End(_))), "something came after the end");
    let mut open = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Call { .. } => open.push(true),
            Piece::CallInput { index, .. } => assert_eq!(open.get(*index), Some(&true), "no such call, or it has ended"),
            Piece::CallEnd { index } => {
                assert_eq!(open.get(*index), Some(&true), "no such call, or it has ended");
                open[*index] = false;
            }
            _ => {}
        }
    }
}
