//! A call that came back as a task, which is polled until it has ended.
//!
//! This is the extension `io.modelcontextprotocol/tasks` of 2026-07-28. A server uses the experimental tasks of 2025-11-25 only
//! if the client asks for them, and this one does not.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::{Returned, ToolError};
use rmcp::ServiceError;
use rmcp::model::{ClientRequest, GetTaskParams, GetTaskRequest, ServerResult, Task, TaskPayload};

use super::call::{McpCall, PendingRequest, RequestKind, Stage};
use super::connection::Connection;
use super::content;
use super::stop::cancel_task;

/// How often to poll if the server does not say, and the bounds on what it may say.
const POLL: Duration = Duration::from_millis(500);
const POLL_MIN: Duration = Duration::from_millis(20);
const POLL_MAX: Duration = Duration::from_secs(10);
/// How often to poll after the task was told to stop.
const POLL_STOPPING: Duration = Duration::from_millis(50);

/// Follows a task to its end, or to the pull.
pub(super) async fn follow(call: &McpCall, asked: &PendingRequest, task: Task) -> Returned {
    let id = task.task_id;
    let asked = PendingRequest { slot: Arc::clone(&asked.slot), kind: RequestKind::Task(id.clone()) };
    let connection = Arc::clone(asked.connection());
    call.open.set(Stage::Requested(asked.clone()));
    let mut poll = interval(task.poll_interval_ms);
    let mut said = task.status_message;
    show(call, said.as_deref());
    loop {
        tokio::select! {
            biased;
            () = call.cord.pulled() => return stop(call, asked, id).await,
            () = tokio::time::sleep(poll) => {}
        }
        let looked = tokio::select! {
            biased;
            () = call.cord.pulled() => return stop(call, asked, id).await,
            looked = look(&connection, &id) => looked,
        };
        let (task, payload) = match looked {
            Ok(looked) => looked,
            // It may still be running there, and the cleanup takes care of it.
            Err(error) => return Err(failed(call, &connection, error).await),
        };
        poll = interval(task.poll_interval_ms);
        if task.status_message != said {
            said = task.status_message;
            show(call, said.as_deref());
        }
        match payload {
            TaskPayload::Working => {}
            // Nobody can give input, so the task would wait forever. The cleanup cancels it.
            TaskPayload::InputRequired { .. } => return Err(content::asked_for_input()),
            over => {
                call.open.set(Stage::Settled);
                return ended(over);
            }
        }
    }
}

/// Tells the server, and polls the task until it has ended. The runtime ends this when the grace is over.
async fn stop(call: &McpCall, asked: PendingRequest, id: String) -> Returned {
    let connection = Arc::clone(asked.connection());
    call.open.set(Stage::CancelSent(asked.clone()));
    if let Err(error) = cancel_task(&connection, id.clone()).await {
        return Err(failed(call, &connection, error).await);
    }
    call.open.set(Stage::CancelRead(asked));
    loop {
        match look(&connection, &id).await {
            Ok((_, TaskPayload::Working | TaskPayload::InputRequired { .. })) => {}
            Ok((_, TaskPayload::Cancelled)) => {
                call.open.set(Stage::Settled);
                return Err(call.stopped());
            }
            Ok((_, over)) => {
                call.open.set(Stage::Settled);
                return ended(over);
            }
            Err(error) => return Err(failed(call, &connection, error).await),
        }
        tokio::time::sleep(POLL_STOPPING).await;
    }
}

/// Whether the server says that the task has ended.
pub(super) async fn is_over(connection: &Connection, id: &str) -> bool {
    match look(connection, id).await {
        Ok((_, TaskPayload::Working | TaskPayload::InputRequired { .. })) | Err(_) => false,
        Ok(_) => true,
    }
}

async fn look(connection: &Connection, id: &str) -> Result<(Task, TaskPayload), ServiceError> {
    let request = ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(id)));
    match connection.peer.send_request(request).await? {
        ServerResult::GetTaskResult(result) => Ok((result.task.task, result.task.payload)),
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

fn ended(payload: TaskPayload) -> Returned {
    match payload {
        TaskPayload::Completed { result } => content::task_returned(result.into()),
        TaskPayload::Failed { error } => {
            let words = error.get("message").and_then(|words| words.as_str()).unwrap_or("the task failed");
            Err(ToolError::new(words))
        }
        TaskPayload::Cancelled => Err(ToolError::new("the server cancelled the task")),
        _ => Err(ToolError::new("the task ended with an unknown status")),
    }
}

async fn failed(call: &McpCall, connection: &Connection, error: ServiceError) -> ToolError {
    match error {
        ServiceError::McpError(error) => content::refused(&error),
        error => call.lost(connection, &error).await,
    }
}

fn interval(asked_for: Option<u64>) -> Duration {
    asked_for.map_or(POLL, Duration::from_millis).clamp(POLL_MIN, POLL_MAX)
}

fn show(call: &McpCall, said: Option<&str>) {
    if let Some(said) = said {
        call.progress.show(&format!("{said}\n"));
    }
}
