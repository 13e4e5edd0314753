//! Sessions and databases as the command line names them.

use std::ffi::OsString;
use std::str::FromStr;

use andon_runtime::{IdError, SessionId, SessionKey};

use crate::names::PRACTICE;

/// Where runs are recorded.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct DbArgs {
    /// The database: a file, `memory` to keep nothing, or one on a PostgreSQL server that several programs can share, such as
    /// `postgres://ada@db.example.com/app`. Its tables are in the schema `andon`, or the one that `?schema=NAME` names; its
    /// password is in PGPASSWORD or ~/.pgpass. Without this flag, the variable ANDON_DB names the database; without both, it is
    /// `andon/andon.db` in your data folder.
    // An empty value counts as unset: many scripts unset a variable that way.
    #[arg(long, value_name = "PATH|memory|URL", env = "ANDON_DB", hide_env_values = true, value_hint = clap::ValueHint::FilePath)]
    pub(crate) db: Option<OsString>,
}

/// Which session to talk in.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct TalkArgs {
    /// The session: its name, or app/user/session as lists show it. It is created if it does not exist.
    #[arg(long, value_name = "NAME", conflicts_with = "continue_last", value_parser = to_talk_in)]
    pub(crate) session: Option<SessionName>,
    /// Continue the session that was last used.
    #[arg(short = 'c', long = "continue")]
    pub(crate) continue_last: bool,
}

/// Anyone's session: its name alone if it is the practice agent's, or `app/user/session`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionName {
    /// The name alone.
    Alone(SessionId),
    /// The agent, the user and the name.
    Whole(SessionKey),
}

impl SessionName {
    /// The session's full key.
    pub(crate) fn key(&self) -> Result<SessionKey, IdError> {
        match self {
            Self::Alone(session) => SessionKey::new(PRACTICE, andon_runtime::core::id::LOCAL, session.as_str()),
            Self::Whole(key) => Ok(key.clone()),
        }
    }
}

/// The app, the user and the session to look for. A session's full name overrides the flags for the first two.
pub(crate) fn filters(named: Option<&SessionName>, app: Option<&String>, user: Option<&String>) -> [Option<String>; 3] {
    match named {
        None => [app.cloned(), user.cloned(), None],
        Some(SessionName::Alone(session)) => [app.cloned(), user.cloned(), Some(session.to_string())],
        Some(SessionName::Whole(key)) => {
            [&*key.app, &*key.user, key.session.as_str()].map(|name| Some(name.to_owned()))
        }
    }
}

impl FromStr for SessionName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        match *parts {
            [session] => SessionId::new(session).map(Self::Alone).map_err(|error| error.to_string()),
            [app, user, session] => {
                SessionKey::new(app, user, session).map(Self::Whole).map_err(|error| error.to_string())
            }
            _ => Err("write a session's name, or app/user/session".to_owned()),
        }
    }
}

/// A session to talk in, which may be a new one.
fn to_talk_in(text: &str) -> Result<SessionName, String> {
    if text.ends_with(":cancel") {
        return Err("ADK's clients cancel a run with a name that ends in :cancel: choose another name".to_owned());
    }
    text.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_alone_or_with_its_agent_and_user() {
        let key = |text: &str| text.parse::<SessionName>().map(|name| name.key().unwrap().to_string());
        assert_eq!(key("otter"), Ok("practice/local/otter".to_owned()));
        assert_eq!(key("shop/ada/otter"), Ok("shop/ada/otter".to_owned()));
        for wrong in ["", "a/b", "a/b/c/d", "a//b"] {
            assert!(key(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_session_named_like_a_cancel_is_refused() {
        for wrong in ["otter:cancel", ":cancel", "shop/ada/otter:cancel"] {
            assert!(to_talk_in(wrong).unwrap_err().contains(":cancel"), "{wrong}");
        }
        assert!(to_talk_in("otter:cancelled").is_ok() && to_talk_in("").is_err());
    }
}
