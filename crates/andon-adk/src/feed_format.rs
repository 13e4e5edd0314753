//! A run's feed as ADK writes it: one write per event.
//!
//! ADK's page shows an event twice, or not at all, if a read ends in the middle of one. So no event shares a chunk with another.

use std::collections::VecDeque;

use andon_runtime::{Ending, Event, Failure, FeedItem, Runtime};
use andon_server::dialect::FeedFormat;
use axum::body::Bytes;
use bytes::{BufMut, BytesMut};
use serde::Serialize;
use serde_json::json;

use super::closing::{code, is_providers_answer};
use super::event::seconds;
use super::render::Rendering;

/// Writes event by event.
pub(crate) struct EventByEvent {
    rendering: Rendering,
    runtime: Runtime,
    /// The events of one feed item.
    events: VecDeque<Bytes>,
    is_done: bool,
}

impl EventByEvent {
    pub(crate) fn new(rendering: Rendering, runtime: Runtime) -> Self {
        Self { rendering, runtime, events: VecDeque::new(), is_done: false }
    }
}

impl FeedFormat for EventByEvent {
    fn write(&mut self, item: &FeedItem) {
        let told = self.rendering.tell(item, || self.runtime.now().wall);
        self.events.extend(told.iter().map(event));
        let FeedItem::Fact(record) = item else { return };
        self.is_done = self.rendering.waits();
        if let Event::RunSettled { outcome } = &record.event
            && let Ending::Failed(failure) = &**outcome
            && !is_providers_answer(failure.error)
        {
            self.events.push_back(event(&error_object(failure, seconds(record.at.wall))));
        }
    }

    fn full(&mut self) -> Option<Bytes> {
        self.events.pop_front()
    }

    fn rest(&mut self) -> Option<Bytes> {
        self.events.pop_front()
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

/// What ADK's server sends after the event of an unexpected error; its page shows it to the person.
pub(crate) fn error_object(failure: &Failure, timestamp: f64) -> serde_json::Value {
    let (kind, message) = (code(failure.error), &failure.message);
    let details = json!({"error_type": kind, "error_message": message, "timestamp": timestamp});
    json!({"error": format!("{kind}: {message}"), "error_details": details})
}

/// One event as a frame.
fn event(told: &impl Serialize) -> Bytes {
    let mut frame = BytesMut::with_capacity(512);
    frame.extend_from_slice(b"data: ");
    // Plain data into a buffer that grows, so this does not fail; if it did, the event would be empty.
    let _ = serde_json::to_writer((&mut frame).writer(), told);
    frame.extend_from_slice(b"\n\n");
    frame.freeze()
}
