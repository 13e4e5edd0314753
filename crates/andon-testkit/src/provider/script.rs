//! What a request gets: a status, headers, and steps.
//!
//! A script is built step by step and played in that order. One that runs out of steps ends like a good answer.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::dialect::{Dialect, Frame};
use super::gate::Gate;
use super::reply::Reply;
use super::request::Request;

/// One thing that a script does.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Sends a frame in one write.
    Frame(Frame),
    /// Sends a frame, one byte per write.
    Dribble(Frame),
    /// Sends bytes that are not a whole frame.
    Bytes(Bytes),
    /// Tells the test that this place is reached.
    Mark(String),
    /// Does nothing more, until the client goes away.
    Stall,
    /// Waits for the test.
    Pause(Gate),
    /// Waits a while.
    Wait(Duration),
    /// Sends a frame over and over, until the client goes away.
    Flood(Frame),
    /// Ends like a good answer.
    End,
    /// Breaks off.
    Break(Break),
}

/// How an answer breaks off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Break {
    /// HTTP/1.1: the connection is closed without the last chunk. HTTP/2: RST_STREAM(CANCEL).
    Cut,
    /// HTTP/1.1: TCP's RST. HTTP/2: RST_STREAM with this code.
    Reset(u32),
}

/// HTTP/2's INTERNAL_ERROR.
const INTERNAL_ERROR: u32 = 2;

/// What a request gets. Cheap to clone.
#[must_use = "a script does nothing until a provider plays it"]
#[derive(Debug, Clone)]
pub struct Script {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    /// Played before the headers are sent.
    pub(super) before: Vec<Step>,
    /// Played after.
    pub(super) steps: Vec<Step>,
}

/// What the script begins with.
impl Script {
    /// A status and nothing else.
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), before: Vec::new(), steps: Vec::new() }
    }

    /// The start of a stream as the dialect's provider sends it: 200 and its content type. The steps are yours.
    pub fn stream(dialect: Dialect) -> Self {
        Self::new(200).header("content-type", dialect.content_type())
    }

    /// A whole answer, as the provider would send it on a good day.
    pub fn reply(dialect: Dialect, reply: &Reply) -> Self {
        Self::stream(dialect).frames(dialect.frames(reply))
    }

    /// A JSON document.
    pub fn json(status: u16, document: &Value) -> Self {
        let script = Self::new(status).header("content-type", "application/json");
        script.bytes(document.to_string())
    }

    /// The answer to a request without a script.
    pub(super) fn missing(request: &Request) -> Self {
        let message = format!("the bad provider has no script for {} {}", request.method, request.path);
        Self::json(500, &json!({"error": {"message": message}}))
    }
}

/// Headers.
impl Script {
    /// Sets a header, replacing an earlier one of that name.
    ///
    /// Over HTTP/1.1 a body is sent in chunks, unless there is a `content-length` here (which may be a lie) or
    /// `connection: close`, with which the end of the connection is the end of the body.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// Changes the content type, for instance to a wrong one.
    pub fn content_type(self, content_type: &str) -> Self {
        self.header("content-type", content_type)
    }
}

/// Before the headers.
impl Script {
    /// Never sends even the headers.
    pub fn stall_before_headers(mut self) -> Self {
        self.before.push(Step::Stall);
        self
    }

    /// Sends the headers only when the test opens the gate.
    pub fn pause_before_headers(mut self, gate: &Gate) -> Self {
        self.before.push(Step::Pause(gate.clone()));
        self
    }

    /// Closes without an answer. Over HTTP/2: RST_STREAM(CANCEL).
    pub fn cut_before_headers(mut self) -> Self {
        self.before.push(Step::Break(Break::Cut));
        self
    }

    /// Resets without an answer. Over HTTP/2: RST_STREAM(INTERNAL_ERROR).
    pub fn reset_before_headers(mut self) -> Self {
        self.before.push(Step::Break(Break::Reset(INTERNAL_ERROR)));
        self
    }
}

/// Steps.
impl Script {
    /// Sends frames, one per write.
    pub fn frames(mut self, frames: impl IntoIterator<Item = Frame>) -> Self {
        self.steps.extend(frames.into_iter().map(Step::Frame));
        self
    }

    /// Sends frames, one byte per write.
    pub fn dribble(mut self, frames: impl IntoIterator<Item = Frame>) -> Self {
        self.steps.extend(frames.into_iter().map(Step::Dribble));
        self
    }

    /// Sends bytes as they are, in one write. They count as bytes, not as a frame.
    pub fn bytes(self, bytes: impl Into<Bytes>) -> Self {
        self.step(Step::Bytes(bytes.into()))
    }

    /// Sends the first half of a frame. With [`Script::cut`] or [`Script::end`] after it, the answer ends in mid-frame.
    pub fn half(self, frame: &Frame) -> Self {
        let bytes = frame.bytes();
        self.bytes(bytes.slice(..bytes.len() / 2))
    }

    /// Names a place, for [`SeenRequest::reached`](super::SeenRequest::reached).
    pub fn mark(self, name: &str) -> Self {
        self.step(Step::Mark(name.to_owned()))
    }

    /// Sends nothing more and keeps the connection open, until the client goes away.
    pub fn stall(self) -> Self {
        self.step(Step::Stall)
    }

    /// Goes on when the test opens the gate.
    pub fn pause(self, gate: &Gate) -> Self {
        self.step(Step::Pause(gate.clone()))
    }

    /// Goes on after a while, by the clock of the provider's runtime. This is for pacing; to synchronize with a test, use
    /// [`Script::pause`].
    pub fn wait(self, duration: Duration) -> Self {
        self.step(Step::Wait(duration))
    }

    /// Sends a frame over and over, as fast as the client reads, until it goes away.
    pub fn flood(self, frame: Frame) -> Self {
        self.step(Step::Flood(frame))
    }

    /// Ends the body like a good answer, wherever it is: with the last chunk, or HTTP/2's END_STREAM. A script without an ending
    /// ends like this, too.
    pub fn end(self) -> Self {
        self.step(Step::End)
    }

    /// Breaks off the transport: closes the connection without the last chunk; over HTTP/2, RST_STREAM(CANCEL).
    pub fn cut(self) -> Self {
        self.step(Step::Break(Break::Cut))
    }

    /// Resets: TCP's RST, which may cost the client what it had not read; over HTTP/2, RST_STREAM(INTERNAL_ERROR).
    pub fn reset(self) -> Self {
        self.reset_with(INTERNAL_ERROR)
    }

    /// Resets with one of HTTP/2's codes. With 0 (NO_ERROR), some clients mistake a broken body for a whole one.
    pub fn reset_with(self, code: u32) -> Self {
        self.step(Step::Break(Break::Reset(code)))
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}
