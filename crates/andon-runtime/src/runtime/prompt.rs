//! A prompt that is about to be run, with its options.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use andon_core::digest::Digest;
use andon_core::disconnect::OnDisconnect;
use andon_core::event::Accepted;
use andon_core::history::{BadHistory, HistoryFault, check_sendable};
use andon_core::id::{RunId, SessionKey};
use andon_core::limits::Limits;
use andon_core::message::{ImageError, Message};
use andon_core::outcome::Outcome;

use crate::driver::{self, Beginning};
use crate::journal::sessions::StateMap;
use crate::lanes::BoxFuture;
use crate::live::Live;
use crate::live::cord::Cancel;
use crate::live::presence;
use crate::live::run::Run;
use crate::runtime::agent::Agent;
use crate::runtime::session::Session;
use crate::session::{MAX_QUEUED, TurnedAway, WhenBusy};

/// A prompt that is about to be run.
///
/// ```
/// # use andon_practice::Practice;
/// # use andon_runtime::{Agent, RunId};
/// use andon_runtime::WhenBusy;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let agent = Agent::builder().model(Practice::instant()).build()?;
/// let ada = agent.session("ada", "monday")?;
/// let run = ada.prompt("Hello").when_busy(WhenBusy::Queue).run_id(RunId::new("greeting")?).start()?;
/// assert_eq!(run.id().as_str(), "greeting");
/// assert_eq!(run.outcome().await.stop_reason(), "end_turn");
/// # Ok(())
/// # }
/// ```
#[must_use = "a prompt does nothing until it is started or run"]
pub struct Prompt {
    session: Session,
    history: Vec<Arc<Message>>,
    input: Message,
    run_id: Option<RunId>,
    request: Option<Digest>,
    state: StateMap,
    when_busy: WhenBusy,
    limits: Limits,
    on_disconnect: OnDisconnect,
    has_reader: bool,
    signal: Option<BoxFuture<Cancel>>,
    born_cancelled: Option<Cancel>,
    cancels_on_drop: bool,
}

impl Prompt {
    pub(crate) fn new(session: Session, input: Message) -> Self {
        let limits = session.agent.core.limits;
        Self {
            session,
            history: Vec::new(),
            input,
            run_id: None,
            request: None,
            state: StateMap::new(),
            when_busy: WhenBusy::Reject,
            limits,
            on_disconnect: OnDisconnect::Continue,
            has_reader: false,
            signal: None,
            born_cancelled: None,
            cancels_on_drop: false,
        }
    }

    /// What to do when a run is in progress in its session; by default the prompt is refused.
    pub fn when_busy(mut self, when_busy: WhenBusy) -> Self {
        self.when_busy = when_busy;
        self
    }

