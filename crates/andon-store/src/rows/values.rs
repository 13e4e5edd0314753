//! Values as they are stored in columns.

use andon_runtime::JournalError;
use andon_runtime::core::id::{RunId, SessionId, SessionKey};
use andon_runtime::core::time::{Stamp, Wall};
use rusqlite::Row;
use serde::de::DeserializeOwned;

use crate::record::unreadable;

/// Why something could not be read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) enum ReadError {
    Database(#[from] rusqlite::Error),
    Journal(#[from] JournalError),
}

pub(crate) type RowResult<T> = Result<T, ReadError>;

pub(crate) fn parse<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> RowResult<T> {
    serde_json::from_str(text(row, column)?).map_err(|error| unreadable(&error).into())
}

pub(crate) fn text<'a>(row: &'a Row<'_>, column: usize) -> RowResult<&'a str> {
    row.get_ref(column)?.as_str().map_err(|error| unreadable(&error).into())
}

pub(crate) fn run_id(row: &Row<'_>, column: usize) -> RowResult<RunId> {
    let text: String = row.get(column)?;
    RunId::new(text).map_err(|error| unreadable(&error).into())
}

/// A session's key, from four columns.
pub(crate) fn session_key(row: &Row<'_>, first: usize) -> RowResult<SessionKey> {
    let text = |column: usize| row.get::<_, String>(first + column);
    let session = SessionId::new(text(3)?).map_err(|error| unreadable(&error))?;
    Ok(SessionKey::checked(&text(0)?, text(1)?, text(2)?, session))
}

pub(crate) fn wall(row: &Row<'_>, column: usize) -> rusqlite::Result<Wall> {
    Ok(Wall(u64::try_from(row.get::<_, i64>(column)?).unwrap_or_default()))
}

/// When a run's outcome was durable, from two columns.
pub(crate) fn durable(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Stamp>> {
    let at: Option<(i64, i64)> = row.get::<_, Option<i64>>(first)?.zip(row.get(first + 1)?);
    Ok(at.map(|(wall, mono)| Stamp { wall: Wall(wall.unsigned_abs()), mono_us: mono.unsigned_abs() }))
}
