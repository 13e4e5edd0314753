//! One answer over HTTP: request, headers, body, each polled by whoever wants the next piece.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use andon_core::usage::Usage;
use andon_runtime::{Answer, BoxFuture, FollowUp, ModelError, Piece};
use bytes::Bytes;
use tokio::time::{Sleep, sleep};

use super::after_cut::AfterCut;
use crate::cut::drain::Drained;
use crate::decode::event::is_whole;
use crate::decode::{Decode, Frame};
use crate::http::failure::{self, FailedWhile};
use crate::http::send::{AnswerBody, Answered};
use crate::http::size::Size;
use crate::http::{Framing, Sending, status};
use crate::lines::Lines;
use crate::sse::{FrameTooLong, Sse};

/// How many frames without a piece are read in one poll: a server that only pings must not hog the thread.
const FRAMES_A_POLL: usize = 256;

/// How long the end of an answer's body may take after its last piece.
const ENDS_WITHIN: Duration = Duration::from_millis(20);

/// An answer as it arrives over HTTP. Nothing is sent before it is polled.
pub(super) struct HttpAnswer {
    phase: Phase,
    frames: Frames,
    decoder: Box<dyn Decode>,
    pieces: VecDeque<Piece>,
    /// The error that ended it, returned after all pieces before it.
    failed: Option<ModelError>,
    size: Size,
    /// Calls that were handed out.
    calls: usize,
    /// The provider's id for the answer, from the headers.
    id: Option<String>,
    /// The provider's id for the request, from the headers.
    request_id: Option<String>,
    /// Whether the provider may have begun to work, and to charge.
    begun: bool,
    after: AfterCut,
}

/// How far the call has come.
pub(super) enum Phase {
    /// The request is being written.
    Writing(BoxFuture<Result<Sending, ModelError>>),
    Ready(Box<Sending>),
    Asking(BoxFuture<reqwest::Result<Answered>>),
    Refused(BoxFuture<ModelError>),
    Reading(AnswerBody),
    /// The answer is whole; what is left is the end of its body.
    Ending(AnswerBody, Pin<Box<Sleep>>),
    Over,
}

impl From<Result<Sending, ModelError>> for Phase {
    fn from(written: Result<Sending, ModelError>) -> Self {
        match written {
            Ok(request) => Self::Ready(Box::new(request)),
            Err(error) => Self::Refused(Box::pin(std::future::ready(error))),
        }
    }
}

enum Frames {
    Sse(Sse),
    Lines(Lines),
}

impl Frames {
    fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Sse(sse) => sse.push(bytes),
            Self::Lines(lines) => lines.push(bytes),
        }
    }

    fn next(&mut self) -> Result<Option<Frame<'_>>, FrameTooLong> {
        match self {
            Self::Sse(sse) => sse.frame(),
            Self::Lines(lines) => lines.frame(),
        }
    }

    fn rest(&mut self) -> Option<Frame<'_>> {
        match self {
            Self::Sse(sse) => sse.rest(),
            Self::Lines(lines) => lines.rest(),
        }
    }
}

impl HttpAnswer {
    /// The answer to a request that will be sent when it is first polled.
    pub(super) fn new(phase: Phase, after: AfterCut) -> Self {
        let dialect = after.inner.facts.dialect;
        Self {
            phase,
            frames: match dialect.framing() {
                Framing::Sse => Frames::Sse(Sse::default()),
                Framing::Lines => Frames::Lines(Lines::default()),
            },
            decoder: dialect.decoder(),
            pieces: VecDeque::new(),
            failed: None,
            size: Size::default(),
            calls: 0,
            id: None,
            request_id: None,
            begun: false,
            after,
        }
    }

    /// The provider's id for the answer.
    pub(super) fn id(&self) -> Option<&str> {
        self.decoder.id().or(self.id.as_deref())
    }

