//! The seam to models: what an adapter implements.

pub(crate) mod layer;
pub(crate) mod rendering;
pub(crate) mod retry;
pub(crate) mod stream;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use andon_core::answer::Piece;
use andon_core::history::History;
use andon_core::id::RunId;
use andon_core::message::{Message, Part};
use andon_core::outcome::FailureKind;
use andon_core::prompt::prompt;
use andon_core::request::{ModelSettings, ToolChoice};
use andon_core::usage::{Figure, Pending, Provenance, Usage, Used};

use crate::lanes::BoxFuture;
use crate::model::rendering::Rendering;
use crate::tool::ToolSpec;

/// A language model.
///
/// The shortest way to one of your own is a [`StreamModel`](crate::StreamModel); what goes around another model is a
/// [`ModelLayer`](crate::ModelLayer), which forwards what it does not change.
///
/// Neither [`call`](Model::call) nor the answer's [`poll_piece`](Answer::poll_piece) may block: they run on the
/// drivers' threads, where they would delay every stop.
pub trait Model: Send + Sync + 'static {
    /// The model's name, for events and receipts.
    fn name(&self) -> &str;

    /// Begins a call. Nothing happens before the answer is polled; dropping the answer closes the connection.
    fn call(&self, request: ModelRequest) -> Box<dyn Answer>;

    /// Improves the usage figures of this model's calls. Without one, there are only the figures that the provider
    /// reports.
    fn meter(&self) -> Option<Arc<dyn Meter>> {
        None
    }

    /// What [`call`](Model::call) would send for this request, made by the same code, without secrets, for people to
    /// look at. Nothing is sent. `None` if the model has no request format of its own.
    fn rendering(&self, request: &ModelRequest) -> Option<Rendering> {
        let _ = request;
        None
    }
}

// What it does not forward would be lost without a word.
#[deny(clippy::missing_trait_methods)]
impl<M: Model + ?Sized> Model for Arc<M> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        (**self).call(request)
    }

    fn meter(&self) -> Option<Arc<dyn Meter>> {
        (**self).meter()
    }

    fn rendering(&self, request: &ModelRequest) -> Option<Rendering> {
        (**self).rendering(request)
    }
}

/// A model's answer while it streams.
///
/// # Cancel safety
///
/// The driver drops an answer when the cord is pulled, at any point between two polls: whatever it holds must be
/// released in `drop`, without blocking.
pub trait Answer: Send + 'static {
    /// The next piece. `None` after anything but [`Piece::End`] means that the answer broke off.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>>;

    /// The best figures for the call's usage so far. Called before a cut answer is dropped. They may include one piece
    /// more than was kept: one that was returned after the gate had closed.
    fn usage_so_far(&self) -> Usage {
        Usage::UNKNOWN
    }

    /// The exact model that answers, as the provider names it, once that is known.
    fn model(&self) -> Option<&str> {
        None
    }

    /// The provider's id for the request, once that is known: what its support asks for.
    fn request_id(&self) -> Option<&str> {
        None
    }

    /// Whether a layer has changed anything of what the model wrote so far. Nothing is then estimated, measured or learned from
    /// the text, because the provider's figures are about another one.
    fn is_changed(&self) -> bool {
        false
    }

    /// Ends an answer that is not complete. The connection is closed at once, or may be kept and drained where closing
    /// would not stop the bill. What can still be learned about the call is the [`FollowUp`].
    fn cut(self: Box<Self>) -> Option<FollowUp> {
        None
    }
}

/// An answer that fails before anything of it came: what an adapter returns for a request that it cannot make.
#[derive(Debug)]
pub struct FailedAnswer(Option<ModelError>);

impl FailedAnswer {
    /// An answer that fails with this error.
    pub fn new(error: ModelError) -> Self {
        Self(Some(error))
    }
}

impl Answer for FailedAnswer {
    fn poll_piece(&mut self, _cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        Poll::Ready(self.0.take().map(Err))
    }
}

/// What can be learned about a call after it was cut. The run does not wait for it; what it learns is an addendum.
#[non_exhaustive]
pub struct FollowUp {
    /// How it is learned.
    pub what: Pending,
    /// How long it may take. After that it is dropped.
    pub within: Duration,
    /// The work itself. Dropping it closes whatever it has open.
    pub work: BoxFuture<Findings>,
    /// Asks the work to end at once with what it has learned by now, because the program is about to exit.
    pub finish: Option<Box<dyn FnOnce() + Send>>,
}

impl FollowUp {
    /// Work of this kind, which is given this much time.
    pub fn new(what: Pending, within: Duration, work: BoxFuture<Findings>) -> Self {
        Self { what, within, work, finish: None }
    }

    /// The same with a way to ask it to end at once, with what it has learned by then.
    #[must_use]
    pub fn finish(self, finish: impl FnOnce() + Send + 'static) -> Self {
        Self { finish: Some(Box::new(finish)), ..self }
    }
}

