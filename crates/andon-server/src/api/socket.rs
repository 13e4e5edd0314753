//! A run's feed over a WebSocket, on which the client can also cancel the run.
//!
//! Each outgoing text message is one item of the feed, the same as the `data` of an SSE event. The id of an item is its
//! `at` if it has one, and otherwise its `seq`. The only incoming message is `{"type": "cancel"}`.
//!
//! # Invariants
//!
//! 1. A cancel never waits in a queue: it is read even while the client does not read (see
//!    [`talk`](crate::feed::talk)).
//! 2. A cancel is answered once it is on record. The feed continues meanwhile, and does not end before the answer.

use std::pin::Pin;
use std::task::{Context, Poll};

use andon_runtime::{Feed, Force, Run};
use axum::extract::ws::close_code;
use futures_core::Stream;
use futures_core::future::BoxFuture;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde::Deserialize;
use serde_json::{Value, json};

use super::cancel;
use super::forms::cancel_order;
use crate::access::principal::{Principal, forbidden};
use crate::access::scopes::Scope;
use crate::core::Shared;
use crate::feed::Reading;
use crate::feed::talk::{SocketEnd, SocketHandler};
use crate::http::body::parse;
use crate::http::problem::Problem;

/// A message from a client.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum ClientMessage {
    /// Cancels the run.
    Cancel { force: Option<Force>, grace_ms: Option<u64>, note: Option<String> },
}

/// One reader of a run's feed.
pub(super) struct FeedTalk {
    core: Shared,
    principal: Principal,
    run: Run,
    feed: Feed,
    reading: Reading,
    /// Cancels that wait for the disk. There is no limit besides the one on incoming messages.
    answers: FuturesUnordered<BoxFuture<'static, Value>>,
}

impl FeedTalk {
    pub(super) fn new(core: Shared, principal: Principal, run: Run, feed: Feed, reading: Reading) -> Self {
        Self { core, principal, run, feed, reading, answers: FuturesUnordered::new() }
    }

    fn handle_message(&self, text: &str) -> Result<(), Problem> {
        let ClientMessage::Cancel { force, grace_ms, note } = parse(text.as_bytes(), self.core.options.max_depth)?;
        let how = cancel_order(&self.principal, force, None, note, grace_ms)?;
        if !self.principal.allows(Scope::RunCancel) {
            let refused = json!({"problem": forbidden(Scope::RunCancel).to_json()});
            self.answers.push(Box::pin(std::future::ready(reply_form(refused))));
            return Ok(());
        }
        let (core, principal, id) = (Shared::clone(&self.core), self.principal.clone(), self.run.id().clone());
        // In a task of its own, so that the cancel takes effect even if the client disconnects right after it.
        let stopping = self.core.tasks.spawn(async move {
            match cancel::stop(&core, &principal, &id, &how).await {
                Ok((run, reply)) => json!(cancel::cancelled_view(&run, &reply)),
                Err(problem) => json!({"problem": problem.to_json()}),
            }
        });
        self.answers.push(Box::pin(async move { reply_form(stopping.await.unwrap_or(Value::Null)) }));
        Ok(())
    }

    /// The feed has ended. If the run goes on, the reader should reconnect.
    fn end(&self) -> SocketEnd {
        self.reading.leave_without_disconnect();
        match self.run.try_outcome() {
            Some(_) => SocketEnd::because(close_code::NORMAL, "the run has settled"),
            None => SocketEnd::because(
                close_code::AGAIN,
                "no process is driving the run now: reconnect to resume from here",
            ),
        }
    }
}

impl SocketHandler for FeedTalk {
    fn on_text(&mut self, text: &str) -> Result<(), SocketEnd> {
        self.handle_message(text).map_err(|problem| {
            SocketEnd::because(close_code::POLICY, format!("send {{\"type\": \"cancel\"}}: {}", problem.detail()))
        })
    }

    fn poll_say(&mut self, cx: &mut Context<'_>) -> Poll<Result<String, SocketEnd>> {
        if let Poll::Ready(Some(answer)) = self.answers.poll_next_unpin(cx) {
            return Poll::Ready(Ok(answer.to_string()));
        }
        match Pin::new(&mut self.feed).poll_next(cx) {
            Poll::Ready(Some(item)) => {
                self.reading.saw(&item);
                // An item is plain data, so this does not fail; if it did, the client would reconnect and resume where
                // it was.
                Poll::Ready(serde_json::to_string(&item).map_err(|_| SocketEnd::Gone))
            }
            Poll::Ready(None) if self.answers.is_empty() => Poll::Ready(Err(self.end())),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

fn reply_form(mut form: Value) -> Value {
    if let Value::Object(form) = &mut form {
        form.insert("type".to_owned(), "cancel_reply".into());
    }
    form
}
