//! The version of what is persisted.

/// The version that every persisted form written by this crate carries.
///
/// A reader refuses a version that it does not know; it never guesses.
pub const FORMAT_VERSION: u16 = 1;

/// Reads a version, and refuses one that this program does not know.
pub(crate) fn known_version<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let version = <u16 as serde::Deserialize>::deserialize(deserializer)?;
    if version == FORMAT_VERSION {
        return Ok(version);
    }
    Err(serde::de::Error::custom(format!(
        "format version {version} is not known: this program reads version {FORMAT_VERSION}; use the program that wrote it"
    )))
}
