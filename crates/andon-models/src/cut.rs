//! What may be done about a call that was cut: close it and count, close it and look it up, or read the rest and show it to nobody.
//!
//! # Invariants
//!
//! 1. The run never waits for any of it.
//! 2. One future owns everything that is open: dropping it closes all of it.
//! 3. What it learns is better than what is known, or is unknown: a failure to learn gives no figure.

pub(crate) mod drain;

use std::time::Duration;

/// What is done about a call that was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum CutPolicy {
    /// Close the connection. If the provider has not reported the input and has an endpoint that counts it, ask there.
    Cut,
    /// Close the connection and ask the provider what it will charge. Where it cannot be asked, this is `Cut`.
    CutAndLookUp,
    /// Closing would not stop the bill: read the rest, show it to nobody, and get the exact figure.
    Drain(Drain),
}

/// The caps for draining an answer that was cut. When one is exceeded, the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drain {
    /// Bytes after the cut.
    pub max_bytes: usize,
    /// Tokens of the whole answer, where the provider reports them as they come.
    pub max_tokens: Option<u64>,
    /// Time after the cut.
    pub max_time: Duration,
    /// Answers that are drained at the same time in this process. One more is closed at once.
    pub max_at_once: usize,
}

andon_runtime::core::with!(Drain: max_bytes: usize, max_tokens: into Option<u64>, max_time: Duration, max_at_once: usize);

impl Default for Drain {
    fn default() -> Self {
        Self { max_bytes: 16 * 1024 * 1024, max_tokens: None, max_time: Duration::from_secs(300), max_at_once: 16 }
    }
}

/// Whose endpoint counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountEndpoint {
    /// `POST /responses/input_tokens`, for Chat Completions, too: it counts what the model will receive.
    OpenAi,
    /// `POST /v1/messages/count_tokens`.
    Anthropic,
    /// `POST …:countTokens`.
    Gemini,
}
