//! A session to talk in: in this process, or on a server.

use std::sync::Arc;

use andon_runtime::{
    Cancel, Event, Message, Outcome, Reason, RunId, RunState, Runtime, Session, SessionInfo, SessionKey,
};
use anyhow::{Context, anyhow};
use uuid::Uuid;

use crate::client::calls::{last_sessions, runs_of};
use crate::client::{Client, ClientError, RemoteRun, RunOptions, RunRequest};
use crate::follow::Subject;

/// A session to talk in.
pub(crate) enum Conversation {
    /// In this process.
    Local(Session),
    /// On a server.
    Remote(Box<RemoteSession>),
}

/// A session on a server, and the options of its runs.
pub(crate) struct RemoteSession {
    pub(crate) client: Client,
    pub(crate) key: SessionKey,
    pub(crate) options: RunOptions,
}

/// A run that was in progress before.
pub(crate) struct EarlierRun {
    pub(crate) run: Subject,
    pub(crate) state: RunState,
    /// Its prompt.
    pub(crate) prompt: String,
}

impl Conversation {
    /// The session.
    pub(crate) fn key(&self) -> &SessionKey {
        match self {
            Self::Local(session) => session.key(),
            Self::Remote(remote) => &remote.key,
        }
    }

    pub(crate) async fn history(&self) -> anyhow::Result<Vec<Arc<Message>>> {
        match self {
            Self::Local(session) => Ok(session.history().await?),
            // A session without messages does not exist on a server yet.
            Self::Remote(remote) => Ok(remote.client.history(&remote.key).await?.unwrap_or_default()),
        }
    }

    /// The run in progress, if there is one.
    pub(crate) async fn current(&self) -> anyhow::Result<Option<EarlierRun>> {
        match self {
            Self::Local(session) => Ok(session.current().map(|run| {
                let prompt = run.records().first().and_then(|record| match &record.event {
                    Event::RunAccepted { accepted } => Some(accepted.input.text()),
                    _ => None,
                });
                EarlierRun { state: run.state(), prompt: prompt.unwrap_or_default(), run: Subject::Local(run) }
            })),
            Self::Remote(remote) => {
                let RemoteSession { client, key, .. } = &**remote;
                let open = client.open_runs(key).await?.into_iter().next();
                Ok(open.map(|info| {
                    let run = Subject::Remote(RemoteRun::new(client, info.run));
                    EarlierRun { run, state: info.state, prompt: info.title }
                }))
            }
        }
    }

    /// Starts a run. `aim` sees it before the server does, so that an early signal stops it as it arrives.
    pub(crate) async fn start<T>(
        &self,
        prompt: &str,
        run_id: Option<RunId>,
        aim: impl FnOnce(&Subject) -> T,
    ) -> anyhow::Result<(Subject, T)> {
        match self {
            Self::Local(session) => {
                let prompt = session.prompt(prompt);
                let prompt = match run_id {
                    Some(id) => prompt.run_id(id),
                    None => prompt,
                };
                let run = Subject::Local(prompt.start()?);
                let aimed = aim(&run);
                Ok((run, aimed))
            }
            Self::Remote(remote) => {
                let run_id = match run_id {
                    Some(id) => id,
                    None => RunId::new(Uuid::now_v7().to_string())?,
                };
                let run = RemoteRun::new(&remote.client, run_id.clone());
                let aimed = aim(&Subject::Remote(run.clone()));
                run.create(&remote.order(prompt, run_id)).await.map_err(|error| remote.explain(error))?;
                Ok((Subject::Remote(run), aimed))
            }
        }
    }

    /// Sessions of the same agent and user, most recently used first.
    pub(crate) async fn sessions(&self, limit: usize) -> anyhow::Result<Vec<SessionInfo>> {
        let key = self.key();
        let which = last_sessions(&key.app, &key.user, limit);
        match self {
            Self::Local(session) => Ok(session.agent().runtime().list_sessions(which).await?),
            Self::Remote(remote) => Ok(remote.client.list_sessions(which).await?),
        }
    }

    /// How the last run of this session ended, in an earlier process.
    pub(crate) async fn last_outcome(&self) -> anyhow::Result<Option<Arc<Outcome>>> {
        let which = (runs_of(self.key())).settled(true).limit(1);
        match self {
            Self::Local(session) => {
                let runtime = session.agent().runtime();
                let Some(last) = runtime.list_runs(which).await?.pop() else { return Ok(None) };
                Ok(runtime.find(&last.run).await?.and_then(|run| run.try_outcome()))
            }
            Self::Remote(remote) => {
                let Some(last) = remote.client.list_runs(which).await?.pop() else { return Ok(None) };
                Ok(Some(RemoteRun::new(&remote.client, last.run).whole_outcome().await?))
            }
        }
    }

    /// Stops the runs that would die with this process. Runs on a server go on.
    pub(crate) async fn leave(&self) -> anyhow::Result<()> {
        match self {
            Self::Local(session) => stop_the_rest(session.agent().runtime()).await,
            Self::Remote(_) => Ok(()),
        }
    }
}

impl RemoteSession {
    fn order(&self, prompt: &str, run_id: RunId) -> RunRequest {
        RunRequest {
            app: self.key.app.to_string(),
            user: self.key.user.to_string(),
            session: self.key.session.to_string(),
            run_id,
            input: prompt.to_owned(),
            options: self.options,
        }
    }

    /// The error, in terms of the command line.
    fn explain(&self, error: ClientError) -> anyhow::Error {
        match error.problem() {
            Some(problem) if problem.is("session-busy") => {
                let session = &self.key.session;
                anyhow!(
                    "a run is in progress in session {session}: wait for it to end, cancel it (`{}`), or use --when-busy queue or \
                     --when-busy supersede",
                    self.client.command(&format!("cancel --session {}", crate::paste::quoted(session.as_str())))
                )
            }
            _ => error.into(),
        }
    }

    /// A session on a server: the named one, the last used, or a new one.
    pub(crate) async fn choose_session(
        client: &Client,
        app: &str,
        user: &str,
        talk: &crate::args::TalkArgs,
        run_id: Option<&RunId>,
    ) -> anyhow::Result<SessionKey> {
        if let Some(session) = &talk.session {
            return Ok(SessionKey::new(app, user, session.key()?.session.as_str())?);
        }
        if let Some(id) = run_id.filter(|_| !talk.continue_last) {
            // A repeated request must name the same session to get the same run.
            let own = SessionKey::new(app, user, format!("run-{id}"));
            return Ok(own.or_else(|_| SessionKey::new(app, user, id.as_str()))?);
        }
        if !talk.continue_last {
            return loop {
                let key = SessionKey::new(app, user, crate::names::session_name())?;
                if !client.has_session(&key).await? {
                    break Ok(key);
                }
            };
        }
        let last = client.list_sessions(last_sessions(app, user, 1)).await?.pop();
        last.map(|last| last.key).with_context(|| {
            format!(
                "there is no session to continue on the server at {}: start one with `{}`",
                client.shown(),
                client.command("chat")
            )
        })
    }
}

/// Stops the runs in other sessions: a run that was queued when its program died continues in this one. Waiting runs are left
/// for the next program.
async fn stop_the_rest(runtime: &Runtime) -> anyhow::Result<()> {
    for run in runtime.runs() {
        let Some(run) = runtime.find(&run).await? else { continue };
        if matches!(run.state(), RunState::Running | RunState::Cancelling) {
            run.cancel(Cancel::graceful().reason(Reason::Shutdown).by("andon").note("the program ended"));
            // If the journal cannot record the end, the next program does.
            drop(run.settled().await);
        }
    }
    Ok(())
}
