//! Values as the columns of rows hold them.

use std::sync::Arc;

use andon_runtime::core::event::Record;
use andon_runtime::core::id::{RunId, SessionId, SessionKey};
use andon_runtime::core::time::{Stamp, Wall};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use super::write::WriteError;
use crate::record::unreadable;

/// What reading returns. It fails as writing does: the server failed, or what is stored makes no sense.
pub(super) type RowResult<T> = Result<T, WriteError>;

pub(super) fn text(row: &Row, column: usize) -> RowResult<&str> {
    Ok(row.try_get(column)?)
}

pub(super) fn parse<T: DeserializeOwned>(row: &Row, column: usize) -> RowResult<T> {
    serde_json::from_str(text(row, column)?).map_err(|error| unreadable(&error).into())
}

pub(super) fn record(row: &Row, column: usize) -> RowResult<Arc<Record>> {
    Record::from_json(text(row, column)?).map(Arc::new).map_err(|error| unreadable(&error).into())
}

pub(super) fn run_id(row: &Row, column: usize) -> RowResult<RunId> {
    RunId::new(text(row, column)?).map_err(|error| unreadable(&error).into())
}

/// A session's key, from four columns.
pub(super) fn session_key(row: &Row, first: usize) -> RowResult<SessionKey> {
    let session = SessionId::new(text(row, first + 3)?).map_err(|error| unreadable(&error))?;
    Ok(SessionKey::checked(text(row, first)?, text(row, first + 1)?, text(row, first + 2)?, session))
}

pub(super) fn wall(row: &Row, column: usize) -> RowResult<Wall> {
    Ok(Wall(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or_default()))
}

/// When a run's outcome was durable, from two columns.
pub(super) fn durable(row: &Row, first: usize) -> RowResult<Option<Stamp>> {
    let at: Option<(i64, i64)> = row.try_get::<_, Option<i64>>(first)?.zip(row.try_get(first + 1)?);
    Ok(at.map(|(wall, mono)| Stamp { wall: Wall(wall.unsigned_abs()), mono_us: mono.unsigned_abs() }))
}
