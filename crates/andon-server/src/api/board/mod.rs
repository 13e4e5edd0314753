//! `GET /v1/board`: every run that the principal may see, live.

mod body;
mod feed;
mod form;
mod socket;

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use self::feed::BoardFeed;
use self::form::BoardEventForm;
pub(super) use self::form::BoardMessage;
use super::events::wants_socket;
use crate::access::principal::Principal;
use crate::core::Shared;
use crate::feed::{ReadPermission, SSE_HEADERS};
use crate::http::problem::{Problem, ProblemForm};
use crate::http::query::Query;
use crate::http::socket::Written;

/// The board has no query parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParams {}

/// Every run that you may see, live, as Server-Sent Events or over a WebSocket.
///
/// The data of each event, or each message with `Upgrade: websocket`, is one JSON object with a `type`. `board` comes
/// first, with the number of live runs, the line and the last seconds; it replaces everything that was sent before it.
/// Then come `runs` with all rows, live ones first, and `ready`. After that, `runs` has the rows that have changed,
/// each replacing the row with the same `n`; `gone` has the `n` of rows that were removed; `line` comes when a hold was
/// made or removed; and `second` comes once a second. The server keeps nothing for a reader: a slow one gets each row
/// as it is when it is sent, and one that reconnects starts over.
#[utoipa::path(
    get, path = "/v1/board", tag = "runs",
    responses(
        (status = 200, description = "The board", body = BoardEventForm, content_type = "text/event-stream"),
        (status = 101, description = "The board, over a WebSocket"),
        (status = "4XX", body = ProblemForm, content_type = "application/problem+json"),
        (status = 503, description = "Temporarily unavailable, or this server keeps no board", body = ProblemForm, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn board(
    State(core): State<Shared>,
    principal: Principal,
    Query(NoParams {}): Query<NoParams>,
    method: Method,
    headers: HeaderMap,
    written: Written,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let board = core.board.as_ref().ok_or_else(no_board)?;
    if method == Method::HEAD {
        return Ok(SSE_HEADERS.into_response());
    }
    let slot = core.feeds.take(principal.reader(), core.options.max_feeds, core.options.max_feeds_of_user)?;
    let permission = ReadPermission::new(&principal, &core.runtime);
    board.find_parked(&core.runtime).await;
    let feed = BoardFeed::new(&core, board, principal);
    if !wants_socket(&headers) {
        return Ok((SSE_HEADERS, body::of(feed, slot, permission, core.closing.clone())).into_response());
    }
    let upgrade = upgrade.map_err(|error| Problem::bad_request("bad-upgrade", error.body_text()))?;
    let talk = socket::BoardTalk { feed, _slot: slot };
    Ok(core.sockets.upgrade((upgrade, written), permission, std::future::ready(Ok(talk))))
}

fn no_board() -> Problem {
    let detail = "this server keeps no board: build its Runtime with .observer(Board::new())";
    Problem::new(axum::http::StatusCode::SERVICE_UNAVAILABLE, "no-board", detail)
}
