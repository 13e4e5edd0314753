//! What a stop or a hold is aimed at. The answer says so, so that a client notices when it missed.
//!
//! # Invariants
//!
//! 1. An answer covers only what the caller may reach: it neither counts nor names other people's runs, users and
//!    sessions.
//! 2. An app exists if the server knows its name, or if a run of it within reach is in progress. Any other app is an
//!    error, which names the existing ones.
//! 3. What cannot be looked up in time counts as unknown: an unresponsive store never makes an answer more reassuring.

use std::collections::BTreeSet;

use andon_runtime::core::id::LOCAL;
use andon_runtime::{RunFilter, SessionKey};
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;

use super::selector::Selector;
use crate::access::principal::{Principal, Whose};
use crate::access::scopes::Scope;
use crate::api::near::distance;
use crate::core::Shared;
use crate::http::problem::Problem;

/// How many characters of a given name are repeated in an answer.
const SHOWN: usize = 100;
/// How many runs are searched for a similar name.
const LOOKED_AT: usize = 1_000;
/// How many apps an error names.
const NAMED: usize = 50;

/// What a stop or a hold was aimed at, and what else is in progress.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Aim {
    /// What was looked for, in words, such as `all runs of the user ada`.
    pub(crate) looked_for: String,
    /// Whether any matching run is on record. Always true for everything within reach, and for an app that exists.
    /// False for what belongs to others, as if it did not exist.
    pub(crate) known: bool,
    /// How many other runs that you may stop were in progress when the request arrived.
    pub others: usize,
    /// A similar name that has runs in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) did_you_mean: Option<NearMiss>,
    /// Who asked.
    pub(crate) asked_by: Asker,
}

/// What may have been meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct NearMiss {
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    app: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
}

/// Who asked, and which runs they can reach.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Asker {
    /// The name under which the request is recorded.
    name: String,
    /// The id of the API key that was used. Absent if none was needed, or if it was a token or the key of the machine's
    /// owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Which runs are within reach, in words, such as `all of ada's runs`.
    reach: String,
}

impl Aim {
    /// What was aimed at. `reached` says whether a matching run was in progress; `others` are the sessions of all other
    /// runs in progress within reach.
    pub(crate) async fn of(
        core: &Shared,
        principal: &Principal,
        selector: &Selector,
        reached: bool,
        others: &[SessionKey],
    ) -> Result<Self, Problem> {
        if let Some(app) = selector.app.as_deref().filter(|_| !reached) {
            must_exist(core, principal, app, others)?;
        }
        let known = reached || is_known(core, principal, selector).await;
        Ok(Self {
            looked_for: looked_for(principal, selector, others),
            known,
            others: others.len(),
            did_you_mean: if reached { None } else { near_miss(selector, others) },
            asked_by: Asker {
                name: principal.name.to_string(),
                key: principal.key_id().map(str::to_owned),
                reach: reach(&principal.whose()),
            },
        })
    }
}

/// Returns an error if the selector names an app that does not exist (invariant 2). If the server knows the app, this
/// does not wait for anything.
pub(crate) async fn app_must_exist(core: &Shared, principal: &Principal, selector: &Selector) -> Result<(), Problem> {
    match selector.app.as_deref().filter(|app| core.apps.get(app).is_none()) {
        Some(app) => must_exist(core, principal, app, &in_progress(core, principal).await?),
        None => Ok(()),
    }
}

/// Looks up what a hold is on, and what else is in progress.
pub(crate) async fn look(core: &Shared, principal: &Principal, selector: &Selector) -> Result<Aim, Problem> {
    let in_progress = in_progress(core, principal).await?;
    let (meant, others): (Vec<_>, Vec<_>) = in_progress.into_iter().partition(|key| selector.selects(principal, key));
    Aim::of(core, principal, selector, !meant.is_empty(), &others).await
}

/// The sessions of all runs in progress within reach, including those that wait for their agent.
async fn in_progress(core: &Shared, principal: &Principal) -> Result<Vec<SessionKey>, Problem> {
    let parked = core.runtime.parked();
    let mut sessions: Vec<SessionKey> = core.runtime.in_progress().iter().map(|run| run.session().clone()).collect();
    for id in parked {
        // A run that was just resumed may be counted twice, which does no harm.
        sessions.extend(core.runtime.find(&id).await?.map(|run| run.session().clone()));
    }
    sessions.retain(|key| principal.reaches(key));
    Ok(sessions)
}

/// Returns an error if the app does not exist (invariant 2).
fn must_exist(core: &Shared, principal: &Principal, app: &str, in_progress: &[SessionKey]) -> Result<(), Problem> {
    if core.apps.get(app).is_some() || in_progress.iter().any(|key| *key.app == *app) {
        return Ok(());
    }
    Err(no_such_app(core, principal, app, in_progress, "nothing was stopped or held"))
}

