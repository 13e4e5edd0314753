//! The settings of connections.

use std::time::Duration;

use rusqlite::Connection;

/// Sets up the writer's connection. The page size must be set before the file has pages.
pub(super) fn set_up_writer(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "page_size", 8192)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    // On a Mac only this reaches the disk itself; elsewhere it has no effect.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    // The writer runs checkpoints itself, when nobody is waiting.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    // Deleted data is overwritten in the file.
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "cache_size", -32_768)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Sets up the sweeper's connection, which only runs checkpoints.
pub(super) fn set_up_sweeper(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    // Restarting the write-ahead log blocks the writer while this waits for readers, so not for long.
    connection.busy_timeout(Duration::from_millis(50))
}

/// Sets up a connection that only reads.
pub(super) fn set_up_reader(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -16_384)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(())
}