    /// What the provider says of itself, unless it repeats a secret.
    fn without_secrets<'a>(&self, said: Option<&'a str>) -> Option<&'a str> {
        said.filter(|said| !self.after.inner.target.scrub.finds(said))
    }

    /// Whether the answer has begun to arrive.
    pub(super) fn is_reading(&self) -> bool {
        matches!(self.phase, Phase::Reading(_))
    }

    /// Takes the next step of the call. Ready once it is taken, or has failed.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ModelError>> {
        match &mut self.phase {
            Phase::Writing(writing) => {
                self.phase = ready!(writing.as_mut().poll(cx)).into();
                Poll::Ready(Ok(()))
            }
            Phase::Ready(_) => {
                if let Phase::Ready(ready) = std::mem::replace(&mut self.phase, Phase::Over) {
                    self.phase = Phase::Asking(ready.send()?);
                    self.begun = true;
                }
                Poll::Ready(Ok(()))
            }
            Phase::Asking(asking) => {
                let answered = ready!(asking.as_mut().poll(cx));
                Poll::Ready(self.answered(answered))
            }
            Phase::Refused(words) => Poll::Ready(Err(ready!(words.as_mut().poll(cx)))),
            Phase::Reading(body) => {
                let more = ready!(body.poll_next(cx));
                Poll::Ready(self.read(more))
            }
            Phase::Over | Phase::Ending(..) => Poll::Ready(Ok(())),
        }
    }

    fn answered(&mut self, answered: reqwest::Result<Answered>) -> Result<(), ModelError> {
        let answered = match answered {
            Ok(answered) => answered,
            Err(error) => {
                self.begun = !failure::never_reached(&error);
                return Err(failure::in_words(&error, FailedWhile::Asking));
            }
        };
        let response = &answered.response;
        let inner = Arc::clone(&self.after.inner);
        self.request_id = status::request_id(response.headers());
        if status::is_answer(response, inner.facts.dialect.framing()) {
            self.id = status::generation(response.headers());
            self.phase = Phase::Reading(answered.body());
            return Ok(());
        }
        // A provider that refuses a request has not worked on it.
        self.begun = !(300..500).contains(&response.status().as_u16());
        self.phase = Phase::Refused(Box::pin(async move { status::refusal(answered, &inner.target).await }));
        Ok(())
    }

    fn read(&mut self, more: Option<reqwest::Result<Bytes>>) -> Result<(), ModelError> {
        match more {
            Some(Ok(bytes)) => {
                self.size.arrived(bytes.len())?;
                self.frames.push(&bytes);
                Ok(())
            }
            Some(Err(error)) => self.finish(Some(failure::in_words(&error, FailedWhile::Reading))),
            None => self.finish(None),
        }
    }

    /// The stream has ended. If the answer has not, it broke off, and the connection's error says why, if there is one.
    fn finish(&mut self, lost: Option<ModelError>) -> Result<(), ModelError> {
        self.phase = Phase::Over;
        // Half a frame cannot be read; "it broke off" is a better error than that.
        if let Some(rest) = self.frames.rest().filter(|rest| is_whole(rest.data)) {
            self.decoder.frame(rest, &mut self.pieces)?;
        }
        match lost {
            Some(lost) => self.decoder.lost(&mut self.pieces).map_err(|_| lost),
            None => self.decoder.finish(&mut self.pieces),
        }
    }

    /// Decodes the next whole frame. Returns whether there was one.
    fn decode(&mut self) -> Result<bool, ModelError> {
        let frame = self.frames.next().map_err(|error| ModelError::fatal(error.to_string()))?;
        let Some(frame) = frame else { return Ok(false) };
        let before = self.pieces.len();
        self.decoder.frame(frame, &mut self.pieces)?;
        self.size.read(self.pieces.iter().skip(before))?;
        Ok(true)
    }

    /// The answer is whole. If its body ends as well, the next call can use its connection, so it gets a moment for that.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Phase::Reading(_) = &self.phase
            && let Phase::Reading(body) = std::mem::replace(&mut self.phase, Phase::Over)
        {
            self.phase = Phase::Ending(body, Box::pin(sleep(ENDS_WITHIN)));
        }
        if let Phase::Ending(body, timer) = &mut self.phase {
            loop {
                match body.poll_next(cx) {
                    Poll::Pending => ready!(timer.as_mut().poll(cx)),
                    // The answer is over: whatever still arrives is ignored.
                    Poll::Ready(Some(Ok(_))) if !timer.is_elapsed() => continue,
                    Poll::Ready(_) => {}
                }
                break;
            }
        }
        self.phase = Phase::Over;
        Poll::Ready(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        for _ in 0..FRAMES_A_POLL {
            if let Some(Piece::End(_)) = self.pieces.front() {
                ready!(self.poll_end(cx));
            }
            if let Some(piece) = self.pieces.pop_front() {
                self.calls += usize::from(matches!(piece, Piece::Call { .. }));
                return Poll::Ready(Some(Ok(piece)));
            }
            if let Some(error) = self.failed.take() {
                return Poll::Ready(Some(Err(error)));
            }
            let step = match self.phase {
                Phase::Over | Phase::Ending(..) => return Poll::Ready(None),
                Phase::Reading(_) => self.decode(),
                Phase::Writing(_) | Phase::Ready(_) | Phase::Asking(_) | Phase::Refused(_) => Ok(false),
            };
            let step = match step {
                Ok(true) => continue,
                Ok(false) => ready!(self.advance(cx)),
                Err(error) => Err(error),
            };
            if let Err(error) = step {
                self.phase = Phase::Over;
                self.failed = Some(error);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drained for HttpAnswer {
    fn reported(&self) -> Usage {
        self.decoder.usage()
    }

    fn calls(&self) -> usize {
        self.calls
    }

    fn received(&self) -> usize {
        self.size.wire()
    }
}

impl Answer for HttpAnswer {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        let piece = ready!(self.poll(cx));
        Poll::Ready(piece.map(|piece| piece.map_err(|error| self.after.inner.target.error(error))))
    }

    fn usage_so_far(&self) -> Usage {
        if self.begun { self.decoder.usage() } else { Usage::NONE }
    }

    fn model(&self) -> Option<&str> {
        self.without_secrets(self.decoder.model())
    }

    fn request_id(&self) -> Option<&str> {
        self.without_secrets(self.request_id.as_deref().or(self.decoder.id()))
    }

    fn cut(self: Box<Self>) -> Option<FollowUp> {
        let is_open = matches!(self.phase, Phase::Asking(_) | Phase::Reading(_));
        if !is_open || !self.begun {
            return None;
        }
        let after = self.after.clone();
        after.of(self)
    }
}
