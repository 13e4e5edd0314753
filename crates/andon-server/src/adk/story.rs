//! A stored session's events: those of its runs, and the changes of its state between them.

use andon::core::time::Wall;
use andon::{Kept, Moved, RunId, SessionKey, Stored};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::render::Rendering;

/// Events that belong to no run are kept with the session as things of this kind.
pub(crate) const EVENT: &str = "adk.event";

/// A session's events in order, and when it was last used, in seconds.
pub(crate) fn tell(moved: &Moved) -> (Vec<Value>, f64) {
    let mut events: Vec<Value> =
        moved.runs.iter().flat_map(|(run, stored)| of_run(&moved.session, run, stored)).collect();
    for kept in moved.kept.iter().filter(|kept| kept.kind == EVENT) {
        let at = seconds(kept.at);
        let place = events.iter().position(|event| time_of(event) > at).unwrap_or(events.len());
        events.insert(place, kept.value.clone());
    }
    let of_runs = moved.runs.iter().filter_map(|(_, stored)| stored.facts().next_back()).map(|record| record.at.wall);
    let of_kept = moved.kept.iter().map(|kept| kept.at);
    let last = of_runs.chain(of_kept).chain([moved.created_at]).max().unwrap_or(moved.created_at);
    (events, seconds(last))
}

/// A run's events.
pub(crate) fn of_run(session: &SessionKey, run: &RunId, stored: &Stored) -> Vec<Value> {
    let records: Vec<_> = stored.facts().cloned().collect();
    let events = Rendering::session(run, &session.app, &records);
    // Events are plain data: one that cannot be written would be a defect.
    events.iter().filter_map(|event| serde_json::to_value(event).ok()).collect()
}

fn time_of(event: &Value) -> f64 {
    event.get("timestamp").and_then(Value::as_f64).unwrap_or_default()
}

/// An event that tells of a change of state outside of any run.
pub(crate) fn state_changed(delta: &Map<String, Value>, at: Wall) -> Kept {
    let id = Uuid::now_v7();
    let value = json!({
        "invocationId": format!("p-{id}"),
        "author": "user",
        "actions": {
            "stateDelta": delta,
            "artifactDelta": {},
            "requestedAuthConfigs": {},
            "requestedToolConfirmations": {},
        },
        "nodeInfo": {"path": ""},
        "id": Uuid::new_v5(&id, b"event").to_string(),
        "timestamp": seconds(at),
    });
    // In the order of the names they are in the order of their times.
    Kept { kind: EVENT.to_owned(), name: format!("{:020}-{id}", at.0), at, value }
}

/// An instant as ADK writes it: seconds since 1970.
pub(crate) fn seconds(at: Wall) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "microseconds of this century fit")]
    let micros = at.0 as f64;
    micros / 1e6
}
