//! A connection that failed, in words.

use std::error::Error;
use std::io;

use andon_runtime::ModelError;

use super::client::CONNECT;
use super::proxy;

/// When it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailedWhile {
    /// Before the answer began.
    Asking,
    /// In the middle of the answer.
    Reading,
}

/// Whether the provider was certainly never reached.
pub(crate) fn never_reached(error: &reqwest::Error) -> bool {
    error.is_connect() || error.is_builder()
}

/// The error in words. All of these errors may pass.
pub(crate) fn in_words(error: &reqwest::Error, when: FailedWhile) -> ModelError {
    let chain = chain(error);
    let has =
        |words: &[&str]| chain.iter().any(|line| words.iter().any(|word| line.to_ascii_lowercase().contains(word)));
    let cause = chain.last().cloned().unwrap_or_default();
    let kind = io_kind(error);
    let message = if error.is_connect() {
        let what = if has(&["dns error", "failed to lookup", "name or service not known"]) {
            format!("the name cannot be resolved ({cause}): check the address and the network")
        } else if kind == Some(io::ErrorKind::ConnectionRefused) {
            "nothing listens there (connection refused): check the address, and that the server is running".to_owned()
        } else if error.is_timeout() || kind == Some(io::ErrorKind::TimedOut) {
            format!("no connection within {} s", CONNECT.as_secs())
        } else if has(&["certificate", "tls", "handshake", "invalid message", "corrupt message"]) {
            format!("no secure connection ({cause}): check http or https, and the certificate")
        } else {
            format!("no connection ({cause})")
        };
        // It is not always known which of the two failed; an error that names both can be followed up.
        match error.url().and_then(proxy::of) {
            Some(proxy) => format!("through the proxy {proxy}: {what}"),
            None => what,
        }
    } else if error.is_builder() {
        format!("the request cannot be made ({cause})")
    } else {
        lost(when, kind, &cause)
    };
    ModelError::retryable(message)
}

fn lost(when: FailedWhile, kind: Option<io::ErrorKind>, cause: &str) -> String {
    let what = match kind {
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => "was reset".to_owned(),
        _ => format!("was lost ({cause})"),
    };
    match when {
        FailedWhile::Asking => format!("the connection {what} before an answer came"),
        FailedWhile::Reading => format!("the connection {what} in the middle of the answer"),
    }
}

/// What each underlying error says, innermost last. Addresses are left out: they may hold a secret.
pub(super) fn chain(error: &reqwest::Error) -> Vec<String> {
    sources(error).map(ToString::to_string).collect()
}

fn io_kind(error: &reqwest::Error) -> Option<io::ErrorKind> {
    sources(error).find_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind)
}

fn sources(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&error| error.source())
}
