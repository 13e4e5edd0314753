//! Random secrets, and how they are compared.

use std::fmt;

use andon_runtime::Digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq as _;

/// A secret. It cannot be printed or serialized by accident: a caller has to ask for its text.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn new(word: String) -> Self {
        Self(word)
    }

    /// The text, to be shown once to its owner.
    pub fn show(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The system has no random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system provides no random numbers")]
pub struct NoRandom;

/// `N` random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], NoRandom> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(bytes)
}

/// A text with 256 random bits in it.
pub(crate) fn random_word() -> Result<String, NoRandom> {
    Ok(URL_SAFE_NO_PAD.encode(random::<32>()?))
}

/// The hash of a secret, by which it can be recognized but not recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Trace([u8; 32]);

impl Trace {
    pub(crate) fn of(word: &str) -> Self {
        Self(Digest::of(word.as_bytes()).bytes())
    }

    /// Whether this is the secret. The comparison takes constant time, so it does not reveal how close a guess is.
    pub(crate) fn is_of(&self, word: &str) -> bool {
        self.0.ct_eq(&Self::of(word).0).into()
    }

    pub(crate) fn to_text(self) -> String {
        hex::encode(self.0)
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_knows_its_word_and_no_other_and_survives_being_written() {
        let word = random_word().unwrap();
        let trace = Trace::of(&word);
        assert!(trace.is_of(&word) && !trace.is_of(&word[1..]) && !trace.is_of(""));
        assert_eq!(Trace::read(&trace.to_text()), Some(trace));
        assert_eq!(Trace::read("00"), None);
        assert_eq!(Trace::read(&"+f".repeat(32)), None, "a sign is not a digit");
        assert_eq!(format!("{:?}", Secret::new(word)), "Secret(..)");
    }
}
