//! How much a journal in memory holds.
//!
//! # Invariants
//!
//! 1. A session with a run that has not settled is never forgotten, nor is the one that was used last.
//! 2. The session that was used longest ago is forgotten first, as a whole.

use std::collections::{BTreeMap, HashSet};

use andon_core::event::{AddendumKind, Entry, Event, HookChange, Remains};
use andon_core::id::{RunId, SessionKey};
use andon_core::message::{Content, Part, ToolResult};
use andon_core::request::RequestChange;
use andon_core::usage::Used;
use serde_json::{Map, Value};

use super::{MemoryJournal, MemoryState};
use crate::journal::sessions::Attachment;
use crate::lanes::sync::Mutex;

/// The bounds by default.
const SESSIONS: usize = 100_000;
const BYTES: usize = 1 << 30;

/// About how many bytes an event takes besides what it says.
const ENTRY: usize = 192;

/// The part of a bound that becomes free when it is reached, so that making room costs little each time.
const SLACK: usize = 16;

/// The bounds, what counts against them, and what can be forgotten.
#[derive(Debug, Clone)]
pub(super) struct Room {
    most_sessions: usize,
    most_bytes: usize,
    /// What all sessions take, except for their runs in progress.
    bytes: usize,
    /// The sessions without a run in progress, in the order in which they were used.
    at_rest: BTreeMap<u64, SessionKey>,
    next: u64,
}

impl Default for Room {
    fn default() -> Self {
        Self { most_sessions: SESSIONS, most_bytes: BYTES, bytes: 0, at_rest: BTreeMap::new(), next: 0 }
    }
}

/// What the room knows of one session.
#[derive(Debug, Clone, Default)]
pub(super) struct Occupancy {
    bytes: usize,
    /// How many of its runs have not settled.
    in_progress: usize,
    /// Its place among those at rest.
    place: Option<u64>,
}

/// How much a session grows and shrinks, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Resized {
    pub(super) more: usize,
    pub(super) less: usize,
}

impl Room {
    /// A run of the session was accepted.
    pub(super) fn enter(&mut self, session: &mut Occupancy) {
        session.in_progress += 1;
        if let Some(place) = session.place.take() {
            self.at_rest.remove(&place);
        }
    }

    /// A run of the session has settled, and takes so many bytes.
    pub(super) fn leave(&mut self, key: &SessionKey, session: &mut Occupancy, bytes: usize) {
        session.in_progress = session.in_progress.saturating_sub(1);
        self.resize(session, Resized { more: bytes, less: 0 });
        self.use_now(key, session);
    }

    /// The session takes more bytes, or fewer.
    pub(super) fn resize(&mut self, session: &mut Occupancy, change: Resized) {
        session.bytes = (session.bytes + change.more).saturating_sub(change.less);
        self.bytes = (self.bytes + change.more).saturating_sub(change.less);
    }

    /// The session was used. If no run of it is in progress, it is the last of those that can be forgotten.
    pub(super) fn use_now(&mut self, key: &SessionKey, session: &mut Occupancy) {
        if let Some(place) = session.place.take() {
            self.at_rest.remove(&place);
        }
        if session.in_progress == 0 {
            self.at_rest.insert(self.next, key.clone());
            session.place = Some(self.next);
            self.next += 1;
        }
    }

    /// The session is gone.
    pub(super) fn forget(&mut self, session: &Occupancy) {
        self.bytes = self.bytes.saturating_sub(session.bytes);
        if let Some(place) = session.place {
            self.at_rest.remove(&place);
        }
    }

    fn is_over(&self, sessions: usize, slack: usize) -> bool {
        let (most_sessions, most_bytes) = match slack {
            0 => (self.most_sessions, self.most_bytes),
            slack => (self.most_sessions - self.most_sessions / slack, self.most_bytes - self.most_bytes / slack),
        };
        sessions > most_sessions || self.bytes > most_bytes
    }

    /// The session that can be forgotten first. The last one stays (invariant 1).
    fn first_at_rest(&self) -> Option<SessionKey> {
        if self.at_rest.len() < 2 {
            return None;
        }
        self.at_rest.first_key_value().map(|(_, key)| key.clone())
    }
}

impl MemoryState {
    /// Forgets sessions if there are too many, or if they take too much.
    pub(super) fn make_room(&mut self) {
        if !self.room.is_over(self.sessions.len(), 0) {
            return;
        }
        let mut gone: HashSet<RunId> = HashSet::new();
        while self.room.is_over(self.sessions.len(), SLACK) {
            let Some(key) = self.room.first_at_rest() else { break };
            gone.extend(self.sessions.get(&key).into_iter().flat_map(|session| session.runs.iter().cloned()));
            self.remove(&key);
        }
        if !gone.is_empty() {
            self.order.retain(|run| !gone.contains(run));
        }
    }
}

