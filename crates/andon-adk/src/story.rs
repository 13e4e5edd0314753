//! A stored session's events: those of its runs, and the changes to its state between them.

use andon_runtime::core::time::Wall;
use andon_runtime::{Kept, Moved, RunId, SessionKey, Stored};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::event::{AdkEvent, seconds};
use super::render::Rendering;

/// The kind under which a session stores events that belong to no run.
pub(crate) const EVENT: &str = "adk.event";

/// An event that a session shows.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Told {
    /// An event of a run.
    OfRun(Box<AdkEvent>),
    /// A change to the state between runs.
    StateChanged(StateChanged),
}

impl Told {
    fn at(&self) -> f64 {
        match self {
            Self::OfRun(event) => event.timestamp,
            Self::StateChanged(event) => event.timestamp,
        }
    }
}

/// An event that reports a change to the state outside of any run. It is stored as it is sent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StateChanged {
    invocation_id: String,
    author: String,
    actions: ChangeAlone,
    node_info: Value,
    id: String,
    timestamp: f64,
}

/// The actions of such an event: only the change.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChangeAlone {
    state_delta: Map<String, Value>,
    artifact_delta: Map<String, Value>,
    requested_auth_configs: Map<String, Value>,
    requested_tool_confirmations: Map<String, Value>,
}

/// A session's events in order, and when it was last used, in seconds since 1970.
pub(crate) fn tell(moved: &Moved) -> (Vec<Told>, f64) {
    let of_runs = moved.runs.iter().flat_map(|(run, stored)| of_run(&moved.session, run, stored));
    let mut events: Vec<Told> = of_runs.map(|event| Told::OfRun(Box::new(event))).collect();
    for kept in moved.kept.iter().filter(|kept| kept.kind == EVENT) {
        let at = seconds(kept.at);
        // This server wrote it, so one that cannot be read is a bug.
        let Ok(event) = StateChanged::deserialize(&kept.value) else { continue };
        let place = events.iter().position(|event| event.at() > at).unwrap_or(events.len());
        events.insert(place, Told::StateChanged(event));
    }
    let of_runs = moved.runs.iter().filter_map(|(_, stored)| stored.facts().next_back()).map(|record| record.at.wall);
    let of_kept = moved.kept.iter().map(|kept| kept.at);
    let last = of_runs.chain(of_kept).chain([moved.created_at]).max().unwrap_or(moved.created_at);
    (events, seconds(last))
}

/// A run's events.
fn of_run(session: &SessionKey, run: &RunId, stored: &Stored) -> Vec<AdkEvent> {
    let records: Vec<_> = stored.facts().cloned().collect();
    Rendering::session(run, &session.app, &records)
}

/// An event that reports a change to the state outside of any run.
pub(crate) fn state_changed(delta: &Map<String, Value>, at: Wall) -> Kept {
    let id = Uuid::now_v7();
    let event = StateChanged {
        invocation_id: format!("p-{id}"),
        author: "user".to_owned(),
        actions: ChangeAlone { state_delta: delta.clone(), ..ChangeAlone::default() },
        node_info: json!({"path": ""}),
        id: Uuid::new_v5(&id, b"event").to_string(),
        timestamp: seconds(at),
    };
    // Sorting by name sorts by time.
    Kept { kind: EVENT.to_owned(), name: format!("{:020}-{id}", at.0), at, value: json!(event) }
}
