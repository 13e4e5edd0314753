//! A conversation with an agent, as its user holds it.
//!
//! # Invariants
//!
//! 1. What is done through a session concerns its own runs and nobody else's: in particular, no cancel of a session
//!    arms its agent.

use std::fmt;
use std::sync::Arc;

use andon_core::cancel::ReplyKind;
use andon_core::id::{IdError, SessionKey};
use andon_core::message::Message;
use andon_core::outcome::Outcome;

use crate::journal::JournalError;
use crate::journal::sessions::{StateChange, StateMap};
use crate::live::cord::{Cancel, Reply, all_recorded, kind_of_all};
use crate::live::run::Run;
use crate::runtime::agent::Agent;
use crate::runtime::prompt::{Prompt, StartError};
use crate::session::{SessionCore, pull_inside};

/// A conversation with an agent: what was said, and its state. Cheap to clone, usable from many threads.
///
/// [`Agent::session`] opens one. It belongs to a user, and one run at a time is in progress in it.
///
/// ```
/// # use andon_practice::Practice;
/// # use andon_runtime::Agent;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let agent = Agent::builder().model(Practice::instant()).build()?;
/// let ada = agent.session("ada", "monday")?;
/// ada.run("My name is Ada.").await?;
/// ada.run("What is my name?").await?; // the model is sent what was said before
/// assert_eq!(ada.history().await?.len(), 4);
/// # Ok(())
/// # }
/// ```
///
/// Sessions are kept apart by their [keys](SessionKey): the tenant, the agent's name, the user and the session's own
/// id. Agents of different names never share one. Agents that were given the same name are versions of one agent, such
/// as before and after a change of its instructions: a session that both open is the same conversation, in which one
/// run at a time is in progress, and each run is done by the agent that it was started with. Agents that were given no
/// name share nothing by accident: see [`SessionError::TwoUnnamed`].
#[derive(Clone)]
pub struct Session {
    pub(crate) agent: Agent,
    pub(crate) core: Arc<SessionCore>,
}

impl Session {
    /// Runs a prompt in this conversation and waits for the outcome. A run that was cancelled or that failed has an
    /// outcome, too: see [`Agent::run`].
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe, on purpose: dropping it cancels the run. See [`Prompt::run`].
    pub async fn run(&self, input: impl Into<Message>) -> Result<Arc<Outcome>, StartError> {
        self.prompt(input).run().await
    }

    /// Starts a prompt in this conversation.
    pub fn start(&self, input: impl Into<Message>) -> Result<Run, StartError> {
        self.prompt(input).start()
    }

    /// Prepares a prompt in this conversation, for options on how to run it.
    pub fn prompt(&self, input: impl Into<Message>) -> Prompt {
        Prompt::new(self.clone(), input.into())
    }

    /// Its key.
    pub fn key(&self) -> &SessionKey {
        &self.core.key
    }

    /// The agent that does its runs.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// What was said, by all runs that have settled.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn history(&self) -> Result<Vec<Arc<Message>>, JournalError> {
        self.agent.runtime.history(&self.core.key).await
    }

    /// The session's state, including what it shares with others: see [`StateMap`]. Empty if nothing was said or set
    /// yet.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn state(&self) -> Result<StateMap, JournalError> {
        Ok(self.agent.runtime.state(&self.core.key).await?.unwrap_or_default())
    }

    /// Changes the session's state, all of it or nothing; a key without a value is removed.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, the change may have been made or not.
    pub async fn change_state(&self, change: StateChange) -> Result<(), JournalError> {
        self.agent.runtime.change_state(&self.core.key, change).await
    }

    /// The run in progress, if there is one.
    pub fn current(&self) -> Option<Run> {
        self.core.seated().map(Run::new)
    }

    /// Cancels what is in this session: the run in progress and those that wait for it. Runs in other sessions go on,
    /// those of the same user and agent too. Synchronous, from any thread, and cannot fail.
    ///
    /// If nothing runs, the reply is `not_running` and nothing is remembered: the next run is normal.
    /// ([`Agent::cancel`] is the one that arms.)
    pub fn cancel(&self) -> SessionReply {
        self.cancel_with(Cancel::graceful())
    }

    /// As [`cancel`](Session::cancel), with a force, a reason or a note.
    pub fn cancel_with(&self, cancel: Cancel) -> SessionReply {
        let runs = pull_inside(&self.core.inside(), &cancel);
        SessionReply { runs }
    }
}

/// Why a session cannot be opened, and what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum SessionError {
    /// The user or the session's own id cannot be an id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The key is another agent's.
    #[error("session {session} belongs to the agent {:?}, not to {agent:?}: open it with an agent of that name", session.app)]
    OtherAgent {
        /// The session.
        session: Box<SessionKey>,
        /// The name of the agent that was to open it.
        agent: Arc<str>,
    },
    /// Another agent has opened this session under the name of agents that were given none, with another model, other
    /// instructions or other tools.
    #[error(
        "two different agents without a name want session {0}, and would read each other's messages: give each its own \
         name, with Agent::builder().name(..)"
    )]
    TwoUnnamed(Box<SessionKey>),
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("key", &self.core.key).field("agent", &self.agent).finish_non_exhaustive()
    }
}

/// What `session.cancel()` did.
#[derive(Debug, Clone)]
pub struct SessionReply {
    runs: Vec<Reply>,
}

impl SessionReply {
    /// The reply in one word: `not_running` if no run was in the session; otherwise the reply of the first run that is
    /// stopping, or of the first run if none is.
    pub fn kind(&self) -> ReplyKind {
        kind_of_all(&self.runs)
    }

    /// What the cancel did to each run in the session: the one in progress, then those that wait for it. Empty if there
    /// was none.
    pub fn runs(&self) -> &[Reply] {
        &self.runs
    }

    /// Whether a run is stopping, because of this request or an earlier one.
    pub fn is_stopping(&self) -> bool {
        self.runs.iter().any(Reply::is_stopping)
    }

    /// Waits until everything that the reply says is durable: see [`Reply::recorded`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn recorded(&self) -> Result<(), JournalError> {
        all_recorded(&self.runs).await
    }
}
