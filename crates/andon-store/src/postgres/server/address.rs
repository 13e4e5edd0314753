//! Where the server is, and how to use it.

use std::fmt;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::error::PostgresError;
use super::login::{Surroundings, look_up};
use super::passfile::Passfile;
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

    /// The schema that has the tables, `andon` by default, unless the address names one. Journals in two schemas of a database know
    /// nothing of each other.
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

    /// With the schema that an address names.
    pub(crate) fn at(self, address: &PostgresAddress) -> Self {
        Self { schema: address.schema.clone().unwrap_or(self.schema), ..self }
    }
}

/// Where a database is: an address such as `postgres://ada@db.example.com/app`, read.
///
/// The user, if it names none, is `PGUSER` or the one who is logged in. The password, if it has none, is in `PGPASSWORD` or in the
/// file `~/.pgpass`, or the one that `PGPASSFILE` names. `?schema=NAME` names the schema with the tables, as
/// [`PostgresOptions::schema`] does.
#[derive(Clone)]
pub struct PostgresAddress {
    pub(super) config: Config,
    pub(super) trust: Trust,
    /// Where the password is looked up, if it is not known.
    passfile: Option<Passfile>,
    schema: Option<String>,
    /// The address without user and password.
    pub(crate) shown: String,
    without_password: String,
}

impl PostgresAddress {
    /// Whether a text is meant as the address of a database on a server.
    pub fn is_meant(text: &str) -> bool {
        split(text).is_some()
    }

    /// Reads an address.
    pub fn read(url: &str) -> Result<Self, PostgresError> {
        Self::read_in(url, Surroundings::here())
    }

    fn read_in(url: &str, surroundings: Surroundings) -> Result<Self, PostgresError> {
        let Some(rest) = split(url) else { return Err(wrong("it does not begin with `postgres://`")) };
        let (login, place) = rest.rsplit_once('@').map_or(("", rest), |(login, place)| (login, place));
        if login.contains('@') || login.contains("password=") {
            // What follows the first @ would be taken for the host, and shown in errors.
            return Err(wrong("its user or password contains an @: write that as %40"));
        }
        let (place, query) = place.split_once('?').unwrap_or((place, ""));
        let (mut mode, mut root, mut schema, mut others) = ("prefer", None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = value,
                Some(("sslrootcert", value)) => root = Some(value.to_owned()),
                Some(("schema", value)) => schema = Some(decoded(value)?),
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
        let mut config: Config = format!("postgres://{at}{place}?{}", others.join("&")).parse().map_err(
            |error: tokio_postgres::Error| {
                let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                wrong(&why)
            },
        )?;
        config.ssl_mode(mode);
        set_defaults(&mut config);
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(wrong("it names no host"));
        }
        let passfile = surroundings.complete(&mut config);
        let (shown, without_password) = (shown(&config), without_password(login, place, query));
        Ok(Self { config, trust, passfile, schema, shown, without_password })
    }

    /// The server and the database, for people: without user and password.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The schema that it names, if it does.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The address as it was written, but without a password: for others who have one.
    pub fn without_password(&self) -> &str {
        &self.without_password
    }

    /// The address without its password, and the password, if it has one: for a program that is given it where everybody can read it.
    pub fn split_password(url: &str) -> Option<(String, Vec<u8>)> {
        let address = Self::read_in(url, Surroundings::default()).ok()?;
        let password = address.config.get_password()?.to_vec();
        Some((address.without_password, password))
    }

    /// What the user should know about how the password is looked up, if that goes wrong.
    pub fn warning(&self) -> Option<String> {
        self.passfile.as_ref().and_then(Passfile::warning)
    }

    /// How to connect now.
    pub(super) fn login(&self) -> Config {
        let mut config = self.config.clone();
        if let Some(password) = self.passfile.as_ref().and_then(|passfile| look_up(passfile, &config)) {
            config.password(password);
        }
        config
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresAddress")
            .field("shown", &self.shown)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

/// What follows the scheme.
fn split(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    matches!(scheme, "postgres" | "postgresql").then_some(rest)
}

fn wrong(why: &str) -> PostgresError {
    PostgresError::Address { why: why.to_owned() }
}

fn decoded(value: &str) -> Result<String, PostgresError> {
    let decoded = percent_encoding::percent_decode_str(value).decode_utf8();
    decoded.map(Into::into).map_err(|_| wrong("the name of its schema is not UTF-8"))
}

/// The parts of an address put together again.
fn without_password(login: &str, place: &str, query: &str) -> String {
    let user = login.split(':').next().unwrap_or_default();
    let at = if user.is_empty() { String::new() } else { format!("{user}@") };
    // A key that is written with % may be any key.
    let may_show = |pair: &&str| {
        let key = pair.split('=').next().unwrap_or_default();
        !pair.is_empty() && key != "password" && !key.contains('%')
    };
    let pairs: Vec<&str> = query.split('&').filter(may_show).collect();
    let query = if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) };
    format!("postgres://{at}{place}{query}")
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
        PostgresAddress::read(url).map(|address| address.shown).map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_to_paste_has_everything_but_the_password() {
        for (url, expected) in [
            (
                "postgresql://ada:secret@db/app?sslmode=require&schema=shop",
                "postgres://ada@db/app?sslmode=require&schema=shop",
            ),
            ("postgres://db/app?user=ada&password=secret", "postgres://db/app?user=ada"),
            ("postgres://db/app?user=ada&p%61ssword=secret", "postgres://db/app?user=ada"),
            ("postgres://:secret@db:6432/app", "postgres://db:6432/app"),
        ] {
            let address = PostgresAddress::read(url).unwrap();
            assert_eq!(address.without_password(), expected, "{url}");
            assert!(!format!("{address:?}").contains("secret"));
            assert_eq!(PostgresAddress::split_password(url), Some((expected.to_owned(), b"secret".to_vec())), "{url}");
            assert_eq!(PostgresAddress::split_password(expected), None);
        }
    }

    #[test]
    fn a_schema_is_named_in_the_address() {
        let schema = |query: &str| {
            let address = PostgresAddress::read(&format!("postgres://db/app{query}"));
            address.map(|address| address.schema().map(str::to_owned)).map_err(|error| error.to_string())
        };
        assert_eq!(schema(""), Ok(None));
        assert_eq!(schema("?schema=shop&sslmode=disable"), Ok(Some("shop".to_owned())));
        assert_eq!(schema("?schema=my%20shop"), Ok(Some("my shop".to_owned())));
        assert!(schema("?schema=%FF").is_err());
    }

    #[test]
    fn the_database_is_named_like_the_user_if_the_address_names_none() {
        let surroundings = Surroundings { user: Some("grace".to_owned()), ..Surroundings::default() };
        let address = PostgresAddress::read_in("postgres://db", surroundings).unwrap();
        assert_eq!((address.shown(), address.config.get_user()), ("postgres://db/grace", Some("grace")));
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
            ("postgres://db/app?password=sec@ret", "%40"),
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
