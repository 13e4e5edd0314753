//! What the routes of the API share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use andon_runtime::{JournalError, Runtime};
use andon_telemetry::Figures;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::auth::Auth;
use crate::admission::Admission;
use crate::admission::apps::Apps;
use crate::board::Board;
use crate::feed::Feeds;
use crate::feed::talk::Sockets;
use crate::http::answers::Answers;
use crate::http::budget::Budget;
use crate::http::semaphore;
use crate::options::Options;
use crate::options::prices::Prices;

/// What the routes of the API share.
pub(crate) type Shared = Arc<Core>;

pub(crate) struct Core {
    pub(crate) runtime: Runtime,
    pub(crate) apps: Apps,
    pub(crate) options: Arc<Options>,
    /// Authenticates requests.
    pub(crate) auth: Arc<Auth>,
    pub(crate) admission: Arc<Admission>,
    /// Why a dialect does not allow a session name, if it does not.
    pub(crate) refuses_session: RefusesName,
    pub(crate) feeds: Feeds,
    pub(crate) sockets: Sockets,
    /// The memory for request bodies.
    pub(crate) bodies: Arc<Budget>,
    /// The memory for answers.
    pub(crate) answers: Arc<Answers>,
    /// Permits for requests that start runs.
    pub(crate) creating: Semaphore,
    /// Permits for cancels that wait for the disk.
    pub(crate) cancelling: Semaphore,
    /// Permits for cancels that wait for runs to settle.
    pub(crate) waiting: Semaphore,
    /// Permits for conversations that are being shown.
    pub(crate) showing: Arc<Semaphore>,
    /// Feeds end when this is cancelled.
    pub(crate) closing: CancellationToken,
    /// All tasks that the server starts, which continue even if the request that started them is gone. Shutdown waits for
    /// them.
    pub(crate) tasks: TaskTracker,
    /// How many cancels were asked for since the server started.
    pub(crate) cancels: AtomicU64,
    /// How many connections are open.
    pub(crate) connections: Arc<AtomicU64>,
    /// The metrics. They include those of runs if the runtime was built with them.
    pub(crate) figures: Arc<Figures>,
    /// All runs as rows, if the runtime was built with a board.
    pub(crate) board: Option<Arc<Board>>,
}

/// Why no session may have a name; `None` if one may.
pub(crate) type RefusesName = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl Core {
    /// Reads what an earlier server left on record, such as a hold on the line. It applies at once.
    pub(crate) async fn read(
        runtime: &Runtime,
        options: Options,
        refuses_session: RefusesName,
    ) -> Result<Self, JournalError> {
        let board = runtime.observer::<Board>();
        if let (Some(board), Some(prices)) = (&board, &options.prices) {
            board.price(prices);
        }
        Prices::keep(options.prices.as_ref(), runtime.shelf()).await?;
        let (options, tasks, closing) = (Arc::new(options), TaskTracker::new(), CancellationToken::new());
        Ok(Self {
            runtime: runtime.clone(),
            apps: Apps::new(),
            auth: Arc::new(Auth::read(runtime, &options, &tasks).await?),
            admission: Arc::new(Admission::read(runtime, &tasks).await?),
            refuses_session,
            feeds: Feeds::default(),
            sockets: Sockets { options: Arc::clone(&options), tasks: tasks.clone(), closing: closing.clone() },
            bodies: Arc::new(Budget::new(&options)),
            answers: Arc::new(Answers::new(&options)),
            creating: semaphore(options.max_creating),
            cancelling: semaphore(options.max_cancelling),
            waiting: semaphore(options.max_waiting),
            showing: Arc::new(semaphore(options.max_showing)),
            closing,
            tasks,
            cancels: AtomicU64::default(),
            connections: Arc::default(),
            figures: runtime.observer().unwrap_or_else(Figures::new),
            board,
            options,
        })
    }
}
