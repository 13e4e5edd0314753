//! Looking up an answer after it was cut, as OpenRouter allows.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::Findings;
use serde_json::Value;
use tokio::time::sleep;

use super::{Inner, looked_up, tokens};
use crate::dialect::join;
use crate::http::ask::ask;

/// The record comes some seconds after the cut: these are the pauses before each try.
const PAUSES: [Duration; 7] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(15),
    Duration::from_secs(30),
];

/// How long it may take in all.
pub(super) const WITHIN: Duration = Duration::from_secs(120);

/// Asks for the record of an answer until it is there.
pub(super) async fn look_up(inner: Arc<Inner>, id: String) -> Findings {
    let mut url = join(&inner.base, ["generation"]);
    url.query_pairs_mut().append_pair("id", &id);
    for pause in PAUSES {
        sleep(pause).await;
        // An error usually means "not yet"; after the last one the figures stay as they are.
        if let Some(answer) = ask(inner.get(url.clone())).await
            && let Some(learned) = read(&answer)
        {
            return learned;
        }
    }
    Findings::default()
}

fn read(answer: &Value) -> Option<Findings> {
    let record = answer.get("data")?;
    let number = |name: &str| tokens(record, &format!("/{name}"));
    let (output, reasoning) = (number("native_tokens_completion"), number("native_tokens_reasoning"));
    looked_up(number("native_tokens_prompt"), number("native_tokens_cached"), output, reasoning)
}

#[cfg(test)]
mod tests {
    use andon_runtime::Figure;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_without_native_figures_is_not_there_yet() {
        assert_eq!(read(&json!({"data": {"id": "gen-1", "native_tokens_prompt": null}})), None);
        assert_eq!(read(&json!({"data": {"id": "gen-1", "native_tokens_prompt": 0}})), None);
        assert_eq!(read(&json!({"error": {"code": 404}})), None);
    }

    #[test]
    fn what_was_read_is_the_same_however_the_call_ended() {
        let record =
            json!({"data": {"native_tokens_prompt": 100, "native_tokens_cached": 30, "native_tokens_completion": 9}});
        let Findings { used, .. } = read(&record).unwrap();
        assert_eq!((used.delivered.input.value, used.delivered.output), (Some(70), Figure::UNKNOWN));
        assert_eq!((used.billed.cache_read.value, used.billed.output.value), (Some(30), Some(9)));
        assert_eq!(used.billed.reasoning, Figure::UNKNOWN);
    }
}