/// Builds a [`MemoryJournal`] with bounds of its own.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until build() is called"]
pub struct MemoryJournalBuilder {
    room: Room,
}

impl MemoryJournalBuilder {
    /// How many sessions it holds at most; 100,000 by default.
    pub fn sessions(mut self, most: usize) -> Self {
        self.room.most_sessions = most;
        self
    }

    /// About how many bytes it holds at most; 1 GiB by default.
    pub fn bytes(mut self, most: usize) -> Self {
        self.room.most_bytes = most;
        self
    }

    /// Builds the journal.
    pub fn build(self) -> MemoryJournal {
        MemoryJournal { state: Mutex::new(MemoryState { room: self.room, ..MemoryState::default() }) }
    }
}

/// About how many bytes an entry takes.
pub(super) fn weight(entry: &Entry) -> usize {
    let said = match entry {
        Entry::Lump(lump) => lump.span.text.len(),
        Entry::Fact(record) => match &record.event {
            Event::RunAccepted { accepted } => {
                let said = accepted.history.iter().chain([&accepted.input]).map(|message| message.weight());
                said.sum::<usize>() + accepted.state.as_deref().map_or(0, weight_of_map)
            }
            Event::Message { message } => message.weight(),
            Event::HookFinished { change, why, .. } => {
                change.as_deref().map_or(0, weight_of_change) + why.as_ref().map_or(0, |why| why.len())
            }
            Event::ToolFinished { result, remains, state, .. } => {
                let besides = weight_of_remains(remains.as_deref()) + state.as_deref().map_or(0, weight_of_map);
                weight_of_result(result) + besides
            }
            Event::ToolRefused { result, .. } => weight_of_result(result),
            _ => 0,
        },
    };
    ENTRY + said
}

fn weight_of_change(change: &HookChange) -> usize {
    let said = match change {
        HookChange::Input { input: message } | HookChange::Answer { answer: message, .. } => message.weight(),
        HookChange::Request { request } => weight_of_request(request),
        HookChange::Call { call } => call.name.len() + call.arguments.len(),
        HookChange::Result { result } => weight_of_result(result),
        #[cfg(not(andon_whole))]
        _ => 0,
    };
    size_of::<HookChange>() + said
}

fn weight_of_request(request: &RequestChange) -> usize {
    let messages = request.messages.iter().flat_map(|messages| &messages.with).map(|message| message.weight());
    let texts = request.tools.iter().flat_map(|names| names.iter()).chain(&request.settings.stop).map(String::len);
    request.instructions.as_ref().map_or(0, |text| text.len()) + messages.chain(texts).sum::<usize>()
}

fn weight_of_remains(remains: Option<&Remains>) -> usize {
    let Some(Remains { leaked, unended, notes, output, .. }) = remains else { return 0 };
    let said = leaked.iter().chain(unended).chain(notes).map(String::len);
    said.chain(output.iter().map(Content::weight)).sum()
}

/// About how many bytes an addendum takes.
pub(super) fn weight_of_addendum(what: &AddendumKind) -> usize {
    let said = match what {
        AddendumKind::LateResult { result, remains, .. } => {
            weight_of_result(result) + weight_of_remains(remains.as_deref())
        }
        AddendumKind::CompensationStarted { by, .. } => by.as_ref().map_or(0, |by| by.len()),
        AddendumKind::CompensationFinished { result, .. } => weight_of_result(result),
        AddendumKind::Undelivered { parts, .. } => parts.iter().map(Part::weight).sum(),
        AddendumKind::UsageCorrected { .. } => size_of::<Used>(),
        #[cfg(not(andon_whole))]
        _ => 0,
    };
    ENTRY + said
}

/// About how many bytes a key of a session's state takes, with its value.
pub(super) fn weight_of_field(key: &str, value: &Value) -> usize {
    key.len() + weight_of_value(value)
}

fn weight_of_map(fields: &Map<String, Value>) -> usize {
    fields.iter().map(|(key, value)| weight_of_field(key, value)).sum()
}

fn weight_of_result(result: &ToolResult) -> usize {
    result.content.iter().map(Content::weight).sum()
}

/// About how many bytes something takes that is kept with a session.
pub(super) fn weight_of_kept(kept: &Attachment) -> usize {
    ENTRY + kept.name.len() + weight_of_value(&kept.value)
}

fn weight_of_value(value: &Value) -> usize {
    let within = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(weight_of_value).sum(),
        Value::Object(fields) => weight_of_map(fields),
    };
    size_of::<Value>() + within
}
