//! Dialects: the APIs of other servers, at their own paths alongside the native API.
//!
//! Pass a [`Dialect`] to [`Server::with_dialects`](crate::Server::with_dialects). It brings its routes, and for each of
//! them a [`Row`] that says what the route requires of its callers. The rest of this module is what dialects build on:
//! the [`Host`] they run in, and the requests and responses that all dialects share.
//!
//! # Invariants
//!
//! 1. A dialect's routes are behind the same guard, limits and access checks as all others.
//! 2. Runs are started, followed and cancelled just as in the native API: a dialect only translates.

use std::sync::Arc;

use andon_runtime::{Cursor, Run, Runtime, SessionKey};
use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::http::Method;
use axum::response::Response;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::access::principal::user_of;
use crate::admission::apps::Apps;
use crate::admission::order::CancelOrder;
use crate::api::create;
use crate::api::selector::{self, Selector};
use crate::api::sessions;
use crate::core::Shared;
use crate::feed::ReadPermission;
use crate::options::Options;

pub use crate::access::principal::{Principal, unauthorized};
pub use crate::access::table::{Need, Row};
pub use crate::admission::apps::refused_app;
pub use crate::api::aim::Aim;
pub use crate::api::cancel::Cancelled;
pub use crate::api::create::RunOrder;
pub use crate::api::events::WantedFeed;
pub use crate::api::forms::MAX_NOTE;
pub use crate::api::selector::CancelledMany;
pub use crate::feed::talk::{Close, SocketEnd, SocketHandler};
pub use crate::feed::{FeedFormat, Reading, SseBody};
pub use crate::http::answers::SessionRead;
pub use crate::http::body::{json_bytes, not_too_deep, optional_json_bytes};
pub use crate::http::json::JsonBody;
pub use crate::http::path::PathParams;
pub use crate::http::problem::Problem;
pub use crate::http::slots::MayWait;
pub use crate::http::socket::Written;
pub use crate::page::folder::read_file;

/// The API of another server.
pub trait Dialect: Send + Sync + 'static {
    /// What each of its routes requires. When authentication is on, a route without a row is served to nobody.
    fn rows(&self) -> Vec<Row>;

    /// Its routes.
    fn router(&self, host: &Host) -> Router;

    /// Whether a path belongs to the dialect, so that errors there have its format. Called before routing, and
    /// therefore also for paths that have no route.
    fn speaks(&self, path: &str) -> bool;

    /// Converts the response of one of its paths. An error has a [`Problem`] among its extensions, which must be
    /// converted to the format of the dialect.
    fn in_own_words(&self, answer: Response) -> Response;

    /// Whether a request cancels a run or checks health. Such requests are served even when nothing else is.
    fn is_vital(&self, _method: &Method, _path: &str) -> bool {
        false
    }

    /// Why no session may have this name; `None` if one may.
    fn refuses_session(&self, _name: &str) -> Option<String> {
        None
    }

    /// The path of its own web page, if `/` should redirect there.
    fn front_page(&self) -> Option<&'static str> {
        None
    }

    /// Checks that the dialect is configured correctly; the error says what to do.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// The server, as a dialect sees it. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    core: Shared,
}

impl Host {
    pub(crate) fn new(core: &Shared) -> Self {
        Self { core: Arc::clone(core) }
    }

    /// The runtime that all runs belong to.
    pub fn runtime(&self) -> &Runtime {
        &self.core.runtime
    }

    /// The agents that the server runs.
    pub fn apps(&self) -> &Apps {
        &self.core.apps
    }

    /// The limits and other settings of the server.
    pub fn options(&self) -> &Options {
        &self.core.options
    }

    /// Cancelled when feeds must end, because the server is shutting down.
    pub fn closing(&self) -> &CancellationToken {
        &self.core.closing
    }

    /// Starts a task that continues even if the request that started it is gone. Shutdown waits for it.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.core.tasks.spawn(work)
    }

    /// A slot for reading a whole session. There are few, because sessions can be large.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn read_session(&self) -> Result<SessionRead, Problem> {
        self.core.answers.slot().await
    }

    /// Waits until a principal's key or token is no longer valid, which it notices within a few seconds.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn ended(&self, principal: &Principal) {
        principal.pass.ended(&self.core.runtime).await;
    }

    /// A slot for the feed of a run in this session. Get this before starting the run: if it fails, nothing is started.
    pub fn want_feed(&self, principal: &Principal, session: &SessionKey) -> Result<WantedFeed, Problem> {
        WantedFeed::new(&self.core, principal, user_of(session), Cursor::default())
    }

    /// What a reader holds while it reads the feed of this run.
    pub fn reading(&self, wanted: WantedFeed, run: &Run) -> Reading {
        wanted.reading(&self.core, run)
    }

    /// Starts a run if it may start, and waits until it is on record. The caller counts as its reader from the moment
    /// it may start.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped after the run has begun, its reader has gone away: what becomes of the run is what the order says of that.
    pub async fn start(&self, principal: &Principal, order: RunOrder) -> Result<(Run, Reading), Problem> {
        let _permit = create::may_create(&self.core)?;
        let mut wanted = Some(self.want_feed(principal, order.session.key())?);
        let (run, _) = create::start(&self.core, principal, &order, None, &mut wanted).await?;
        let wanted =
            wanted.ok_or_else(|| Problem::unavailable("defect", "the feed ended unexpectedly: please report this"))?;
        let reading = self.reading(wanted, &run);
        Ok((run, reading))
    }

    /// A run's feed as Server-Sent Events, in this format.
    pub fn sse<F: FeedFormat>(&self, feed: andon_runtime::Feed, format: F, reading: Reading) -> SseBody<F> {
        SseBody::new(feed, format, reading, None, self.core.closing.clone(), self.core.options.heartbeat)
    }

    /// Responds with a WebSocket, which this handler then handles.
    pub fn talk<T: SocketHandler + 'static>(
        &self,
        principal: &Principal,
        upgrade: (WebSocketUpgrade, Written),
        handler: impl Future<Output = Result<T, Close>> + Send + 'static,
    ) -> Response {
        self.core.sockets.upgrade(upgrade, ReadPermission::new(principal, &self.core.runtime), handler)
    }

    /// Cancels all runs in one session of the principal's own tenant, given by app, user and name. Waits until that is
    /// on record and, if asked to, until all of them have settled.
    ///
    /// # Cancel safety
    ///
    /// Dropping this future ends the wait. Runs that were told to stop by then still stop.
    pub async fn stop_session(
        &self,
        principal: &Principal,
        session: [&str; 3],
        order: &CancelOrder,
        wait: bool,
    ) -> Result<CancelledMany, Problem> {
        let selector = Selector::of_session(&principal.tenant, session);
        selector::stop(&self.core, principal, &selector, order, wait).await
    }

    /// Deletes a session. Its runs in progress are cancelled and settled first, which requires the scope `run:cancel`.
    /// Returns whether the session existed.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped while runs are still ending, they have been told to stop and nothing is deleted. Dropped later, the
    /// session is deleted completely or not at all.
    pub async fn delete_session(&self, principal: &Principal, key: SessionKey) -> Result<bool, Problem> {
        sessions::delete_session(&self.core, principal, key).await
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("runtime", &self.core.runtime).finish_non_exhaustive()
    }
}