    /// What this run may use at most. The agent's limits still apply: of each limit the smaller counts. So whoever writes
    /// a prompt can never use more than whoever built the agent allowed; see [`override_limits`](Self::override_limits).
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = self.limits.tightened_by(limits);
        self
    }

    /// What this run may use, instead of the agent's limits, which may be tighter. Limits that were given before no
    /// longer count.
    pub fn override_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Earlier messages, from elsewhere. They begin the history of a new session, are on record with the run, and are
    /// followed by the prompt. If a provider could not accept them, the prompt is
    /// [refused](StartError::BadHistory). A session that already has a history keeps it: the prompt is
    /// [refused](StartError::HistoryExists), or, if that is only known when the journal has been read, its run is cancelled
    /// before it starts, with reason `policy`.
    ///
    /// ```
    /// # use andon_practice::Practice;
    /// # use andon_runtime::{Agent, Message};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let agent = Agent::builder().model(Practice::instant()).build()?;
    /// let before = [Message::user("My name is Ada."), Message::assistant("Hello, Ada.")];
    /// let outcome = agent.prompt("What is my name?").history(before).run().await?;
    /// # let _ = outcome;
    /// # Ok(())
    /// # }
    /// ```
    pub fn history<M: Into<Arc<Message>>>(mut self, messages: impl IntoIterator<Item = M>) -> Self {
        self.history = messages.into_iter().map(Into::into).collect();
        self
    }

    /// The run's id; a new one by default.
    pub fn run_id(mut self, id: RunId) -> Self {
        self.run_id = Some(id);
        self
    }

    /// The digest of the sender's request, recorded with the run: so that a repeated request can be told from a
    /// different one with the same run id.
    pub fn request(mut self, digest: Digest) -> Self {
        self.request = Some(digest);
        self
    }

    /// Changes to the session's state that come with the prompt. They are made in the same step in which the start of
    /// the run is recorded; a run that never starts changes nothing.
    pub fn state(mut self, state: StateMap) -> Self {
        self.state = state;
        self
    }

    /// What losing the last reader of its feed does to the run; by default the run goes on. This is recorded with the
    /// run, and also holds for readers that are lost because the process dies. Readers are counted with
    /// [`Run::watch`](crate::Run::watch).
    pub fn on_disconnect(mut self, policy: OnDisconnect) -> Self {
        self.on_disconnect = policy;
        self
    }

    /// Whoever starts the run will also read its feed, with a [`Watcher`](crate::Watcher): so it is on record from the
    /// beginning that the run has had a reader.
    pub fn with_reader(mut self) -> Self {
        self.has_reader = true;
        self
    }

    /// Cancels the run when this future ends: the caller's own signal, which is only observed. For a
    /// `CancellationToken`, pass `token.cancelled_owned()`.
    pub fn cancel_when(self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.cancel_with(async move {
            signal.await;
            Cancel::graceful().by("signal").note("the caller's signal")
        })
    }

    /// As [`cancel_when`](Prompt::cancel_when), for a signal that says how and why.
    pub fn cancel_with(mut self, signal: impl Future<Output = Cancel> + Send + 'static) -> Self {
        self.signal = Some(Box::pin(signal));
        self
    }

    /// Cancels the run before it begins: it is recorded and has a receipt, and calls neither its model nor a tool. For
    /// a cancel that came before its run.
    pub fn born_cancelled(mut self, cancel: Cancel) -> Self {
        self.born_cancelled = Some(cancel);
        self
    }

    /// Cancels the run when its handle, the one that [`start`](Self::start) returns, is dropped.
    pub fn cancel_on_drop(mut self) -> Self {
        self.cancels_on_drop = true;
        self
    }

    /// Starts it and waits for the outcome.
    ///
    /// The future is the only handle on the run: dropping it before it is ready cancels the run, gracefully and with reason
    /// [`ClientDisconnected`](andon_core::cancel::Reason::ClientDisconnected), because nobody else could. What was shown is kept, and the
    /// next prompt waits until the run has settled. A run that must outlive its wait is [started](Self::start): then
    /// the wait, [`Run::outcome`](crate::Run::outcome), can be dropped and repeated.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use andon_practice::Practice;
    /// # use andon_runtime::{Agent, Reason};
    /// # use tokio::time::timeout;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let agent = Agent::builder().model(Practice::new()).build()?;
    /// // Cancelled when the time is over:
    /// assert!(timeout(Duration::from_millis(20), agent.run("Tell me a long story")).await.is_err());
    ///
    /// // Goes on when the time is over:
    /// let run = agent.start("Tell me a long story")?;
    /// assert!(timeout(Duration::from_millis(20), run.outcome()).await.is_err());
    /// # run.cancel(andon_runtime::Cancel::now());
    /// # run.outcome().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe, on purpose: dropping it cancels the run. If it was never polled, nothing was started.
    pub async fn run(self) -> Result<Arc<Outcome>, StartError> {
        Ok(self.start()?.cancelling("the future that waited for the run was dropped").into_outcome().await)
    }

    /// Starts it.
    pub fn start(self) -> Result<Run, StartError> {
        if let Some(limit) = self.limits.zero() {
            return Err(StartError::ZeroLimit(limit));
        }
        for image in self.input.images() {
            image.check().map_err(StartError::BadImage)?;
        }
        check_input(&self.input)?;
        andon_core::history::check(&self.history)?;
        let Session { agent: Agent { core, runtime }, core: session } = self.session;
        if !self.history.is_empty() && session.history().is_some_and(|history| !history.is_empty()) {
            return Err(StartError::HistoryExists { session: SessionKey::clone(&session.key) });
        }
        let runtime = &runtime.core;
        if runtime.services.door.has_lost_its_threads() {
            return Err(StartError::Forked);
        }
        let id = self.run_id.unwrap_or_else(|| driver::new_run_id(&runtime.services));
        let live = Arc::new(Live::new(id, Arc::clone(&session.key), Arc::clone(&runtime.services), 1));
        if runtime.registry.add(core.id, &live).is_err() {
            return Err(StartError::RunIdTaken(live.id.clone()));
        }
        let when_busy = match self.when_busy {
            // A run that will not run supersedes nobody.
            WhenBusy::Supersede if self.born_cancelled.is_some() => WhenBusy::Queue,
            other => other,
        };
        let seat = session.enter(&live, when_busy).map_err(|turned_away| {
            runtime.registry.remove(&live.id);
            match turned_away {
                TurnedAway::Busy(run) => StartError::Busy { session: SessionKey::clone(&session.key), run },
                TurnedAway::QueueFull => StartError::QueueFull { session: SessionKey::clone(&session.key) },
                TurnedAway::Closing => StartError::SessionClosing { session: SessionKey::clone(&session.key) },
            }
        })?;
        let armed = runtime.registry.make_findable(&live.id);
        for cancel in armed.into_iter().chain(self.born_cancelled) {
            live.pull(cancel.at(live.now()));
        }
        let accepted = Accepted::new(live.id.clone(), SessionKey::clone(&live.session), Arc::new(self.input))
            .history(self.history)
            .limits(self.limits)
            .request(self.request)
            .state(Some(self.state).filter(|state| !state.is_empty()).map(Box::new))
            .on_disconnect(self.on_disconnect)
            .has_reader(self.has_reader && !self.on_disconnect.is_continue());
        let signal = first_of(self.signal, presence::signal(&live, &accepted));
        let beginning = Beginning { seat, signal, resumed: None };
        driver::launch(runtime, Arc::clone(&core), session, Arc::clone(&live), Arc::new(accepted), beginning);
        Ok(if self.cancels_on_drop {
            Run::new(live).cancelling("the run's handle was dropped")
        } else {
            Run::new(live)
        })
    }
}

