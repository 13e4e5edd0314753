//! Who sent a request, and what they may do.
//!
//! # Invariants
//!
//! 1. The principal decides the tenant and the users it may act for; no path, body or query ever does.
//! 2. The scope is checked first, then the reach. What is out of reach gets the same response as what does not exist.
//! 3. Nobody is treated as the owner of the machine just because a request has no principal, except by a server that listens
//!    on this machine alone and needs no keys.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use andon_runtime::core::id::LOCAL;
use andon_runtime::core::time::Wall;
use andon_runtime::{Digest, IdError, RunId, Runtime, SessionKey};
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::access::builder::{PrincipalBuilder, Validity};
use crate::access::keys::Key;
use crate::access::scopes::{Scope, Scopes};
use crate::http::problem::Problem;

/// How often the server checks whether the reader of a feed may still read it.
pub(crate) const RECHECK: Duration = Duration::from_secs(4);

/// Who sent a request: its tenant, what it may do, and the name under which its cancels are recorded.
///
/// Where the server is [mounted](crate::Server::mount) in another program, that program says who asks.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use andon_server::{Principal, Reach, Scope};
///
/// # fn principals() -> Result<(), andon_server::PrincipalError> {
/// // Ada starts, sees and stops her own runs.
/// let ada = Principal::builder("ada").build()?;
/// // Somebody who sees and stops the runs of all users, for an hour.
/// let support = Principal::builder("sam@example.com")
///     .user("support")
///     .reach(Reach::Tenant)
///     .scopes([Scope::RunRead, Scope::RunCancel])
///     .until(SystemTime::now() + Duration::from_secs(3600))
///     .build()?;
/// assert!(ada.may_act_for("ada") && !ada.may_act_for("bob") && support.may_act_for("bob"));
/// # Ok(())
/// # }
/// # principals().unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Principal {
    /// The tenant whose data it may see.
    pub(crate) tenant: Arc<str>,
    /// Its name.
    pub(crate) name: Arc<str>,
    /// The user that it acts as; `None` if it is not tied to one user and may act for any.
    pub(crate) user: Option<Arc<str>>,
    /// Its scopes.
    pub(crate) scopes: Scopes,
    /// How long the principal stays valid.
    pub(crate) pass: Pass,
}

/// How long a principal stays valid.
#[derive(Debug, Clone)]
pub(crate) enum Pass {
    /// Forever.
    Always,
    /// Until this time.
    Until(Wall),
    /// As long as this key is valid.
    Key(Arc<Key>),
    /// As long as the program in which the server is mounted says so.
    Program(Arc<Validity>),
}

impl Pass {
    /// Whether it is valid now. This is cheap, because feeds ask often.
    pub(crate) fn is_valid(&self, now: Wall) -> bool {
        match self {
            Self::Always => true,
            Self::Until(end) => now < *end,
            Self::Key(key) => key.is_valid(now),
            Self::Program(validity) => validity.is_valid(now),
        }
    }

    /// Whether it can ever become invalid.
    pub(crate) fn can_end(&self) -> bool {
        !matches!(self, Self::Always)
    }

    /// Waits until it is no longer valid, which it notices within [`RECHECK`].
    pub(crate) async fn ended(&self, runtime: &Runtime) {
        if !self.can_end() {
            std::future::pending::<()>().await;
        }
        while self.is_valid(runtime.now().wall) {
            sleep(RECHECK).await;
        }
    }
}

/// A principal as it is recorded: who asked for something, and for which user.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Who {
    pub(crate) tenant: Arc<str>,
    pub(crate) name: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<Arc<str>>,
}

/// A tenant and one of its users.
pub(crate) type User = (Arc<str>, Arc<str>);

/// The user whose session it is.
pub(crate) fn user_of(session: &SessionKey) -> User {
    (Arc::clone(&session.tenant), Arc::clone(&session.user))
}

