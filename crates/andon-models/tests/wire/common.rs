//! What every scene needs.

pub(crate) use std::time::Duration;

pub(crate) use andon_runtime::{Piece, Usage};
pub(crate) use andon_testkit::provider::{BadProvider, Dialect, Protocol, Refusal, Reply, Script};
pub(crate) use serde_json::json;

use std::future::poll_fn;
use std::sync::Arc;

use andon_models::{Builder, HttpModel};
use andon_runtime::{Answer, Message, Model, ModelError, ModelRequest, RunId};
use tokio::time::timeout;

/// A key that must never be seen again.
pub(crate) const CANARY: &str = "sk-canary-7f3a9c51e0";

/// The adapter of a dialect.
pub(crate) fn builder(dialect: Dialect) -> Builder {
    dialect.adapter("bad-model-1")
}

/// A model of a bad provider.
pub(crate) fn model_of(provider: &BadProvider, protocol: Protocol, builder: Builder) -> HttpModel {
    let builder = builder.base_url(provider.base_url()).key(CANARY);
    match protocol {
        Protocol::Http1 => builder,
        Protocol::Http2 => builder.http2_prior_knowledge(),
    }
    .build()
    .unwrap()
}

/// A request that says hello.
pub(crate) fn request() -> ModelRequest {
    ModelRequest::new(RunId::new("run-1").unwrap(), 1, vec![Arc::new(Message::user("Hello"))]).instructions("Be brief.")
}

/// The next piece, with a time limit.
pub(crate) async fn next(answer: &mut Box<dyn Answer>) -> Option<Result<Piece, ModelError>> {
    timeout(Duration::from_secs(60), poll_fn(|cx| answer.poll_piece(cx))).await.expect("a piece comes in time")
}

/// All pieces, and the error if there is one.
pub(crate) async fn all(answer: &mut Box<dyn Answer>) -> (Vec<Piece>, Option<ModelError>) {
    let mut pieces = Vec::new();
    while let Some(piece) = next(answer).await {
        match piece {
            Ok(piece) => pieces.push(piece),
            Err(error) => return (pieces, Some(error)),
        }
    }
    (pieces, None)
}

/// The text of pieces.
pub(crate) fn text(pieces: &[Piece]) -> String {
    pieces.iter().filter_map(|piece| if let Piece::Text(text) = piece { Some(text.as_str()) } else { None }).collect()
}

/// Plays a scene over both protocols, with a provider each.
pub(crate) async fn over_both(scene: impl AsyncFn(Protocol, BadProvider)) {
    for protocol in Protocol::ALL {
        scene(protocol, BadProvider::start(protocol).await).await;
    }
}

/// Calls a model once.
pub(crate) fn call(model: &HttpModel) -> Box<dyn Answer> {
    model.call(request())
}
