//! The version of what is persisted.
//!
//! | Version | Since it |
//! |---|---|
//! | 1 | |
//! | 2 | hooks change what they see: `hook_finished` may have a `change` and a `why`, and may end as `changed`, `answered`, `asked` or `failed`; `model_started` may have `is_changed`, and `usage` may have `answer_changed`; a call may be `answered_by_hook` |
//! | | a prompt may bring a conversation along: `run_accepted` may have a `history` |
//! | | a person may say why: `approved` may have a `why` |

/// The version that every persisted form written by this crate carries.
///
/// A reader refuses a version that it does not know; it never guesses. It knows every version up to this one: fields added by a
/// newer version are absent from older records, and absence means what it did then.
pub const FORMAT_VERSION: u16 = 2;

/// The first version.
const OLDEST: u16 = 1;

/// Whether this program reads the version.
pub fn is_known(version: u16) -> bool {
    (OLDEST..=FORMAT_VERSION).contains(&version)
}

/// Reads a version, and refuses one that this program does not know.
pub(crate) fn known_version<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let version = <u16 as serde::Deserialize>::deserialize(deserializer)?;
    if is_known(version) {
        return Ok(version);
    }
    Err(serde::de::Error::custom(format!(
        "format version {version} is not known: this program reads versions {OLDEST} to {FORMAT_VERSION}; use the program that \
         wrote it"
    )))
}
