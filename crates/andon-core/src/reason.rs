//! Why a run is cancelled. Public as [`cancel::Reason`](crate::cancel::Reason).

use serde::{Deserialize, Serialize};

/// Why a run is cancelled: a closed set. Free text goes into the note.
///
/// ```
/// use andon_core::cancel::Reason;
///
/// assert_eq!(Reason::ClientDisconnected.as_str(), "client_disconnected");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Reason {
    /// Somebody asked for it.
    Requested,
    /// The client that wanted the answer went away.
    ClientDisconnected,
    /// A newer prompt took its place.
    Superseded,
    /// The run that started it was cancelled.
    Parent,
    /// Its time was up, or the model was silent for too long.
    Deadline,
    /// Its turns or tokens were used up.
    Budget,
    /// A rule of the program did not allow it.
    Policy,
    /// A person did not approve.
    ApprovalDenied,
    /// An operator stopped it.
    Operator,
    /// The process is shutting down.
    Shutdown,
    /// The process that ran it is gone.
    OwnerLost,
}
