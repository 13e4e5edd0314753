//! The line: a server's readiness to take new runs, held or open for all, an app or a user.

use std::collections::BTreeMap;
use std::sync::Arc;

use andon::core::time::Wall;
use andon::{Append, JournalError, SessionKey, Shelf};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where holds are kept.
const KIND: &str = "line";

/// What a hold is on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Everything.
    All,
    /// One app.
    App(String),
    /// One user, in every app.
    User(String),
}

impl Scope {
    /// Whether it is about this session.
    pub(crate) fn holds(&self, session: &SessionKey) -> bool {
        match self {
            Self::All => true,
            Self::App(app) => **app == *session.app,
            Self::User(user) => **user == *session.user,
        }
    }

    /// The name under which it is kept.
    fn name(&self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::App(app) => format!("app/{app}"),
            Self::User(user) => format!("user/{user}"),
        }
    }

    /// In words.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::All => "for all".to_owned(),
            Self::App(app) => format!("for the app {app}"),
            Self::User(user) => format!("for the user {user}"),
        }
    }
}

/// A hold on the line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Hold {
    /// The app that is held; nothing if it is a user, or all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) app: Option<String>,
    /// The user that is held; nothing if it is an app, or all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// Why, in the words of who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Who holds it.
    #[schema(value_type = String)]
    pub(crate) by: Arc<str>,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) since: Wall,
}

impl Hold {
    pub(crate) fn new(scope: &Scope, reason: Option<String>, by: Arc<str>, since: Wall) -> Self {
        let (app, user) = match scope {
            Scope::All => (None, None),
            Scope::App(app) => (Some(app.clone()), None),
            Scope::User(user) => (None, Some(user.clone())),
        };
        Self { app, user, reason, by, since }
    }

    /// What it is on.
    pub(crate) fn scope(&self) -> Scope {
        match (&self.app, &self.user) {
            (Some(app), _) => Scope::App(app.clone()),
            (None, Some(user)) => Scope::User(user.clone()),
            (None, None) => Scope::All,
        }
    }
}

/// All holds.
#[derive(Debug, Default)]
pub(crate) struct Line {
    holds: BTreeMap<Scope, Hold>,
}

impl Line {
    /// The holds that outlived the process that made them.
    pub(crate) async fn read(shelf: &dyn Shelf) -> Result<Self, JournalError> {
        let kept = shelf.kept(KIND).await?;
        let holds = kept.into_iter().map(|(_, value)| serde_json::from_value::<Hold>(value));
        let holds: Result<Vec<Hold>, _> = holds.collect();
        // A hold that cannot be read is not taken for an open line.
        let holds = holds.map_err(|error| JournalError::Unreadable(format!("a hold on the line: {error}")))?;
        Ok(Self { holds: holds.into_iter().map(|hold| (hold.scope(), hold)).collect() })
    }

    /// Holds: from now on, and for ever once this is durable.
    pub(crate) fn hold(&mut self, hold: Hold, shelf: &dyn Shelf) -> Append {
        let scope = hold.scope();
        let append = match serde_json::to_value(&hold) {
            Ok(value) => shelf.keep(KIND, &scope.name(), value),
            Err(error) => Append::ready(Err(JournalError::Storage(error.to_string()))),
        };
        self.holds.insert(scope, hold);
        append
    }

    /// Opens what this hold was on; other holds stay. Nothing if there was none.
    pub(crate) fn open(&mut self, scope: &Scope, shelf: &dyn Shelf) -> Option<Append> {
        self.holds.remove(scope).map(|_| shelf.discard(KIND, &scope.name()))
    }

    /// The hold that keeps a run of this session out.
    pub(crate) fn holding(&self, session: &SessionKey) -> Option<&Hold> {
        self.holds.iter().find(|(scope, _)| scope.holds(session)).map(|(_, hold)| hold)
    }

    pub(crate) fn holds(&self) -> Vec<Hold> {
        self.holds.values().cloned().collect()
    }
}
