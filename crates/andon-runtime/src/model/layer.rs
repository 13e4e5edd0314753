//! A layer around a model, which changes some of what it does and forwards the rest.
//!
//! # Invariants
//!
//! 1. Whatever a layer does not change comes from the inner model, including what later versions ask of models: wrapping a model loses nothing
//!    that it can say.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use andon_core::answer::Piece;
use andon_core::usage::Usage;

use super::{Answer, FollowUp, Meter, Model, ModelError, ModelRequest};
use crate::model::rendering::Rendering;

/// A layer around a model: a [`Model`] that changes some of what another one does and forwards the rest.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use andon::{Agent, Practice};
/// use andon::model::{Answer, Model, ModelLayer, ModelRequest, Piece};
///
/// /// Counts the calls, and shouts.
/// struct Loud<M> {
///     inner: M,
///     calls: AtomicUsize,
/// }
///
/// impl<M: Model> ModelLayer for Loud<M> {
///     fn inner(&self) -> &dyn Model {
///         &self.inner
///     }
///
///     fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
///         self.calls.fetch_add(1, Ordering::SeqCst);
///         self.inner.call(request).map_pieces(|piece| match piece {
///             Piece::Text(text) => Ok(Piece::Text(text.to_uppercase())),
///             other => Ok(other),
///         })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Loud { inner: Practice::instant(), calls: AtomicUsize::new(0) };
/// let agent = Agent::builder().model(model).build()?;
/// let text = agent.run("Hello").await?.completed()?.text();
/// assert_eq!(text, text.to_uppercase());
/// # Ok(())
/// # }
/// ```
///
/// Everything else is the inner model's: its name, its [meter](Model::meter), what it [would send](Model::rendering), and, through
/// [`map_pieces`](trait.Answer.html#method.map_pieces) or the answer itself, what it has used, who answers and what can be learned after a cut.
///
/// A layer that sends another request than it was given says so in [`rendering`](Self::rendering), and returns `None` from
/// [`meter`](Self::meter). Figures that the provider does not report are then unknown, instead of being about another request.
pub trait ModelLayer: Send + Sync + 'static {
    /// The model inside.
    fn inner(&self) -> &dyn Model;

    /// As [`Model::name`].
    fn name(&self) -> &str {
        self.inner().name()
    }

    /// As [`Model::call`].
    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        self.inner().call(request)
    }

    /// As [`Model::meter`]. A meter counts the request that this layer is given: a layer that sends another one returns `None`, or a
    /// meter of its own that knows what is sent.
    fn meter(&self) -> Option<Arc<dyn Meter>> {
        self.inner().meter()
    }

    /// As [`Model::rendering`].
    fn rendering(&self, request: &ModelRequest) -> Option<Rendering> {
        self.inner().rendering(request)
    }
}

// Without this, what a model is asked in a later version would stop at the layer without a word.
#[deny(clippy::missing_trait_methods)]
#[diagnostic::do_not_recommend]
impl<L: ModelLayer> Model for L {
    fn name(&self) -> &str {
        ModelLayer::name(self)
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        ModelLayer::call(self, request)
    }

    fn meter(&self) -> Option<Arc<dyn Meter>> {
        ModelLayer::meter(self)
    }

    fn rendering(&self, request: &ModelRequest) -> Option<Rendering> {
        ModelLayer::rendering(self, request)
    }
}

impl dyn Answer {
    /// The same answer, each piece of which goes through the closure: it may look at it, change it or end the answer with an error. An empty
    /// text is shown to nobody.
    ///
    /// The closure sees the usage, too, but what it makes of it is not used, nor is usage that it makes of anything else: figures are the provider's. Everything else about the answer stays as it is.
    ///
    /// Once a piece was changed, nothing is learned from the answer's text, and what the provider does not report of its output is
    /// unknown: see [`Answer::is_changed`]. A closure that only looks costs no figure.
    pub fn map_pieces<F>(self: Box<Self>, change: F) -> Box<dyn Answer>
    where
        F: FnMut(Piece) -> Result<Piece, ModelError> + Send + 'static,
    {
        Box::new(MappedAnswer { inner: self, change, is_changed: false })
    }
}

struct MappedAnswer<F> {
    inner: Box<dyn Answer>,
    change: F,
    /// Whether a piece was not as the model wrote it.
    is_changed: bool,
}

#[deny(clippy::missing_trait_methods)]
impl<F> Answer for MappedAnswer<F>
where
    F: FnMut(Piece) -> Result<Piece, ModelError> + Send + 'static,
{
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        let piece = match ready!(self.inner.poll_piece(cx)) {
            Some(Ok(piece)) => piece,
            end => return Poll::Ready(end),
        };
        let written = piece.clone();
        let changed = match ((self.change)(piece), &written) {
            (Err(error), _) => return Poll::Ready(Some(Err(error))),
            (Ok(_), Piece::Usage(_)) => return Poll::Ready(Some(Ok(written))),
            // Figures that nobody has reported are not passed on. A piece must be returned, and an empty text adds nothing.
            (Ok(Piece::Usage(_)), _) => Piece::Text(String::new()),
            (Ok(changed), _) => changed,
        };
        self.is_changed |= changed != written;
        Poll::Ready(Some(Ok(changed)))
    }

    fn usage_so_far(&self) -> Usage {
        self.inner.usage_so_far()
    }

    fn model(&self) -> Option<&str> {
        self.inner.model()
    }

    fn request_id(&self) -> Option<&str> {
        self.inner.request_id()
    }

    fn is_changed(&self) -> bool {
        self.is_changed || self.inner.is_changed()
    }

    fn cut(self: Box<Self>) -> Option<FollowUp> {
        self.inner.cut()
    }
}
