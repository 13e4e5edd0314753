//! An answer from Bedrock as it arrives.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use andon_core::usage::Usage;
use andon_runtime::{Answer, BoxFuture, FollowUp, ModelError, Piece};
use aws_sdk_bedrockruntime::primitives::event_stream::EventReceiver;
use aws_sdk_bedrockruntime::types::ConverseStreamOutput;
use aws_sdk_bedrockruntime::types::error::ConverseStreamOutputError;
use aws_smithy_types::body::SdkBody;

use super::{Access, plain};
use crate::cut::Drain;
use crate::cut::drain::{self, Drained};
use crate::decode::bedrock::Bedrock;
use crate::http::size;

type Receiver = EventReceiver<ConverseStreamOutput, ConverseStreamOutputError>;

/// The next event and the rest of the stream; `None` if it has ended.
type Next = BoxFuture<Result<Option<(ConverseStreamOutput, Receiver)>, Failed>>;

/// Why there is no next event.
struct Failed {
    error: ModelError,
    /// Whether the provider may have begun to work.
    has_begun: bool,
}

/// An answer that is being read.
pub(super) struct BedrockAnswer {
    /// The wait for the next event; `None` once the answer is over.
    next: Option<Next>,
    /// Whether the answer has begun to arrive.
    has_begun: bool,
    /// Whether the provider may have begun to work, and to charge.
    is_asked: bool,
    decoder: Bedrock,
    /// Pieces that were read and not yet given out.
    pieces: VecDeque<Piece>,
    /// How many calls were given out.
    calls: usize,
    /// How many bytes of text and arguments have arrived.
    received: usize,
    caps: Drain,
}

impl BedrockAnswer {
    pub(super) fn new(access: Arc<Access>, model: Arc<str>, body: String, caps: Drain) -> Self {
        let next = open(access, model, body);
        Self {
            next: Some(next),
            has_begun: false,
            is_asked: false,
            decoder: Bedrock::default(),
            pieces: VecDeque::new(),
            calls: 0,
            received: 0,
            caps,
        }
    }

    /// Reads on until there is a piece, an error or the end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ModelError>> {
        while self.pieces.is_empty() {
            let Some(next) = &mut self.next else { break };
            self.is_asked = true;
            let received = ready!(next.as_mut().poll(cx));
            self.next = None;
            let received = received.map_err(|failed| {
                self.is_asked = failed.has_begun;
                failed.error
            })?;
            self.take(received)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Takes what was received.
    fn take(&mut self, received: Option<(ConverseStreamOutput, Receiver)>) -> Result<(), ModelError> {
        let before = self.pieces.len();
        let Some((event, rest)) = received else { return self.decoder.finish(&mut self.pieces) };
        self.has_begun = true;
        if let Some(event) = plain::event(event) {
            self.decoder.event(event, &mut self.pieces)?;
        }
        self.received += self.pieces.iter().skip(before).map(size::of).sum::<usize>();
        self.next = (!self.decoder.is_over()).then(|| receive(rest));
        Ok(())
    }
}

impl Drained for BedrockAnswer {
    fn reported(&self) -> Usage {
        self.decoder.usage()
    }

    fn calls(&self) -> usize {
        self.calls
    }

    fn received(&self) -> usize {
        self.received
    }
}

impl Answer for BedrockAnswer {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        if let Err(error) = ready!(self.poll_read(cx)) {
            return Poll::Ready(Some(Err(error)));
        }
        let piece = self.pieces.pop_front();
        self.calls += usize::from(matches!(piece, Some(Piece::Call { .. })));
        Poll::Ready(piece.map(Ok))
    }

    fn usage_so_far(&self) -> Usage {
        if self.is_asked { self.decoder.usage() } else { Usage::NONE }
    }

    fn cut(self: Box<Self>) -> Option<FollowUp> {
        // A request that may not have left must not be sent after the pull: only an answer that has begun to arrive is drained.
        if !self.has_begun || self.next.is_none() {
            return None;
        }
        let caps = self.caps;
        // Without a permit it is dropped here, and its connection with it.
        drain::begin(self, caps).ok()
    }
}

/// Sends the request and waits for the first event.
fn open(access: Arc<Access>, model: Arc<str>, body: String) -> Next {
    Box::pin(async move {
        let client = access.client().await;
        let call = client.converse_stream().model_id(&*model).customize().mutate_request(move |request| {
            // Before it is signed: see the parent module's invariant 1.
            request.headers_mut().insert("content-length", body.len().to_string());
            *request.body_mut() = SdkBody::from(body.clone());
        });
        let failed = |error| Failed { has_begun: !plain::never_begun(&error), error: plain::problem(&error) };
        let answer = call.send().await.map_err(failed)?;
        receive(answer.stream).await
    })
}

fn receive(mut stream: Receiver) -> Next {
    Box::pin(async move {
        let failed = |error| Failed { has_begun: true, error: plain::problem(&error) };
        let event = stream.recv().await.map_err(failed)?;
        Ok(event.map(|event| (event, stream)))
    })
}
