//! The ids of runs, sessions and calls, and the numbers of events and owners.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize};

/// The maximum length of an id, in bytes.
pub const MAX_ID_BYTES: usize = 256;

/// Why a text cannot be an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum IdError {
    /// The text is empty.
    #[error("an id must not be empty")]
    Empty,
    /// The text is longer than [`MAX_ID_BYTES`].
    #[error("an id has at most {MAX_ID_BYTES} bytes, this one has {0}")]
    TooLong(usize),
    /// The text is `.` or `..`, which mean folders in a path.
    #[error("an id must not be {0:?}, which means a folder in a path: choose another")]
    Dots(String),
    /// The text has a character that breaks paths and logs.
    #[error("an id must not contain {0:?}: use letters, digits and punctuation other than '/'")]
    BadCharacter(char),
}

fn check(text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > MAX_ID_BYTES {
        return Err(IdError::TooLong(text.len()));
    }
    if matches!(text, "." | "..") {
        return Err(IdError::Dots(text.to_owned()));
    }
    match text.chars().find(|c| c.is_control() || *c == '/') {
        Some(bad) => Err(IdError::BadCharacter(bad)),
        None => Ok(()),
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a text that comes from outside and makes it an id.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                check(text.as_ref())?;
                Ok(Self(text.as_ref().into()))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// Names one run.
    ///
    /// ```
    /// use andon_core::id::{IdError, RunId};
    ///
    /// assert_eq!(RunId::new("nightly-7")?.as_str(), "nightly-7");
    /// assert_eq!(RunId::new(""), Err(IdError::Empty));
    /// # Ok::<(), IdError>(())
    /// ```
    RunId
}
id! {
    /// Names one conversation of a user with an app.
    SessionId
}
id! {
    /// Names one tool call; unique within its session.
    CallId
}

/// An event's place in its run's journal, from 1 without a gap.
pub type Seq = u64;

/// Counts the owners of a run: a writer with an older epoch is refused.
pub type Epoch = u32;

/// The tenant and the user of everything that does not name one.
pub const LOCAL: &str = "local";

/// Where a session lives: the tenant, the app (an agent's name), the user it belongs to, and its own id.
///
/// ```
/// use andon_core::id::SessionKey;
///
/// let key = SessionKey::new("guide", "ada", "monday")?;
/// assert_eq!(key.to_string(), "guide/ada/monday");
/// # Ok::<(), andon_core::id::IdError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionKey {
    /// Whose data it is; [`LOCAL`] unless a server keeps several apart.
    #[serde(default = "local", skip_serializing_if = "is_local", deserialize_with = "checked")]
    pub tenant: Arc<str>,
    /// The agent's name.
    #[serde(deserialize_with = "checked")]
    pub app: Arc<str>,
    /// Whose session it is.
    #[serde(deserialize_with = "checked")]
    pub user: Arc<str>,
    /// The session's own id.
    pub session: SessionId,
}

/// [`LOCAL`], shared: nearly every session has this tenant.
pub fn local() -> Arc<str> {
    static SHARED: OnceLock<Arc<str>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| LOCAL.into()))
}

/// Reads a name, by the same rules as an id.
fn checked<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    let text = String::deserialize(deserializer)?;
    check(&text).map_err(serde::de::Error::custom)?;
    Ok(text.into())
}

fn is_local(tenant: &Arc<str>) -> bool {
    **tenant == *LOCAL
}

crate::with!(SessionKey: tenant: into Arc<str>, app: into Arc<str>, user: into Arc<str>, session: SessionId);

impl SessionKey {
    /// From texts that were checked before, such as those in a store.
    pub fn checked(tenant: &str, app: impl Into<Arc<str>>, user: impl Into<Arc<str>>, session: SessionId) -> Self {
        let tenant = if tenant == LOCAL { local() } else { tenant.into() };
        Self { tenant, app: app.into(), user: user.into(), session }
    }

    /// A session of the tenant [`LOCAL`].
    pub fn new(app: &str, user: &str, session: impl AsRef<str>) -> Result<Self, IdError> {
        check(app)?;
        check(user)?;
        Ok(Self { tenant: local(), app: app.into(), user: user.into(), session: SessionId::new(session)? })
    }
}

impl Hash for SessionKey {
    /// Every table of sessions hashes keys, so nothing is written between the texts, as a derived hash would: that only tells
    /// apart keys that differ in where one text ends, and such keys may share a hash.
    fn hash<H: Hasher>(&self, state: &mut H) {
        for text in [&*self.tenant, &*self.app, &*self.user, self.session.as_str()] {
            state.write(text.as_bytes());
        }
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !is_local(&self.tenant) {
            write!(f, "{}:", self.tenant)?;
        }
        write!(f, "{}/{}/{}", self.app, self.user, self.session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_from_outside_says_what_is_wrong_with_it() {
        assert_eq!(RunId::new(""), Err(IdError::Empty));
        assert_eq!(RunId::new("a/b"), Err(IdError::BadCharacter('/')));
        assert_eq!(RunId::new("a\nb"), Err(IdError::BadCharacter('\n')));
        assert_eq!(RunId::new("x".repeat(10_000)), Err(IdError::TooLong(10_000)));
        assert_eq!(RunId::new(".."), Err(IdError::Dots("..".to_owned())));
        assert_eq!(RunId::new("run-1").unwrap().as_str(), "run-1");
    }

    #[test]
    fn an_id_may_have_256_bytes_and_no_more() {
        assert!(RunId::new("x".repeat(256)).is_ok());
        assert_eq!(RunId::new("x".repeat(257)), Err(IdError::TooLong(257)));
    }

    #[test]
    fn a_session_names_its_tenant_only_if_that_is_not_the_local_one() {
        let local = SessionKey::new("app", "ann", "s").unwrap();
        let other = SessionKey { tenant: "acme".into(), ..local.clone() };
        assert_eq!([local.to_string(), other.to_string()], ["app/ann/s", "acme:app/ann/s"]);
        let from_a_store = |key: &SessionKey| {
            SessionKey::checked(&key.tenant, Arc::clone(&key.app), Arc::clone(&key.user), key.session.clone())
        };
        assert_eq!([from_a_store(&local), from_a_store(&other)], [local.clone(), other.clone()]);
        let json = [&local, &other].map(|key| serde_json::to_string(key).unwrap());
        assert_eq!(
            json,
            [
                r#"{"app":"app","user":"ann","session":"s"}"#,
                r#"{"tenant":"acme","app":"app","user":"ann","session":"s"}"#
            ]
        );
        assert_eq!(json.map(|text| serde_json::from_str::<SessionKey>(&text).unwrap()), [local, other]);
        assert!(serde_json::from_str::<SessionKey>(r#"{"app":"a/b","user":"ann","session":"s"}"#).is_err());
    }
}
