//! The line: a server's readiness to take new runs, held or open for all, an app or a user.
//!
//! # Invariants
//!
//! 1. A hold names the tenant it is on, or is on all tenants. A hold recorded before holds named a tenant is on all.
//! 2. However many holds there are, a hold on everything can still be made, and checking whether a run is held takes no
//!    longer.

use std::collections::BTreeMap;
use std::sync::Arc;

use andon_runtime::core::time::Wall;
use andon_runtime::{Append, JournalError, SessionKey, Shelf};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::problem::Problem;

/// The kind under which holds are stored.
const KIND: &str = "line";

/// The maximum number of holds on apps and users.
const MOST: usize = 10_000;

/// What a hold is on: everything, an app or a user, of one tenant or of all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HoldScope {
    /// The tenant; `None` if the hold is on every tenant.
    pub(crate) tenant: Option<String>,
    pub(crate) on: On,
}

/// What a hold is on, within a tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum On {
    /// Everything.
    All,
    /// One app.
    App(String),
    /// One user, in every app.
    User(String),
}

impl HoldScope {
    /// Everything, of every tenant.
    pub(crate) const ALL: Self = Self { tenant: None, on: On::All };

    /// The name under which the hold is stored. Without a tenant, it is the name that was used before there were
    /// tenants.
    fn name(&self) -> String {
        let on = match &self.on {
            On::All => "all".to_owned(),
            On::App(app) => format!("app/{app}"),
            On::User(user) => format!("user/{user}"),
        };
        // Names contain no slash.
        match &self.tenant {
            None => on,
            Some(tenant) => format!("tenant/{tenant}/{on}"),
        }
    }

    /// The scope in words. The tenant is left out, because a client that is refused knows its own.
    pub(crate) fn words(&self) -> String {
        match &self.on {
            On::All => "for all".to_owned(),
            On::App(app) => format!("for the app {app}"),
            On::User(user) => format!("for the user {user}"),
        }
    }
}

/// A hold on the line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Hold {
    /// The tenant that is held. Absent if the hold is on every tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// The app that is held. Absent if the hold is on a user or on everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) app: Option<String>,
    /// The user that is held. Absent if the hold is on an app or on everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// Why, in the words of whoever made the hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Who made the hold.
    pub(crate) by: Arc<str>,
    /// When the hold was made.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) since: Wall,
}

impl Hold {
    pub(crate) fn new(scope: &HoldScope, reason: Option<String>, by: Arc<str>, since: Wall) -> Self {
        let (app, user) = match &scope.on {
            On::All => (None, None),
            On::App(app) => (Some(app.clone()), None),
            On::User(user) => (None, Some(user.clone())),
        };
        Self { tenant: scope.tenant.clone(), app, user, reason, by, since }
    }

    /// What it is on.
    pub(crate) fn scope(&self) -> HoldScope {
        let on = match (&self.app, &self.user) {
            (Some(app), _) => On::App(app.clone()),
            (None, Some(user)) => On::User(user.clone()),
            (None, None) => On::All,
        };
        HoldScope { tenant: self.tenant.clone(), on }
    }

    /// Whether it applies to a tenant.
    pub(crate) fn is_for(&self, tenant: &str) -> bool {
        self.tenant.as_deref().is_none_or(|own| own == tenant)
    }

    /// Whether it is on everything, of one tenant or of all.
    pub(crate) fn is_on_all(&self) -> bool {
        self.app.is_none() && self.user.is_none()
    }
}

/// Whether one of these is on everything, of every tenant.
pub(crate) fn is_held_for_all(holds: &[Hold]) -> bool {
    holds.iter().any(|hold| hold.scope() == HoldScope::ALL)
}

/// All holds.
#[derive(Debug, Default)]
pub(crate) struct Line {
    holds: BTreeMap<HoldScope, Hold>,
}

impl Line {
    /// Reads the holds that earlier processes left.
    pub(crate) async fn read(shelf: &dyn Shelf) -> Result<Self, JournalError> {
        let mut holds = BTreeMap::new();
        for (name, value) in shelf.kept(KIND).await? {
            // A hold that cannot be read is an error, because ignoring it would open the line.
            let hold: Hold = serde_json::from_value(value).map_err(|error| {
                let words = format!(
                    "the hold {name:?} on the line is not valid ({error}): remove it (DELETE FROM shelf WHERE kind = \
                     '{KIND}' AND name = '{name}'), and hold the line again if it should be held"
                );
                JournalError::Unreadable(words)
            })?;
            holds.insert(hold.scope(), hold);
        }
        Ok(Self { holds })
    }