/// The part of the data that a principal can reach.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Whose {
    /// Everything.
    All,
    /// That of one tenant.
    Tenant(Arc<str>),
    /// That of one user of a tenant.
    User(Arc<str>, Arc<str>),
}

impl Whose {
    /// Whether this session belongs to it.
    pub(crate) fn has(&self, session: &SessionKey) -> bool {
        match self {
            Self::All => true,
            Self::Tenant(tenant) => *tenant == session.tenant,
            Self::User(tenant, user) => *tenant == session.tenant && *user == session.user,
        }
    }

    /// Every value that includes this session.
    pub(crate) fn all_of(session: &SessionKey) -> [Self; 3] {
        let tenant = || Arc::clone(&session.tenant);
        [Self::All, Self::Tenant(tenant()), Self::User(tenant(), Arc::clone(&session.user))]
    }
}

static OWNER: LazyLock<Principal> = LazyLock::new(|| Principal {
    tenant: LOCAL.into(),
    name: LOCAL.into(),
    user: None,
    scopes: Scopes::ALL,
    pass: Pass::Always,
});

impl Principal {
    /// Starts a principal with this name, which reaches its own runs and sessions and may start, see and stop them. Its
    /// cancels are recorded under the name.
    pub fn builder(name: impl Into<String>) -> PrincipalBuilder {
        PrincipalBuilder::new(name.into())
    }

    /// The owner of the machine, who may do everything. A server that listens on this machine alone and needs no keys takes
    /// every sender for the owner. If a mounted server does so, everybody who reaches it may do everything.
    pub fn local() -> Self {
        OWNER.clone()
    }

    /// The id of the key, if the principal was authenticated with a stored one.
    pub(crate) fn key_id(&self) -> Option<&str> {
        match &self.pass {
            Pass::Key(key) => Some(key.id()),
            Pass::Always | Pass::Until(_) | Pass::Program(_) => None,
        }
    }

    /// The tenant whose data it may see.
    pub fn tenant(&self) -> &Arc<str> {
        &self.tenant
    }

    /// The name under which its cancels are recorded.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The user that it acts as; `None` if it is not tied to one user and may act for any.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Whether its key or token is still valid.
    pub fn is_valid(&self, now: Wall) -> bool {
        self.pass.is_valid(now)
    }

    pub(crate) fn who(&self) -> Who {
        Who { tenant: Arc::clone(&self.tenant), name: Arc::clone(&self.name), user: self.user.clone() }
    }

