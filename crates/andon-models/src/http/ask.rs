//! One small question to a provider, answered in JSON.

use std::time::Duration;

use andon_runtime::ModelError;
use serde_json::Value;
use tokio::time::timeout;

use super::{MAX_PAGE, Sending};

/// How long one question may take.
const WITHIN: Duration = Duration::from_secs(15);

/// There is no answer. The reason is dropped: a figure that cannot be learned stays as it is.
#[derive(Debug)]
pub(crate) struct NotAnswered;

/// Sends the question. Dropping it closes the connection.
pub(crate) async fn ask(request: Result<Sending, ModelError>) -> Result<Value, NotAnswered> {
    let request = request.map_err(|_| NotAnswered)?;
    timeout(WITHIN, read(request)).await.map_err(|_| NotAnswered)?
}

async fn read(request: Sending) -> Result<Value, NotAnswered> {
    let mut answered = request.send().map_err(|_| NotAnswered)?.await.map_err(|_| NotAnswered)?;
    let response = &mut answered.response;
    if !response.status().is_success() {
        return Err(NotAnswered);
    }
    let mut body = Vec::new();
    while let Some(more) = response.chunk().await.map_err(|_| NotAnswered)? {
        body.extend_from_slice(&more);
        if body.len() > MAX_PAGE {
            return Err(NotAnswered);
        }
    }
    serde_json::from_slice(&body).map_err(|_| NotAnswered)
}
