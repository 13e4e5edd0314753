//! Which store a round is on: SQLite on its disk or, if the environment says where a PostgreSQL server is, a schema of its own there.

use std::path::Path;
use std::sync::Arc;

use andon_runtime::{Journal, Probe};
use andon_store::{Options, SqliteJournal};
use anyhow::Result;

use crate::disk::database;

/// The address of the server, and a shell command that starts or stops it.
pub(crate) const SERVER: [&str; 2] = ["ANDON_POSTGRES", "ANDON_POSTGRES_CONTROL"];

/// Whether rounds are played on a server.
pub(crate) fn is_on_a_server() -> bool {
    cfg!(feature = "postgres") && std::env::var_os(SERVER[0]).is_some()
}

/// Opens the store of a round for a life.
pub(crate) fn open(folder: &Path, probe: Arc<dyn Probe>) -> Result<Arc<dyn Journal>> {
    #[cfg(feature = "postgres")]
    if is_on_a_server() {
        return crate::server::open(folder);
    }
    Ok(Arc::new(SqliteJournal::open_with(database(folder), &Options::new().probe(probe))?))
}
