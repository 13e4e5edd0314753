//! The agents that a server runs, by the name of their app.
//!
//! # Invariants
//!
//! 1. An app's agent is replaced as a whole. A run keeps the agent it started with.
//! 2. An app that cannot be served at the moment stays known by name, with the reason. Clients learn that the app
//!    cannot be run, not that it does not exist. The reason may name files on this machine, so only admins see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use andon_runtime::Agent;
use parking_lot::RwLock;

use crate::access::principal::Principal;
use crate::access::scopes::Scope;
use crate::http::problem::Problem;

/// The agents that a server runs. Cheap to clone; all clones share the same apps.
#[derive(Debug, Clone, Default)]
pub struct Apps {
    apps: Arc<RwLock<BTreeMap<String, App>>>,
}

/// What an app's name stands for.
#[derive(Debug, Clone)]
pub enum App {
    /// An agent that accepts runs.
    Served {
        /// The agent.
        agent: Agent,
        /// What the app is for, in a sentence.
        description: Option<String>,
    },
    /// An app that cannot be run.
    Refused {
        /// What is wrong, and what to change.
        why: String,
    },
}

impl Apps {
    /// Creates an empty list of apps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves an agent under its own name, replacing any earlier app of that name.
    pub fn put(&self, agent: Agent, description: Option<String>) {
        self.apps.write().insert(agent.name().to_owned(), App::Served { agent, description });
    }

    /// Refuses new runs of this app, for this reason.
    pub fn refuse(&self, app: &str, why: impl Into<String>) {
        self.apps.write().insert(app.to_owned(), App::Refused { why: why.into() });
    }

    /// Removes an app.
    pub fn remove(&self, app: &str) {
        self.apps.write().remove(app);
    }

    /// The app of this name.
    pub fn get(&self, app: &str) -> Option<App> {
        self.apps.read().get(app).cloned()
    }

    /// All apps with their names, in order.
    pub fn all(&self) -> Vec<(String, App)> {
        self.apps.read().iter().map(|(name, app)| (name.clone(), app.clone())).collect()
    }
}

/// Why an app cannot be run, as far as a principal may know (invariant 2).
pub(crate) fn why_refused(principal: &Principal, why: String) -> String {
    if principal.allows(Scope::Admin) { why } else { "ask the server's operator why".to_owned() }
}

/// The response to a principal who asks for an app that cannot be run.
pub fn refused_app(principal: &Principal, app: &str, why: &str) -> Problem {
    let why = why_refused(principal, why.to_owned());
    Problem::unavailable("app-refused", format!("the app {app} cannot be run: {why}"))
}
