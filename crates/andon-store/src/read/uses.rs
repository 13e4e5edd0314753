//! Sessions whose last use is not written to their row yet, found from their runs.

use rusqlite::Connection;

use super::session::SessionRow;

/// A session that was used later than its row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) row: SessionRow,
    pub(crate) at: i64,
}

/// Reads only runs whose use may not be written yet, and not the index of all sessions.
pub(crate) const UNWRITTEN: &str = "
SELECT s.id, s.app_place, s.user_place, used.at
FROM (SELECT session, max(coalesce(settled_at, accepted_at)) AS at FROM runs NOT INDEXED
      WHERE id >= (SELECT before_run FROM caught_up) GROUP BY session) AS used
CROSS JOIN sessions AS s ON s.id = used.session WHERE used.at > s.updated_at";

/// Sessions that were used later than their rows say, according to their runs.
pub(crate) fn unwritten(connection: &Connection) -> rusqlite::Result<Vec<Use>> {
    let mut query = connection.prepare_cached(UNWRITTEN)?;
    let read = |row: &rusqlite::Row<'_>| {
        let session = SessionRow { id: row.get(0)?, app_place: row.get(1)?, user_place: row.get(2)? };
        Ok(Use { row: session, at: row.get(3)? })
    };
    query.query_map([], read)?.collect()
}
