//! A run on a server.
//!
//! # Invariants
//!
//! 1. Stops and decisions never make the caller wait for the server: separate tasks send them, and report errors on the feed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use andon_runtime::core::event::HookChange;
use andon_runtime::{CallId, Cursor, Digest, Event, FeedItem, Limits, Message, OnDisconnect, Outcome, Role, RunId};
use serde::Serialize;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::sleep;

use super::forms::RunView;
use super::{Client, ClientError, FeedUpdate, RemoteFeed, feed, spawn};
use crate::args::Busy;
use crate::how::How;

/// How often a request is tried when the connection breaks, and the wait before the second try.
const TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// How many items the feed may be ahead of the screen.
const AHEAD: usize = 256;

/// The request body that starts a run.
#[derive(Debug, Serialize)]
pub(crate) struct RunRequest {
    pub(crate) app: String,
    pub(crate) user: String,
    pub(crate) session: String,
    pub(crate) run_id: RunId,
    pub(crate) input: String,
    #[serde(flatten)]
    pub(crate) options: RunOptions,
}

/// What each request of a conversation says besides the prompt.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct RunOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) when_busy: Option<Busy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) on_disconnect: Option<OnDisconnect>,
    pub(crate) limits: Limits,
}

/// A run on a server. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RemoteRun {
    client: Client,
    id: RunId,
    tell: Sender<FeedUpdate>,
    told: Arc<Mutex<Option<Receiver<FeedUpdate>>>>,
}

impl RemoteRun {
    /// The run with this id, which may not exist yet.
    pub(crate) fn new(client: &Client, id: RunId) -> Self {
        let (tell, told) = channel(AHEAD);
        Self { client: client.clone(), id, tell, told: Arc::new(Mutex::new(Some(told))) }
    }

    pub(crate) fn id(&self) -> &RunId {
        &self.id
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Starts it. The same request gives the same run, so it is sent again when the connection breaks.
    pub(crate) async fn create(&self, order: &RunRequest) -> Result<RunView, ClientError> {
        again_if_broken(|| self.client.create(order)).await
    }

    /// Its feed from a cursor on. Each handle has one.
    pub(crate) fn feed(&self, from: Cursor) -> RemoteFeed {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).take();
        if told.is_some() {
            spawn(feed::read(self.client.clone(), self.id.clone(), from, self.tell.clone()));
        }
        RemoteFeed(told.unwrap_or_else(|| channel(1).1))
    }

    /// Tells the server to stop it; does not wait (invariant 1).
    pub(crate) fn pull(&self, how: How) {
        let run = self.clone();
        spawn(async move {
            let stopped = again_if_broken(|| run.client.cancel(&run.id, &how, false)).await;
            match stopped {
                Ok(_) => {}
                // The run has not arrived yet: the server remembers the cancel, and stops the run when it comes.
                Err(error) if error.is_not_found() => {}
                Err(error) => run.note(format!("The run could not be stopped: {error}")).await,
            }
        });
    }

    /// Approves the call with exactly these arguments; does not wait.
    pub(crate) fn approve(&self, call: &CallId, digest: Digest) {
        let (run, call) = (self.clone(), call.clone());
        spawn(async move {
            let decided = again_if_broken(|| run.client.approve(&run.id, &call, digest)).await;
            run.decided(decided).await;
        });
    }

    /// Denies the call; does not wait.
    pub(crate) fn deny(&self, call: &CallId, why: Option<&str>) {
        let (run, call, why) = (self.clone(), call.clone(), why.map(str::to_owned));
        spawn(async move {
            let decided = again_if_broken(|| run.client.deny(&run.id, &call, why.as_deref())).await;
            run.decided(decided).await;
        });
    }

    async fn decided(&self, decided: Result<(), ClientError>) {
        match decided {
            Ok(()) => {}
            // It came too late, and the feed says why.
            Err(error) if error.problem().is_some_and(|problem| problem.is("not-awaited")) => {}
            Err(error) => self.note(format!("The decision did not reach the run: {error}")).await,
        }
    }

    async fn note(&self, words: String) {
        // Fails only if the reader has gone.
        let _ = self.tell.send(FeedUpdate::Note(words)).await;
    }

    /// How it ended, once it has; `answer` is the last one in its feed.
    pub(crate) async fn outcome(&self, answer: Option<Arc<Message>>) -> anyhow::Result<Arc<Outcome>> {
        let receipt = again_if_broken(|| self.client.receipt(&self.id)).await?.receipt;
        let ending = receipt.outcome.clone();
        let ending = ending.ok_or_else(|| anyhow::anyhow!("run {} has not settled yet", self.id))?;
        Ok(Arc::new(Outcome::new(ending, answer, receipt.usage, receipt)))
    }

    /// Like [`outcome`](Self::outcome), for a feed that nobody has read: reads it for the last answer.
    pub(crate) async fn whole_outcome(&self) -> anyhow::Result<Arc<Outcome>> {
        let mut feed = self.feed(Cursor::default());
        let mut answer = None;
        loop {
            match feed.next().await {
                FeedUpdate::End(end) => break end?,
                FeedUpdate::Note(_) => {}
                FeedUpdate::Item(item) => answer = answer_in(&item).cloned().or(answer),
            }
        }
        self.outcome(answer).await
    }
}

/// The answer of the model that an item brings, if it is one.
pub(crate) fn answer_in(item: &FeedItem) -> Option<&Arc<Message>> {
    let FeedItem::Fact(record) = item else { return None };
    match &record.event {
        Event::Message { message } => Some(message).filter(|message| message.role == Role::Assistant),
        // A hook has put another one in its place.
        Event::HookFinished { change: Some(change), .. } => match &**change {
            HookChange::Answer { answer, .. } => Some(answer),
            _ => None,
        },
        _ => None,
    }
}

/// Sends a request that can be repeated safely, and tries again if the connection breaks.
async fn again_if_broken<T, F: Future<Output = Result<T, ClientError>>>(
    mut send: impl FnMut() -> F,
) -> Result<T, ClientError> {
    let mut wait = FIRST_WAIT;
    for _ in 1..TRIES {
        match send().await {
            Err(ClientError::Broken { .. }) => sleep(wait).await,
            other => return other,
        }
        wait *= 2;
    }
    send().await
}
