//! Compares the record with what really happened outside: what tools did, and what the provider reported.

use std::collections::{BTreeMap, BTreeSet};

use andon_runtime::core::event::{Event, ModelEnd, ToolEnd};

use super::Seen;
use crate::book::{Book, Pages};
use crate::log::{Deed, Line, Moment, What};

/// I10: the recorded usage is what the provider reported, less what was in flight.
pub(super) fn check_usage(run: &str, pages: &Pages, seen: &Seen) -> Vec<String> {
    let mut broken = Vec::new();
    let mut reports: BTreeMap<u32, Vec<(&Line, u64)>> = BTreeMap::new();
    for line in &seen.lines {
        if let What::Provided { run: id, call, output } = &line.what
            && id == run
        {
            reports.entry(*call).or_default().push((line, *output));
        }
    }
    let mut recorded: BTreeMap<u32, Vec<Option<u64>>> = BTreeMap::new();
    let mut lost = BTreeSet::new();
    for event in pages.events() {
        match event {
            Event::Usage { call, used, .. } => recorded.entry(*call).or_default().push(used.delivered.output.value),
            Event::ModelFinished { call, end: ModelEnd::Lost, .. } => drop(lost.insert(*call)),
            _ => {}
        }
    }
    for (call, reports) in &reports {
        let [value] = recorded.get(call).map(Vec::as_slice).unwrap_or_default() else {
            broken.push(format!("{run}: I10: model call {call} has {:?} as its usage", recorded.get(call)));
            continue;
        };
        let delivered = reports.iter().filter(|(line, _)| !lost.contains(call) || !seen.may_be_lost(line, run));
        let at_least = delivered.map(|(_, output)| *output).max();
        let is_reported = value.is_none_or(|value| reports.iter().any(|(_, output)| *output == value));
        if *value < at_least || !is_reported {
            let all: Vec<u64> = reports.iter().map(|(_, output)| *output).collect();
            broken.push(format!(
                "{run}: I10: model call {call} is recorded with {value:?} of {all:?}, due is at least {at_least:?}"
            ));
        }
    }
    broken
}

/// I5: no effect without a recorded intent, and none twice.
pub(super) fn check_deeds(book: &Book, seen: &Seen) -> Vec<String> {
    let mut broken = Vec::new();
    let mut begun = BTreeSet::new();
    for deed in seen.deeds.iter().filter(|deed| deed.moment == Moment::Begin) {
        let Deed { life, run, call, .. } = deed;
        let is_intent = |event: &Event| matches!(event, Event::ToolStarted { call: id, .. } if id.as_str() == call);
        if !book.runs.get(run).is_some_and(|pages| pages.events().any(is_intent)) {
            broken.push(format!("{run}: I5: in life {life} call {call} had its effect and is not on record"));
        }
        if !begun.insert(call) {
            broken.push(format!("{run}: I5: call {call} had its effect twice"));
        }
    }
    broken
}

/// I5: what the journal says about a call is what the tool did.
pub(super) fn check_deeds_at_the_end(book: &Book, seen: &Seen) -> Vec<String> {
    let did = |moment: Moment| {
        let deeds = seen.deeds.iter().filter(move |deed| deed.moment == moment);
        deeds.map(|deed| deed.call.as_str()).collect::<BTreeSet<_>>()
    };
    let (begun, ended) = (did(Moment::Begin), did(Moment::End));
    let mut broken = Vec::new();
    for (run, pages) in &book.runs {
        for event in pages.events() {
            let (call, fits) = match event {
                Event::ToolFinished { call, end, .. } => match end {
                    ToolEnd::Finished => (call, ended.contains(call.as_str())),
                    ToolEnd::NeverStarted => (call, !begun.contains(call.as_str())),
                    ToolEnd::Panicked => (call, false),
                    ToolEnd::Cut | ToolEnd::Unknown | ToolEnd::Leaked | ToolEnd::Detached => (call, true),
                    #[cfg(not(andon_whole))]
                    _ => (call, true),
                },
                Event::ToolRefused { call, .. } => (call, !begun.contains(call.as_str())),
                _ => continue,
            };
            if !fits {
                broken.push(format!("{run}: I5: call {call} is recorded as {event:?}"));
            }
        }
    }
    broken
}
