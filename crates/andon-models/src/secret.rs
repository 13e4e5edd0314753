//! Secrets: what is sent to a provider and shown to nobody.
//!
//! # Invariants
//!
//! 1. No [`Debug`](fmt::Debug) or [`Display`](fmt::Display) shows a secret.
//! 2. Every text that comes from outside goes through [`Scrub::clean`] before it becomes an error: providers and proxies
//!    like to echo what they were sent.

use std::fmt;
use std::sync::Arc;

/// What is shown instead.
const HIDDEN: &str = "***";

/// A secret shorter than this is a word that may stand anywhere, so it is not searched for.
const SHORTEST: usize = 6;

/// A key or password. It can be sent, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// A secret with this text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// Takes secrets out of texts.
#[derive(Clone, Default)]
pub(crate) struct Scrub {
    /// The secrets in every spelling that could come back, the longest first.
    spellings: Arc<[String]>,
}

impl Scrub {
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut spellings: Vec<String> = secrets.into_iter().flat_map(|secret| spellings(secret.expose())).collect();
        spellings.sort_by_key(|spelling| std::cmp::Reverse(spelling.len()));
        spellings.dedup();
        Self { spellings: spellings.into() }
    }

    /// The text without any secret in it.
    pub(crate) fn clean(&self, text: impl Into<String>) -> String {
        self.spellings.iter().fold(text.into(), |text, spelling| {
            if text.contains(spelling.as_str()) { text.replace(spelling.as_str(), HIDDEN) } else { text }
        })
    }
}

impl fmt::Debug for Scrub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrub").field("secrets", &HIDDEN).finish()
    }
}

/// As it is, in an address, and in JSON.
fn spellings(secret: &str) -> Vec<String> {
    if secret.len() < SHORTEST {
        return Vec::new();
    }
    let in_address: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let in_json = serde_json::to_string(secret).unwrap_or_default();
    let in_json = in_json.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(secret);
    vec![secret.to_owned(), in_address, in_json.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::new("sk-canary-1234");
        assert_eq!(
            (format!("{secret}"), format!("{secret:?}"), format!("{secret:#?}")),
            ("***".into(), "***".into(), "***".into())
        );
        let scrub = Scrub::new([&secret]);
        assert!(!format!("{scrub:?}").contains("canary"));
    }

    #[test]
    fn a_secret_is_taken_out_however_it_is_spelt() {
        let secret = Secret::new("sk+canary/\"12\"");
        let scrub = Scrub::new([&secret]);
        let echoed = "key sk+canary/\"12\", at ?key=sk%2Bcanary%2F%2212%22, in {\"key\": \"sk+canary/\\\"12\\\"\"}";
        assert_eq!(scrub.clean(echoed), "key ***, at ?key=***, in {\"key\": \"***\"}");
    }

    #[test]
    fn a_secret_that_contains_another_is_taken_out_whole() {
        let (short, long) = (Secret::new("canary"), Secret::new("canary-and-more"));
        assert_eq!(Scrub::new([&short, &long]).clean("canary-and-more canary"), "*** ***");
    }

    #[test]
    fn a_short_secret_does_not_garble_every_text() {
        assert_eq!(Scrub::new([&Secret::new("a")]).clean("a banana"), "a banana");
    }
}
