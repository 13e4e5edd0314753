//! Which session a request is about, and whether who asks may.

use std::sync::Arc;

use andon_runtime::SessionKey;

use crate::access::principal::Principal;
use crate::http::problem::Problem;

pub(crate) use crate::api::create::CANCEL;

/// The session of a path. What is out of reach is refused like what there is not.
pub(crate) fn session(principal: &Principal, app: &str, user: &str, session: &str) -> Result<SessionKey, Problem> {
    let key = SessionKey::new(app, user, session).map_err(|error| Problem::bad_id("app, user or session", &error))?;
    within(principal, user)?;
    Ok(SessionKey { tenant: Arc::clone(&principal.tenant), ..key })
}

/// A user of an app, as the beginning of all keys of their sessions.
pub(crate) fn user(principal: &Principal, app: &str, user: &str) -> Result<SessionKey, Problem> {
    session(principal, app, user, "any")
}

/// Whether who asks may act for this user. The one place of the dialect that asks.
fn within(principal: &Principal, user: &str) -> Result<(), Problem> {
    if principal.may_act_for(user) { Ok(()) } else { Err(no_session()) }
}

/// There is no such session, or none within reach.
pub(crate) fn no_session() -> Problem {
    Problem::not_found("no-such-session", "Session not found")
}
