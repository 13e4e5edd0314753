//! An answer that is made in the background: closing its connection stops nothing, so the provider is told to stop, and
//! then asked what was used.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::Findings;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Inner, looked_up, tokens};
use crate::dialect::join;
use crate::http::ask::ask;

/// The pauses before each look at an answer that was told to stop.
const PAUSES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(8),
];

/// How long it may take in all.
pub(super) const WITHIN: Duration = Duration::from_secs(60);

/// Tells the provider to stop an answer, and looks it up until it is over.
pub(super) async fn stop(inner: Arc<Inner>, id: String) -> Findings {
    let told = ask(inner.post(join(&inner.base, ["responses", &id, "cancel"]), &json!({}))).await;
    if let Some(learned) = told.as_ref().and_then(read) {
        return learned;
    }
    for pause in PAUSES {
        sleep(pause).await;
        let Some(answer) = ask(inner.get(join(&inner.base, ["responses", &id]))).await else { continue };
        match read(&answer) {
            Some(learned) => return learned,
            // A cancelled answer may never get its figures.
            None if answer.get("status").and_then(Value::as_str) == Some("cancelled") => break,
            None => {}
        }
    }
    Findings::default()
}

/// The figures of an answer, if it has them.
fn read(answer: &Value) -> Option<Findings> {
    let usage = answer.get("usage")?;
    let output = tokens(usage, "/output_tokens")?;
    looked_up(
        tokens(usage, "/input_tokens"),
        tokens(usage, "/input_tokens_details/cached_tokens"),
        Some(output),
        tokens(usage, "/output_tokens_details/reasoning_tokens"),
    )
}

#[cfg(test)]
mod tests {
    use andon_runtime::Figure;

    use super::*;

    #[test]
    fn an_answer_without_figures_teaches_nothing() {
        assert_eq!(read(&json!({"status": "cancelled", "usage": null})), None);
        assert_eq!(read(&json!({"status": "cancelled"})), None);
        assert_eq!(read(&json!({"usage": {"input_tokens": 0, "output_tokens": 0}})), None);
        assert_eq!(read(&json!({"usage": {"input_tokens": u64::MAX, "output_tokens": 7}})), None);
    }

    #[test]
    fn figures_are_looked_up_with_the_cached_part_apart() {
        let usage = json!({"input_tokens": 50, "input_tokens_details": {"cached_tokens": 20}, "output_tokens": 9});
        let used = read(&json!({"usage": usage})).unwrap().used;
        assert_eq!(
            (used.billed.input.value, used.billed.cache_read.value, used.billed.output.value),
            (Some(30), Some(20), Some(9))
        );
        assert_eq!((used.delivered.output, used.billed.reasoning), (Figure::UNKNOWN, Figure::UNKNOWN));
    }
}
