//! The reading of one frame's JSON.

use std::borrow::Cow;

use andon::ModelError;
use serde::Deserialize;

use crate::refusal::shorten;

/// What closes a stream at many servers that speak like OpenAI.
pub(super) const DONE: &str = "[DONE]";

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
}

/// What kind of event this is. It stands in the data too, and proxies lose the event's name.
pub(super) fn kind(data: &str) -> Result<Cow<'_, str>, ModelError> {
    Ok(read::<Kind<'_>>(data)?.kind)
}

/// Reads a frame whose form is known.
pub(super) fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, ModelError> {
    serde_json::from_str(data).map_err(|error| {
        // The data itself is not told on: it may be anything.
        let (line, column) = (error.line(), error.column());
        ModelError::retryable(format!(
            "the provider's stream has a frame that cannot be read (line {line}, column {column})"
        ))
    })
}

/// A provider's own words about what went wrong.
pub(super) fn told(who: &str, kind: &str, message: &str) -> String {
    let (kind, clipped) = (shorten(kind), shorten(message));
    match (kind.is_empty(), clipped.is_empty()) {
        (true, true) => format!("{who} reported an error and did not say which"),
        (true, false) => format!("{who}: {clipped}"),
        (false, true) => format!("{who}: {kind}"),
        (false, false) => format!("{who}: {clipped} ({kind})"),
    }
}

/// The answer ended before the model said so.
pub(super) fn broke_off(who: &str) -> ModelError {
    ModelError::retryable(format!("{who} ended the stream before the answer was over"))
}
