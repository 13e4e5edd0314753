//! One call of a server's tool, and its stop.
//!
//! # Theory of operation
//!
//! A call sends its request, and then waits for three things at once: the answer, the cord, the end of the connection. If the
//! cord is pulled, the server is told in the way that was negotiated:
//!
//! | | 2025-11-25 and older | 2026-07-28 |
//! |---|---|---|
//! | lines | `notifications/cancelled` | `notifications/cancelled` |
//! | HTTP | `notifications/cancelled`, in a separate POST | the response stream is closed |
//! | a task | – | `tasks/cancel`, then `tasks/get` until it is over |
//!
//! What happens then is in [`stop`](super::stop). A request that is not settled yet is in [`Open`], which the call shares with
//! its cleanup: when the call's future is dropped, at the end of the grace or at once, the cleanup does the rest.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::{Cord, Invocation, Progress, Returned, ToolError, Work};
use parking_lot::Mutex;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, RequestId, ServerResult};
use rmcp::service::{PeerRequestOptions, RequestHandle};
use rmcp::{RoleClient, ServiceError};
use serde_json::Value;
use tokio::sync::oneshot;

use super::connection::Connection;
use super::content;
use super::http;
use super::in_progress::CallSlot;
use super::session::{Session, lost_words};
use super::task;
use super::tool::McpTool;
use super::wire::{Answer, LateAnswer, ProgressSink, ProgressSinkRef};

/// How long to wait for the end of a lost connection, because it often says why.
const POST_MORTEM: Duration = Duration::from_millis(800);

/// The work of one call.
pub(super) fn work(tool: &McpTool, invocation: Invocation) -> Work {
    let open = Arc::new(Open::default());
    let call = McpCall {
        session: Arc::clone(&tool.session),
        tool: tool.remote.clone(),
        cord: invocation.cord.clone(),
        progress: invocation.progress.clone(),
        open: Arc::clone(&open),
    };
    let after = call.clone();
    Work::task(async move { call.run(invocation.input).await }).cleanup(move || async move { after.clean_up().await })
}

/// One call.
#[derive(Clone)]
pub(super) struct McpCall {
    pub(super) session: Arc<Session>,
    pub(super) tool: String,
    pub(super) cord: Cord,
    pub(super) progress: Progress,
    pub(super) open: Arc<Open>,
}

/// A call's request and its stage, for the cleanup.
#[derive(Default)]
pub(super) struct Open(Mutex<Stage>);

#[derive(Default)]
pub(super) enum Stage {
    /// Nothing was requested, or everything is settled.
    #[default]
    Settled,
    /// Requested; not answered, and not told to stop.
    Requested(PendingRequest),
    /// Told to stop; it is not known whether the server has read that.
    CancelSent(PendingRequest),
    /// Told to stop, and the server has read that; it is not known whether it stopped.
    CancelRead(PendingRequest),
}

/// What was requested, and on which connection. The call counts as in progress there as long as this lives.
#[derive(Clone)]
pub(super) struct PendingRequest {
    pub(super) slot: Arc<CallSlot>,
    pub(super) kind: RequestKind,
}

#[derive(Clone)]
pub(super) enum RequestKind {
    Request(RequestId),
    Task(String),
}

impl PendingRequest {
    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.slot.connection
    }
}

impl Open {
    pub(super) fn set(&self, stage: Stage) {
        *self.0.lock() = stage;
    }

    pub(super) fn take(&self) -> Stage {
        std::mem::take(&mut *self.0.lock())
    }
}

impl McpCall {
    async fn run(self, input: Value) -> Returned {
        let steps = Arc::new(ProgressSink(self.progress.clone()));
        let asked = tokio::select! {
            biased;
            () = self.cord.pulled() => return Err(ToolError::new("stopped before the server was asked")),
            asked = self.ask(input, &steps) => asked,
        };
        let (slot, handle) = asked?;
        let asked = PendingRequest { slot: Arc::new(slot), kind: RequestKind::Request(handle.id.clone()) };
        self.open.set(Stage::Requested(asked.clone()));
        let mut answer = handle.rx;
        let waited = tokio::select! {
            biased;
            () = self.cord.pulled() => Waited::Pulled,
            answer = &mut answer => Waited::Answered(Box::new(answer.unwrap_or(Err(ServiceError::TransportClosed)))),
            () = asked.connection().wire.closed.cancelled() => Waited::Lost,
        };
        match waited {
            Waited::Pulled => {
                let late = asked.connection().wire.late_answer(&handle.id);
                self.stop_request(asked, handle.id, Answers { late, answer: Some(answer) }).await
            }
            Waited::Answered(answer) => self.answered(&asked, *answer).await,
            Waited::Lost => {
                // Anything that came before the end has been delivered by now.
                let answer = answer.try_recv().unwrap_or(Err(ServiceError::TransportClosed));
                self.answered(&asked, answer).await
            }
        }
    }

