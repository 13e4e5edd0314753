//! Lists of sessions and runs.
//!
//! # Invariants
//!
//! 1. A list is read in its own order and no further than its limit, however much is on record: each place has an index in that
//!    order, and a list of several places is merged from those.
//! 2. Where several sessions were last used at the same time, all of them are compared before some are left out.

mod runs;
#[cfg(test)]
mod sample;
mod sessions;

pub(crate) use runs::runs;
pub(crate) use sessions::{sessions, with_state};

use rusqlite::{Connection, params};

use super::uses::Use;
use crate::rows::Read;

/// The places whose rows a list shows.
#[derive(Debug, PartialEq, Eq)]
enum Places {
    /// Those of users.
    Users(Vec<i64>),
    /// Those of apps.
    Apps(Vec<i64>),
}

impl Places {
    /// The places that a filter selects; those of all apps if it names none.
    fn named(
        connection: &Connection,
        tenant: Option<&String>,
        app: Option<&String>,
        user: Option<&String>,
    ) -> Read<Self> {
        let mut query = connection.prepare_cached(
            "SELECT id FROM places WHERE user = ?3 AND (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR app = ?2)",
        )?;
        let whose = params![tenant, app, user.map_or("", String::as_str)];
        let places = query.query_map(whose, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        Ok(if user.is_some() { Self::Users(places) } else { Self::Apps(places) })
    }

    fn all(&self) -> &[i64] {
        match self {
            Self::Users(places) | Self::Apps(places) => places,
        }
    }

    fn column(&self) -> &'static str {
        match self {
            Self::Users(_) => "user_place",
            Self::Apps(_) => "app_place",
        }
    }

    fn has(&self, used: &Use) -> bool {
        match self {
            Self::Users(places) => places.contains(&used.row.user_place),
            Self::Apps(places) => places.contains(&used.row.app_place),
        }
    }
}
