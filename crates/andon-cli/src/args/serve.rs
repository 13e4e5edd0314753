//! The arguments of `andon serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use andon_adk::Adk;
use andon_runtime::OnDisconnect;
use andon_server::{Oidc, ServeError};
use humantime::Duration as Span;

use super::{DbArgs, Options, TelemetryArgs};
use crate::prices;

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The address and port to listen on. Port 0 picks a free port. An address that other machines can reach needs --auth.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000", value_parser = address)]
    pub(crate) bind: SocketAddr,
    /// A folder with one folder per agent, each with a `root_agent.yaml`. Changes are picked up within about a second.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) agents: Option<PathBuf>,
    /// The folder with ADK's web page, `google/adk/cli/browser` in the package `google-adk`, to serve at `/dev-ui/`.
    #[arg(long, value_name = "FOLDER", value_parser = page)]
    adk_ui: Option<PathBuf>,
    /// Serve the web page from this folder instead of the built-in one, for work on the page.
    #[arg(long, value_name = "FOLDER", value_parser = web_page)]
    web_dir: Option<PathBuf>,
    /// A YAML file with the prices of models, so that receipts and the board show what runs cost. docs/usage.md has an example.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    prices: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) db: DbArgs,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) ending: EndingArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
}

/// Who may call.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Who may call")]
pub(crate) struct AccessArgs {
    /// Ask every client for a key, which `andon keys create` makes. Commands that can read the database file need none.
    #[arg(long)]
    auth: bool,
    /// Also accept tokens from this OpenID Connect issuer, such as `https://id.example/realm`. Implies --auth.
    #[arg(long, value_name = "URL")]
    oidc_issuer: Option<String>,
    /// The audience that those tokens must have.
    #[arg(long, value_name = "NAME")]
    oidc_audience: Option<String>,
    /// The address of the issuer's keys (JWKS). Default: the one in the issuer's discovery document.
    #[arg(long, value_name = "URL")]
    oidc_jwks: Option<String>,
    /// The claim with the token's tenant. Default: every token is for the tenant `local`.
    #[arg(long, value_name = "CLAIM")]
    oidc_tenant_claim: Option<String>,
}

impl AccessArgs {
    /// The issuer whose tokens are accepted, or what is missing or wrong.
    fn oidc(&self) -> Result<Option<Oidc>, String> {
        let (issuer, audience) = match (&self.oidc_issuer, &self.oidc_audience) {
            (Some(issuer), Some(audience)) => (issuer, audience),
            (None, None) if self.oidc_jwks.is_none() && self.oidc_tenant_claim.is_none() => return Ok(None),
            _ => return Err("--oidc-issuer and --oidc-audience go together: name both".to_owned()),
        };
        let mut oidc = Oidc::new(issuer, audience).map_err(|error| error.to_string())?;
        if let Some(jwks) = &self.oidc_jwks {
            oidc = oidc.jwks(jwks).map_err(|error| error.to_string())?;
        }
        Ok(Some(match &self.oidc_tenant_claim {
            Some(claim) => oidc.tenant_claim(claim),
            None => oidc,
        }))
    }
}

/// How long the shutdown may take.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Shutdown")]
pub(crate) struct EndingArgs {
    /// How long runs may continue when the server shuts down, before they are stopped.
    #[arg(long, value_name = "TIME", default_value_t = usual().drain.into(), value_parser = span)]
    drain: Span,
    /// How long stopped runs may take to settle.
    #[arg(long, value_name = "TIME", default_value_t = usual().settle.into(), value_parser = some_span)]
    settle: Span,
}

