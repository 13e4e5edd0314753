//! `GET /v1/runs/{run_id}/events`: a run's feed.

use std::sync::Arc;

use andon_runtime::{Cursor, Run, RunId};
use axum::body::Body;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::forms::IdForm;
use super::{runs, socket};
use crate::access::principal::{Principal, User, user_of};
use crate::core::Shared;
use crate::feed::presence::FeedWatcher;
use crate::feed::{FeedSlot, Plain, ReadPermission, Reading, SSE_HEADERS, SseBody};
use crate::http::path::PathParams;
use crate::http::problem::{Problem, Refusals};
use crate::http::query::Query;
use crate::http::socket::Written;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Where a feed starts, and whether its reader counts.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct From {
    /// Start after this event id. The same as `Last-Event-ID`, for clients that cannot send headers.
    after: Option<String>,
    /// Do not count as a reader for the run's `on_disconnect`, neither on connecting nor on disconnecting.
    #[serde(default)]
    #[param(required = false)]
    aside: bool,
}

/// One event of a feed.
#[derive(Debug, ToSchema)]
#[schema(as = FeedEvent)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct RunEventForm {
    /// The position after this event, for `Last-Event-ID`.
    id: String,
    /// An event of the run or a live piece of an answer, as JSON. An event has a `standing`: the `state` of the run
    /// after it, its `phase` unless it has settled, and the `force` of its cancel if there was one.
    data: String,
}