    /// Whether it has this scope.
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.allows(scope)
    }

    /// An error that names the scope, if the principal does not have it.
    pub fn needs(&self, scope: Scope) -> Result<(), Problem> {
        if self.allows(scope) { Ok(()) } else { Err(forbidden(scope)) }
    }

    /// Whether it may act for any user of its tenant.
    pub(crate) fn is_anybody(&self) -> bool {
        self.user.is_none() || self.allows(Scope::Impersonate)
    }

    /// Whether it may act for this user of its tenant.
    pub fn may_act_for(&self, user: &str) -> bool {
        self.is_anybody() || self.user.as_deref() == Some(user)
    }

    /// The runs and sessions that it can reach.
    pub(crate) fn whose(&self) -> Whose {
        let tenant = Arc::clone(&self.tenant);
        match &self.user {
            _ if self.allows(Scope::Admin) => Whose::All,
            Some(user) if !self.is_anybody() => Whose::User(tenant, Arc::clone(user)),
            _ => Whose::Tenant(tenant),
        }
    }

    /// Whether it can reach this session.
    pub fn reaches(&self, session: &SessionKey) -> bool {
        self.whose().has(session)
    }

    /// The user that is meant when a request names none.
    pub(crate) fn own_user(&self) -> &str {
        self.user.as_deref().unwrap_or(LOCAL)
    }

    /// The user whose limit counts the board and the feeds that it reads with `aside`.
    pub(crate) fn reader(&self) -> User {
        (Arc::clone(&self.tenant), Arc::from(self.own_user()))
    }

    /// The user that a request is for: the one it names, if the principal may act for that user, or else its own. The
    /// error does not reveal whether the user exists.
    pub(crate) fn user_or_own<'a>(&'a self, named: Option<&'a str>) -> Result<&'a str, Problem> {
        let user = named.unwrap_or(self.own_user());
        if self.may_act_for(user) {
            return Ok(user);
        }
        let detail = "there is no such user here: leave user out, or name one that this key may act for";
        Err(Problem::not_found("no-such-user", detail))
    }

    /// Whose items a listing may contain: those of the named user, of its own user, or of all users. For a user that
    /// the principal may not act for, the list is empty, as it is for an unknown user.
    pub(crate) fn listed(&self, named: Option<String>) -> Result<Option<String>, ListsNothing> {
        match named {
            Some(user) if !self.may_act_for(&user) => Err(ListsNothing),
            None if !self.is_anybody() => Ok(Some(self.own_user().to_owned())),
            named => Ok(named),
        }
    }

    /// The id under which a run with a client-chosen id is recorded. All runs share one space of ids, so a chosen id
    /// could reveal that somebody else has chosen it too; therefore it is prefixed with a mark of whoever chose it. An
    /// admin can reach every run and learns nothing that way, so its ids are used unchanged.
    pub(crate) fn chosen(&self, id: &RunId) -> Result<RunId, IdError> {
        if self.allows(Scope::Admin) {
            return Ok(id.clone());
        }
        let mark = self.mark();
        if id.as_str().starts_with(&mark) {
            return Ok(id.clone());
        }
        RunId::new(format!("{mark}{id}"))
    }

    fn mark(&self) -> String {
        // Tenants and users contain no slash. All principals that may act for any user of a tenant share one mark,
        // because they see each other's runs.
        let whose = match self.is_anybody() {
            true => format!("{}/", self.tenant),
            false => format!("{}/{}", self.tenant, self.own_user()),
        };
        let digest = Digest::of(whose.as_bytes()).to_string();
        let digest = digest.rsplit(':').next().unwrap_or_default();
        format!("{}.", digest.get(..16).unwrap_or(digest))
    }
}

/// The named user is out of reach, so there is nothing to list.
#[derive(Debug)]
pub(crate) struct ListsNothing;

impl<S: Send + Sync> FromRequestParts<S> for Principal {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // The gate has put the principal here (invariant 3).
        parts.extensions.get::<Self>().cloned().ok_or_else(unauthorized)
    }
}

