//! Checks one run's record by itself: its order, its end, what recovery wrote, what a cancel did.

use std::sync::Arc;

use andon_runtime::Ending;
use andon_runtime::core::closing::close_lost;
use andon_runtime::core::event::{Event, ToolEnd};
use andon_runtime::core::progress::{CallState, RunProgress, RunState};

use crate::book::{Pages, Row};

/// I1 to I4, as far as they also hold for a run in progress.
pub(super) fn check_order(pages: &Pages) -> Vec<String> {
    let mut broken = Vec::new();
    let ends = pages.events.iter().filter(|row| row.kind == "run_settled").count();
    if ends > 1 || (ends == 1) != pages.is_settled {
        broken.push(format!("I1: {ends} terminal events, settled: {}", pages.is_settled));
    }
    let end = pages.events().rev().find_map(|event| match event {
        Event::RunSettled { outcome } => Some(&**outcome),
        _ => None,
    });
    if end != pages.ending.as_ref() {
        broken.push(format!("I1: the state is {:?}, the event says {end:?}", pages.ending));
    }
    if ends > 0 && pages.events.last().is_some_and(|row| row.kind != "run_settled") {
        broken.push("I2: there is an event after the end".to_owned());
    }
    let last = pages.events.len() as u64;
    let late_text = pages.lumps.iter().any(|lump| lump.span.after > last || (ends > 0 && lump.span.after == last));
    if late_text {
        broken.push("I2: there is text after the end".to_owned());
    }
    if !pages.events.iter().map(|row| row.seq).eq(1..=last) || pages.next_seq != last + 1 {
        let seqs: Vec<_> = pages.events.iter().map(|row| row.seq).collect();
        broken.push(format!("I3: {seqs:?}, next is {}", pages.next_seq));
    }
    let epochs: Vec<_> = pages.events.iter().map(|row| row.epoch).collect();
    if !epochs.is_sorted() || epochs.last().is_some_and(|last| *last > pages.epoch) {
        broken.push(format!("I4: epochs {epochs:?}, the owner's is {}", pages.epoch));
    }
    let differs = |row: &&Row| {
        let record = &row.record;
        (record.seq, record.epoch, record.event.kind()) != (row.seq, row.epoch, row.kind.as_str())
    };
    if let Some(row) = pages.events.iter().find(differs) {
        broken.push(format!("I3: event {} says of itself {}", row.seq, row.body));
    }
    broken
}

/// I1: a run has an end.
pub(super) fn check_end(pages: &Pages) -> Vec<String> {
    if pages.is_settled { Vec::new() } else { vec!["I1: the run never settled".to_owned()] }
}

/// What recovery did: a waiting run lives on, and open calls are closed as unknown, by exactly the events that closing a lost run
/// takes. A possible orphan, whose driver could not write, may have been closed by its own process, which knows how its calls
/// ended.
pub(super) fn check_recovery(pages: &Pages, may_be_orphan: bool) -> Vec<String> {
    let mut broken = Vec::new();
    let Some(end) = pages.events.last() else { return vec!["I3: the run has no events".to_owned()] };
    let before = pages.entries_before(end.epoch);
    // Only if the last owner did no more than settle the run; the owner of a resumed run has other events in that epoch.
    let is_recovery = |event: &Event| !matches!(event, Event::RunStarted | Event::ModelStarted { .. });
    let closing: Vec<&Event> =
        pages.events.iter().filter(|row| row.epoch == end.epoch).map(|row| &row.record.event).collect();
    if before.is_empty() || !closing.iter().all(|event| is_recovery(event)) {
        return broken;
    }
    let mut progress = match RunProgress::fold(&before) {
        Ok(progress) => progress,
        Err(error) => return vec![format!("I11: what recovery found does not fold: {error}")],
    };
    let is_lost = matches!(pages.ending, Some(Ending::Lost));
    if is_lost && matches!(progress.state(), RunState::Queued | RunState::Waiting) {
        broken.push(format!("P10: it was {:?}, and was lost", progress.state()));
    }
    if is_lost {
        let mut expected = close_lost(&progress, None);
        expected.push(Event::RunSettled { outcome: Arc::new(Ending::Lost) });
        if !closing.iter().copied().eq(expected.iter()) {
            broken.push(format!("I5: recovery wrote {closing:?}, expected {expected:?}"));
        }
    }
    for call in progress.calls().to_vec() {
        let was_running = matches!(call.state, CallState::Running(_));
        let end = closing.iter().find_map(|event| match event {
            Event::ToolFinished { call: id, end, .. } if *id == call.call.id => Some(*end),
            _ => None,
        });
        if was_running && end != Some(ToolEnd::Unknown) && (is_lost || !may_be_orphan) {
            broken.push(format!("I5: call {} was open and was closed as {end:?}", call.call.id));
        }
    }
    for event in closing {
        if let Err(error) = progress.apply(event) {
            broken.push(format!("I11: what recovery wrote does not fold: {error}"));
            break;
        }
    }
    broken
}

/// I12: a recorded request ends the run as cancelled, and nothing else does; asking again records nothing.
pub(super) fn check_cancel(pages: &Pages) -> Vec<String> {
    let mut broken = Vec::new();
    let forces: Vec<_> = pages
        .events()
        .filter_map(|event| match event {
            Event::CancelRequested { request, .. } => Some(request.force),
            _ => None,
        })
        .collect();
    let is_cancelled = pages.ending.as_ref().is_some_and(Ending::is_cancelled);
    let is_requested = !forces.is_empty() || pages.requests > 0;
    if is_requested != is_cancelled {
        broken.push(format!("I12: requested: {is_requested}, ended as {:?}", pages.ending));
    }
    if !forces.is_sorted_by(|a, b| a < b) {
        broken.push(format!("I12: the requests on record are {forces:?}"));
    }
    broken
}
