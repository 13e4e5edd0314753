//! Dialects: other servers' ways of talking, at their own paths beside the native API.
//!
//! A [`Dialect`] is handed to [`Server::with_dialects`](crate::Server::with_dialects). It brings its routes, and for each of
//! them a [`Row`] that says what the route asks of whoever calls it. The rest of this module is what a dialect stands on: the
//! [`Host`] that it speaks for, and the forms of requests and answers that all dialects share.
//!
//! # Invariants
//!
//! 1. A dialect's routes stand behind the same guard, limits and access checks as all others.
//! 2. A run is started, followed and stopped as by the native API: a dialect only says it in other words.

use std::sync::Arc;

use andon_runtime::{
    Agent, Ending, Limits, Message, OnDisconnect, Run, RunId, Runtime, SessionKey, State, StateMap, WhenBusy,
};
use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::admission::apps::Apps;
use crate::admission::order::CancelOrder;
use crate::api::create::{self, Order};
use crate::api::selector::{self, Selector};
use crate::api::sessions;
use crate::core::Shared;
use crate::feed::Leave;
use crate::options::Options;

pub use crate::access::principal::{Principal, unauthorized};
pub use crate::access::table::{Need, Row};
pub use crate::admission::apps::refused_app;
pub use crate::api::events::WantedFeed;
pub use crate::api::forms::MAX_NOTE;
pub use crate::feed::talk::{Close, Over, Talker};
pub use crate::feed::{Hand, Reading, SseBody};
pub use crate::http::answers::SessionRead;
pub use crate::http::body::{json_bytes, not_too_deep, optional_json_bytes};
pub use crate::http::json::Json;
pub use crate::http::path::Path;
pub use crate::http::problem::Problem;
pub use crate::http::slots::MayWait;
pub use crate::http::socket::Written;
pub use crate::page::folder::read_file;

/// Another server's way of talking.
pub trait Dialect: Send + Sync + 'static {
    /// What each of its routes asks for. A route without a row is served to nobody where it matters who asks.
    fn rows(&self) -> Vec<Row>;

    /// Its routes.
    fn router(&self, host: &Host) -> Router;

    /// Whether a path is its own, so that what is refused there is said in its words. It is asked before any route is looked
    /// for, and also for paths that have none.
    fn speaks(&self, path: &str) -> bool;

    /// An answer of one of its paths. One that is a refusal has a [`Problem`] among its extensions, and is to be said in the
    /// dialect's own words.
    fn in_own_words(&self, answer: Response) -> Response;

    /// Whether a request pulls a cord, or asks for health: such requests are served when nothing else is.
    fn is_vital(&self, _method: &Method, _path: &str) -> bool {
        false
    }

    /// Why no session may have this name; `None` if one may.
    fn refuses_session(&self, _name: &str) -> Option<String> {
        None
    }

    /// The path of its own web page, if `/` is to lead there.
    fn front_page(&self) -> Option<&'static str> {
        None
    }

    /// Whether it can be served as it was told; if not, what to do.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// The server, as a dialect sees it. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    core: Shared,
}

/// A run that is to be started.
#[derive(Debug)]
pub struct RunOrder {
    /// The agent, in the session.
    pub agent: Agent,
    /// The run's id.
    pub run_id: RunId,
    /// What is asked.
    pub input: Message,
    /// What to do when a run is in progress in the session.
    pub when_busy: WhenBusy,
    /// What losing the last reader of its feed does.
    pub on_disconnect: OnDisconnect,
    /// What it may use.
    pub limits: Limits,
    /// What it changes in the session's state as it begins.
    pub state: StateMap,
}

/// What stopping a session's runs did.
#[derive(Debug)]
pub struct StoppedSession {
    /// How many runs were in progress and are stopping now, or have stopped.
    pub cancelled: usize,
    /// Whether all that was looked for has settled.
    pub settled: bool,
    /// How many other runs are in progress, of those that the principal may stop.
    pub others: usize,
    /// What became of each run.
    pub runs: Vec<StoppedRun>,
}

/// What a cancel did to one run.
#[derive(Debug)]
pub struct StoppedRun {
    /// The run.
    pub run_id: RunId,
    /// What the cancel did, such as `accepted`.
    pub reply: &'static str,
    /// Where the run stands now.
    pub state: State,
    /// How it ended, if it has.
    pub outcome: Option<Ending>,
    /// What may still be going on after the run, by name: of one that has settled.
    pub leaked: Vec<String>,
}

