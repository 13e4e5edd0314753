//! A client of the server, with one typed method per request.
//!
//! # Invariants
//!
//! 1. An error is in the server's words if it sent any; otherwise it says what to do.
//! 2. Only requests that can be repeated safely are sent again: a run is created under an id that we chose, and repeating a
//!    cancel changes nothing.

pub(crate) mod calls;
mod feed;
pub(crate) mod forms;
mod key_source;
mod run;
mod target;

pub(crate) use feed::{FeedUpdate, RemoteFeed};
pub(crate) use key_source::KeySource;
pub(crate) use run::{RemoteRun, RunOptions, RunRequest, answer_in};
pub(crate) use target::Target;

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use self::forms::Problem;
use crate::args::GivenKey;
use crate::paste::{program, without_secret};
use crate::print::plain_line;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a response may take that does not wait for a run.
const ANSWER: Duration = Duration::from_secs(30);

/// The error for a missing or invalid key.
const NO_KEY: &str = "the server needs a valid key: put one into the variable ANDON_KEY, or into a file and name it with \
                      --key-file (the server's operator creates one with `andon keys create`)";

/// A server. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    base: Url,
    shown: Arc<str>,
    /// The flag that other commands need to reach the same server.
    flag: String,
    /// Where the user's key was found, if there is one.
    given: Option<KeySource>,
    http: reqwest::Client,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// Nothing listens there.
    #[error("no server answers at {0}: start one with `{program} serve`", program = program())]
    NoServer(Arc<str>),
    /// The connection failed or broke.
    #[error("cannot reach the server at {server}: {why}")]
    Broken { server: Arc<str>, why: String },
    /// The server refused.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// The response is not one of an Andon server.
    #[error("{server} does not answer like an Andon server ({why}): is the address right?")]
    Strange { server: Arc<str>, why: String },
}

impl ClientError {
    /// The server's problem document, if it sent one.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            Self::NoServer(_) | Self::Broken { .. } | Self::Strange { .. } => None,
        }
    }

    /// Whether the server answered 404.
    pub(crate) fn is_not_found(&self) -> bool {
        self.problem().is_some_and(|problem| problem.status == StatusCode::NOT_FOUND.as_u16())
    }

    /// Whether it may work if tried again a little later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::NoServer(_) | Self::Broken { .. } => true,
            Self::Refused(problem) => matches!(problem.status, 408 | 429 | 502..=504),
            Self::Strange { .. } => false,
        }
    }
}

impl Client {
    /// The server at an address such as `http://127.0.0.1:8000` or `127.0.0.1:8000`.
    pub(crate) fn at(address: &str) -> anyhow::Result<Self> {
        let wrong = || {
            let shown = without_secret(address);
            anyhow::anyhow!("{shown:?} is not the address of a server: write http://127.0.0.1:8000, for example")
        };
        let whole = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        let base = Url::parse(&whole).map_err(|_| wrong())?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() || base.query().is_some() {
            return Err(wrong());
        }
        let shown = without_secret(base.as_str()).trim_end_matches('/').into();
        let http = builder(&base).build()?;
        Ok(Self { base, shown, flag: String::new(), given: None, http })
    }

