//! A request on its way.

use std::pin::Pin;
use std::task::{Context, Poll};

use andon_runtime::{BoxFuture, ModelError};
use bytes::Bytes;
use futures_core::Stream;
use reqwest::{Request, Response};

use super::client::{self, OpenAnswer, Protocol};
use super::proxy;

/// A request that has not been sent. The runtime that sends it determines the client.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) protocol: Protocol,
    pub(crate) request: Request,
}

/// The beginning of an answer, counted as open at its client.
pub(crate) struct Answered {
    pub(crate) response: Response,
    pub(super) open: OpenAnswer,
}

impl Sending {
    /// Sends it when it is polled, which must happen on the runtime that called this.
    pub(crate) fn send(self) -> Result<BoxFuture<reqwest::Result<Answered>>, ModelError> {
        let (client, open) = client::take(self.protocol, proxy::is_here(self.request.url()))?;
        Ok(Box::pin(async move { Ok(Answered { response: client.execute(self.request).await?, open }) }))
    }
}

impl Answered {
    /// The answer's bytes.
    pub(crate) fn body(self) -> AnswerBody {
        AnswerBody { bytes: Box::pin(self.response.bytes_stream()), _open: self.open }
    }
}

/// The bytes of an answer as they arrive.
pub(crate) struct AnswerBody {
    bytes: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    _open: OpenAnswer,
}

impl AnswerBody {
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<reqwest::Result<Bytes>>> {
        self.bytes.as_mut().poll_next(cx)
    }
}
