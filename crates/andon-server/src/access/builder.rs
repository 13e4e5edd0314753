//! Principals that are created by the program in which the server is mounted.
//!
//! # Invariants
//!
//! 1. A principal may do what its program said, and otherwise as little as possible: it reaches one user's own runs, and
//!    nothing of the server itself.
//! 2. Only [`Reach::Everything`] makes an operator, so that no list of scopes does it by accident.

use std::sync::Arc;
use std::time::SystemTime;

use andon_runtime::core::id::LOCAL;
use andon_runtime::core::time::Wall;
use andon_runtime::{IdError, SessionId};

use crate::access::principal::{Pass, Principal};
use crate::access::scopes::{Scope, Scopes};

/// What a principal may do if nothing else is said.
const USUAL: [Scope; 3] = [Scope::RunCreate, Scope::RunRead, Scope::RunCancel];

/// Whose runs and sessions a principal reaches. It cannot tell everybody else's from ones that do not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Reach {
    /// Those of its own user.
    #[default]
    Own,
    /// Those of all users of its tenant. What the program itself starts, with `agent.run`, belongs to the tenant `local`.
    Tenant,
    /// Those of all tenants, and the server itself: the line, the keys and the metrics. An operator.
    Everything,
}

/// Why a principal cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum PrincipalError {
    /// Its name, user or tenant is not a valid id.
    #[error("this is not a valid {0} for a principal: {1}")]
    BadId(&'static str, IdError),
    /// It has no scope, and could do nothing.
    #[error("a principal needs a scope: leave scopes out to let it start, see and stop runs")]
    NoScope,
    /// The user would be the program itself, which starts its own runs under that name.
    #[error(
        "the user local of the tenant local is the program itself: choose another name, or put people into a tenant of their own"
    )]
    ProgramItself,
    /// It has the scope `admin` without [`Reach::Everything`].
    #[error("the scope admin reaches everything: say so with Reach::Everything")]
    AdminWithoutReach,
    /// An operator was given scopes, but has all of them.
    #[error("Reach::Everything has every scope: leave scopes out, or choose another reach")]
    ScopesOfOperator,
}

/// Builds a [`Principal`]. Created by [`Principal::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until build() is called"]
pub struct PrincipalBuilder {
    name: String,
    user: Option<String>,
    tenant: String,
    reach: Reach,
    scopes: Option<Scopes>,
    validity: Validity,
}

impl PrincipalBuilder {
    pub(crate) fn new(name: String) -> Self {
        let (tenant, validity) = (LOCAL.to_owned(), Validity { until: None, holds: None });
        Self { name, user: None, tenant, reach: Reach::Own, scopes: None, validity }
    }

