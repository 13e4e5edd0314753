//! The digest that a person's approval is bound to.

use std::fmt;
use std::str::FromStr;

use hmac_sha256::Hash as Sha256;
use serde::{Deserialize, Serialize};

/// A SHA-256, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::hash(bytes))
    }

    /// Its 32 bytes.
    pub fn bytes(self) -> [u8; 32] {
        self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// A text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a digest: a digest has 64 hexadecimal digits")]
pub struct NoDigest(String);

impl FromStr for Digest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| NoDigest(text.to_owned()))?;
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = NoDigest;

    fn try_from(text: String) -> Result<Self, NoDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_one_that_every_other_program_computes_and_survives_a_round_trip() {
        let digest = Digest::of(b"{}");
        assert_eq!(digest.to_string(), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
        assert_eq!(hex::encode(digest.bytes()), digest.to_string());
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!(format!("{digest:?}"), format!("Digest({digest})"));
        for bad in [
            "",
            "44",
            &"zz".repeat(32),
            &"+4".repeat(32),
            &"4".repeat(63),
            &"4".repeat(65),
            &"4".repeat(66),
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8\u{e9}",
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad:?}");
        }
    }
}
