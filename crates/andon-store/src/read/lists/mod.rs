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

use super::session::SessionRow;
use crate::rows::RowResult;

/// The places whose rows a list shows.
#[derive(Debug, PartialEq, Eq)]
struct Places {
    ids: Vec<i64>,
    /// Whether they are users' places, and not apps'.
    of_users: bool,
}

impl Places {
    /// The places that a filter selects; those of all apps if it names none.
    fn named(
        connection: &Connection,
        tenant: Option<&String>,
        app: Option<&String>,
        user: Option<&String>,
    ) -> RowResult<Self> {
        let mut query = connection.prepare_cached(
            "SELECT id FROM places WHERE user = ?3 AND (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR app = ?2)",
        )?;
        let whose = params![tenant, app, user.map_or("", String::as_str)];
        let ids = query.query_map(whose, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        Ok(Self { ids, of_users: user.is_some() })
    }

    fn column(&self) -> &'static str {
        if self.of_users { "user_place" } else { "app_place" }
    }

    fn contain(&self, row: SessionRow) -> bool {
        self.ids.contains(if self.of_users { &row.user_place } else { &row.app_place })
    }
}