    /// Sends the request, on a new connection if there is none. A request that could not be sent is tried once more, because
    /// nobody has read it.
    async fn ask(
        &self,
        input: Value,
        steps: &Arc<ProgressSink>,
    ) -> Result<(CallSlot, RequestHandle<RoleClient>), ToolError> {
        let mut params = CallToolRequestParams::new(self.tool.clone());
        if let Value::Object(arguments) = input {
            params.arguments = Some(arguments);
        }
        for last in [false, true] {
            let slot = self.take_slot().await?;
            let mut request = CallToolRequest::new(params.clone());
            request.extensions.insert(ProgressSinkRef(Arc::downgrade(steps)));
            let request = ClientRequest::CallToolRequest(request);
            let peer = &slot.connection.peer;
            match peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await {
                Ok(handle) => return Ok((slot, handle)),
                Err(error) => {
                    self.session.lose(&slot.connection);
                    if last {
                        return Err(self.lost(&slot.connection, &error).await);
                    }
                }
            }
        }
        Err(ToolError::new("the request could not be sent to the server"))
    }

    /// A slot on a connection. One that is about to end takes no more calls, and the next one is used.
    async fn take_slot(&self) -> Result<CallSlot, ToolError> {
        loop {
            let connection = self.session.connection().await?;
            if let Some(slot) = CallSlot::take(&connection, &self.cord) {
                return Ok(slot);
            }
        }
    }

    /// Turns the answer into a result. After this there is nothing to tell the server, unless the answer is a task.
    async fn answered(&self, asked: &PendingRequest, answer: Result<ServerResult, ServiceError>) -> Returned {
        match answer {
            Ok(ServerResult::CreateTaskResult(created)) => task::follow(self, asked, created.task).await,
            Ok(answer) => {
                self.open.set(Stage::Settled);
                content::returned(answer)
            }
            Err(ServiceError::McpError(error)) => {
                self.open.set(Stage::Settled);
                Err(content::refused(&error))
            }
            Err(error) => {
                if !may_be_at_work(&error) {
                    self.open.set(Stage::Settled);
                }
                // Otherwise it may still be running there, and the cleanup takes care of it.
                Err(self.lost(asked.connection(), &error).await)
            }
        }
    }

    /// The error for a lost connection. Its end often says why, so it is awaited for a moment.
    pub(super) async fn lost(&self, connection: &Connection, error: &ServiceError) -> ToolError {
        if connection.wire.closed.is_cancelled() {
            // The error says what is known, whether it ended in time or not.
            let _ = tokio::time::timeout(POST_MORTEM, connection.ended()).await;
        }
        let why = connection.wire.trouble().unwrap_or_else(|| lost_words(error));
        ToolError::new(format!("the MCP server `{}` was lost before it answered: {why}", self.session.server.name))
    }

    /// The error for a call that the server was told to stop. How far it had come is unknown.
    pub(super) fn stopped(&self) -> ToolError {
        let words = self.words();
        ToolError::new(format!("stopped; the server was told: {words}. What it did before that is not undone"))
    }

    /// Handles an answer that came after the pull. If it is a task, that is stopped next.
    pub(super) async fn late(&self, asked: &PendingRequest, answer: Answer) -> Returned {
        match answer {
            Ok(answer) => self.answered(asked, Ok(answer)).await,
            Err(error) => {
                // Many servers send an error as soon as they get the cancel, even if the work goes on.
                self.open.set(Stage::CancelRead(asked.clone()));
                self.let_program_end(asked).await;
                Err(ToolError::new(format!("stopped; the server was told, and answered: {}", error.message)))
            }
        }
    }

    /// Why the call is stopped, for the server: the reason and the note.
    pub(super) fn words(&self) -> String {
        match self.cord.request() {
            Some(request) => match &request.note {
                Some(note) => format!("{}: {note}", request.reason.as_str()),
                None => request.reason.as_str().to_owned(),
            },
            // Only the call is stopped, not its run: its time was up.
            None => "timeout".to_owned(),
        }
    }
}

/// The two ways in which an answer can still come after the stop: one that was already on its way to rmcp, and one that comes
/// over the wire from then on.
pub(super) struct Answers {
    late: LateAnswer,
    answer: Option<oneshot::Receiver<Result<ServerResult, ServiceError>>>,
}

impl Answers {
    /// The answer. Pending forever if none can come.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub(super) async fn come(&mut self) -> Answer {
        while let Some(answer) = &mut self.answer {
            let answer = tokio::select! {
                biased;
                answer = self.late.come() => return answer,
                answer = answer => answer,
            };
            match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(ServiceError::McpError(error))) => return Err(error),
                // rmcp drops a request that is cancelled, and all of them when the connection ends.
                Ok(Err(_)) | Err(_) => self.answer = None,
            }
        }
        self.late.come().await
    }
}

/// Whether the server may be working on a request that failed like this.
fn may_be_at_work(error: &ServiceError) -> bool {
    match error {
        ServiceError::TransportClosed => true,
        ServiceError::TransportSend(error) => http::may_be_at_work(&*error.error),
        _ => false,
    }
}

enum Waited {
    Pulled,
    Answered(Box<Result<ServerResult, ServiceError>>),
    Lost,
}
