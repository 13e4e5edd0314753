//! Andon over HTTP: start runs, watch them, and pull the cord from anywhere.
//!
//! A run belongs to the [`Runtime`], never to a request: losing a connection is not a cancel unless the run says so.
//!
//! ```no_run
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! use andon_practice::Practice;
//! use andon_runtime::{Agent, Runtime};
//! use andon_server::{Options, Server};
//!
//! let runtime = Runtime::builder().build();
//! let server = Server::new(&runtime, Options::default()).await?;
//! server.apps().put(Agent::builder().name("practice").model(Practice::new()).runtime(&runtime).build()?, None);
//! runtime.recover().await?;
//!
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8000").await?;
//! let serving = server.serve(listener)?; // or mount `server.router()` in a router of your own
//! tokio::signal::ctrl_c().await?;
//! serving.shut_down().await;
//! # Ok(())
//! # }
//! ```

mod access;
mod adk;
mod admission;
mod answers;
mod api;
mod apps;
mod auth;
mod automatic;
mod board;
mod body;
mod budget;
mod feeds;
mod files;
mod folder;
mod guard;
mod idle;
mod json;
mod keys;
mod limiter;
mod line;
mod near;
mod oidc;
mod options;
mod page;
mod path;
mod preloads;
mod presence;
mod prices;
mod principal;
mod problem;
mod query;
mod requests;
mod scopes;
mod seats;
mod secret;
mod serve;
mod shutdown;
mod signs;
mod socket;
mod tickets;
mod tombstones;
mod turns;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use andon_runtime::{JournalError, Runtime};
use andon_telemetry::Figures;
use axum::Router;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use apps::{App, Apps};
pub use board::Board;
pub use files::raise_file_limit;
pub use keys::{KeyError, KeyInfo, Keys, NewKey, NewlyMade};
pub use oidc::{Oidc, OidcError};
pub use options::{Disconnect, Options};
pub use prices::{Cost, ModelPrice, Price, PriceError, Prices};
pub use scopes::{NoSuchScope, Scope, Scopes};
pub use secret::{NoRandom, Secret};
pub use serve::{ServeError, has_page, has_web_page};
pub use shutdown::{Serving, ShutDown};

use crate::admission::Admission;
use crate::answers::Answers;
use crate::auth::Auth;
use crate::budget::Budget;
use crate::feeds::Feeds;
use crate::shutdown::Hurry;
use crate::turns::Turns;

/// A server over a [`Runtime`]. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    core: Shared,
}

/// What every request shares.
pub(crate) type Shared = Arc<Core>;

pub(crate) struct Core {
    pub(crate) runtime: Runtime,
    pub(crate) apps: Apps,
    pub(crate) options: Options,
    /// Who may, and how it is known.
    pub(crate) auth: Auth,
    pub(crate) admission: Admission,
    pub(crate) feeds: Feeds,
    /// Room for what clients send.
    pub(crate) bodies: Budget,
    /// Room for what clients are answered.
    pub(crate) answers: Answers,
    /// Artifacts of a session, or of a user, are saved and deleted one after the other.
    pub(crate) artifacts: Turns,
    /// Requests that are starting runs.
    pub(crate) creating: Semaphore,
    /// Cancels that wait for the disk.
    pub(crate) cancelling: Semaphore,
    /// Cancels that wait for runs to settle.
    pub(crate) waiting: Semaphore,
    /// Places for conversations that are being shown.
    pub(crate) showing: Arc<Semaphore>,
    /// Feeds end themselves when this is cancelled.
    pub(crate) closing: CancellationToken,
    /// Nobody is let in any more, and connections are closed.
    pub(crate) stopping: CancellationToken,
    /// How much of a hurry the end of the server is in.
    pub(crate) hurry: watch::Sender<Hurry>,
    /// Work that goes on when the request that began it is gone.
    pub(crate) tasks: TaskTracker,
    pub(crate) counts: Counts,
    /// What operators see. Those of runs are in it if the runtime was built with it.
    pub(crate) figures: Arc<Figures>,
    /// All runs as rows, if the runtime was built with it.
    pub(crate) board: Option<Arc<Board>>,
}

/// What has happened since the server began.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) cancels: AtomicU64,
    pub(crate) connections: AtomicU64,
}

impl Server {
    /// A server over a runtime. What an earlier one left on record, such as a hold on the line, is in force at once.
    pub async fn new(runtime: &Runtime, options: Options) -> Result<Self, JournalError> {
        let board = runtime.observer::<Board>();
        if let (Some(board), Some(prices)) = (&board, &options.prices) {
            board.price(prices);
        }
        let core = Core {
            runtime: runtime.clone(),
            apps: Apps::new(),
            auth: Auth::read(runtime, &options).await?,
            admission: Admission::read(runtime).await?,
            feeds: Feeds::default(),
            bodies: Budget::new(&options),
            answers: Answers::new(&options),
            artifacts: Turns::default(),
            creating: places(options.max_creating),
            cancelling: places(options.max_cancelling),
            waiting: places(options.max_waiting),
            showing: Arc::new(places(options.max_showing)),
            closing: CancellationToken::new(),
            stopping: CancellationToken::new(),
            hurry: watch::Sender::new(Hurry::None),
            tasks: TaskTracker::new(),
            counts: Counts::default(),
            figures: runtime.observer().unwrap_or_else(Figures::new),
            board,
            options,
        };
        Ok(Self { core: Arc::new(core) })
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

    /// A key that allows everything and is good for as long as this server lives: for whoever may read what it stores, such
    /// as the command line on the same machine. Nothing if nobody needs a key.
    pub fn owner_key(&self) -> Option<&Secret> {
        self.core.auth.owner_key()
    }

    /// All of its routes, to be mounted in a router of one's own. Host, origin, sizes and times of bodies are checked; what
    /// only an accept loop can check (heads that never end, readers that stall) is [`serve`](Self::serve)'s. Unless
    /// [`Options::auth`] is on nobody checks who asks: that is for the router that it is mounted in, wherever others than
    /// this machine can reach it.
    /// [Shut it down](Self::shut_down) before the program ends.
    pub fn router(&self) -> Router {
        api::router(&self.core)
    }
}

/// Any number of places may be asked for; no more than these are ever taken.
fn places(number: usize) -> Semaphore {
    Semaphore::new(number.min(Semaphore::MAX_PERMITS))
}

impl Core {
    /// Begins something that goes on when the request that began it is gone. The one place where the server begins a task:
    /// shutting down waits for all.
    pub(crate) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.tasks.spawn(work)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("runtime", &self.core.runtime).finish_non_exhaustive()
    }
}