impl fmt::Debug for FollowUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowUp").field("what", &self.what).field("within", &self.within).finish_non_exhaustive()
    }
}

/// What was learned about a call after it was cut.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Findings {
    /// The figures that are better than those in the receipt; the others are unknown.
    pub used: Used,
    /// What the model wrote after the cut, which was not shown to anybody.
    pub undelivered: Vec<Part>,
}

andon_core::with!(Findings: used: Used, undelivered: Vec<Part>);

impl Findings {
    /// These figures, and nothing undelivered.
    pub fn new(used: Used) -> Self {
        Self { used, undelivered: Vec::new() }
    }
}

/// Improves the usage figures of a model's calls.
///
/// None of [`cut`](Meter::cut), [`is_prepared`](Meter::is_prepared) and [`recall`](Meter::recall) may block or take more than a few milliseconds: they would
/// delay a stop.
pub trait Meter: Send + Sync + 'static {
    /// The best figures for a call that did not complete, or whose provider did not say what it used, given those that the provider
    /// had reported by then (`known`).
    fn cut(&self, call: &MeteredCall<'_>, known: Usage) -> Used;

    /// As [`cut`](Meter::cut), for a call that was open when its process died: more of it may have been shown than is on record, and
    /// nobody knows when its connection was closed.
    fn lost(&self, call: &MeteredCall<'_>, known: Usage) -> Used {
        self.cut(call, known).open_ended(None)
    }

    /// Whether [`cut`](Meter::cut) does its best for this call already. If not, its figures are rough, and it is asked again once
    /// the meter is [prepared](Meter::prepare).
    fn is_prepared(&self, call: &MeteredCall<'_>) -> bool {
        let _ = call;
        true
    }

    /// Loads whatever figures for this call need. Called on a separate thread.
    fn prepare(&self, call: &MeteredCall<'_>) {
        let _ = call;
    }

    /// Learns from a call that completed with these figures. Called on a separate thread. Returns what to keep for the
    /// next process, and what no longer.
    fn learn(&self, call: &MeteredCall<'_>, reported: Usage) -> Vec<Lesson>;

    /// Loads what was kept, by this process or an earlier one. Returns what is no longer to be kept.
    fn recall(&self, lessons: Vec<Lesson>) -> Vec<Lesson>;
}

/// What a meter has learned, to be kept.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Lesson {
    /// The exact model that it is about.
    pub about: String,
    /// What was learned, in the meter's own format, or `null` if it is to be forgotten. `/v1/usage` shows the part of it that is called
    /// `standing`.
    pub page: serde_json::Value,
}

impl Lesson {
    /// A page about something.
    pub fn new(about: impl Into<String>, page: serde_json::Value) -> Self {
        Self { about: about.into(), page }
    }
}

/// A model call as the runtime saw it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct MeteredCall<'a> {
    /// What was asked.
    pub request: &'a ModelRequest,
    /// The exact model that answered, if the provider named it.
    pub model: Option<&'a str>,
    /// The answer as far as it came, incomplete tool calls included.
    pub answer: &'a [Part],
    /// Whether it came to its end.
    pub ended: bool,
    /// The time from the call to its first piece.
    pub first_piece: Option<Duration>,
    /// The time from the call to its end.
    pub took: Duration,
}

andon_core::with!(MeteredCall<'a>: model: Option<&'a str>, ended: bool);

impl<'a> MeteredCall<'a> {
    /// For tests of a meter. A runtime makes its own.
    pub fn new(
        request: &'a ModelRequest,
        model: Option<&'a str>,
        answer: &'a [Part],
        ended: bool,
        first_piece: Option<Duration>,
        took: Duration,
    ) -> Self {
        Self { request, model, answer, ended, first_piece, took }
    }
}

/// The last call of a conversation whose figures the provider has reported, made to the same model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Anchor {
    /// What it used: both its input and its output are reported.
    pub usage: Usage,
    /// How many messages it was sent. Its answer is the next message after them.
    pub messages: usize,
    /// The exact model that answered it, if the provider named it.
    pub answered_by: Option<Arc<str>>,
    /// Whether it was sent the same instructions and tools.
    pub setup: AnchorSetup,
}

andon_core::with!(Anchor: answered_by: text Arc<str>, setup: AnchorSetup);

impl Anchor {
    /// A report about this many messages.
    pub fn new(usage: Usage, messages: usize, answered_by: Option<Arc<str>>, setup: AnchorSetup) -> Self {
        Self { usage, messages, answered_by, setup }
    }
}

/// Whether the provider reported both what a call read and what it wrote, at the call's end.
pub(crate) fn is_reported(usage: &Usage) -> bool {
    let is_reported = |figure: Figure| figure.provenance == Provenance::Reported && figure.value > Some(0);
    is_reported(usage.read()) && is_reported(usage.output)
}

