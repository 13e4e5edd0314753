//! Bedrock's events. They come from an SDK, so the bytes are a script for them: a line each, a letter for what it is, a
//! digit for its block, and the rest for its words.

use std::collections::VecDeque;

use andon_models::decode::bedrock::{Bedrock, Delta, Event, Tokens};

use crate::sense;

/// A stream of events, decoded.
pub fn stream(data: &[u8]) {
    let script = String::from_utf8_lossy(data);
    let (mut decoder, mut pieces) = (Bedrock::default(), VecDeque::new());
    let mut has_failed = false;
    for event in script.lines().filter_map(event) {
        has_failed |= decoder.event(event, &mut pieces).is_err();
    }
    let is_over = decoder.is_over();
    let finished = decoder.finish(&mut pieces);
    assert!(!has_failed || finished.is_err(), "an error was forgotten");
    assert!(!is_over || finished.is_ok(), "an end was taken back");
    sense(&pieces, finished.is_ok());
    let _ = decoder.usage();
}

fn event(line: &str) -> Option<Event> {
    let mut letters = line.chars();
    let (what, block) = (letters.next()?, letters.next()?.to_digit(10).map_or(-1, |digit| digit as i32));
    let words = letters.as_str().to_owned();
    let delta = |delta: fn(String) -> Delta| Event::Delta { block, delta: delta(words.clone()) };
    Some(match what {
        'c' => Event::Call { block, id: words.clone(), name: words },
        't' => delta(Delta::Text),
        'h' => delta(Delta::Thinking),
        's' => delta(Delta::Signature),
        'r' => delta(Delta::Redacted),
        'i' => delta(Delta::Input),
        'b' => Event::BlockStop { block },
        'e' => Event::Stop(words),
        'u' => {
            let count = words.parse().ok();
            Event::Used(Tokens { input: count.unwrap_or(u64::MAX), output: 1, cache_read: count, cache_write: None })
        }
        _ => return None,
    })
}
