//! Reading a frame's JSON, and the errors if it cannot be read.

use std::borrow::Cow;
use std::cell::OnceCell;

use andon_runtime::{ModelError, ModelStop};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::loose::{TOO_MANY, Text};
use super::repair;
use crate::refusal::{ProviderError, shorten};

/// What ends a stream at many servers that speak OpenAI's API.
pub(crate) const DONE: &str = "[DONE]";

/// How many calls an answer may have: more than any model makes, and few enough to loop over.
pub(super) const MAX_CALLS: usize = 1024;

/// The longest frame that is read as a tree, which takes a hundred times its size. Only errors and frames to repair are.
const TREE: usize = 64 * 1024;

/// What kind of event this is. The data says it too, and proxies lose the event's name.
#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Kind<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    error: Option<IgnoredAny>,
}

impl Kind<'_> {
    /// Its name; empty if it has none.
    pub(super) fn name(&self) -> &str {
        self.kind.as_str()
    }

    /// Whether it has an error, whatever its name is.
    pub(super) fn has_error(&self) -> bool {
        self.error.is_some()
    }
}

/// A frame's JSON. A small mistake in it is repaired before the frame is called broken.
pub(super) struct Json<'a> {
    data: Cow<'a, str>,
    repaired: OnceCell<Option<String>>,
}

impl<'a> Json<'a> {
    pub(super) fn new(data: &'a str) -> Self {
        Self { data: repair::surrogates(data), repaired: OnceCell::new() }
    }

    /// Reads it as a known type.
    pub(super) fn read<'b, T: Deserialize<'b>>(&'b self) -> Result<T, ModelError> {
        let error = match serde_json::from_str(&self.data) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        // A duplicate key: the last one counts.
        let repair = || tree(&self.data).filter(|_| error.is_data()).map(|tree| tree.to_string());
        match self.repaired.get_or_init(repair) {
            Some(repaired) => serde_json::from_str(repaired).map_err(|error| unread(&error)),
            None => Err(unread(&error)),
        }
    }

    /// The error in this frame, in the provider's words.
    pub(super) fn error(&self) -> ProviderError {
        tree(&repair::as_words(&*self.data)).and_then(|tree| ProviderError::read(&tree)).unwrap_or_default()
    }
}

fn tree(data: &str) -> Option<Value> {
    if data.len() > TREE {
        return None;
    }
    serde_json::from_str(data).ok()
}

/// Whether a frame looks whole.
pub(crate) fn is_whole(data: &str) -> bool {
    data.trim() == DONE || serde_json::from_str::<IgnoredAny>(data).is_ok()
}

fn unread(error: &serde_json::Error) -> ModelError {
    let said = error.to_string();
    if said.starts_with(TOO_MANY) {
        let most = said.split(" at ").next().unwrap_or_default();
        return ModelError::fatal(format!(
            "one message of the stream has a list (of choices, parts or calls) with {most} entries, which is the limit"
        ));
    }
    // The data itself is not repeated: it may be anything.
    let (line, column) = (error.line(), error.column());
    ModelError::retryable(format!(
        "the provider's stream has a frame that cannot be read (line {line}, column {column})"
    ))
}

/// Counts one more call, and returns its index.
pub(super) fn one_more(calls: &mut usize) -> Result<usize, ModelError> {
    if *calls == MAX_CALLS {
        return Err(ModelError::fatal(format!("the answer has more than {MAX_CALLS} calls, the maximum")));
    }
    *calls += 1;
    Ok(*calls - 1)
}

/// An error message with a provider's own words.
pub(super) fn error_text(who: &str, kind: &str, message: &str) -> String {
    let (kind, clipped) = (shorten(kind), shorten(message));
    match (kind.is_empty(), clipped.is_empty()) {
        (true, true) => format!("{who} reported an error without a message"),
        (true, false) => format!("{who}: {clipped}"),
        (false, true) => format!("{who}: {kind}"),
        (false, false) => format!("{who}: {clipped} ({kind})"),
    }
}

/// Why the provider says that the answer ended.
#[derive(Debug)]
pub(super) enum Finish {
    Stopped(ModelStop),
    /// The model stopped before the answer was complete, for this reason.
    Failed(String),
}

impl Finish {
    /// The model's stop. An error if it has none, or none that completes the answer.
    pub(super) fn stop(finish: Option<Self>, who: &str) -> Result<ModelStop, ModelError> {
        match finish {
            Some(Self::Stopped(stop)) => Ok(stop),
            Some(Self::Failed(reason)) => {
                let message = error_text(who, &reason, "the model stopped before its answer was complete");
                Err(ModelError::retryable(message))
            }
            None => Err(broke_off(who)),
        }
    }
}

/// The answer ended before the model said so.
pub(super) fn broke_off(who: &str) -> ModelError {
    ModelError::retryable(format!("{who} ended the stream before the answer was over"))
}