/// Whether an earlier call of an agent was sent the instructions and tools that the agent has now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum AnchorSetup {
    /// It was.
    Same,
    /// The call is known from the record, which does not say so: the agent may have been changed since.
    MayDiffer,
}

/// One request to a model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ModelRequest {
    /// The run that makes the request.
    pub run: RunId,
    /// The number of this model call in its run, from 1.
    pub number: u32,
    /// The agent's instructions.
    pub instructions: Option<Arc<str>>,
    /// The conversation as it is stored, cut answers included. Most adapters want [`ModelRequest::prompt`].
    pub history: History,
    /// The tools that the model may ask for.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// Settings for this call alone, which override those that the model was set up with.
    pub settings: ModelSettings,
    /// Whether the model may call tools, or must. An adapter that cannot ask for it fails the call and says so.
    pub tool_choice: ToolChoice,
    /// The call before this one in the same conversation, if its figures are known: what a meter measures from.
    pub anchor: Option<Anchor>,
}

andon_core::with!(ModelRequest: history: into History, instructions: text Arc<str>, tools: Arc<[Arc<ToolSpec>]>, settings: ModelSettings, tool_choice: ToolChoice,
    anchor: into Option<Anchor>);

impl ModelRequest {
    /// A request for the answer to a conversation, with nothing else.
    pub fn new(run: RunId, number: u32, history: impl Into<History>) -> Self {
        Self {
            run,
            number,
            instructions: None,
            history: history.into(),
            tools: Arc::from([]),
            settings: ModelSettings::default(),
            tool_choice: ToolChoice::Auto,
            anchor: None,
        }
    }

    /// Removes the tools for which `keep` returns `false`.
    pub fn keep_tools(&mut self, keep: impl Fn(&ToolSpec) -> bool) {
        self.tools = self.tools.iter().filter(|tool| keep(tool)).cloned().collect();
    }

    /// The conversation in the form that is sent to a model: see [`andon_core::prompt`].
    pub fn prompt(&self) -> Vec<Message> {
        prompt(self.history.iter().map(|message| &**message))
    }
}

/// Why a model call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ModelError {
    /// What can be done about it.
    pub kind: ModelErrorKind,
    /// What happened and what to do, for people. Never contains a secret.
    pub message: String,
}

/// What can be done about a failed model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum ModelErrorKind {
    /// Trying again may help: overload, rate limit, a lost connection.
    Retryable {
        /// How long the provider asked us to wait.
        after: Option<Duration>,
    },
    /// Trying again will not help: a wrong key, an unknown model, a request that is refused.
    Fatal,
    /// The conversation is too long for the model.
    ContextOverflow,
}

impl ModelError {
    /// An error of this kind, with a text for people.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// An error that may pass.
    pub fn retryable(message: impl fmt::Display) -> Self {
        Self { kind: ModelErrorKind::Retryable { after: None }, message: message.to_string() }
    }

    /// An error that may pass after a while that the provider named.
    pub fn retry_after(after: Duration, message: impl fmt::Display) -> Self {
        Self { kind: ModelErrorKind::Retryable { after: Some(after) }, message: message.to_string() }
    }

    /// An error that will not pass.
    pub fn fatal(message: impl fmt::Display) -> Self {
        Self { kind: ModelErrorKind::Fatal, message: message.to_string() }
    }

    /// The conversation is too long.
    pub fn context_overflow(message: impl fmt::Display) -> Self {
        Self { kind: ModelErrorKind::ContextOverflow, message: message.to_string() }
    }

    pub(crate) fn failure_kind(&self) -> FailureKind {
        match self.kind {
            ModelErrorKind::Retryable { .. } | ModelErrorKind::Fatal => FailureKind::Model,
            ModelErrorKind::ContextOverflow => FailureKind::ContextOverflow,
        }
    }
}

/// A connection that fails may work the next time.
impl From<std::io::Error> for ModelError {
    fn from(error: std::io::Error) -> Self {
        Self::retryable(error)
    }
}

/// A model for unit tests, which cannot use those of other crates.
#[cfg(test)]
pub(crate) mod fake {
    use std::task::{Context, Poll};

    use andon_core::answer::Piece;
    use andon_core::outcome::ModelStop;

    use super::{Answer, Model, ModelError, ModelRequest};

    /// Ends each answer at once, with no text.
    pub(crate) struct Brief;

    impl Model for Brief {
        fn name(&self) -> &str {
            "brief"
        }

        fn call(&self, _request: ModelRequest) -> Box<dyn Answer> {
            Box::new(Self)
        }
    }

    impl Answer for Brief {
        fn poll_piece(&mut self, _cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
            Poll::Ready(Some(Ok(Piece::End(ModelStop::EndTurn))))
        }
    }
}
