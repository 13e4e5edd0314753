//! A server: what it is made of, its routes, its accept loop and its end.

pub(crate) mod files;
mod router;
pub(crate) mod serve;
pub(crate) mod shutdown;

use std::sync::Arc;

use andon_runtime::{JournalError, Runtime};
use andon_telemetry::Figures;
use axum::Router;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::access::keys::Keys;
use crate::access::secret::Secret;
use crate::access::table::Table;
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
    table: Arc<Table>,
    /// Nobody is let in any more, and connections are closed.
    stopping: CancellationToken,
    /// How much of a hurry the end of the server is in.
    hurry: Arc<watch::Sender<Hurry>>,
}

impl Server {
    /// A server over a runtime. What an earlier one left on record, such as a hold on the line, is in force at once.
    pub async fn new(runtime: &Runtime, options: Options) -> Result<Self, JournalError> {
        Self::with_dialects(runtime, options, Vec::new()).await
    }

    /// As [`new`](Self::new), with [dialects](dialect) beside the native API.
    pub async fn with_dialects(
        runtime: &Runtime,
        options: Options,
        dialects: Vec<Arc<dyn Dialect>>,
    ) -> Result<Self, JournalError> {
        let names = dialects
            .iter()
            .cloned()
            .map(|dialect| -> RefusesName { Box::new(move |name| dialect.refuses_session(name)) });
        let core = Core::read(runtime, options, names.collect()).await?;
        let table = Table::with(dialects.iter().flat_map(|dialect| dialect.rows()));
        Ok(Self {
            core: Arc::new(core),
            dialects: dialects.into(),
            table: Arc::new(table),
            stopping: CancellationToken::new(),
            hurry: Arc::new(watch::Sender::new(Hurry::None)),
        })
    }

    /// The agents that it runs.
    pub fn apps(&self) -> &Apps {
        &self.core.apps
    }

    /// What it allows, and how long it waits.
    pub fn options(&self) -> &Options {
        &self.core.options
    }

    /// The runtime that its runs belong to.
    pub fn runtime(&self) -> &Runtime {
        &self.core.runtime
    }

    /// The figures that `GET /metrics` gives out. Those of runs are among them if the runtime was built with [`Figures`] as an
    /// observer.
    pub fn figures(&self) -> &Arc<Figures> {
        &self.core.figures
    }

    /// What an earlier server left on record and this one could not read, for whoever starts it to be told.
    pub fn warnings(&self) -> Vec<&str> {
        let all = self.core.admission.warnings().iter().chain(self.core.auth.keys.warnings());
        all.map(String::as_str).collect()
    }

    /// The API keys.
    pub fn keys(&self) -> &Keys {
        &self.core.auth.keys
    }

    /// A key that allows everything and is valid for as long as this server lives: for whoever may read what it stores, such
    /// as the command line on the same machine. `None` if nobody needs a key.
    pub fn owner_key(&self) -> Option<&Secret> {
        self.core.auth.owner_key()
    }

    /// All of its routes, to be mounted in a router of one's own. Host, origin, sizes and times of bodies are checked; what
    /// only an accept loop can check (heads that never end, readers that stall) is [`serve`](Self::serve)'s. Unless
    /// [`Options::auth`] is on nobody checks who asks: that is for the router that it is mounted in, wherever others than
    /// this machine can reach it.
    /// [Shut it down](Self::shut_down) before the program ends.
    pub fn router(&self) -> Router {
        router::router(self)
    }

    /// Where `/` leads, if it is to a page of a dialect.
    pub fn front_page(&self) -> Option<&'static str> {
        self.dialects.iter().find_map(|dialect| dialect.front_page())
    }

    /// All of its routes, each with what it asks of whoever calls it.
    pub fn routes(&self) -> &[dialect::Row] {
        self.table.rows()
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("runtime", &self.core.runtime).finish_non_exhaustive()
    }
}
