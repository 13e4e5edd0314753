//! `POST /v1/tickets`: tickets, for browsers that cannot send a header.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::principal::Principal;
use crate::access::tickets::LIFE;
use crate::core::Shared;
use crate::http::json::JsonBody;
use crate::http::problem::{Problem, Refusals};

/// A ticket.
#[derive(Serialize, ToSchema)]
#[schema(as = Ticket)]
pub(crate) struct TicketView<'a> {
    /// The value to send as `?ticket=`.
    ticket: &'a str,
    /// How long the ticket is valid, in milliseconds.
    expires_in_ms: u64,
}

/// Get a ticket for one feed or one WebSocket.
///
/// Browsers cannot send headers with those, so they send `?ticket=` instead. A ticket works once, within 30 seconds.
/// The connection it opens lasts no longer than the key or token with which you asked for the ticket.
#[utoipa::path(
    post, path = "/v1/tickets", tag = "access",
    responses(
        (status = 201, description = "The ticket", body = inline(TicketView<'static>)),
        Refusals,
    )
)]
pub(crate) async fn issue(State(core): State<Shared>, principal: Principal) -> Result<Response, Problem> {
    let ticket = core.auth.tickets.issue(&principal, core.runtime.now().wall)?;
    let expires_in_ms = u64::try_from(LIFE.as_millis()).unwrap_or(u64::MAX);
    Ok((StatusCode::CREATED, JsonBody(TicketView { ticket: ticket.show(), expires_in_ms })).into_response())
}
