//! The command line of the server.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use andon_server::ServeError;

use super::{DbArgs, Options, TelemetryArgs};

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Where to listen: an address of this machine, and a port. Port 0 takes one that is free.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000", value_parser = own_address)]
    pub(crate) bind: SocketAddr,
    /// A folder with a folder for each agent, in which its `root_agent.yaml` is. What changes there is taken up at once.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) agents: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) db: DbArgs,
    #[command(flatten)]
    pub(crate) ending: EndingArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
}

/// How long the end may take.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Shutdown")]
pub(crate) struct EndingArgs {
    /// How long runs may go on when the server is told to end; what runs then is stopped.
    #[arg(long, value_name = "TIME", default_value_t = usual().drain.into())]
    drain: Span,
    /// How long they may take to settle after that.
    #[arg(long, value_name = "TIME", default_value_t = usual().settle.into(), value_parser = some_span)]
    settle: Span,
}

/// What clients may use up.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Runs in progress, queued ones included.
    #[arg(long, value_name = "NUMBER", default_value_t = usual().max_runs)]
    max_runs: usize,
    /// Runs in progress of one user.
    #[arg(long, value_name = "NUMBER", default_value_t = usual().max_runs_of_user)]
    max_runs_per_user: usize,
    /// Open feeds.
    #[arg(long, value_name = "NUMBER", default_value_t = usual().max_feeds)]
    max_feeds: usize,
    /// Open feeds of one user.
    #[arg(long, value_name = "NUMBER", default_value_t = usual().max_feeds_of_user)]
    max_feeds_per_user: usize,
    /// Open connections.
    #[arg(long, value_name = "NUMBER", default_value_t = usual().max_connections)]
    max_connections: usize,
    /// Bytes of a request's body.
    #[arg(long, value_name = "BYTES", default_value_t = usual().max_body)]
    max_body: usize,
    /// Bytes of a message that comes in over a WebSocket.
    #[arg(long, value_name = "BYTES", default_value_t = usual().max_frame)]
    max_frame: usize,
    /// How long a request's head may take, and how long a connection may wait between two requests.
    #[arg(long, value_name = "TIME", default_value_t = usual().head_time.into(), value_parser = some_span)]
    head_time: Span,
    /// How long nothing may come of a request's body.
    #[arg(long, value_name = "TIME", default_value_t = usual().body_idle.into(), value_parser = some_span)]
    body_idle: Span,
    /// How long a request's body may take in all.
    #[arg(long, value_name = "TIME", default_value_t = usual().body_time.into(), value_parser = some_span)]
    body_time: Span,
    /// How long a client that has stopped reading is waited for.
    #[arg(long, value_name = "TIME", default_value_t = usual().stalled.into(), value_parser = some_span)]
    stalled: Span,
    /// How often a feed on which nothing happens gives a sign of life.
    #[arg(long, value_name = "TIME", default_value_t = usual().heartbeat.into(), value_parser = some_span)]
    heartbeat: Span,
    /// How long a cancel for a run that has not arrived yet is remembered.
    #[arg(long, value_name = "TIME", default_value_t = usual().remember.into(), value_parser = some_span)]
    remember: Span,
    /// A name that the server answers to, beside localhost. May be repeated.
    #[arg(long = "host", value_name = "NAME", help_heading = "Who may call")]
    hosts: Vec<String>,
    /// An origin whose pages may call the server, such as `https://app.example`. May be repeated.
    #[arg(long = "origin", value_name = "URL", value_parser = origin, help_heading = "Who may call")]
    origins: Vec<String>,
}

impl ServeArgs {
    /// All of it as the server takes it.
    pub(crate) fn server_options(&self) -> andon_server::Options {
        let Self { ending, limits, .. } = self;
        andon_server::Options {
            drain: ending.drain.0,
            settle: ending.settle.0,
            max_runs: limits.max_runs,
            max_runs_of_user: limits.max_runs_per_user,
            max_feeds: limits.max_feeds,
            max_feeds_of_user: limits.max_feeds_per_user,
            max_connections: limits.max_connections,
            max_body: limits.max_body,
            max_frame: limits.max_frame,
            head_time: limits.head_time.0,
            body_idle: limits.body_idle.0,
            body_time: limits.body_time.0,
            stalled: limits.stalled.0,
            heartbeat: limits.heartbeat.0,
            remember: limits.remember.0,
            hosts: limits.hosts.clone(),
            origins: limits.origins.clone(),
            ..usual()
        }
    }
}

