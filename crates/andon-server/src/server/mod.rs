//! The server: its parts, its routes, its accept loop and its shutdown.

pub(crate) mod files;
pub(crate) mod mount;
mod router;
pub(crate) mod serve;
pub(crate) mod shutdown;

use std::sync::Arc;

use andon_runtime::{JournalError, Runtime};
use andon_telemetry::Figures;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::access::keys::Keys;
use crate::access::secret::Secret;
use crate::access::table::table;
use crate::admission::apps::Apps;
use crate::core::{Core, RefusesName, Shared};
use crate::dialect::{self, Dialect};
use crate::options::Options;
use crate::server::shutdown::Hurry;

/// A server over a [`Runtime`]. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    core: Shared,
    dialects: Arc<[Arc<dyn Dialect>]>,
    table: Arc<[dialect::Row]>,
    /// Cancelled when no more connections are accepted and the open ones must close.
    stopping: CancellationToken,
    /// How urgent the shutdown is.
    hurry: Arc<watch::Sender<Hurry>>,
}

impl Server {
    /// Creates a server over a runtime. What an earlier server left on record, such as a hold on the line, applies at
    /// once.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped there is no server; the prices in its options may be on record.
    pub async fn new(runtime: &Runtime, options: Options) -> Result<Self, JournalError> {
        Self::with_dialects(runtime, options, Vec::new()).await
    }

    /// Like [`new`](Self::new), with [dialects](dialect) alongside the native API.
    ///
    /// # Cancel safety
    ///
    /// As for [`new`](Self::new).
    pub async fn with_dialects(
        runtime: &Runtime,
        options: Options,
        dialects: Vec<Arc<dyn Dialect>>,
    ) -> Result<Self, JournalError> {
        let dialects: Arc<[Arc<dyn Dialect>]> = dialects.into();
        let named = Arc::clone(&dialects);
        let refuses_session: RefusesName =
            Box::new(move |name| named.iter().find_map(|dialect| dialect.refuses_session(name)));
        let core = Core::read(runtime, options, refuses_session).await?;
        let table = table(dialects.iter().flat_map(|dialect| dialect.rows()));
        Ok(Self {
            core: Arc::new(core),
            dialects,
            table,
            stopping: CancellationToken::new(),
            hurry: Arc::new(watch::Sender::new(Hurry::None)),
        })
    }

    /// The agents that the server runs.
    pub fn apps(&self) -> &Apps {
        &self.core.apps
    }

    /// The limits and other settings of the server.
    pub fn options(&self) -> &Options {
        &self.core.options
    }

    /// The runtime that its runs belong to.
    pub fn runtime(&self) -> &Runtime {
        &self.core.runtime
    }

    /// The metrics that `GET /metrics` returns. They include those of runs if the runtime was built with [`Figures`] as
    /// an observer.
    pub fn figures(&self) -> &Arc<Figures> {
        &self.core.figures
    }

    /// One message for each item that an earlier server left on record and this one could not read. Show them to
    /// whoever starts the server.
    pub fn warnings(&self) -> Vec<&str> {
        let all = self.core.admission.warnings().iter().chain(self.core.auth.keys.warnings());
        all.map(String::as_str).collect()
    }

    /// The API keys.
    pub fn keys(&self) -> &Keys {
        &self.core.auth.keys
    }

    /// A key that allows everything, and is valid as long as this server lives. It is for whoever may read what the
    /// server stores, such as the command line on the same machine. `None` if no key is needed.
    pub fn owner_key(&self) -> Option<&Secret> {
        self.core.auth.owner_key()
    }

    /// Where `/` redirects to, if it is the page of a dialect.
    pub fn front_page(&self) -> Option<&'static str> {
        self.dialects.iter().find_map(|dialect| dialect.front_page())
    }

    /// All routes, each with what it requires of its callers.
    pub fn routes(&self) -> &[dialect::Row] {
        &self.table
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("runtime", &self.core.runtime).finish_non_exhaustive()
    }
}