/// The error for an app that does not exist. It lists the existing apps that the principal may know about.
pub(crate) fn no_such_app(
    core: &Shared,
    principal: &Principal,
    app: &str,
    in_progress: &[SessionKey],
    effect: &str,
) -> Problem {
    let mut there: BTreeSet<String> = in_progress.iter().map(|key| key.app.to_string()).collect();
    if principal.allows(Scope::RunRead) {
        there.extend(core.apps.all().into_iter().map(|(name, _)| name));
    }
    let near = there.iter().filter_map(|name| Some((distance(app, name)?, name))).min().map(|(_, name)| name.clone());
    let listed: Vec<&str> = there.iter().take(NAMED).map(String::as_str).collect();
    let those = match listed.as_slice() {
        [] => "ask the server's operator which apps there are".to_owned(),
        [only] => format!("there is {only}"),
        names => format!("there are {}{}", names.join(", "), if there.len() > NAMED { " and more" } else { "" }),
    };
    let meant = near.as_ref().map_or_else(String::new, |near| format!("; did you mean {near}?"));
    let detail = format!("there is no app {} here, so {effect}: {those}{meant}", shown(app));
    let problem = Problem::not_found("no-such-app", detail).with("apps", listed);
    match near {
        Some(near) => problem.with("did_you_mean", serde_json::json!({ "app": near })),
        None => problem,
    }
}

/// Whether any matching run is on record (invariants 1 and 3).
async fn is_known(core: &Shared, principal: &Principal, selector: &Selector) -> bool {
    let Selector { tenant, app, user, session } = selector.clone();
    let is_own = tenant.as_deref().is_none_or(|tenant| tenant == &*principal.tenant);
    if is_own && user.is_none() && session.is_none() {
        return true;
    }
    let Ok(user) = principal.listed(user) else { return false };
    let one = RunFilter::new().tenant(tenant).app(app).user(user).session(session).limit(1);
    let found = timeout(core.options.record_patience, core.runtime.list_runs(one)).await;
    matches!(found, Ok(Ok(runs)) if !runs.is_empty())
}

/// The names of a run that are similar to the given ones.
fn near_miss(selector: &Selector, others: &[SessionKey]) -> Option<NearMiss> {
    let near = others.iter().take(LOOKED_AT).filter_map(|key| Some((apart(selector, key)?, key)));
    let (_, key) = near.filter(|(apart, _)| *apart > 0).min_by_key(|(apart, _)| *apart)?;
    let is_elsewhere = selector.tenant.as_deref().is_some_and(|tenant| tenant != &*key.tenant);
    Some(NearMiss {
        tenant: is_elsewhere.then(|| key.tenant.to_string()),
        app: selector.app.as_ref().map(|_| key.app.to_string()),
        user: selector.user.as_ref().map(|_| key.user.to_string()),
        session: selector.session.as_ref().map(|_| key.session.to_string()),
    })
}

/// How far a run's names are from the given ones, if all of them are similar.
fn apart(selector: &Selector, key: &SessionKey) -> Option<usize> {
    let Selector { tenant, app, user, session } = selector;
    let from = |wanted: &Option<String>, is: &str| wanted.as_ref().map_or(Some(0), |wanted| distance(wanted, is));
    let names = from(app, &key.app)? + from(user, &key.user)? + from(session, key.session.as_str())?;
    let names_something = app.is_some() || user.is_some() || session.is_some();
    let tenants = match tenant {
        // The same name in another tenant, whatever that tenant is called.
        Some(tenant) if names_something && *tenant != *key.tenant => 1,
        tenant => from(tenant, &key.tenant)?,
    };
    Some(names + tenants)
}

/// What the selector means, in words.
fn looked_for(principal: &Principal, selector: &Selector, others: &[SessionKey]) -> String {
    let (whose, Selector { tenant, app, user, session }) = (principal.whose(), selector);
    let names_something = app.is_some() || user.is_some() || session.is_some();
    if !names_something && tenant.is_none() {
        return reach(&whose);
    }
    let mut words = match &whose {
        Whose::User(_, own) if user.is_none() => format!("all of {own}'s runs"),
        _ => "all runs".to_owned(),
    };
    if let Some(session) = session {
        words.push_str(&format!(" in the session {}", shown(session)));
    }
    if let Some(user) = user {
        words.push_str(&format!(" of the user {}", shown(user)));
    }
    if let Some(app) = app {
        let word = if words == "all runs" { "of" } else { "in" };
        words.push_str(&format!(" {word} the app {}", shown(app)));
    }
    // As long as there is only one tenant, answers do not mention tenants.
    let is_told = |tenant: &str| !names_something || tenant != LOCAL || others.iter().any(|key| *key.tenant != *tenant);
    if let Some(tenant) = tenant.as_deref().filter(|tenant| is_told(tenant)) {
        words.push_str(&format!(" of the tenant {}", shown(tenant)));
    }
    words
}

/// Everything within reach, in words.
fn reach(whose: &Whose) -> String {
    match whose {
        Whose::All => "everything on this server".to_owned(),
        Whose::Tenant(tenant) => format!("all runs of the tenant {tenant}"),
        Whose::User(tenant, user) if **tenant == *LOCAL => format!("all of {user}'s runs"),
        Whose::User(tenant, user) => format!("all of {user}'s runs of the tenant {tenant}"),
    }
}

/// A given name, shortened if it is too long to be a real one.
fn shown(name: &str) -> String {
    name.chars().take(SHOWN).collect()
}