/// What clients may use.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Maximum number of runs in progress, including queued ones.
    #[arg(long, value_name = "NUMBER", default_value_t = usual().max_runs)]
    max_runs: usize,
    /// Maximum number of runs in progress per user.
    #[arg(long, value_name = "NUMBER", default_value_t = usual().max_runs_of_user)]
    max_runs_per_user: usize,
    /// Maximum number of open feeds.
    #[arg(long, value_name = "NUMBER", default_value_t = usual().max_feeds)]
    max_feeds: usize,
    /// Maximum number of open feeds per user.
    #[arg(long, value_name = "NUMBER", default_value_t = usual().max_feeds_of_user)]
    max_feeds_per_user: usize,
    /// Maximum number of open connections.
    #[arg(long, value_name = "NUMBER", default_value_t = usual().max_connections)]
    max_connections: usize,
    /// Maximum size of a request body.
    #[arg(long, value_name = "BYTES", default_value_t = usual().max_body)]
    max_body: usize,
    /// Maximum memory for large responses, such as whole sessions, that clients have not read yet.
    #[arg(long, value_name = "BYTES", default_value_t = usual().max_answers)]
    max_answers: usize,
    /// Maximum size of a message received over a WebSocket.
    #[arg(long, value_name = "BYTES", default_value_t = usual().max_frame)]
    max_frame: usize,
    /// How long a request's head may take to arrive, and how long a connection may be idle between two requests.
    #[arg(long, value_name = "TIME", default_value_t = usual().head_time.into(), value_parser = some_span)]
    head_time: Span,
    /// How long a client may pause while sending a request body.
    #[arg(long, value_name = "TIME", default_value_t = usual().body_idle.into(), value_parser = some_span)]
    body_idle: Span,
    /// How long a whole request body may take to arrive.
    #[arg(long, value_name = "TIME", default_value_t = usual().body_time.into(), value_parser = some_span)]
    body_time: Span,
    /// How long to wait for a client that has stopped reading before its connection is closed.
    #[arg(long, value_name = "TIME", default_value_t = usual().stalled.into(), value_parser = some_span)]
    stalled: Span,
    /// How often an idle feed sends a heartbeat.
    #[arg(long, value_name = "TIME", default_value_t = usual().heartbeat.into(), value_parser = some_span)]
    heartbeat: Span,
    /// How long to remember a cancel for a run that has not arrived yet.
    #[arg(long, value_name = "TIME", default_value_t = usual().remember.into(), value_parser = some_span)]
    remember: Span,
    /// What to do with a run started through ADK's API when its client disconnects, which is what ADK's Stop button does:
    /// `cancel`, `continue`, or a time in which the client may reconnect.
    #[arg(long, value_name = "WHAT", default_value = "cancel", value_parser = disconnect, help_heading = "ADK")]
    adk_on_disconnect: OnDisconnect,
    /// A host name that the server answers to besides localhost. May be repeated.
    #[arg(long = "host", value_name = "NAME", help_heading = "Who may call")]
    hosts: Vec<String>,
    /// An origin whose pages may call the server, such as `https://app.example`. May be repeated.
    #[arg(long = "origin", value_name = "URL", value_parser = origin, help_heading = "Who may call")]
    origins: Vec<String>,
}

impl ServeArgs {
    /// The server's options, or what is wrong with the arguments.
    pub(crate) fn server_options(&self) -> Result<andon_server::Options, String> {
        let Self { ending, limits, web_dir, .. } = self;
        let oidc = self.access.oidc()?;
        let auth = self.access.auth || oidc.is_some();
        let ip = self.bind.ip();
        if !auth && !ip.to_canonical().is_loopback() {
            return Err(ServeError::NotLoopback(self.bind).to_string());
        }
        let mut hosts = limits.hosts.clone();
        if !ip.is_loopback() && !ip.is_unspecified() {
            // DNS can be made to point any name here, but not an address.
            hosts.push(if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() });
        }
        Ok(usual()
            .auth(auth)
            .oidc(oidc)
            .prices(self.prices.as_deref().map(prices::read).transpose()?)
            .drain(*ending.drain)
            .settle(*ending.settle)
            .max_runs(limits.max_runs)
            .max_runs_of_user(limits.max_runs_per_user)
            .max_feeds(limits.max_feeds)
            .max_feeds_of_user(limits.max_feeds_per_user)
            .max_connections(limits.max_connections)
            .max_body(limits.max_body)
            .max_answers(limits.max_answers)
            .max_frame(limits.max_frame)
            .head_time(*limits.head_time)
            .body_idle(*limits.body_idle)
            .body_time(*limits.body_time)
            .stalled(*limits.stalled)
            .heartbeat(*limits.heartbeat)
            .remember(*limits.remember)
            .hosts(hosts)
            .origins(limits.origins.clone())
            .web_dir(web_dir.clone()))
    }

    /// How ADK's dialect is spoken.
    pub(crate) fn adk(&self) -> Adk {
        Adk { on_disconnect: self.limits.adk_on_disconnect, page: self.adk_ui.clone() }
    }
}

/// The server's defaults.
fn usual() -> andon_server::Options {
    andon_server::Options::default()
}

/// Parses what to do when a client disconnects: a word or a time.
fn disconnect(text: &str) -> Result<OnDisconnect, String> {
    match text {
        "cancel" => Ok(OnDisconnect::Cancel),
        "continue" => Ok(OnDisconnect::Continue),
        time => match super::time(time) {
            Ok(time) => Ok(OnDisconnect::CancelAfterMs(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))),
            Err(error) => Err(format!("write cancel, continue or a time: {error}")),
        },
    }
}

