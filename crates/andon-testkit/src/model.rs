//! A model that does what a script says.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use andon_runtime::core::outcome::ModelStop;
use andon_runtime::core::usage::Usage;
use andon_runtime::{Answer, FollowUp, Meter, Model, ModelError, ModelRequest, Pending, Piece, Signature, StreamModel};
use futures_core::Stream;
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};

use crate::figures::{After, ScriptedMeter};

/// One thing that a scripted answer does.
#[derive(Debug, Clone)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Act {
    /// Hands out a piece.
    Piece(Piece),
    /// Hands out the same text over and over, this many times.
    Flood(&'static str, usize),
    /// Is silent for a while.
    Pause(Duration),
    /// Is silent forever.
    Silence,
    /// Yields once, as a busy network does.
    Yield,
    /// Fails.
    Fail(ModelError),
    /// Breaks off without a word.
    Break,
}

impl Act {
    /// Text.
    pub fn text(text: &str) -> Self {
        Self::Piece(Piece::Text(text.to_owned()))
    }

    /// A thought.
    pub fn thinking(text: &str) -> Self {
        Self::Piece(Piece::Thinking(text.to_owned()))
    }

    /// The end of a thought, signed.
    pub fn signed() -> Self {
        Self::Piece(Piece::ThinkingEnd { signature: Some(Signature::new("scripted", "c2VhbA==")) })
    }

    /// A whole tool call in one go.
    pub fn call(index: usize, id: &str, name: &str, json: &str) -> Vec<Self> {
        vec![
            Self::Piece(Piece::Call { id: id.to_owned(), name: name.to_owned() }),
            Self::Piece(Piece::CallInput { index, json: json.to_owned() }),
            Self::Piece(Piece::CallEnd { index }),
        ]
    }

    /// What the provider reports.
    pub fn usage(input: u64, output: u64) -> Self {
        Self::Piece(Piece::Usage(Box::new(Usage::reported(input, output))))
    }

    /// The model is done.
    pub fn end() -> Self {
        Self::Piece(Piece::End(ModelStop::EndTurn))
    }

    /// The model is done and wants its tools called.
    pub fn tool_use() -> Self {
        Self::Piece(Piece::End(ModelStop::ToolUse))
    }
}

/// A model that gives its scripted answers one after the other, and after the last of them a plain one.
///
/// ```
/// # use andon_runtime::Agent;
/// # use andon_testkit::{Act, ScriptedModel};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([vec![Act::text("It is "), Act::text("noon."), Act::usage(12, 4), Act::end()]]);
/// let agent = Agent::builder().model(model.clone()).build()?;
/// assert_eq!(agent.run("What time is it?").await?.completed()?.text(), "It is noon.");
/// assert_eq!((model.calls(), model.open()), (1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ScriptedModel {
    name: Arc<str>,
    state: Arc<Played>,
    after: Option<After>,
    meter: Option<Arc<ScriptedMeter>>,
}

#[derive(Default)]
struct Played {
    answers: Vec<Arc<[Act]>>,
    calls: AtomicUsize,
    open: AtomicUsize,
    requests: Mutex<Vec<ModelRequest>>,
}

impl ScriptedModel {
    /// A model with these answers.
    pub fn new(answers: impl IntoIterator<Item = Vec<Act>>) -> Self {
        let answers = answers.into_iter().map(Arc::from).collect();
        let state = Arc::new(Played { answers, ..Played::default() });
        Self { name: "scripted".into(), state, after: None, meter: None }
    }

    /// More can be learned about its calls that were cut.
    #[doc(hidden)]
    #[must_use]
    pub fn after_a_cut(mut self, after: After) -> Self {
        self.after = Some(after);
        self
    }

    /// It has another name than `scripted`.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// It has a meter.
    #[doc(hidden)]
    #[must_use]
    pub fn metered(mut self, meter: &Arc<ScriptedMeter>) -> Self {
        self.meter = Some(Arc::clone(meter));
        self
    }

    /// The same model, made from a stream of its pieces: without a meter, and nothing can be learned about a call after it was cut.
    pub fn streamed(&self) -> StreamModel {
        let model = self.clone();
        StreamModel::new(Arc::clone(&self.name), move |request| {
            let model = model.clone();
            async move { Ok(Pieces(model.call(request))) }
        })
    }

