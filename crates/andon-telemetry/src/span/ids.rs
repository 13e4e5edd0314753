//! Ids that can be computed from the facts.

use andon_runtime::Digest;
use andon_runtime::core::event::Seq;
use andon_runtime::core::id::RunId;
use serde::{Serialize, Serializer};

/// The id of a run's trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct TraceId(#[serde(serialize_with = "as_hex")] pub [u8; 16]);

impl TraceId {
    /// The first half of a digest of the run's id.
    pub fn of(run: &RunId) -> Self {
        Self(first(Digest::of(run.as_str().as_bytes())))
    }
}

/// The id of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct SpanId(#[serde(serialize_with = "as_hex")] pub [u8; 8]);

impl SpanId {
    /// The first bytes of a digest of the run's id and the seq of the fact that began the span.
    pub fn of(run: &RunId, start: Seq) -> Self {
        let named = [run.as_str().as_bytes(), &[0], &start.to_be_bytes()].concat();
        Self(first(Digest::of(&named)))
    }
}

fn first<const N: usize>(digest: Digest) -> [u8; N] {
    // A digest has 32 bytes, and no id is longer.
    digest.bytes().first_chunk().copied().unwrap_or([1; N])
}

fn as_hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hex::encode(bytes))
}
