//! One small question to a provider, answered in JSON.

use std::time::Duration;

use andon_runtime::ModelError;
use serde_json::Value;
use tokio::time::timeout;

use super::{MAX_PAGE, Sending};

/// How long one question may take.
const WITHIN: Duration = Duration::from_secs(15);

/// Sends the question. Dropping it closes the connection. Why there is no answer is not said: a figure that cannot be learned stays
/// as it is.
pub(crate) async fn ask(request: Result<Sending, ModelError>) -> Option<Value> {
    timeout(WITHIN, read(request.ok()?)).await.ok()?
}

async fn read(request: Sending) -> Option<Value> {
    let mut answered = request.send().ok()?.await.ok()?;
    let response = &mut answered.response;
    if !response.status().is_success() {
        return None;
    }
    let mut body = Vec::new();
    while let Some(more) = response.chunk().await.ok()? {
        body.extend_from_slice(&more);
        if body.len() > MAX_PAGE {
            return None;
        }
    }
    serde_json::from_slice(&body).ok()
}
