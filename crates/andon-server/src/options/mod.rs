//! The limits and time limits of a server.

pub(crate) mod cost;
pub(crate) mod oidc;
pub(crate) mod prices;

use std::path::PathBuf;
use std::time::Duration;

use self::oidc::Oidc;
use self::prices::Prices;

/// The limits and time limits of a server, and other settings.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The maximum size of a request body, in bytes.
    pub max_body: usize,
    /// The maximum total size of the bodies of all requests that are being read or answered, in bytes. A body without a
    /// declared length counts as one of the maximum size.
    pub max_bodies: usize,
    /// The same for cancels and changes of the line, which have a budget of their own.
    pub max_vital_bodies: usize,
    /// The maximum size of a request's head, in bytes.
    pub max_head: usize,
    /// The maximum size of an incoming WebSocket message, and of the body of a cancel or a change of the line, in
    /// bytes.
    pub max_frame: usize,
    /// How many messages a client may send over one WebSocket per second.
    pub frames_a_second: u32,
    /// How deeply JSON may be nested.
    pub max_depth: usize,
    /// How long a request's head may take, and how long a connection may be idle between two requests.
    pub head_time: Duration,
    /// How long a request's body may pause.
    pub body_idle: Duration,
    /// How long a request's body may take in total.
    pub body_time: Duration,
    /// How long to wait for a client that has stopped reading.
    pub stalled: Duration,
    /// The maximum number of runs in progress, including queued ones.
    pub max_runs: usize,
    /// The maximum number of runs in progress of one user.
    pub max_runs_of_user: usize,
    /// The maximum number of open feeds.
    pub max_feeds: usize,
    /// The maximum number of open feeds of one user.
    pub max_feeds_of_user: usize,
    /// The maximum number of connections.
    pub max_connections: usize,
    /// Additional connections that can only be used to cancel runs, to hold the line and to check the server's health.
    pub reserved_connections: usize,
    /// How many requests may be starting runs at the same time. Cancels do not count.
    pub max_creating: usize,
    /// How many cancels may be waiting for the disk at the same time. Any further cancel still stops its run, but is
    /// answered without waiting.
    pub max_cancelling: usize,
    /// How many cancels may be waiting for runs to settle at the same time. Any further cancel is answered without
    /// waiting.
    pub max_waiting: usize,
    /// How many conversations may be shown at the same time. They are large, so each counts until it has been sent.
    pub max_showing: usize,
    /// How many whole sessions may be read from the journal at the same time. Further requests wait.
    pub max_reading: usize,
    /// How many bytes of large answers may be held until clients have read them, and as much again for small ones. An
    /// answer that is larger than this by itself is held if it is the only one.
    pub max_answers: usize,
    /// How often a heartbeat is sent on a feed on which nothing happens.
    pub heartbeat: Duration,
    /// How long a cancel waits to become durable before the answer says that it is not.
    pub record_patience: Duration,
    /// How long a cancel with `wait` waits for the run to settle.
    pub wait: Duration,
    /// How long a cancel for a run that has not arrived is remembered.
    pub remember: Duration,
    /// How many such cancels are remembered for one principal.
    pub max_remembered: usize,
    /// How long runs may continue when the server shuts down.
    pub drain: Duration,
    /// How long the remaining runs may take to settle after that.
    pub settle: Duration,
    /// Whether clients need a key. Without this, everybody who can reach the server may do everything, so it then serves
    /// only this machine.
    pub auth: bool,
    /// Like `auth`, but tokens of this issuer are accepted as well as keys.
    pub oidc: Option<Oidc>,
    /// The prices of models, if costs should be shown.
    pub prices: Option<Prices>,
    /// Host names that this server answers to, besides those of the machine itself.
    pub hosts: Vec<String>,
    /// Other origins whose pages may call the server, such as `https://app.example`.
    pub origins: Vec<String>,
    /// A folder from which to serve the web page, instead of the built-in one. For development: changes show at once.
    pub web_dir: Option<PathBuf>,
}

andon_runtime::core::with!(Options: max_body: usize, max_bodies: usize, max_vital_bodies: usize, max_head: usize, max_frame: usize, frames_a_second: u32, max_depth: usize, head_time: Duration, body_idle: Duration, body_time: Duration, stalled: Duration, max_runs: usize, max_runs_of_user: usize, max_feeds: usize, max_feeds_of_user: usize, max_connections: usize, reserved_connections: usize, max_creating: usize, max_cancelling: usize, max_waiting: usize, max_showing: usize, max_reading: usize, max_answers: usize, heartbeat: Duration, record_patience: Duration, wait: Duration, remember: Duration, max_remembered: usize, drain: Duration, settle: Duration, auth: bool, oidc: into Option<Oidc>, prices: into Option<Prices>, hosts: Vec<String>, origins: Vec<String>, web_dir: into Option<PathBuf>);

impl Options {
    /// The defaults. Methods such as `Options::new().max_runs(10)` change them.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_body: 1 << 20,
            max_bodies: 256 << 20,
            max_vital_bodies: 16 << 20,
            max_head: 16 << 10,
            max_frame: 64 << 10,
            frames_a_second: 50,
            max_depth: 64,
            head_time: Duration::from_secs(10),
            body_idle: Duration::from_secs(15),
            body_time: Duration::from_secs(60),
            stalled: Duration::from_secs(30),
            max_runs: 20_000,
            max_runs_of_user: 10_000,
            max_feeds: 20_000,
            max_feeds_of_user: 10_000,
            max_connections: 25_000,
            reserved_connections: 256,
            max_creating: 1_024,
            max_cancelling: 1_024,
            max_waiting: 1_024,
            max_showing: 4,
            max_reading: 8,
            max_answers: 64 << 20,
            heartbeat: Duration::from_secs(15),
            record_patience: Duration::from_secs(1),
            wait: Duration::from_secs(30),
            remember: Duration::from_secs(600),
            max_remembered: 1_000,
            drain: Duration::from_secs(10),
            settle: Duration::from_secs(10),
            auth: false,
            oidc: None,
            prices: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            web_dir: None,
        }
    }
}

impl Options {
    /// Whether requests must be authenticated.
    pub(crate) fn is_guarded(&self) -> bool {
        self.auth || self.oidc.is_some()
    }
}
