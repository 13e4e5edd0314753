//! What the routes share: the host and the settings.

use std::path::PathBuf;
use std::sync::Arc;

use andon_runtime::OnDisconnect;
use andon_server::dialect::Host;

use crate::locks::KeyLocks;

/// The state of the router.
pub(crate) type Shared = Arc<Core>;

pub(crate) struct Core {
    pub(crate) host: Host,
    pub(crate) on_disconnect: OnDisconnect,
    /// The folder of ADK's web page, if it is served.
    pub(crate) page: Option<PathBuf>,
    /// Serializes saves and deletes of a session's, or a user's, artifacts.
    pub(crate) artifacts: KeyLocks,
}