/// A signal that fires when the first of two does.
fn first_of(one: Option<BoxFuture<Cancel>>, other: Option<BoxFuture<Cancel>>) -> Option<BoxFuture<Cancel>> {
    match (one, other) {
        (Some(mut one), Some(mut other)) => Some(Box::pin(poll_fn(move |cx| match one.as_mut().poll(cx) {
            Poll::Pending => other.as_mut().poll(cx),
            ready => ready,
        }))),
        (one, other) => one.or(other),
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt")
            .field("session", &self.session)
            .field("when_busy", &self.when_busy)
            .finish_non_exhaustive()
    }
}

/// A prompt that is not a user message would stay in its session, and be in every later request.
fn check_input(input: &Message) -> Result<(), StartError> {
    check_sendable([input]).map_err(|error| StartError::NotAPrompt(error.why))
}

/// Why a run was not started.
///
/// ```
/// # use andon_practice::Practice;
/// # use andon_runtime::{Agent, Cancel};
/// use andon_runtime::StartError;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let agent = Agent::builder().model(Practice::new()).build()?;
/// let ada = agent.session("ada", "monday")?;
/// let run = ada.start("Tell me a long story")?;
/// let busy = ada.start("Hello").unwrap_err();
/// assert_eq!(busy, StartError::Busy { session: ada.key().clone(), run: run.id().clone() });
/// # run.cancel(Cancel::now());
/// # run.outcome().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum StartError {
    /// Another run is in progress in this session.
    #[error(
        "session {session} is busy with run {run}: wait for its outcome, cancel it, or start with when_busy(Queue) or when_busy(Supersede)"
    )]
    Busy {
        /// The session.
        session: SessionKey,
        /// The run in progress.
        run: RunId,
    },
    /// Too many runs are waiting for this session.
    #[error("{MAX_QUEUED} runs are already waiting for session {session}: try again later")]
    QueueFull {
        /// The session.
        session: SessionKey,
    },
    /// The session is being deleted.
    #[error(
        "session {session} is being deleted: start the run again when that is done, in a new session with the same key"
    )]
    SessionClosing {
        /// The session.
        session: SessionKey,
    },
    /// Another run has this id.
    #[error("run id {0} is in use: choose another, or leave it out")]
    RunIdTaken(RunId),
    /// A limit is zero.
    #[error("the limit {0:?} is zero, so the run would stop before it began: raise it, or leave it out")]
    ZeroLimit(&'static str),
    /// The process was forked, and the threads of the agent's runtime are in the parent.
    #[error(
        "this process was forked, and the runtime's threads stayed in the parent: build a new runtime and agent here"
    )]
    Forked,
    /// The prompt is not a user message.
    #[error("a prompt must be a user message with text or images: create it with Message::user: {0}")]
    NotAPrompt(HistoryFault),
    /// The prompt's history is not valid.
    #[error(transparent)]
    BadHistory(#[from] BadHistory),
    /// The prompt has a history, but its session already has one.
    #[error(
        "session {session} already has a history, and only a new session accepts one with its first prompt: use a new session, or drop .history(..)"
    )]
    HistoryExists {
        /// The session.
        session: SessionKey,
    },
    /// An image in the prompt is not valid.
    #[error("{0}")]
    BadImage(ImageError),
}
