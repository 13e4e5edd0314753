//! Which session a request is about, and whether the caller may reach it.

use std::sync::Arc;

use andon_runtime::SessionKey;
use andon_server::dialect::{Principal, Problem};
use axum::http::Method;
use percent_encoding::percent_decode_str;

/// The suffix with which ADK's clients cancel what runs in a session.
pub(crate) const CANCEL: &str = ":cancel";

/// The app, the user and the session in a path.
pub(crate) type SessionPath = (String, String, String);

/// Whether a name would read as a cancel: no session may have such a name, nor one that becomes such a name if a program on the
/// way trims it or lowercases it.
pub(crate) fn is_cancel(session: &str) -> bool {
    session.trim_end().to_lowercase().ends_with(CANCEL)
}

/// Whether a request pulls a cord.
pub(crate) fn is_vital(method: &Method, path: &str) -> bool {
    *method == Method::POST && path.starts_with("/apps/") && is_cancel(&percent_decode_str(path).decode_utf8_lossy())
}

/// The session of a path. One that is out of reach is refused like one that does not exist.
pub(crate) fn session(principal: &Principal, app: &str, user: &str, session: &str) -> Result<SessionKey, Problem> {
    let key = SessionKey::new(app, user, session).map_err(|error| Problem::bad_id("app, user or session", &error))?;
    if !principal.may_act_for(user) {
        return Err(no_session());
    }
    Ok(key.tenant(Arc::clone(principal.tenant())))
}

/// A user of an app, as the prefix of the keys of all their sessions.
pub(crate) fn user(principal: &Principal, app: &str, user: &str) -> Result<SessionKey, Problem> {
    session(principal, app, user, "any")
}

/// There is no such session, or none within reach.
pub(crate) fn no_session() -> Problem {
    Problem::not_found("no-such-session", "Session not found")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_is_vital_and_nothing_else() {
        for path in ["/apps/shop/users/ada/sessions/s1:cancel", "/apps/shop/users/ada/sessions/s1%3Acancel"] {
            assert!(is_vital(&Method::POST, path), "{path}");
            assert!(!is_vital(&Method::GET, path), "{path}");
        }
        for path in ["/run", "/apps/shop/users/ada/sessions/s1", "/v1/cancel"] {
            assert!(!is_vital(&Method::POST, path), "{path}");
        }
    }
}
