//! A model made from a closure that returns a stream.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use andon_core::answer::Piece;
use andon_core::usage::Usage;
use futures_core::Stream;

use super::{Answer, Model, ModelError, ModelRequest};
use crate::lanes::BoxFuture;

/// A model made from an async closure that returns the answer as a stream of pieces.
///
/// ```
/// use andon::{Agent, Usage};
/// use andon::model::{ModelStop, Piece, StreamModel};
/// use futures_util::stream;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = StreamModel::new("echo", |request| async move {
///     let said = request.prompt().last().map(|message| message.text()).unwrap_or_default();
///     let usage = Usage::reported(said.len() as u64, said.len() as u64);
///     Ok(stream::iter([Ok(Piece::Text(said)), Ok(usage.into()), Ok(ModelStop::EndTurn.into())]))
/// });
/// let agent = Agent::builder().model(model).build()?;
/// assert_eq!(agent.run("Hello").await?.completed()?.text(), "Hello");
/// # Ok(())
/// # }
/// ```
///
/// The closure connects, sends [`request.prompt()`](ModelRequest::prompt) and returns the stream. It is called when the answer is first polled. An
/// error of either is a [`ModelError`], which says whether trying again may help; `?` makes one that may pass from an [`std::io::Error`],
/// and `.map_err(ModelError::fatal)` one that will not from anything that can be displayed.
///
/// What the provider has reported by then is a [`Piece::Usage`], as often as it says so: when the answer is cut, the last figures are kept, and
/// the receipt has them as [`ReportedRunning`](crate::Provenance::ReportedRunning). [`Piece::End`] is the last piece; a stream that ends
/// without it has broken off, and the run fails with what it had shown.
///
/// At a stop the closure's future or the stream is dropped, at once and wherever it is, which closes its connection. Neither may block.
/// For a meter, a rendering or something to learn after a cut, put a [`ModelLayer`](crate::ModelLayer) around it, or implement [`Model`] and
/// [`Answer`] by hand.
#[derive(Clone)]
pub struct StreamModel {
    name: Arc<str>,
    ask: Arc<Ask>,
}

type Ask = dyn Fn(ModelRequest) -> BoxFuture<Result<Pieces, ModelError>> + Send + Sync;
type Pieces = Pin<Box<dyn Stream<Item = Result<Piece, ModelError>> + Send>>;

impl StreamModel {
    /// A model with this name that calls this closure.
    pub fn new<F, R, S>(name: impl Into<Arc<str>>, ask: F) -> Self
    where
        F: Fn(ModelRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<S, ModelError>> + Send + 'static,
        S: Stream<Item = Result<Piece, ModelError>> + Send + 'static,
    {
        let ask = Arc::new(ask);
        let ask = move |request| -> BoxFuture<Result<Pieces, ModelError>> {
            let ask = Arc::clone(&ask);
            Box::pin(async move { ask(request).await.map(|pieces| Box::pin(pieces) as Pieces) })
        };
        Self { name: name.into(), ask: Arc::new(ask) }
    }
}

impl fmt::Debug for StreamModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamModel").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Model for StreamModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        Box::new(StreamAnswer { stands: Stands::Asking((self.ask)(request)), usage: Usage::UNKNOWN })
    }
}

struct StreamAnswer {
    stands: Stands,
    /// What the provider has reported so far.
    usage: Usage,
}

/// Where the answer stands.
enum Stands {
    Asking(BoxFuture<Result<Pieces, ModelError>>),
    Streaming(Pieces),
    /// It has failed or ended, and its connection is closed.
    Over,
}

impl Answer for StreamAnswer {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        loop {
            let piece = match &mut self.stands {
                Stands::Asking(asking) => match ready!(asking.as_mut().poll(cx)) {
                    Ok(pieces) => {
                        self.stands = Stands::Streaming(pieces);
                        continue;
                    }
                    Err(error) => Some(Err(error)),
                },
                Stands::Streaming(pieces) => ready!(pieces.as_mut().poll_next(cx)),
                Stands::Over => None,
            };
            match &piece {
                Some(Ok(Piece::Usage(usage))) => self.usage = self.usage.corrected_by(**usage),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => self.stands = Stands::Over,
            }
            return Poll::Ready(piece);
        }
    }

    fn usage_so_far(&self) -> Usage {
        self.usage
    }
}
