//! The agents that a server runs, each under the name of its app.
//!
//! # Invariants
//!
//! 1. An app's agent is replaced as a whole. A run keeps the agent with which it began.
//! 2. An app that cannot be served now is known by name, with what is wrong: whoever asks for it is told that it cannot be run,
//!    and not that there is no such app. What is wrong may name files of this machine, and is told to whoever runs the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use andon_runtime::Agent;
use parking_lot::RwLock;

use crate::access::principal::Principal;
use crate::access::scopes::Scope;
use crate::http::problem::Problem;

/// The agents that a server runs. Cheap to clone; all clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Apps {
    apps: Arc<RwLock<BTreeMap<String, App>>>,
}

/// What stands behind an app's name.
#[derive(Debug, Clone)]
pub enum App {
    /// An agent that takes runs.
    Served {
        /// The agent.
        agent: Agent,
        /// What it is for, in a sentence.
        description: Option<String>,
    },
    /// Nothing can be run, because of this.
    Refused {
        /// What is wrong, and what to change.
        why: String,
    },
}

impl Apps {
    /// No apps yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves an agent under its own name, in place of what was there.
    pub fn put(&self, agent: Agent, description: Option<String>) {
        self.apps.write().insert(agent.name().to_owned(), App::Served { agent, description });
    }

    /// Takes no runs for this app any more, and says why.
    pub fn refuse(&self, app: &str, why: impl Into<String>) {
        self.apps.write().insert(app.to_owned(), App::Refused { why: why.into() });
    }

    /// Forgets an app.
    pub fn remove(&self, app: &str) {
        self.apps.write().remove(app);
    }

    /// What stands behind a name.
    pub fn get(&self, app: &str) -> Option<App> {
        self.apps.read().get(app).cloned()
    }

    /// All apps with their names, in order.
    pub fn all(&self) -> Vec<(String, App)> {
        self.apps.read().iter().map(|(name, app)| (name.clone(), app.clone())).collect()
    }
}

/// Why an app cannot be run, as a principal may know it (invariant 2).
pub(crate) fn why_refused(principal: &Principal, why: String) -> String {
    if principal.allows(Scope::Admin) { why } else { "ask who runs this server why".to_owned() }
}

/// What is said of an app that cannot be run, to a principal who asks for it.
pub fn refused_app(principal: &Principal, app: &str, why: &str) -> Problem {
    let why = why_refused(principal, why.to_owned());
    Problem::unavailable("app-refused", format!("the app {app} cannot be run: {why}"))
}