    /// Sends this key with every request.
    pub(crate) fn with_key(self, key: &str) -> anyhow::Result<Self> {
        let no_key = || anyhow::anyhow!("the key is not valid: a key is one line that begins with andon_, or a token");
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| no_key())?;
        // Keeps it out of logs.
        value.set_sensitive(true);
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
        let http = builder(&self.base).default_headers(headers).build()?;
        Ok(Self { http, ..self })
    }

    /// Like [`with_key`](Self::with_key), for the user's key, and remembers where it was found.
    fn with_given_key(self, given: &GivenKey, hides_owner_key: bool) -> anyhow::Result<Self> {
        let source = KeySource { source: given.source, hides_owner_key };
        Ok(Self { given: Some(source), ..self.with_key(&given.key)? })
    }

    /// Where the user's key was found, if there is one.
    pub(crate) fn given_key(&self) -> Option<KeySource> {
        self.given
    }

    /// A hint to append to the error for a refused key.
    fn way_out(&self) -> String {
        let way_out = self.given.and_then(KeySource::way_out);
        way_out.map_or_else(String::new, |way_out| format!(" ({way_out})"))
    }

    /// The server's address, for people.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// A command for people to type that reaches the same server.
    pub(crate) fn command(&self, words: &str) -> String {
        format!("{} {words}{}", program(), self.flag)
    }

    /// The URL of a path on this server.
    fn url(&self, path: &[&str], query: &[(&str, Option<&str>)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let given = query.iter().filter_map(|(name, value)| value.map(|value| (name, value)));
        for (name, value) in given {
            url.query_pairs_mut().append_pair(name, value);
        }
        url
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.http.request(method, self.url(path, &[]))
    }

    /// Sends a request. A response that is not a success is an error.
    async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.broken(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.bytes().await.map_err(|error| self.broken(&error))?;
        match serde_json::from_slice::<Problem>(&body) {
            // It is shown in a terminal, and anyone may have written it.
            Ok(problem) => {
                let detail = match status {
                    StatusCode::UNAUTHORIZED => format!("{NO_KEY}{}", self.way_out()),
                    StatusCode::FORBIDDEN => format!("{}{}", plain_line(&problem.detail), self.way_out()),
                    _ => plain_line(&problem.detail),
                };
                Err(ClientError::Refused(Box::new(Problem { detail, ..problem })))
            }
            Err(_) => Err(self.strange(format!("status {status}"))),
        }
    }

    /// Sends a request and parses the response.
    async fn ask<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let response = self.send(request).await?;
        let body = response.bytes().await.map_err(|error| self.broken(&error))?;
        serde_json::from_slice(&body).map_err(|error| self.strange(error.to_string()))
    }

    async fn get<T: DeserializeOwned>(&self, path: &[&str], query: &[(&str, Option<&str>)]) -> Result<T, ClientError> {
        self.ask(self.http.get(self.url(path, query)).timeout(ANSWER)).await
    }

    /// Gets one field of a response.
    async fn get_field<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, Option<&str>)],
        field: &str,
    ) -> Result<T, ClientError> {
        let mut response: Map<String, Value> = self.get(path, query).await?;
        let value = response.remove(field).unwrap_or_default();
        serde_json::from_value(value).map_err(|error| self.strange(format!("{field}: {error}")))
    }

    fn strange(&self, why: String) -> ClientError {
        ClientError::Strange { server: Arc::clone(&self.shown), why: plain_line(&why) }
    }

    /// A connection that failed for a reason that reqwest does not know.
    fn unheard(&self, why: &str) -> ClientError {
        ClientError::Broken { server: Arc::clone(&self.shown), why: why.to_owned() }
    }

    fn broken(&self, error: &reqwest::Error) -> ClientError {
        let server = Arc::clone(&self.shown);
        if error.is_connect() && cause(error).is_some_and(|cause| cause.kind() == ErrorKind::ConnectionRefused) {
            return ClientError::NoServer(server);
        }
        let why = match cause(error) {
            _ if error.is_timeout() => "it took too long to answer".to_owned(),
            // That is what TLS reports for a plain HTTP answer.
            _ if self.base.scheme() == "https" && deepest(error).contains("InvalidContentType") => {
                "it answers, but not over TLS: is it http:// instead of https://?".to_owned()
            }
            // No matter what was being sent or read.
            Some(cause) if is_cut(cause.kind()) => "the connection was cut".to_owned(),
            None if error.is_body() || error.is_decode() => "the connection was cut".to_owned(),
            Some(cause) => cause.to_string(),
            None => deepest(error),
        };
        ClientError::Broken { server, why }
    }
}

fn builder(base: &Url) -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder().connect_timeout(CONNECT);
    // A proxy cannot reach this machine's loopback.
    if is_here(base) { builder.no_proxy() } else { builder }
}

/// Whether an address is on this machine.
fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.is_loopback())
}

/// Whether the other side closed the connection.
fn is_cut(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// The I/O error behind an error.
fn cause<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a std::io::Error> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        source = error.source();
    }
    None
}

/// The message of the innermost error: the outer ones only say where it came up.
fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// Starts a task that nobody waits for: reading a feed, or telling a server to stop a run.
#[expect(
    clippy::disallowed_methods,
    reason = "no run is driven here: if the task is lost, only this screen loses something"
)]
fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(work));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_lack_its_scheme_and_anything_else_is_refused() {
        let shown = |address: &str| Client::at(address).map(|client| client.shown().to_owned()).ok();
        assert_eq!(shown("127.0.0.1:8000").as_deref(), Some("http://127.0.0.1:8000"));
        assert_eq!(shown("https://andon.example/base/").as_deref(), Some("https://andon.example/base"));
        for wrong in ["", "http://", "ftp://x", "http://x/?a=b", "a b"] {
            assert_eq!(shown(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_used_and_never_shown() {
        let client = Client::at("http://ada:secret@127.0.0.1:8000").unwrap();
        assert_eq!((client.shown(), client.base.password()), ("http://127.0.0.1:8000", Some("secret")));
        for address in ["ada:secret@x:1", "http://ada:sec/secret@x:1", "http://ada:secret@", "https://secret@x/a@b"] {
            assert!(!without_secret(address).contains("secret"), "{address}");
        }
        assert_eq!(without_secret("https://secret@x/a@b"), "https://x/a@b");
        assert_eq!(without_secret("127.0.0.1:1"), "127.0.0.1:1");
        let wrong = Client::at("ftp://ada:secret@x").unwrap_err().to_string();
        assert!(wrong.contains("ftp://x") && !wrong.contains("secret"), "{wrong}");
    }

    #[test]
    fn a_name_with_odd_letters_is_one_part_of_a_path() {
        let client = Client::at("http://127.0.0.1:8000/base").unwrap();
        let url = client.url(&["v1", "runs", "a/b c?%"], &[("app", Some("x&y")), ("user", None)]);
        assert_eq!(url.as_str(), "http://127.0.0.1:8000/base/v1/runs/a%2Fb%20c%3F%25?app=x%26y");
    }

    #[test]
    fn addresses_on_this_machine_are_recognized() {
        let here = |text: &str| is_here(&Url::parse(text).unwrap());
        assert!(here("http://localhost:1") && here("http://127.0.0.2:1") && here("http://[::1]:1"));
        assert!(!here("http://andon.example:1"));
    }
}
