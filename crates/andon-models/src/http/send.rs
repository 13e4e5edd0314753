//! A request on its way.

use std::pin::Pin;
use std::task::{Context, Poll};

use andon_runtime::{BoxFuture, ModelError};
use bytes::Bytes;
use futures_core::Stream;
use reqwest::{Request, Response};

use super::client::{Place, Protocol, place};
use super::proxy;

/// A request that has not been sent. Which client sends it is known on the runtime that does.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) protocol: Protocol,
    pub(crate) request: Request,
}

/// The beginning of an answer, and its place on a client.
pub(crate) struct Answered {
    pub(super) response: Response,
    pub(super) place: Place,
}

impl Sending {
    /// Sends it as it is polled, which is done on the runtime on which this was called.
    pub(super) fn send(self) -> Result<BoxFuture<reqwest::Result<Answered>>, ModelError> {
        let (client, place) = place(self.protocol, proxy::is_here(self.request.url()))?;
        Ok(Box::pin(async move { Ok(Answered { response: client.execute(self.request).await?, place }) }))
    }
}

impl Answered {
    /// The answer's bytes.
    pub(super) fn body(self) -> Body {
        Body { bytes: Box::pin(self.response.bytes_stream()), _place: self.place }
    }
}

/// The bytes of an answer as they come.
pub(crate) struct Body {
    bytes: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    _place: Place,
}

impl Body {
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<reqwest::Result<Bytes>>> {
        self.bytes.as_mut().poll_next(cx)
    }
}