/// Checks that a folder has ADK's page in it.
fn page(text: &str) -> Result<PathBuf, String> {
    let folder = PathBuf::from(text);
    andon_adk::has_page(&folder).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// Checks that a folder has our own page in it.
fn web_page(text: &str) -> Result<PathBuf, String> {
    let folder = PathBuf::from(text);
    andon_server::has_web_page(&folder).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// Parses a duration, which is shown as it is written: 10s or 2m.
fn span(text: &str) -> Result<Span, String> {
    super::time(text).map(Span::from)
}

/// Parses a duration that is not zero: with none, every request would be too late.
fn some_span(text: &str) -> Result<Span, String> {
    super::some_time(text).map(Span::from)
}

/// Parses an address with its port.
fn address(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    match local {
        Some(port) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        None => text.parse().map_err(|_| "write an address and a port, such as 127.0.0.1:8001".to_owned()),
    }
}

/// Checks that an origin is written as a browser writes it: the two are compared exactly, so one with a path would match nothing.
fn origin(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let is_origin = !rest.is_empty() && !rest.contains(['/', '?', '#', '@']) && !rest.contains(char::is_whitespace);
    let wanted = "write it as a browser does, such as https://app.example or http://localhost:3000";
    if is_origin { Ok(text.to_owned()) } else { Err(wanted.to_owned()) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    fn served(words: &[&str]) -> ServeArgs {
        let Args { command, serve, .. } = Args::try_parse_from([&["andon"], words].concat()).unwrap();
        match command {
            None => serve,
            Some(Command::Serve(args)) => *args,
            Some(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_flags_the_servers_defaults_apply() {
        for words in [&[][..], &["serve"]] {
            let args = served(words);
            assert_eq!(args.server_options(), Ok(andon_server::Options::default()));
            assert_eq!(args.bind.to_string(), "127.0.0.1:8000");
        }
    }

    #[test]
    fn every_flag_sets_its_own_option() {
        let words = "serve --drain 0s --settle 1s --max-runs 2 --max-runs-per-user 3 --max-feeds 4 \
            --max-feeds-per-user 5 --max-connections 6 --max-body 7 --max-answers 15 --max-frame 8 --head-time 9s --body-idle 10s \
            --body-time 20s --stalled 11s --heartbeat 12s --remember 13s \
            --adk-on-disconnect 14s --host a.example --host b.example --origin https://c.example";
        let args = served(&words.split_whitespace().collect::<Vec<_>>());
        let options = args.server_options().unwrap();
        let seconds = Duration::from_secs;
        let expected = andon_server::Options::new()
            .drain(seconds(0))
            .settle(seconds(1))
            .max_runs(2)
            .max_runs_of_user(3)
            .max_feeds(4)
            .max_feeds_of_user(5)
            .max_connections(6)
            .max_body(7)
            .max_answers(15)
            .max_frame(8)
            .head_time(seconds(9))
            .body_idle(seconds(10))
            .body_time(seconds(20))
            .stalled(seconds(11))
            .heartbeat(seconds(12))
            .remember(seconds(13))
            .hosts(vec!["a.example".to_owned(), "b.example".to_owned()])
            .origins(vec!["https://c.example".to_owned()]);
        assert_eq!(options, expected);
        assert_eq!(args.adk().on_disconnect, OnDisconnect::CancelAfterMs(14_000));
    }

    #[test]
    fn adk_on_disconnect_is_a_word_or_a_time() {
        assert_eq!(disconnect("cancel"), Ok(OnDisconnect::Cancel));
        assert_eq!(disconnect("continue"), Ok(OnDisconnect::Continue));
        assert_eq!(disconnect("2m"), Ok(OnDisconnect::CancelAfterMs(120_000)));
        assert!(disconnect("stop").unwrap_err().contains("write cancel, continue or a time"));
    }

    #[test]
    fn an_address_has_a_port_and_is_local_unless_keys_are_required() {
        assert_eq!(address("localhost:0").unwrap().to_string(), "127.0.0.1:0");
        assert_eq!(address("[::1]:80").unwrap().to_string(), "[::1]:80");
        for wrong in ["8000", "example.org:80", "localhost:many", ""] {
            assert!(address(wrong).unwrap_err().contains("such as"), "{wrong:?}");
        }
        for far in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80"] {
            let refused = served(&["serve", "--bind", far]).server_options().unwrap_err();
            assert!(refused.contains("reached from other machines") && refused.contains("--auth"), "{refused}");
            assert!(served(&["serve", "--auth", "--bind", far]).server_options().unwrap().auth);
        }
        let hosts = |far| served(&["serve", "--auth", "--bind", far]).server_options().unwrap().hosts;
        assert_eq!(hosts("192.0.2.1:80"), ["192.0.2.1"]);
        assert_eq!(hosts("[2001:db8::1]:80"), ["[2001:db8::1]"]);
        assert!(hosts("0.0.0.0:80").is_empty());
    }

    #[test]
    fn an_issuer_needs_an_audience_and_https() {
        let oidc = |words: &str| served(&words.split_whitespace().collect::<Vec<_>>()).server_options();
        let whole = "serve --oidc-issuer https://id.example --oidc-audience andon --oidc-jwks https://id.example/k \
            --oidc-tenant-claim org";
        let options = oidc(whole).unwrap();
        let expected = Oidc::new("https://id.example", "andon").unwrap();
        let expected = expected.jwks("https://id.example/k").unwrap().tenant_claim("org");
        assert_eq!((options.auth, options.oidc), (true, Some(expected)));
        for wrong in [
            "serve --oidc-issuer https://id.example",
            "serve --oidc-audience andon",
            "serve --oidc-tenant-claim org",
            "serve --oidc-issuer http://id.example --oidc-audience andon",
        ] {
            assert!(oidc(wrong).is_err(), "{wrong}");
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