    /// Adds a hold. It applies at once, and survives a restart once this is durable.
    pub(crate) fn hold(&mut self, hold: Hold, shelf: &dyn Shelf) -> Result<Append, Problem> {
        let scope = hold.scope();
        let is_new = !self.holds.contains_key(&scope);
        if is_new && scope.on != On::All && self.holds.len() >= MOST {
            let detail = "too many apps and users are held: open some, or hold the line for all";
            return Err(Problem::too_many("too-many-holds", detail));
        }
        let append = match serde_json::to_value(&hold) {
            Ok(value) => shelf.keep(KIND, &scope.name(), value),
            Err(error) => Append::ready(Err(JournalError::Storage(error.to_string()))),
        };
        self.holds.insert(scope, hold);
        Ok(append)
    }

    /// Removes this hold; other holds stay.
    pub(crate) fn open(&mut self, scope: &HoldScope, shelf: &dyn Shelf) -> Append {
        self.holds.remove(scope);
        // Even if there is no such hold: an earlier request to open may not have reached the disk.
        shelf.discard(KIND, &scope.name())
    }

    /// The hold that keeps out a run in this session.
    pub(crate) fn holding(&self, session: &SessionKey) -> Option<&Hold> {
        if self.holds.is_empty() {
            return None;
        }
        let tenants = [None, Some(session.tenant.to_string())];
        let about = [On::All, On::App(session.app.to_string()), On::User(session.user.to_string())];
        about.iter().find_map(|on| {
            let mut scopes = tenants.iter().map(|tenant| HoldScope { tenant: tenant.clone(), on: on.clone() });
            scopes.find_map(|scope| self.holds.get(&scope))
        })
    }

    pub(crate) fn holds(&self) -> Vec<Hold> {
        self.holds.values().cloned().collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use andon_runtime::MemoryJournal;

    use super::*;

    #[test]
    fn the_number_of_holds_is_limited_but_there_is_always_room_for_the_one_on_all() {
        let (mut line, shelf) = (Line::default(), MemoryJournal::new());
        let mut hold = |scope: &HoldScope| {
            let hold = Hold::new(scope, None, "ada".into(), Wall(0));
            line.hold(hold, &shelf).map(|append| append.now().unwrap().unwrap()).is_ok()
        };
        let of = |on| HoldScope { tenant: Some("local".to_owned()), on };
        assert!((0..MOST).all(|n| hold(&of(On::User(format!("u{n}"))))));
        assert!(!hold(&of(On::User("more".to_owned()))) && !hold(&of(On::App("more".to_owned()))));
        assert!(hold(&of(On::User("u7".to_owned()))), "one that is there is changed");
        assert!(hold(&HoldScope::ALL));
        assert_eq!(line.holds().len(), MOST + 1);
    }

    #[test]
    fn a_session_is_held_by_all_its_app_or_its_user_and_by_no_other() {
        let shelf = MemoryJournal::new();
        let session = SessionKey::new("shop", "ada", "s").unwrap();
        let tenants = [None, Some("local".to_owned()), Some("south".to_owned())];
        let ons = ["shop", "ada", "s"]
            .map(str::to_owned)
            .into_iter()
            .flat_map(|name| [On::App(name.clone()), On::User(name)]);
        let ons: Vec<On> = ons.chain([On::All]).collect();
        let scopes =
            tenants.iter().flat_map(|tenant| ons.iter().map(|on| HoldScope { tenant: tenant.clone(), on: on.clone() }));
        let holding = scopes.filter(|scope| {
            let mut line = Line::default();
            drop(line.hold(Hold::new(scope, None, "eve".into(), Wall(0)), &shelf).unwrap());
            line.holding(&session).is_some()
        });
        let of_it = [On::App("shop".to_owned()), On::User("ada".to_owned()), On::All];
        let expected =
            tenants[..2].iter().flat_map(|tenant| of_it.clone().map(|on| HoldScope { tenant: tenant.clone(), on }));
        assert_eq!(holding.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}