/// The response to a request without a valid key or token.
pub fn unauthorized() -> Problem {
    let detail = "send a valid key or token in the header Authorization: Bearer …; `andon keys create` creates a key";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

/// The response to a request whose sender is unknown to the program in which the server is mounted.
pub(crate) fn not_signed_in() -> Problem {
    let detail = "the program that this server is part of does not know who sent this request: sign in there";
    Problem::new(StatusCode::UNAUTHORIZED, "not-signed-in", detail)
}

/// The response to a principal that lacks a scope.
pub(crate) fn forbidden(scope: Scope) -> Problem {
    let detail = format!("this key or token lacks the scope {scope}: use one that has it");
    Problem::new(StatusCode::FORBIDDEN, "missing-scope", detail).with("scope", scope.as_str())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use andon_runtime::{Agent, Runtime};
    use andon_testkit::{Act, ScriptedModel};
    use axum::Router;
    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use serde_json::{Value, json};
    use tower::ServiceExt as _;

    use super::*;
    use crate::{Options, Server};

    async fn post(router: &Router, path: &str, body: Value) -> StatusCode {
        let request = Request::post(path).header("host", "localhost").header("content-type", "application/json");
        let request = request.body(Body::from(body.to_string())).unwrap();
        router.clone().oneshot(request).await.unwrap().status()
    }

    /// One server as seen by two tenants, each with a user of the same name.
    async fn two() -> (Runtime, Router, Router) {
        let runtime = Runtime::builder().one_lane().build();
        let server = Server::new(&runtime, Options::default()).await.unwrap();
        let model = ScriptedModel::new([vec![Act::text("Once"), Act::Silence], vec![Act::text("Once"), Act::Silence]]);
        server.apps().put(Agent::builder().name("shop").model(model).runtime(&runtime).build().unwrap(), None);
        let of = |tenant: &str| {
            let principal = Principal {
                tenant: tenant.into(),
                name: "ada".into(),
                user: Some("ada".into()),
                scopes: Scopes::from_iter([Scope::RunCreate, Scope::RunRead, Scope::RunCancel]),
                pass: Pass::Always,
            };
            server.mount("/", move |_| Some(principal.clone())).router().unwrap()
        };
        (runtime.clone(), of("north"), of("south"))
    }

    /// Checks P9 and P11.
    #[tokio::test(start_paused = true)]
    async fn a_principal_of_another_tenant_stops_nothing_and_learns_nothing() {
        let (runtime, north, south) = two().await;
        let order = json!({"app": "shop", "input": "Go.", "run_id": "r"});
        assert_eq!(post(&north, "/v1/runs", order).await, StatusCode::CREATED);
        for path in ["/v1/runs/r/cancel", "/v1/runs/r/calls/c/cancel", "/v1/runs/unknown/cancel"] {
            assert_eq!(post(&south, path, json!({})).await, StatusCode::NOT_FOUND, "{path}");
        }
        assert_eq!(post(&south, "/v1/cancel", json!({"all": true})).await, StatusCode::OK);
        let run = runtime.in_progress().remove(0);
        assert!(!run.cord().is_pulled());
        assert_eq!(post(&north, "/v1/runs/r/cancel", json!({})).await, StatusCode::ACCEPTED);
    }

    /// Checks P9 and P11.
    #[tokio::test(start_paused = true)]
    async fn a_cancel_that_another_tenant_left_for_an_id_stops_only_theirs() {
        let (runtime, north, south) = two().await;
        assert_eq!(post(&south, "/v1/runs/r/cancel", json!({})).await, StatusCode::NOT_FOUND);
        let order = json!({"app": "shop", "input": "Go.", "run_id": "r"});
        assert_eq!(post(&north, "/v1/runs", order).await, StatusCode::CREATED);
        assert!(!runtime.in_progress().remove(0).cord().is_pulled());
    }

    /// Checks P11.
    #[test]
    fn what_a_principal_reaches_is_what_is_counted_for_it() {
        let scopes = [vec![], vec![Scope::RunRead], vec![Scope::Impersonate], vec![Scope::Admin]];
        let mut reached = Vec::new();
        for (user, scopes) in
            [None, Some("ada"), Some("bob")].into_iter().flat_map(|user| scopes.iter().map(move |s| (user, s)))
        {
            let principal = Principal {
                tenant: "north".into(),
                name: "somebody".into(),
                user: user.map(Into::into),
                scopes: Scopes::from_iter(scopes.iter().copied()),
                pass: Pass::Always,
            };
            for (tenant, of) in [("north", "ada"), ("north", "bob"), ("south", "ada")] {
                let session = SessionKey::new("shop", of, "s").unwrap().tenant(tenant);
                let is_admin = scopes.contains(&Scope::Admin);
                let expected = is_admin || (tenant == "north" && principal.may_act_for(of));
                assert_eq!(principal.reaches(&session), expected, "{user:?} {scopes:?} {tenant} {of}");
                assert_eq!(
                    Whose::all_of(&session).contains(&principal.whose()),
                    expected,
                    "{user:?} {scopes:?} {tenant} {of}"
                );
                reached.push(expected);
            }
        }
        assert_eq!(reached.iter().filter(|reached| **reached).count(), 23);
    }
}