    /// How often it was called.
    pub fn calls(&self) -> usize {
        self.state.calls.load(Ordering::SeqCst)
    }

    /// How many of its answers are open: connections that nobody has closed.
    pub fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    /// What it was asked, call by call.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.state.requests.lock().clone()
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        let number = self.state.calls.fetch_add(1, Ordering::SeqCst);
        self.state.open.fetch_add(1, Ordering::SeqCst);
        self.state.requests.lock().push(request);
        let plain = || vec![Act::text("Well."), Act::usage(1, 1), Act::end()].into();
        let acts = self.state.answers.get(number).cloned().unwrap_or_else(plain);
        Box::new(ScriptedAnswer {
            state: Arc::clone(&self.state),
            acts,
            next: 0,
            flooded: 0,
            yielded: false,
            pause: None,
            usage: Usage::UNKNOWN,
            request_id: format!("req-{}", number + 1),
            after: self.after.clone(),
        })
    }

    fn meter(&self) -> Option<Arc<dyn Meter>> {
        self.meter.clone().map(|meter| meter as Arc<dyn Meter>)
    }
}

struct ScriptedAnswer {
    state: Arc<Played>,
    acts: Arc<[Act]>,
    next: usize,
    flooded: usize,
    yielded: bool,
    pause: Option<Pin<Box<Sleep>>>,
    usage: Usage,
    request_id: String,
    after: Option<After>,
}

impl ScriptedAnswer {
    /// What the current act does; `None` when it is over and the next one follows.
    fn act(&mut self, act: &Act, cx: &mut Context<'_>) -> Option<Poll<Option<Result<Piece, ModelError>>>> {
        match act {
            Act::Piece(piece) => {
                if let Piece::Usage(usage) = piece {
                    self.usage = self.usage.corrected_by(**usage);
                }
                self.next += 1;
                Some(Poll::Ready(Some(Ok(piece.clone()))))
            }
            Act::Flood(text, times) => {
                if self.flooded == *times {
                    self.flooded = 0;
                    self.next += 1;
                    return None;
                }
                self.flooded += 1;
                Some(Poll::Ready(Some(Ok(Piece::Text((*text).to_owned())))))
            }
            Act::Pause(pause) => {
                let sleep = self.pause.get_or_insert_with(|| Box::pin(sleep(*pause)));
                if sleep.as_mut().poll(cx).is_pending() {
                    return Some(Poll::Pending);
                }
                self.pause = None;
                self.next += 1;
                None
            }
            Act::Silence => Some(Poll::Pending),
            Act::Yield if !self.yielded => {
                self.yielded = true;
                cx.waker().wake_by_ref();
                Some(Poll::Pending)
            }
            Act::Yield => {
                self.yielded = false;
                self.next += 1;
                None
            }
            Act::Fail(error) => Some(Poll::Ready(Some(Err(error.clone())))),
            Act::Break => Some(Poll::Ready(None)),
        }
    }
}

impl Answer for ScriptedAnswer {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        let acts = Arc::clone(&self.acts);
        while let Some(act) = acts.get(self.next) {
            if let Some(poll) = self.act(act, cx) {
                return poll;
            }
        }
        Poll::Ready(None)
    }

    fn usage_so_far(&self) -> Usage {
        self.usage
    }

    fn model(&self) -> Option<&str> {
        Some("scripted-1")
    }

    fn request_id(&self) -> Option<&str> {
        Some(&self.request_id)
    }

    fn cut(mut self: Box<Self>) -> Option<FollowUp> {
        let After { what, takes, within, learned } = self.after.take()?;
        // Draining holds the connection; looking up and counting have closed it.
        let connection = (what == Pending::Draining).then_some(self);
        let work = Box::pin(async move {
            match takes {
                Some(takes) => sleep(takes).await,
                None => std::future::pending().await,
            }
            drop(connection);
            learned
        });
        Some(FollowUp::new(what, within, work))
    }
}

/// An answer as a stream.
struct Pieces(Box<dyn Answer>);

impl Stream for Pieces {
    type Item = Result<Piece, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_piece(cx)
    }
}

impl Drop for ScriptedAnswer {
    fn drop(&mut self) {
        self.state.open.fetch_sub(1, Ordering::SeqCst);
    }
}
