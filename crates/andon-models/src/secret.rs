//! Secrets: what is sent to a provider and shown to nobody.
//!
//! # Invariants
//!
//! 1. No [`Debug`](fmt::Debug) or [`Display`](fmt::Display) shows a secret.
//! 2. Every text that comes from outside goes through `Scrub::clean` before it becomes an error: providers and proxies
//!    like to echo what they were sent. A name or an id with a secret in it is dropped.
//! 3. A text that is shortened before that ends in `CUT`, by which a secret is found even if only its beginning is left.

use std::fmt;
use std::sync::Arc;

/// What is shown instead.
const HIDDEN: &str = "***";

/// Stands where a text was cut.
pub(crate) const CUT: char = '…';

/// A secret shorter than this may be part of any text, so it is not searched for. Nor is a shorter beginning.
const SHORTEST: usize = 6;

/// A key or password. It can be sent, but is never shown.
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

/// Removes secrets from texts.
#[derive(Clone, Default)]
pub(crate) struct Scrub {
    /// The secrets in every spelling that could come back, longest first.
    spellings: Arc<[String]>,
}

impl Scrub {
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut spellings: Vec<String> =
            secrets.into_iter().flat_map(|secret| parts(secret.expose())).flat_map(spellings).collect();
        spellings.sort_by_key(|spelling| std::cmp::Reverse(spelling.len()));
        spellings.dedup();
        Self { spellings: spellings.into() }
    }

    /// The text without any secret in it.
    pub(crate) fn clean(&self, text: impl Into<String>) -> String {
        let text = self.spellings.iter().fold(text.into(), |text, spelling| {
            if text.contains(spelling.as_str()) { text.replace(spelling.as_str(), HIDDEN) } else { text }
        });
        if text.contains(CUT) { self.clean_cuts(&text) } else { text }
    }

    /// Whether there is a secret in the text.
    pub(crate) fn finds(&self, text: &str) -> bool {
        self.spellings.iter().any(|spelling| text.contains(spelling.as_str()))
    }

    /// The text without the beginnings of secrets where it was cut.
    fn clean_cuts(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        for part in text.split_inclusive(CUT) {
            let shown = part.strip_suffix(CUT).unwrap_or(part);
            let begun = if shown.len() < part.len() { self.begun(shown) } else { 0 };
            if begun == 0 {
                clean.push_str(part);
            } else {
                clean.extend([shown.get(..shown.len() - begun).unwrap_or_default(), HIDDEN]);
                clean.push(CUT);
            }
        }
        clean
    }

    /// How many bytes at the end of a text are the beginning of a secret.
    fn begun(&self, text: &str) -> usize {
        let of = |spelling: &String| {
            let beginnings = spelling.char_indices().map(|(at, _)| at).rev().take_while(|at| *at >= SHORTEST);
            beginnings.into_iter().find(|at| spelling.get(..*at).is_some_and(|beginning| text.ends_with(beginning)))
        };
        self.spellings.iter().filter_map(of).max().unwrap_or(0)
    }
}

impl fmt::Debug for Scrub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrub").field("secrets", &HIDDEN).finish()
    }
}

/// The whole secret, and the part after the scheme if it is a header's value.
fn parts(secret: &str) -> impl Iterator<Item = &str> {
    let after = ["Bearer ", "Basic "].iter().find_map(|scheme| secret.strip_prefix(scheme));
    [secret].into_iter().chain(after)
}

/// The secret as it is, as written in an address, and as written in JSON.
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
    fn a_headers_secret_is_taken_out_without_its_scheme_too() {
        let scrub = Scrub::new([&Secret::new("Bearer sk-canary-1234")]);
        assert_eq!(scrub.clean("Bearer sk-canary-1234, sk-canary-1234"), "***, ***");
    }

    #[test]
    fn a_secret_of_which_a_cut_left_only_the_beginning_is_taken_out() {
        let scrub = Scrub::new([&Secret::new("sk-canary-1234"), &Secret::new("pässword")]);
        assert_eq!(scrub.clean("key sk-canary-12… (invalid)"), "key ***… (invalid)");
        assert_eq!(scrub.clean("sk-can… pässwo… sk-canary-1234… end"), "***… ***… ***… end");
        assert_eq!(scrub.clean("sk-ca… sk-canary-12 x…"), "sk-ca… sk-canary-12 x…", "too little, and not at a cut");
    }

    #[test]
    fn a_short_secret_does_not_garble_every_text() {
        assert_eq!(Scrub::new([&Secret::new("a")]).clean("a banana"), "a banana");
    }
}
