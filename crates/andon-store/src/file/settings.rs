//! What the connections are set to.

use std::time::Duration;

use rusqlite::Connection;

/// What a connection that writes is set to. The size of a page must be set before the file has any.
pub(super) fn set_up_writer(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "page_size", 8192)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    // On a Mac only this reaches the disk itself; elsewhere it means nothing.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    // The writer makes room itself, when nobody waits for it.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    // What is deleted is gone from the file, too.
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "cache_size", -32_768)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// What a connection is set to that only brings into the file what others have written.
pub(super) fn set_up_sweeper(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    // When the file of what was written last is to begin anew, the writer waits for whoever else reads in it: not for long.
    connection.busy_timeout(Duration::from_millis(50))
}

/// What a connection that reads is set to.
pub(super) fn set_up_reader(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -16_384)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(())
}
