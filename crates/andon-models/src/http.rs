//! HTTP: from a request to the frames of its answer, polled and never spawned.
//!
//! # Invariants
//!
//! 1. Whatever is open for an answer (a connection being made, a request, a body) is owned by it, and closed by dropping it. Only
//!    name resolution cannot be cancelled: the system's resolver keeps a thread of the runtime's blocking pool until it returns,
//!    its result is thrown away, and dropping the runtime waits for it.
//! 2. Nothing that comes from outside is stored without a limit.
//! 3. Every error goes through the target's scrubber: no secret leaves.

pub(crate) mod ask;
mod client;
pub(crate) mod failure;
mod page;
mod proxy;
pub(crate) mod send;
pub(crate) mod size;
pub(crate) mod status;
mod wait;

use std::fmt;
use std::sync::Arc;

use andon_runtime::ModelError;

pub(crate) use client::Protocol;
pub(crate) use send::Sending;
pub(crate) use status::Framing;

use crate::secret::Scrub;

/// How many bytes are read of a page that is not an answer.
pub(crate) const MAX_PAGE: usize = 64 * 1024;

/// Whom a request goes to, as errors name it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The provider's name in `provider/model`.
    pub(crate) provider: Arc<str>,
    /// The model, as its provider calls it.
    pub(crate) model: Arc<str>,
    /// Host and port, never the whole address: that may hold a secret.
    pub(crate) host: Arc<str>,
    /// The environment variable that holds the key, if there is one.
    pub(crate) key_variable: Option<&'static str>,
    pub(crate) scrub: Scrub,
}

impl Target {
    /// The same error without a secret in it, and with the provider's name.
    pub(crate) fn error(&self, error: ModelError) -> ModelError {
        ModelError::new(error.kind, self.scrub.clean(format!("{self}: {}", error.message)))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.provider, self.host)
    }
}
