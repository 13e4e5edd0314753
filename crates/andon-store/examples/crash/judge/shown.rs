//! Compares the record with what clients saw.

use std::collections::BTreeMap;

use andon_runtime::core::event::Event;
use andon_runtime::{Ending, ReplyKind};

use super::{Deleted, Seen};
use crate::book::Book;
use crate::log::{Line, What};

/// I6: what was shown is stored, byte for byte.
pub(super) fn check_shown(
    book: &Book,
    seen: &Seen,
    deleted: &Deleted,
    is_wanted: impl Fn(&Line) -> bool,
) -> Vec<String> {
    let mut broken = Vec::new();
    for line in seen.lines.iter().filter(|line| is_wanted(line)) {
        match &line.what {
            What::Fact { run, .. } | What::Delta { run, .. } if deleted.explains(run, book) => {}
            What::Fact { run, seq, body } => {
                let row = book.runs.get(run).and_then(|pages| pages.events.iter().find(|row| row.seq == *seq));
                match row {
                    Some(row) if row.body == *body => {}
                    Some(row) => broken.push(format!("{run}: I6: shown was {body}, stored is {}", row.body)),
                    None => broken.push(format!("{run}: I6: event {seq} was shown and is gone: {body}")),
                }
            }
            What::Delta { run, seq, end, text } => {
                let stored = book.runs.get(run).map(|pages| pages.text_after(*seq)).unwrap_or_default();
                let begin = end.saturating_sub(text.len());
                let kept = stored.get(begin.min(stored.len())..(*end).min(stored.len())).unwrap_or_default();
                let is_lost = kept.len() < text.len() && !seen.may_be_lost(line, run);
                if is_lost || !text.starts_with(kept) {
                    broken.push(format!(
                        "{run}: I6: after event {seq}, bytes {begin} to {end} were shown as {text:?}, kept is {kept:?}"
                    ));
                }
            }
            _ => {}
        }
    }
    broken
}

/// I6, I14: a reader that returned after each crash has seen every event once, in order.
pub(super) fn check_readers(seen: &Seen) -> Vec<String> {
    let mut broken = Vec::new();
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for line in &seen.lines {
        if let What::Fact { run, seq, .. } = &line.what {
            let before = last.insert(run, *seq).unwrap_or_default();
            if *seq != before + 1 {
                broken.push(format!("{run}: I14: a reader saw event {seq} after {before}"));
            }
        }
    }
    broken
}

/// I12: what was acknowledged is recorded.
pub(super) fn check_acknowledged(book: &Book, seen: &Seen, deleted: &Deleted) -> Vec<String> {
    let mut broken = Vec::new();
    for line in &seen.lines {
        let What::Acknowledged { run, reply } = &line.what else { continue };
        if deleted.explains(run, book) {
            continue;
        }
        let Some(pages) = book.runs.get(run) else {
            broken.push(format!("{run}: I12: its cancel was acknowledged, and the run is gone"));
            continue;
        };
        match reply {
            ReplyKind::Accepted | ReplyKind::Hardened | ReplyKind::AlreadyCancelling => {
                let is_request = |event: &Event| matches!(event, Event::CancelRequested { .. });
                if pages.requests == 0 && !pages.events().any(is_request) {
                    broken.push(format!("{run}: I12: its cancel was acknowledged and is not on record"));
                }
                if pages.ending.as_ref().is_some_and(|ending| !ending.is_cancelled()) {
                    broken.push(format!("{run}: I12: its cancel was acknowledged, it ended {:?}", pages.ending));
                }
            }
            ReplyKind::TooLate { outcome } if pages.ending.as_ref() != Some(outcome) => {
                broken.push(format!("{run}: I12: too late for {outcome:?}, but it ended {:?}", pages.ending));
            }
            ReplyKind::TooLate { .. } => {}
            ReplyKind::NotRunning | ReplyKind::Armed | ReplyKind::NotFound => {
                broken.push(format!("{run}: I12: its cancel was answered {reply:?}"));
            }
            #[cfg(not(andon_whole))]
            _ => {}
        }
    }
    broken
}

/// What a client saw go wrong, and ghosts whose writes were accepted.
pub(super) fn check_lines(seen: &Seen, is_wanted: impl Fn(&Line) -> bool) -> Vec<String> {
    let lines = seen.lines.iter().filter(|line| is_wanted(line));
    let broken = lines.filter_map(|line| match &line.what {
        What::Trouble { text } => Some(text.clone()),
        What::Ghost { run, tried, taken: true, .. } => Some(format!("{run}: I4: a ghost was believed: {tried}")),
        _ => None,
    });
    broken.collect()
}

/// I1: the outcome that was shown is the one that is stored.
pub(super) fn check_outcomes(book: &Book, seen: &Seen, deleted: &Deleted) -> Vec<String> {
    let mut broken = Vec::new();
    for line in &seen.lines {
        let What::Outcome { run, ending } = &line.what else { continue };
        let stored = book.runs.get(run).and_then(|pages| pages.ending.as_ref());
        if stored != Some(ending) && !deleted.explains(run, book) {
            broken.push(format!("{run}: I1: the outcome that was shown is {ending:?}, stored is {stored:?}"));
        }
    }
    broken
}

/// I11: every run that had to complete did, unless its life was killed.
pub(super) fn check_next_prompts(book: &Book, seen: &Seen, deleted: &Deleted) -> Vec<String> {
    let mut broken = Vec::new();
    for line in &seen.lines {
        let What::Asked { run, session, must_complete: true } = &line.what else { continue };
        let ending = book.runs.get(run).and_then(|pages| pages.ending.as_ref());
        let is_excused = !seen.has_ended(line.life) || deleted.explains(run, book);
        if !matches!(ending, Some(Ending::Completed { .. })) && !is_excused {
            broken.push(format!("{run}: I11: the next prompt of session {session} ended {ending:?}"));
        }
    }
    broken
}