impl Host {
    pub(crate) fn new(core: &Shared) -> Self {
        Self { core: Arc::clone(core) }
    }

    /// The runtime that all runs belong to.
    pub fn runtime(&self) -> &Runtime {
        &self.core.runtime
    }

    /// The agents that are served.
    pub fn apps(&self) -> &Apps {
        &self.core.apps
    }

    /// What the server allows, and how long it waits.
    pub fn options(&self) -> &Options {
        &self.core.options
    }

    /// Cancelled when feeds are to end, because the server shuts down.
    pub fn closing(&self) -> &CancellationToken {
        &self.core.closing
    }

    /// Begins something that goes on when the request that began it is gone. Shutting down waits for it.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.core.spawn(work)
    }

    /// A place for reading a whole session: there are few, because sessions can be large.
    pub async fn read_session(&self) -> Result<SessionRead, Problem> {
        self.core.answers.place().await
    }

    /// Waits until a principal's key or token is no longer valid. It notices within a few seconds.
    pub async fn ended(&self, principal: &Principal) {
        principal.ended(&self.core.runtime).await;
    }

    /// Room for the feed of a run in this session. Whoever wants one has this first: if it cannot be had, nothing is started.
    pub fn want_feed(&self, principal: &Principal, session: &SessionKey) -> Result<WantedFeed, Problem> {
        WantedFeed::new(&self.core, principal, session, &HeaderMap::new(), None)
    }

    /// What a reader holds while it reads the feed of this run.
    pub fn reading(&self, wanted: WantedFeed, run: &Run) -> Reading {
        wanted.reading(&self.core, run)
    }

    /// Starts a run if it may begin, and waits until it is on record. Whoever asked is its reader from the moment it may
    /// begin.
    pub async fn start(&self, principal: &Principal, order: RunOrder) -> Result<(Run, Reading), Problem> {
        let _permit = create::may_create(&self.core)?;
        let RunOrder { agent, run_id, input, when_busy, on_disconnect, limits, state } = order;
        let order = Order { agent, run_id, named: None, input, when_busy, on_disconnect, limits, state };
        let mut wanted = Some(self.want_feed(principal, order.agent.session_key())?);
        let (run, _) = create::start(&self.core, principal, &order, &mut wanted).await?;
        let wanted = wanted.ok_or_else(|| Problem::unavailable("defect", "the feed is gone: please report it"))?;
        let reading = self.reading(wanted, &run);
        Ok((run, reading))
    }

    /// A run's feed as Server-Sent Events, written by this hand.
    pub fn sse<H: Hand>(&self, feed: andon_runtime::Feed, hand: H, reading: Reading) -> SseBody<H> {
        SseBody::new(feed, hand, reading, None, self.core.closing.clone(), self.core.options.heartbeat)
    }

    /// Answers with a WebSocket, on which this talker speaks once it is there.
    pub fn talk<T: Talker + 'static>(
        &self,
        principal: &Principal,
        upgrade: (WebSocketUpgrade, Written),
        talker: impl Future<Output = Result<T, Close>> + Send + 'static,
    ) -> Response {
        self.core.sockets.upgrade(upgrade, Leave::new(principal, &self.core.runtime), talker)
    }

    /// Stops all runs of one session of the principal's own tenant: its app, its user and its name. It waits until that is on
    /// record, and if asked until all of them have settled.
    pub async fn stop_session(
        &self,
        principal: &Principal,
        session: [&str; 3],
        order: &CancelOrder,
        wait: bool,
    ) -> Result<StoppedSession, Problem> {
        let selector = Selector::of_session(&principal.tenant, session);
        let stopped = selector::stop(&self.core, principal, &selector, order, wait).await?;
        let runs = stopped.runs.into_iter().map(|run| StoppedRun {
            run_id: run.run_id,
            reply: run.reply,
            state: run.state,
            outcome: run.outcome,
            leaked: run.leaked,
        });
        Ok(StoppedSession {
            cancelled: stopped.cancelled,
            settled: stopped.settled,
            others: stopped.aim.others,
            runs: runs.collect(),
        })
    }

    /// Deletes a session; its runs in progress are cancelled and settled first, which takes the scope `run:cancel`. Whether
    /// there was one.
    pub async fn delete_session(&self, principal: &Principal, key: SessionKey) -> Result<bool, Problem> {
        sessions::delete_session(&self.core, principal, key).await
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("runtime", &self.core.runtime).finish_non_exhaustive()
    }
}
