//! Where the server is, and how to use it.

use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::error::PostgresError;
use super::tls::Trust;

/// How long a host may take to accept a connection, and how long it may be silent before the connection counts as broken.
const SILENCE: Duration = Duration::from_secs(3);

/// How long a lease is, unless the program says otherwise.
const LEASE: Duration = Duration::from_secs(10);

/// Options for a journal on a server.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    pub(crate) schema: String,
    pub(crate) program: String,
    pub(crate) lease: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { schema: "andon".to_owned(), program: "a program that uses Andon".to_owned(), lease: LEASE }
    }
}

impl PostgresOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The schema that has the tables, `andon` by default. Journals in two schemas of a database know nothing of each other.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// How long this process may be silent until others take over its runs; ten seconds by default, and at least one. It stops
    /// them itself when three quarters of that are over.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(Duration::from_secs(1));
        self
    }

    /// The name of this program, stored with what it owns.
    #[must_use]
    pub fn program(mut self, program: impl Into<String>) -> Self {
        self.program = program.into();
        self
    }
}

/// An address such as `postgres://ada@db.example.com/app`, read.
#[derive(Clone)]
pub(crate) struct Address {
    pub(super) config: Config,
    pub(super) trust: Trust,
    /// The address without user and password.
    pub(crate) shown: String,
}

impl Address {
    pub(crate) fn read(url: &str) -> Result<Self, PostgresError> {
        let wrong = |why: &str| PostgresError::Address { why: why.to_owned() };
        let Some((_, rest)) = url.split_once("://").filter(|(scheme, _)| matches!(*scheme, "postgres" | "postgresql"))
        else {
            return Err(wrong("it does not begin with `postgres://`"));
        };
        let (login, place) = rest.rsplit_once('@').map_or(("", rest), |(login, place)| (login, place));
        if login.contains('@') {
            // What follows the first @ would be taken for the host, and shown in errors.
            return Err(wrong("its user or password contains an @: write that as %40"));
        }
        let (place, query) = place.split_once('?').unwrap_or((place, ""));
        let (mut mode, mut root, mut others) = ("prefer", None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = value,
                Some(("sslrootcert", value)) => root = Some(value.to_owned()),
                _ => others.push(pair),
            }
        }
        let (mode, trust) = match mode {
            "disable" => (SslMode::Disable, Trust::Any),
            "prefer" => (SslMode::Prefer, Trust::Any),
            "require" => (SslMode::Require, Trust::Any),
            "verify-full" => (SslMode::Require, Trust::Named { root }),
            _ => return Err(wrong("its sslmode is not one of disable, prefer, require and verify-full")),
        };
        let at = if login.is_empty() { String::new() } else { format!("{login}@") };
        let url = format!("postgres://{at}{place}?{}", others.join("&"));
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            wrong(&why)
        })?;
        config.ssl_mode(mode);
        set_defaults(&mut config);
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(wrong("it names no host"));
        }
        let shown = shown(&config);
        Ok(Self { config, trust, shown })
    }
}

fn set_defaults(config: &mut Config) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(SILENCE);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE);
    }
    config.keepalives_idle(SILENCE).keepalives_interval(Duration::from_secs(1)).keepalives_retries(3);
    if config.get_hosts().len() > 1 {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
}

fn shown(config: &Config) -> String {
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(number, host)| {
            let name = match host {
                Host::Tcp(name) => name.clone(),
                Host::Unix(folder) => folder.display().to_string(),
            };
            let ports = config.get_ports();
            match ports.get(number).or(ports.first()) {
                Some(port) if *port != 5432 => format!("{name}:{port}"),
                _ => name,
            }
        })
        .collect();
    let name = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{}/{name}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> Result<String, String> {
        Address::read(url).map(|address| address.shown).map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_is_shown_without_user_and_password() {
        for (url, expected) in [
            ("postgres://ada:secret@db.example.com/app", "postgres://db.example.com/app"),
            ("postgresql://ada:sec?ret@db:6432/app?sslmode=verify-full", "postgres://db:6432/app"),
            ("postgres://ada:secret@a,b:5433/app?sslmode=require", "postgres://a,b:5433/app"),
            ("postgres://ada@%2Frun%2Fpg/app", "postgres:///run/pg/app"),
            ("postgres:///app?host=/run/pg&user=ada", "postgres:///run/pg/app"),
        ] {
            assert_eq!(shown(url).as_deref(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn an_address_that_is_wrong_is_explained_and_its_password_is_not_shown() {
        for (url, word) in [
            ("mysql://ada:secret@db/app", "postgres://"),
            ("postgres://ada:sec@ret@db/app", "%40"),
            ("postgres://ada:secret@db/app?sslmode=maybe", "verify-full"),
            ("postgres://ada:secret@db/app?colour=secret", "colour"),
            ("postgres://ada:secret@db:secret/app", "port"),
            ("postgres:///app", "host"),
        ] {
            let why = shown(url).unwrap_err();
            assert!(why.contains(word) && !why.contains("sec"), "{url}: {why}");
        }
    }
}
