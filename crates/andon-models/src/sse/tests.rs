use proptest::prelude::*;

use super::*;
use crate::decode::repair::as_words;

type Owned = (String, String);

/// Decodes packets; the frames, and whether one was too long.
fn decode(packets: &[&[u8]], limit: usize) -> (Vec<Owned>, bool) {
    let mut sse = Sse::new(limit);
    let mut frames = Vec::new();
    for packet in packets {
        sse.push(packet);
        loop {
            match sse.frame() {
                Ok(Some(frame)) => frames.push((frame.event.to_owned(), frame.data.to_owned())),
                Ok(None) => break,
                Err(FrameTooLong { .. }) => return (frames, true),
            }
        }
    }
    frames.extend(sse.rest().map(|frame| (frame.event.to_owned(), frame.data.to_owned())));
    (frames, false)
}

fn frames(bytes: &[u8]) -> Vec<Owned> {
    decode(&[bytes], MAX_FRAME).0
}

fn frame(event: &str, data: &str) -> Owned {
    (event.to_owned(), data.to_owned())
}

#[test]
fn frames_end_with_a_blank_line_whatever_ends_a_line() {
    let expected = [frame("a", "1"), frame("", "2")];
    for end in ["\n", "\r", "\r\n"] {
        let text = ["event: a", "data: 1", "", "data:2", "", ""].join(end);
        assert_eq!(frames(text.as_bytes()), expected, "{end:?}");
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(decode(&bytes, MAX_FRAME).0, expected, "{end:?} byte by byte");
    }
}

#[test]
fn several_data_lines_are_one_text() {
    assert_eq!(frames(b"data: a\ndata:\ndata:  b\n\n"), [frame("", "a\n\n b")]);
}

#[test]
fn comments_other_fields_and_frames_without_data_give_nothing() {
    let bytes = b": ping\n\nid: 7\nretry: 10\n\nevent: ping\n\ndatabase: x\n\ndata: 1\n: in between\n\n";
    assert_eq!(frames(bytes), [frame("", "1")]);
}

#[test]
fn a_byte_order_mark_is_taken_off_once() {
    assert_eq!(frames(b"\xef\xbb\xbfdata: 1\n\n"), [frame("", "1")]);
    let bytes = b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n";
    assert_eq!(decode(&bytes.chunks(1).collect::<Vec<_>>(), MAX_FRAME).0, [frame("", "1")]);
    assert_eq!(frames(b"\xef"), []);
}

#[test]
fn invalid_utf8_is_replaced_and_nothing_else_suffers() {
    let bytes = b"event: \xff\ndata: a\xf0\x9f\ndata: b\n\ndata: \xc3\n\ndata: \xc3\xa9\n\n";
    let words = |text: String| as_words(text).into_owned();
    let shown: Vec<_> = frames(bytes).into_iter().map(|(event, data)| (words(event), words(data))).collect();
    assert_eq!(shown, [frame("\u{fffd}", "a\u{fffd}\nb"), frame("", "\u{fffd}"), frame("", "é")]);
}

#[test]
fn a_stream_may_end_without_the_last_blank_line() {
    assert_eq!(frames(b"data: 1\n\ndata: [DONE]"), [frame("", "1"), frame("", "[DONE]")]);
    assert_eq!(frames(b"data: 1\n\ndata: [DONE]\n"), [frame("", "1"), frame("", "[DONE]")]);
    assert_eq!(frames(b"data"), [frame("", "")]);
}

#[test]
fn a_frame_that_never_ends_is_refused_and_the_limit_is_named() {
    assert_eq!(decode(&[b"data: 1\n\ndata: 123456789\n\n"], 15), (vec![frame("", "1")], true));
    assert_eq!(decode(&[b"data: 1\n\ndata: 123456789\n\n"], 16), (vec![frame("", "1"), frame("", "123456789")], false));
    let error = FrameTooLong { limit: 15 }.to_string();
    assert!(error.contains("15 bytes"), "{error}");
}

#[test]
fn endless_comments_use_no_memory() {
    let mut sse = Sse::new(64);
    for _ in 0..10_000 {
        sse.push(b": keep-alive\r\n\r\n");
        assert_eq!(sse.frame(), Ok(None));
    }
    assert!(sse.buffer.capacity() < 1024, "{}", sse.buffer.capacity());
}

/// Bytes that mean something to the decoder, and some that do not.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    const TOKENS: [&[u8]; 13] = [
        b"data",
        b"event",
        b": ",
        b":",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\xef\xbb\xbf",
        b"\xc3\xa9",
        b"\xff",
        b"{\"a\":1}",
        b" x",
    ];
    let token = prop::sample::select(&TOKENS[..]);
    prop::collection::vec(token, 0..60).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same_frames(
        bytes in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        limit in prop_oneof![Just(MAX_FRAME), 1_usize..40],
    ) {
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let packets: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let one_by_one: Vec<&[u8]> = bytes.chunks(1).collect();
        let whole = decode(&[&bytes], limit);
        prop_assert_eq!(&decode(&packets, limit), &whole);
        prop_assert_eq!(&decode(&one_by_one, limit), &whole);
    }
}