    /// The user whose runs it starts. By default the user has the name of the principal. `local` in the tenant `local` is the program
    /// itself, and is refused: nobody may choose to be called that and reach its runs.
    pub fn user(self, user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    /// Its tenant. Tenants do not see each other, even if their users have the same names. `local` by default.
    pub fn tenant(self, tenant: impl Into<String>) -> Self {
        Self { tenant: tenant.into(), ..self }
    }

    /// Whose runs and sessions it reaches. [`Reach::Own`] by default.
    pub fn reach(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    /// What it may do with them. By default it may start, see and stop runs; an operator may do everything.
    pub fn scopes(self, scopes: impl IntoIterator<Item = Scope>) -> Self {
        Self { scopes: Some(scopes.into_iter().collect()), ..self }
    }

    /// When it stops being valid. The feeds that it reads then end, within five seconds.
    pub fn until(self, end: SystemTime) -> Self {
        Self { validity: Validity { until: Some(end.into()), ..self.validity }, ..self }
    }

    /// Whether it is still valid, such as whether its session is still signed in. Once that is false, the feeds that it
    /// reads end within five seconds. Feeds ask often: this must be quick, and must not block.
    pub fn valid_while(self, holds: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { validity: Validity { holds: Some(Arc::new(holds)), ..self.validity }, ..self }
    }

    /// The principal.
    pub fn build(self) -> Result<Principal, PrincipalError> {
        let Self { name, user, tenant, reach, scopes, validity } = self;
        let id = |what, text: &str| match SessionId::new(text) {
            Ok(_) => Ok(Arc::<str>::from(text)),
            Err(error) => Err(PrincipalError::BadId(what, error)),
        };
        let scopes = scopes_of(reach, scopes)?;
        let user = id("user", user.as_deref().unwrap_or(&name))?;
        if (&*user, tenant.as_str(), reach) == (LOCAL, LOCAL, Reach::Own) {
            return Err(PrincipalError::ProgramItself);
        }
        let (name, tenant) = (id("name", &name)?, id("tenant", &tenant)?);
        let is_open = validity.until.is_none() && validity.holds.is_none();
        let pass = if is_open { Pass::Always } else { Pass::Program(Arc::new(validity)) };
        Ok(Principal { tenant, name, user: Some(user), scopes, pass })
    }
}

/// The scopes of a principal with this reach (invariant 2).
fn scopes_of(reach: Reach, given: Option<Scopes>) -> Result<Scopes, PrincipalError> {
    let scopes = match (reach, given) {
        (Reach::Everything, None) => return Ok(Scopes::ALL),
        (Reach::Everything, Some(_)) => return Err(PrincipalError::ScopesOfOperator),
        (Reach::Own | Reach::Tenant, given) => given.unwrap_or_else(|| USUAL.into_iter().collect()),
    };
    if scopes.is_empty() {
        return Err(PrincipalError::NoScope);
    }
    if scopes.allows(Scope::Admin) {
        return Err(PrincipalError::AdminWithoutReach);
    }
    Ok(if reach == Reach::Tenant { scopes.and(Scope::Impersonate) } else { scopes })
}

/// What the program says about how long a principal stays valid.
#[derive(Clone)]
pub(crate) struct Validity {
    until: Option<Wall>,
    holds: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl Validity {
    pub(crate) fn is_valid(&self, now: Wall) -> bool {
        self.until.is_none_or(|end| now < end) && self.holds.as_ref().is_none_or(|holds| holds())
    }
}

impl std::fmt::Debug for Validity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validity").field("until", &self.until).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use andon_runtime::SessionKey;

    use super::*;

    /// Which of three sessions a principal reaches: its own, that of another user, that of another tenant.
    fn reached(principal: &Principal) -> [bool; 3] {
        [("local", "ada"), ("local", "bob"), ("north", "ada")]
            .map(|(tenant, user)| principal.reaches(&SessionKey::new("shop", user, "s").unwrap().tenant(tenant)))
    }

    /// Checks P11.
    #[test]
    fn a_principal_reaches_what_it_was_said_to_reach_and_may_do_no_more_than_it_was_said() {
        let ada = || Principal::builder("ada");
        let own = ada().build().unwrap();
        assert_eq!(
            (reached(&own), own.scopes.words()),
            ([true, false, false], vec!["run:create", "run:read", "run:cancel"])
        );
        let tenant = ada().reach(Reach::Tenant).scopes([Scope::RunRead]).build().unwrap();
        assert_eq!((reached(&tenant), tenant.scopes.words()), ([true, true, false], vec!["run:read", "impersonate"]));
        let operator = ada().reach(Reach::Everything).build().unwrap();
        assert_eq!((reached(&operator), operator.scopes), ([true; 3], Scopes::ALL));
        let north = ada().tenant("north").build().unwrap();
        assert_eq!(reached(&north), [false, false, true]);
        let other = Principal::builder("a person").user("ada").build().unwrap();
        assert_eq!((reached(&other), &*other.name, other.user()), ([true, false, false], "a person", Some("ada")));
    }

    #[test]
    fn what_cannot_be_a_principal_is_refused_with_what_to_do() {
        let ada = || Principal::builder("ada");
        let refused = |builder: PrincipalBuilder| builder.build().unwrap_err();
        assert_eq!(refused(ada().scopes([])), PrincipalError::NoScope);
        for reach in [Reach::Own, Reach::Tenant] {
            assert_eq!(refused(ada().reach(reach).scopes([Scope::Admin])), PrincipalError::AdminWithoutReach);
        }
        let operator = ada().reach(Reach::Everything).scopes([Scope::RunRead]);
        assert_eq!(refused(operator), PrincipalError::ScopesOfOperator);
        // P11: whoever chooses that name would see and stop what the program runs for itself.
        assert_eq!(refused(Principal::builder("local")), PrincipalError::ProgramItself);
        assert_eq!(refused(ada().user("local")), PrincipalError::ProgramItself);
        assert!(Principal::builder("local").tenant("people").build().is_ok());
        assert!(Principal::builder("local").reach(Reach::Everything).build().is_ok());
        for (builder, what) in [
            (Principal::builder(""), "user"),
            (Principal::builder("").user("ada"), "name"),
            (ada().user("a/b"), "user"),
            (ada().tenant(""), "tenant"),
        ] {
            assert!(matches!(refused(builder), PrincipalError::BadId(found, _) if found == what), "{what}");
        }
    }

    #[test]
    fn a_principal_is_valid_as_long_as_both_the_clock_and_the_program_say_so() {
        let signed_in = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&signed_in);
        let end = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
        let ada =
            Principal::builder("ada").until(end).valid_while(move || asked.load(Ordering::Relaxed)).build().unwrap();
        assert_eq!([999_999, 1_000_000].map(|now| ada.is_valid(Wall(now))), [true, false]);
        signed_in.store(false, Ordering::Relaxed);
        assert!(!ada.is_valid(Wall(0)) && ada.pass.can_end());
        assert!(!Principal::builder("ada").build().unwrap().pass.can_end());
    }
}
