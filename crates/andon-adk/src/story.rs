//! A stored session's events: those of its runs, and the changes to its state between them.

use andon_runtime::core::time::Wall;
use andon_runtime::{Attachment, IdError, JournaledRun, RunId, SessionCopy, SessionKey, StateMap};
use serde::Deserialize as _;
use serde_json::json;
use uuid::Uuid;

use super::event::{AdkEvent, seconds};
use super::render::Rendering;

/// The kind under which a session stores events that belong to no run.
pub(crate) const EVENT: &str = "adk.event";

/// A session's events in order, and when it was last used, in seconds since 1970.
pub(crate) fn tell(moved: &SessionCopy) -> (Vec<AdkEvent>, f64) {
    let of_runs = moved.runs.iter().flat_map(|(run, stored)| of_run(&moved.session, run, stored));
    let mut events: Vec<AdkEvent> = of_runs.collect();
    for kept in moved.kept.iter().filter(|kept| kept.kind == EVENT) {
        let at = seconds(kept.at);
        // This server wrote it, so one that cannot be read is a bug.
        let Ok(event) = AdkEvent::deserialize(&kept.value) else { continue };
        let place = events.iter().position(|event| event.timestamp > at).unwrap_or(events.len());
        events.insert(place, event);
    }
    let of_runs = moved.runs.iter().filter_map(|(_, stored)| stored.facts().next_back()).map(|record| record.at.wall);
    let of_kept = moved.kept.iter().map(|kept| kept.at);
    let last = of_runs.chain(of_kept).chain([moved.created_at]).max().unwrap_or(moved.created_at);
    (events, seconds(last))
}

/// A run's events.
fn of_run(session: &SessionKey, run: &RunId, stored: &JournaledRun) -> Vec<AdkEvent> {
    let records: Vec<_> = stored.facts().cloned().collect();
    Rendering::session(run, &session.app, &records)
}

/// An event that reports a change to the state outside of any run. It is stored as it is sent.
pub(crate) fn state_changed(delta: StateMap, at: Wall) -> Result<Attachment, IdError> {
    let id = Uuid::now_v7();
    let event_id = Uuid::new_v5(&id, b"event");
    let mut event = AdkEvent::blank(RunId::new(format!("p-{id}"))?, "user".into(), "".into(), event_id, at);
    event.actions.state_delta = delta;
    // Sorting by name sorts by time.
    Ok(Attachment::new(EVENT.to_owned(), format!("{:020}-{id}", at.0), at, json!(event)))
}
