//! Tokens of an OpenID Connect issuer.
//!
//! # Invariants
//!
//! 1. The issuer, the audience and the kinds of signature are settled before any token is looked at: nothing in a token says
//!    where a key is to be had, and no key is used for a kind of signature that is not its own.
//! 2. A token without an end is none.
//! 3. The issuer is asked over TLS, or on this machine; not for long, not for much, and not more often than once in
//!    [`AGAIN`], whatever is sent. It goes on when the client that sent the token is gone.
//! 4. What was proven once is known again without a second look, until the issuer's keys are read anew.

mod claims;
mod fetch;
mod jwks;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::time::Wall;
use parking_lot::{Mutex, RwLock};
use tokio::time::{Instant, timeout};

use self::jwks::{Head, IssuerKey};
use crate::access::principal::Principal;
use crate::access::secret::Trace;
use crate::http::problem::Problem;
use crate::options::oidc::Oidc;
use crate::tasks::Tasks;

/// How long the issuer is not asked again.
const AGAIN: Duration = Duration::from_secs(10);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the issuer's keys are taken for the current ones.
const FRESH: Duration = Duration::from_secs(600);
/// How many tokens are known again.
const PROVEN: usize = 4_096;

/// The keys of the issuer, and when they were read.
#[derive(Default)]
struct Known {
    keys: Vec<IssuerKey>,
    since: Option<Instant>,
}

/// An issuer, and what is known of it.
pub(crate) struct Issuer {
    settings: Oidc,
    known: RwLock<Arc<Known>>,
    /// When it was last asked; held while it is.
    asked: tokio::sync::Mutex<Option<Instant>>,
    proven: Mutex<HashMap<Trace, Principal>>,
}

impl Issuer {
    pub(crate) fn new(settings: Oidc) -> Arc<Self> {
        let (known, asked, proven) = Default::default();
        Arc::new(Self { settings, known, asked, proven })
    }

    /// Whose token this is; `None` if it is no token, or not a valid one.
    pub(crate) async fn principal(
        self: &Arc<Self>,
        tasks: &Tasks,
        token: &str,
        now: Wall,
    ) -> Result<Option<Principal>, Problem> {
        let trace = Trace::of(token);
        if let Some(known) = self.proven.lock().get(&trace) {
            return Ok(known.pass.is_valid(now).then(|| known.clone()));
        }
        // What is no token at all costs the issuer nothing.
        let Some(head) = Head::of(token) else { return Ok(None) };
        let known = self.known(tasks, &head).await?;
        let claims = known.keys.iter().filter(|key| key.fits(&head)).find_map(|key| key.claims(&head, token));
        let principal = claims.and_then(|claims| claims::principal(&claims, &self.settings, now));
        if let Some(principal) = &principal {
            self.remember(&known, trace, principal);
        }
        Ok(principal)
    }

    /// The issuer's keys, read anew if the one that a token names is not among them (invariant 3).
    async fn known(self: &Arc<Self>, tasks: &Tasks, head: &Head) -> Result<Arc<Known>, Problem> {
        let known = Arc::clone(&self.known.read());
        let issuer = Arc::clone(self);
        let refreshing = async move { issuer.refresh().await };
        let is_there = known.keys.iter().any(|key| key.fits(head));
        if is_there {
            // Those that are there will do until the new ones are.
            if known.since.is_none_or(|since| since.elapsed() > FRESH) {
                drop(tasks.spawn(refreshing));
            }
            return Ok(known);
        }
        // A client that sends a token and leaves does not keep the keys from the others.
        let _ = tasks.spawn(refreshing).await;
        let known = Arc::clone(&self.known.read());
        if known.since.is_none() {
            let detail =
                "the issuer of tokens does not answer, so that nobody can say whether this one is good: try again";
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
            Err(why) => tracing::warn!(issuer = self.settings.issuer, why, "the keys of the issuer cannot be had"),
        }
    }

    /// Knows a token again, if the keys by which it was proven are still the ones (invariant 4).
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
