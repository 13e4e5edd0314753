//! What a server allows, and how long it waits.

pub(crate) mod oidc;
pub(crate) mod prices;

use std::path::PathBuf;
use std::time::Duration;

use self::oidc::Oidc;
use self::prices::Prices;

/// What a server allows, and how long it waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a request's body.
    pub max_body: usize,
    /// Bytes of the bodies of all requests that are being read or answered. One without a length counts as the largest.
    pub max_bodies: usize,
    /// As that, for cancels and the line, which have room of their own.
    pub max_vital_bodies: usize,
    /// Bytes of a request's head.
    pub max_head: usize,
    /// Bytes of a message that comes in over a WebSocket, and of the body of a cancel or a change of the line.
    pub max_frame: usize,
    /// Messages a second that may come in over one WebSocket.
    pub frames_a_second: u32,
    /// How deep JSON may be nested.
    pub max_depth: usize,
    /// How long a request's head may take, and how long a connection may wait between two requests.
    pub head_time: Duration,
    /// How long nothing may come of a request's body.
    pub body_idle: Duration,
    /// How long a request's body may take in all.
    pub body_time: Duration,
    /// How long a client that has stopped reading is waited for.
    pub stalled: Duration,
    /// Runs in progress, queued ones included.
    pub max_runs: usize,
    /// Runs in progress of one user.
    pub max_runs_of_user: usize,
    /// Open feeds.
    pub max_feeds: usize,
    /// Open feeds of one user.
    pub max_feeds_of_user: usize,
    /// Connections.
    pub max_connections: usize,
    /// Connections beyond those, on which runs can be cancelled, the line be held and health be asked for, and nothing else.
    pub reserved_connections: usize,
    /// How many requests may be starting runs at one time. Cancelling has room of its own.
    pub max_creating: usize,
    /// How many cancels may be waiting for the disk at one time. One more stops its run all the same, and is answered
    /// without waiting.
    pub max_cancelling: usize,
    /// How many cancels may be waiting for runs to settle at one time. One more is answered without waiting.
    pub max_waiting: usize,
    /// How many conversations may be shown at one time, each until it has been sent: they are large.
    pub max_showing: usize,
    /// How many whole sessions may be read from the journal at one time. One more waits for its place.
    pub max_reading: usize,
    /// Bytes of large answers that may be held until clients have read them, and as much again of small ones. One that is
    /// larger than this by itself is held if it is the only one.
    pub max_answers: usize,
    /// A sign of life on a feed on which nothing happens.
    pub heartbeat: Duration,
    /// How long a cancel waits until it is durable before it says that it is not.
    pub record_patience: Duration,
    /// How long a cancel with `wait` waits for the end.
    pub wait: Duration,
    /// How long a cancel for a run that has not arrived is remembered.
    pub remember: Duration,
    /// How many such cancels are remembered for one principal.
    pub max_remembered: usize,
    /// How long runs may go on when the server shuts down.
    pub drain: Duration,
    /// How long the rest may take to settle after that.
    pub settle: Duration,
    /// Whoever asks has to show a key. Without this everybody who reaches the server may do everything, so that it serves nobody
    /// beyond this machine.
    pub auth: bool,
    /// As that, and tokens of this issuer are taken beside keys.
    pub oidc: Option<Oidc>,
    /// What models cost, if it is to be told.
    pub prices: Option<Prices>,
    /// Names that this server answers to, beside those of the machine itself.
    pub hosts: Vec<String>,
    /// Foreign origins whose pages may call it, such as `https://app.example`.
    pub origins: Vec<String>,
    /// Serve the web page from this folder, and not the one that is in the program: to see at once what was changed in it.
    pub web_dir: Option<PathBuf>,
}

/// What losing its client does to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disconnect {
    /// It goes on.
    Continue,
    /// It is cancelled at once.
    Cancel,
    /// It is cancelled, unless somebody comes back in time.
    CancelAfter(Duration),
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
    /// Whether it matters who asks.
    pub(crate) fn is_guarded(&self) -> bool {
        self.auth || self.oidc.is_some()
    }
}
