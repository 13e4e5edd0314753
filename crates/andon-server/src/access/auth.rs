//! Who sent a request, as shown by an API key, a token from the issuer, a ticket or the machine owner's key.

use std::sync::Arc;

use andon_runtime::core::time::Wall;
use andon_runtime::{JournalError, Runtime};
use axum::http::{HeaderMap, header};
use tokio_util::task::TaskTracker;

use crate::access::keys::{Keys, PREFIX};
use crate::access::limiter::Limiter;
use crate::access::oidc::Issuer;
use crate::access::principal::Principal;
use crate::access::secret::{Secret, Trace, random_word};
use crate::access::tickets::Tickets;
use crate::http::problem::Problem;
use crate::options::Options;

/// The prefix of the machine owner's key. No other key starts with it, because other keys have longer ids.
const OWNER: &str = "local_";

/// Authenticates requests.
pub(crate) struct Auth {
    is_on: bool,
    pub(crate) keys: Keys,
    pub(crate) tickets: Tickets,
    /// Limits cancels of runs that are not in progress.
    pub(crate) cancels: Limiter,
    /// The key of whoever may read what the server stores. A new one is made at every start, and it is not stored here.
    owner: Option<(Secret, Trace)>,
    issuer: Option<Arc<Issuer>>,
    tasks: TaskTracker,
}

impl Auth {
    pub(crate) async fn read(runtime: &Runtime, options: &Options, tasks: &TaskTracker) -> Result<Self, JournalError> {
        let is_on = options.is_guarded();
        // If the system has no random numbers there is no owner key, and everybody needs one of the other kinds.
        let owner = random_word().ok().filter(|_| is_on);
        let owner = owner.map(|word| (Secret::new(format!("{PREFIX}{OWNER}{word}")), Trace::of(&word)));
        let issuer = options.oidc.clone().map(Issuer::new);
        Ok(Self {
            is_on,
            keys: Keys::read(runtime.shelf()).await?,
            tickets: Tickets::default(),
            cancels: Limiter::default(),
            owner,
            issuer,
            tasks: tasks.clone(),
        })
    }

    /// Whether requests must be authenticated.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    pub(crate) fn owner_key(&self) -> Option<&Secret> {
        self.owner.as_ref().map(|(key, _)| key)
    }

    /// Who sent a request; `None` if it carries no valid key or token.
    pub(crate) async fn principal(&self, headers: &HeaderMap, now: Wall) -> Result<Option<Principal>, Problem> {
        let Some(shown) = bearer(headers) else { return Ok(None) };
        if let Some(word) = shown.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(OWNER)) {
            let is_owner = self.owner.as_ref().is_some_and(|(_, trace)| trace.is_of(word));
            return Ok(is_owner.then(Principal::local));
        }
        match &self.issuer {
            Some(issuer) if !shown.starts_with(PREFIX) => issuer.principal(&self.tasks, shown, now).await,
            _ => Ok(self.keys.open(shown, now)),
        }
    }
}

/// The bearer token of a request. Two `Authorization` headers are rejected, because one program would read the first
/// and another the last.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, shown) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(shown.trim())
}