/// A run's feed, as Server-Sent Events or over a WebSocket.
///
/// With `Last-Event-ID` or `after`, the feed resumes exactly there, even in the middle of an answer. With `Upgrade:
/// websocket`, each message is the data of one event; its id is its `at` if it has one, and otherwise its `seq`. The
/// client may send `{"type": "cancel", "force"?, "grace_ms"?, "note"?}`, which is answered with a `cancel_reply` once
/// it is on record.
#[utoipa::path(
    get, path = "/v1/runs/{run_id}/events", tag = "runs",
    params(
        ("run_id" = inline(IdForm), Path, description = "The id of the run"),
        From,
        ("Last-Event-ID" = Option<String>, Header, description = "Resume after this event id, such as 12 or 12.340"),
    ),
    responses(
        (status = 200, description = "The feed", body = RunEventForm, content_type = "text/event-stream"),
        (status = 101, description = "The feed, over a WebSocket"),
        (status = 204, description = "You already have the run's last event"),
        Refusals,
    )
)]
pub(crate) async fn events(
    State(core): State<Shared>,
    principal: Principal,
    PathParams(run): PathParams<String>,
    Query(from): Query<From>,
    method: Method,
    headers: HeaderMap,
    (written, upgrade): (Written, Result<WebSocketUpgrade, WebSocketUpgradeRejection>),
) -> Result<Response, Problem> {
    let run = runs::find(&core, &principal, &run).await?;
    let start = place(&headers, from.after.as_deref())?;
    if method == Method::HEAD {
        // A client that only asks for the headers is not a reader, so it cannot disconnect as one.
        if has_seen_the_end(&run, start) {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        return Ok([(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"))].into_response());
    }
    let wanted = match from.aside {
        true => WantedFeed::aside(&core, &principal, start)?,
        false => WantedFeed::new(&core, &principal, user_of(run.session()), start)?,
    };
    if !wants_socket(&headers) {
        return Ok(feed(&core, &run, wanted));
    }
    let upgrade = upgrade.map_err(|error| Problem::bad_request("bad-upgrade", error.body_text()))?;
    let feed = run.feed_from(wanted.from);
    let reading = wanted.reading(&core, &run);
    let permission = reading.permission.clone();
    let talk = socket::FeedTalk::new(Shared::clone(&core), principal, run, feed, reading);
    Ok(core.sockets.upgrade((upgrade, written), permission, std::future::ready(Ok(talk))))
}

/// Whether the client asks for a WebSocket.
pub(crate) fn wants_socket(headers: &HeaderMap) -> bool {
    let asked = headers.get(header::UPGRADE).and_then(|value| value.to_str().ok());
    asked.is_some_and(|asked| asked.eq_ignore_ascii_case("websocket"))
}

/// Whether the client asks for a feed.
pub(crate) fn wants_feed(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepts.flat_map(|value| value.split(',')).any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("text/event-stream")
    })
}

/// A feed that can be opened: where it starts, and a slot for it. A client that starts a run and wants its feed gets
/// this first.
pub struct WantedFeed {
    from: Cursor,
    slot: FeedSlot,
    permission: ReadPermission,
    watcher: Option<FeedWatcher>,
}

impl WantedFeed {
    /// A feed that starts here, and counts against the limit of this user.
    pub(crate) fn new(core: &Shared, principal: &Principal, user: User, from: Cursor) -> Result<Self, Problem> {
        let slot = core.feeds.take(user, core.options.max_feeds, core.options.max_feeds_of_user)?;
        Ok(Self { from, slot, permission: ReadPermission::new(principal, &core.runtime), watcher: None })
    }

    /// A feed for an onlooker. It counts against the onlooker's own limit, not against that of the run's user.
    fn aside(core: &Shared, principal: &Principal, from: Cursor) -> Result<Self, Problem> {
        let wanted = Self::new(core, principal, principal.reader(), from)?;
        Ok(Self { watcher: Some(FeedWatcher::aside()), ..wanted })
    }

    /// Registers the reader with its run, so that the run notices even a reader that leaves before the feed is sent.
    pub(crate) fn watch(&mut self, run: &Run) {
        self.watcher = Some(FeedWatcher::new(run, &self.permission));
    }

    /// Whether the run notices when this reader leaves.
    pub(crate) fn is_missed(&self) -> bool {
        self.permission.may_stop
    }

    pub(crate) fn reading(self, core: &Shared, run: &Run) -> Reading {
        let watcher = self.watcher.unwrap_or_else(|| FeedWatcher::new(run, &self.permission));
        let (figures, since) = (Arc::clone(&core.figures), core.runtime.now().wall);
        Reading { _slot: self.slot, watcher, permission: self.permission, figures, since }
    }
}

/// A run's feed as a response.
pub(crate) fn feed(core: &Shared, run: &Run, wanted: WantedFeed) -> Response {
    let from = wanted.from;
    if has_seen_the_end(run, from) {
        return StatusCode::NO_CONTENT.into_response();
    }
    let reading = wanted.reading(core, run);
    let parked = core.runtime.is_parked(run.id()).then(|| run.id().clone());
    let (closing, heartbeat) = (core.closing.clone(), core.options.heartbeat);
    let body = SseBody::new(run.feed_from(from), Plain::default(), reading, parked, closing, heartbeat);
    let id = HeaderValue::from_str(&encoded(run.id())).unwrap_or(HeaderValue::from_static(""));
    (SSE_HEADERS, [(HeaderName::from_static("andon-run-id"), id)], Body::new(body)).into_response()
}

/// The position after which a reader continues.
pub(crate) fn place(headers: &HeaderMap, after: Option<&str>) -> Result<Cursor, Problem> {
    let named = headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or("?"));
    match named.filter(|id| !id.is_empty()).or(after) {
        None => Ok(Cursor::default()),
        Some(id) => id.parse().map_err(|error| Problem::bad_request("bad-event-id", format!("{error}"))),
    }
}

/// Whether a reader has already seen the run's last event.
fn has_seen_the_end(run: &Run, from: Cursor) -> bool {
    run.try_outcome().is_some() && from == Cursor { seq: run.seq(), byte: 0 }
}

/// An id, encoded for use in a path.
pub(crate) fn encoded(run: &RunId) -> String {
    const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(run.as_str(), PLAIN).to_string()
}
