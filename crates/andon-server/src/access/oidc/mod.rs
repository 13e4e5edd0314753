//! Tokens of an OpenID Connect issuer.
//!
//! # Invariants
//!
//! 1. The issuer, the audience and the signature algorithms are fixed before any token is looked at: nothing in a token
//!    says where to get a key, and no key is used with an algorithm that is not its own.
//! 2. A token without an expiry time is rejected.
//! 3. The issuer is called over TLS or on this machine, with a time limit and a size limit, and at most once per
//!    [`AGAIN`], whatever clients send. A call continues even if the client that sent the token disconnects.
//! 4. A verified token is cached and not verified again until the issuer's keys are next fetched.

mod claims;
mod fetch;
mod jwks;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::time::Wall;
use parking_lot::{Mutex, RwLock};
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use self::jwks::{Head, IssuerKey};
use crate::access::principal::Principal;
use crate::access::secret::Trace;
use crate::http::problem::Problem;
use crate::options::oidc::Oidc;

/// The minimum time between two calls to the issuer.
const AGAIN: Duration = Duration::from_secs(10);
/// How long a response may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the issuer's keys count as current.
const FRESH: Duration = Duration::from_secs(600);
/// How many verified tokens are cached.
const PROVEN: usize = 4_096;

/// The issuer's keys, and when they were fetched.
#[derive(Default)]
struct Known {
    keys: Vec<IssuerKey>,
    since: Option<Instant>,
}

/// An issuer, its keys and its verified tokens.
pub(crate) struct Issuer {
    settings: Oidc,
    known: RwLock<Arc<Known>>,
    /// When the issuer was last called. The lock is held during a call.
    asked: tokio::sync::Mutex<Option<Instant>>,
    proven: Mutex<HashMap<Trace, Principal>>,
}

impl Issuer {
    pub(crate) fn new(settings: Oidc) -> Arc<Self> {
        let (known, asked, proven) = Default::default();
        Arc::new(Self { settings, known, asked, proven })
    }

    /// Whose token this is; `None` if it is not a valid token.
    pub(crate) async fn principal(
        self: &Arc<Self>,
        tasks: &TaskTracker,
        token: &str,
        now: Wall,
    ) -> Result<Option<Principal>, Problem> {
        let trace = Trace::of(token);
        if let Some(known) = self.proven.lock().get(&trace) {
            return Ok(known.pass.is_valid(now).then(|| known.clone()));
        }
        // Text that is not a token at all causes no call to the issuer.
        let Some(head) = Head::of(token) else { return Ok(None) };
        let known = self.known(tasks, &head).await?;
        let claims = known.keys.iter().filter(|key| key.fits(&head)).find_map(|key| key.claims(&head, token));
        let principal = claims.and_then(|claims| claims::principal(&claims, &self.settings, now));
        if let Some(principal) = &principal {
            self.remember(&known, trace, principal);
        }
        Ok(principal)
    }

    /// The issuer's keys, fetched again if none of them fits the token (invariant 3).
    async fn known(self: &Arc<Self>, tasks: &TaskTracker, head: &Head) -> Result<Arc<Known>, Problem> {
        let known = Arc::clone(&self.known.read());
        let issuer = Arc::clone(self);
        let refreshing = async move { issuer.refresh().await };
        let is_there = known.keys.iter().any(|key| key.fits(head));
        if is_there {
            // The old keys are used until the new ones arrive.
            if known.since.is_none_or(|since| since.elapsed() > FRESH) {
                drop(tasks.spawn(refreshing));
            }
            return Ok(known);
        }
        // In a task of its own, so that a client that sends a token and disconnects does not keep the others from
        // getting the keys.
        let _ = tasks.spawn(refreshing).await;
        let known = Arc::clone(&self.known.read());
        if known.since.is_none() {
            let detail = "the token issuer does not answer, so this token cannot be checked: try again";
            return Err(Problem::unavailable("issuer-unavailable", detail));
        }
        Ok(known)
    }

    async fn refresh(&self) {
        let mut asked = self.asked.lock().await;
        if asked.is_some_and(|asked| asked.elapsed() < AGAIN) {
            return;
        }
        *asked = Some(Instant::now());
        let answer = timeout(PATIENCE, fetch::keys(&self.settings)).await;
        match answer.unwrap_or_else(|_| Err("it took too long to answer".to_owned())) {
            Ok(keys) => {
                let mut proven = self.proven.lock();
                *self.known.write() = Arc::new(Known { keys, since: Some(Instant::now()) });
                proven.clear();
            }
            Err(why) => tracing::warn!(issuer = self.settings.issuer, why, "the issuer's keys could not be fetched"),
        }
    }

    /// Caches a verified token, if the keys it was verified with are still current (invariant 4).
    fn remember(&self, known: &Arc<Known>, trace: Trace, principal: &Principal) {
        let mut proven = self.proven.lock();
        if !Arc::ptr_eq(known, &self.known.read()) {
            return;
        }
        if proven.len() >= PROVEN {
            proven.clear();
        }
        proven.insert(trace, principal.clone());
    }
}
