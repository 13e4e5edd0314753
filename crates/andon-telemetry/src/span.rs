//! Spans, made from a run's facts.
//!
//! # Invariants
//!
//! 1. A span is made when it ends, from the facts and the instant at which the last one was durable; its beginning is found among
//!    the earlier facts. So each span that began ends once, on every path, stops and crashes included, and nothing is kept while
//!    a run goes on.
//! 2. Ids are digests of the run's id and the seq of the fact that began the span: the same facts always give the same span.
//! 3. No word of a prompt, an answer, an argument or a result is in a span.

mod calls;
mod ids;
mod run;

use std::sync::Arc;

use andon_runtime::core::event::{Event, Record};
use andon_runtime::core::id::RunId;
use andon_runtime::core::time::{Stamp, Wall};
use serde::{Serialize, Serializer};

pub use ids::{SpanId, TraceId};

/// A span that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The trace: one for each run.
    pub trace: TraceId,
    /// Its id.
    pub id: SpanId,
    /// The span that it is part of; `None` for a run's own.
    pub parent: Option<SpanId>,
    /// What is done, and to what.
    pub name: String,
    /// What kind of work it is.
    pub kind: Kind,
    /// When it began.
    pub start: Wall,
    /// When it ended.
    pub end: Wall,
    /// Its attributes.
    pub attributes: Attributes,
    /// What happened during the span.
    pub events: Vec<SpanEvent>,
    /// Whether it failed. Being stopped is not a failure.
    pub status: Status,
}

/// Something that happened during a span.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanEvent {
    /// What happened.
    pub name: &'static str,
    /// When it happened.
    pub at: Wall,
    /// Its attributes.
    pub attributes: Attributes,
}

/// What kind of work a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Work in this process.
    Internal,
    /// A call to another service.
    Client,
}

/// Whether a span failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It did not fail.
    Unset,
    /// It failed.
    Error {
        /// How, as a word from a small set.
        what: &'static str,
    },
}

/// What an attribute can be.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A text.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
    /// A number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// Names and values, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attributes(pub Vec<(&'static str, Value)>);

impl Attributes {
    fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push((name, value.into()));
    }

    fn set_known(&mut self, name: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }
}

impl Serialize for Attributes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// The span that a fact ends, if it ends one. `past` has the run's earlier facts; `settled` is when its last one was durable, if
/// that is known.
pub fn ended_by(past: &[Arc<Record>], record: &Record, settled: Option<Stamp>) -> Option<Span> {
    match &record.event {
        Event::ModelFinished { call, end, first_piece_us } => calls::model(past, record, *call, end, *first_piece_us),
        Event::ToolFinished { call, end, result, .. } => calls::tool(past, record, call, *end, result.status),
        Event::ToolRefused { call, why, .. } => calls::refused(past, record, call, *why),
        Event::RunSettled { outcome } => run::settled(past, record, outcome, settled),
        _ => None,
    }
}

/// All spans of a run that have ended, in that order: the run's own is the last. `settled` is when its last fact was durable, if
/// that is known.
pub fn of_run(records: &[Arc<Record>], settled: Option<Stamp>) -> Vec<Span> {
    let ended =
        |(place, record): (usize, &Arc<Record>)| ended_by(records.get(..place).unwrap_or_default(), record, settled);
    records.iter().enumerate().filter_map(ended).collect()
}

/// The run that these facts belong to.
fn run_id(past: &[Arc<Record>]) -> Option<&RunId> {
    match &past.first()?.event {
        Event::RunAccepted { accepted } => Some(&accepted.run),
        _ => None,
    }
}

/// A span of a run, from one of its facts to another, without attributes yet.
fn between(run: &RunId, start: &Record, end: &Record, name: String, kind: Kind) -> Span {
    let root = SpanId::of(run, 1);
    let id = SpanId::of(run, start.seq);
    Span {
        trace: TraceId::of(run),
        id,
        parent: (id != root).then_some(root),
        name,
        kind,
        start: start.at.wall,
        // Even if the clock was set back, a span does not end before it begins.
        end: end.at.wall.max(start.at.wall),
        attributes: Attributes::default(),
        events: Vec::new(),
        status: Status::Unset,
    }
}