/// What a server has that was told nothing.
fn usual() -> andon_server::Options {
    andon_server::Options::default()
}

/// A time as it is written: 10s, 2m.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(Duration);

impl From<Duration> for Span {
    fn from(time: Duration) -> Self {
        Self(time)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        super::time(text).map(Self)
    }
}

/// A time that is not zero: with none, every request would be too late.
fn some_span(text: &str) -> Result<Span, String> {
    super::some_time(text).map(Span)
}

/// An address that only this machine reaches: as long as nobody checks who asks, there is no other.
fn own_address(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let address = match local {
        Some(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        None => text.parse().map_err(|_| "write an address and a port, such as 127.0.0.1:8001".to_owned())?,
    };
    if address.ip().is_loopback() { Ok(address) } else { Err(ServeError::NotLoopback(address).to_string()) }
}

/// An origin as a browser writes it: it is compared letter by letter, so a path behind it would match nothing.
fn origin(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let is_origin = !rest.is_empty() && !rest.contains(['/', '?', '#', '@']) && !rest.contains(char::is_whitespace);
    let wanted = "write it as a browser does, such as https://app.example or http://localhost:3000";
    if is_origin { Ok(text.to_owned()) } else { Err(wanted.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    fn served(words: &[&str]) -> ServeArgs {
        let Args { command, serve, .. } = Args::try_parse_from([&["andon"], words].concat()).unwrap();
        match command {
            None => serve,
            Some(Command::Serve(args)) => args,
            Some(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn told_nothing_it_is_the_servers_own_defaults() {
        for words in [&[][..], &["serve"]] {
            let args = served(words);
            assert_eq!(args.server_options(), andon_server::Options::default());
            assert_eq!(args.bind.to_string(), "127.0.0.1:8000");
        }
    }

    #[test]
    fn every_limit_arrives_where_it_belongs() {
        let words = "serve --drain 0s --settle 1s --max-runs 2 --max-runs-per-user 3 --max-feeds 4 \
            --max-feeds-per-user 5 --max-connections 6 --max-body 7 --max-frame 8 --head-time 9s --body-idle 10s \
            --body-time 20s --stalled 11s --heartbeat 12s --remember 13s --host a.example --host b.example --origin https://c.example";
        let options = served(&words.split_whitespace().collect::<Vec<_>>()).server_options();
        let seconds = Duration::from_secs;
        let expected = andon_server::Options {
            drain: seconds(0),
            settle: seconds(1),
            max_runs: 2,
            max_runs_of_user: 3,
            max_feeds: 4,
            max_feeds_of_user: 5,
            max_connections: 6,
            max_body: 7,
            max_frame: 8,
            head_time: seconds(9),
            body_idle: seconds(10),
            body_time: seconds(20),
            stalled: seconds(11),
            heartbeat: seconds(12),
            remember: seconds(13),
            hosts: vec!["a.example".to_owned(), "b.example".to_owned()],
            origins: vec!["https://c.example".to_owned()],
            ..andon_server::Options::default()
        };
        assert_eq!(options, expected);
    }

    #[test]
    fn an_address_is_one_of_this_machine() {
        assert_eq!(own_address("localhost:0").unwrap().to_string(), "127.0.0.1:0");
        assert_eq!(own_address("[::1]:80").unwrap().to_string(), "[::1]:80");
        assert!(own_address("0.0.0.0:80").unwrap_err().contains("reached from other machines"));
        for wrong in ["8000", "example.org:80", "localhost:many", ""] {
            assert!(own_address(wrong).unwrap_err().contains("such as"), "{wrong:?}");
        }
    }

    #[test]
    fn an_origin_has_no_path() {
        assert!(origin("https://app.example").is_ok() && origin("http://localhost:3000").is_ok());
        for wrong in ["app.example", "https://app.example/", "https://", "null", "*"] {
            assert!(origin(wrong).is_err(), "{wrong:?}");
        }
    }
}
