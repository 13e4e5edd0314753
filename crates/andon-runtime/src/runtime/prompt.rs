//! A prompt that is about to be run, with its options.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use andon_core::digest::Digest;
use andon_core::disconnect::OnDisconnect;
use andon_core::event::Accepted;
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
use crate::session::{MAX_QUEUED, TurnedAway, WhenBusy};

/// A prompt that is about to be run.
#[must_use = "a prompt does nothing until it is started or run"]
pub struct Prompt {
    agent: Agent,
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
    pub(crate) fn new(agent: Agent, input: Message) -> Self {
        let limits = agent.core.limits;
        Self {
            agent,
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

    /// What to do when a run is in progress in this conversation; by default the prompt is refused.
    pub fn when_busy(mut self, when_busy: WhenBusy) -> Self {
        self.when_busy = when_busy;
        self
    }

    /// What this run may use, instead of the agent's limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
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

    /// Cancels the run when its handle is dropped.
    pub fn cancel_on_drop(mut self) -> Self {
        self.cancels_on_drop = true;
        self
    }

    /// Starts it and waits for the outcome. Dropping this future does not cancel the run, unless
    /// [`cancel_on_drop`](Prompt::cancel_on_drop) was asked for.
    pub async fn run(self) -> Result<Arc<Outcome>, StartError> {
        let run = self.start()?;
        Ok(run.outcome().await)
    }

    /// Starts it.
    pub fn start(self) -> Result<Run, StartError> {
        if let Some(limit) = self.limits.zero() {
            return Err(StartError::ZeroLimit(limit));
        }
        for image in self.input.images() {
            image.check().map_err(StartError::BadImage)?;
        }
        let Agent { core, session, runtime } = self.agent;
        let runtime = &runtime.core;
        let id = self.run_id.unwrap_or_else(|| driver::new_run_id(&runtime.services));
        let live = Arc::new(Live::new(id, session.key.clone(), Arc::clone(&runtime.services), 1));
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
                TurnedAway::Busy(run) => StartError::Busy { session: session.key.clone(), run },
                TurnedAway::QueueFull => StartError::QueueFull { session: session.key.clone() },
                TurnedAway::Closing => StartError::SessionClosing { session: session.key.clone() },
            }
        })?;
        let armed = runtime.registry.make_findable(&live.id);
        for cancel in armed.into_iter().chain(self.born_cancelled) {
            live.pull(cancel.at(live.now()));
        }
        let accepted = Accepted::new(live.id.clone(), live.session.clone(), Arc::new(self.input))
            .limits(self.limits)
            .request(self.request)
            .state(Some(self.state).filter(|state| !state.is_empty()).map(Box::new))
            .on_disconnect(self.on_disconnect)
            .has_reader(self.has_reader && !self.on_disconnect.is_continue());
        let signal = first_of(self.signal, presence::signal(&live, &accepted));
        let beginning = Beginning { seat, signal, resumed: None };
        driver::launch(runtime, Arc::clone(&core), session, Arc::clone(&live), Arc::new(accepted), beginning);
        Ok(if self.cancels_on_drop { Run::cancelling_on_drop(live) } else { Run::new(live) })
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
        f.debug_struct("Prompt").field("agent", &self.agent).field("when_busy", &self.when_busy).finish_non_exhaustive()
    }
}

/// Why a run was not started.
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
    /// An image in the prompt is not valid.
    #[error("{0}")]
    BadImage(ImageError),
}
