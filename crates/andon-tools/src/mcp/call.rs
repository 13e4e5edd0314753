//! One call of a server's tool, and its stop.
//!
//! # Theory of operation
//!
//! A call is asked, and then waits for three things at once: the answer, the cord, the end of the connection. If the cord is
//! pulled the server is told, in the way that was negotiated:
//!
//! | | 2025-11-25 and older | 2026-07-28 |
//! |---|---|---|
//! | lines | `notifications/cancelled` | `notifications/cancelled` |
//! | HTTP | `notifications/cancelled`, in a POST of its own | the response stream is closed |
//! | a task | – | `tasks/cancel`, then `tasks/get` until it is over |
//!
//! By the protocol a cancelled request is not answered, so waiting for an answer would cost every stop its whole grace.
//! Instead the server is asked something small after the cancel (`ping`, or `server/discover` where there is no ping).
//! Lines are read in order, so an answer to that says that the cancel was read; over HTTP the status of the POST says it.
//! Then the call is over. A server that answers neither costs the call's grace, and is not used again.
//!
//! What was asked and not yet settled is in [`Open`], which the call shares with its cleanup: when the call's future is
//! dropped, at the end of the grace or at once, the cleanup tells a server that has not been told.

use std::sync::Arc;
use std::time::Duration;

use andon::{Cord, Invocation, Progress, Remains, Returned, ToolError, Work};
use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelTaskParams, CancelTaskRequest, CancelledNotification,
    CancelledNotificationParam, ClientRequest, DiscoverRequest, DiscoverRequestParams, PingRequest, RequestId,
    ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle};
use rmcp::{RoleClient, ServiceError};
use serde_json::Value;
use tokio::sync::oneshot;

use super::connection::{Connection, Way};
use super::content;
use super::session::{Session, lost_words};
use super::task;
use super::tool::McpTool;
use super::wire::{Answer, LateAnswer, Steps, StepsOf};

/// What the cleanup of a call may take, by the tool's specification.
pub(super) const CLEANUP: Duration = Duration::from_millis(500);
/// What it takes at most to tell a server there over HTTP, so that it ends within its budget.
const TELLING: Duration = Duration::from_millis(400);
/// How long a program is waited for there, to be told or to have heard, and how long its end may take.
const HEARING: Duration = Duration::from_millis(150);
const ENDING: Duration = Duration::from_millis(300);
/// After a cancel was heard, an answer that was on its way already has so long to come.
const LINGER: Duration = Duration::from_millis(20);
/// When a connection is lost, its end is waited for so long, because it often says why.
const POST_MORTEM: Duration = Duration::from_millis(800);

/// The work of one call.
pub(super) fn work(tool: &McpTool, invocation: Invocation) -> Work {
    let open = Arc::new(Open::default());
    let call = Call {
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
pub(super) struct Call {
    pub(super) session: Arc<Session>,
    pub(super) tool: String,
    pub(super) cord: Cord,
    pub(super) progress: Progress,
    pub(super) open: Arc<Open>,
}

/// What a call has asked for and what became of it, for its cleanup.
#[derive(Default)]
pub(super) struct Open(Mutex<Stage>);

#[derive(Default)]
enum Stage {
    /// Nothing was asked, or all is settled.
    #[default]
    Settled,
    /// Asked; not answered, and not told to stop.
    Asked(Asked),
    /// Told to stop; whether it was heard is not known.
    Told(Asked),
}

/// What was asked, and where.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) connection: Arc<Connection>,
    pub(super) what: What,
}

#[derive(Clone)]
pub(super) enum What {
    Request(RequestId),
    Task(String),
}

impl Open {
    pub(super) fn asked(&self, asked: Asked) {
        *self.0.lock() = Stage::Asked(asked);
    }

    pub(super) fn told(&self, asked: Asked) {
        *self.0.lock() = Stage::Told(asked);
    }

    pub(super) fn settled(&self) {
        *self.0.lock() = Stage::Settled;
    }

    fn take(&self) -> Stage {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Call {
    async fn run(self, input: Value) -> Returned {
        let steps = Arc::new(Steps(self.progress.clone()));
        let asked = tokio::select! {
            biased;
            () = self.cord.pulled() => return Err(ToolError::new("stopped before the server was asked")),
            asked = self.ask(input, &steps) => asked,
        };
        let (connection, handle) = asked?;
        let asked = Asked { connection, what: What::Request(handle.id.clone()) };
        self.open.asked(asked.clone());
        let mut answer = handle.rx;
        let waited = tokio::select! {
            biased;
            () = self.cord.pulled() => Waited::Pulled,
            answer = &mut answer => Waited::Answered(Box::new(answer.unwrap_or(Err(ServiceError::TransportClosed)))),
            () = asked.connection.wire.closed.cancelled() => Waited::Lost,
        };
        match waited {
            Waited::Pulled => {
                let late = asked.connection.wire.late_answer(&handle.id);
                self.stop_request(asked, handle.id, Answers { late, answer: Some(answer) }).await
            }
            Waited::Answered(answer) => self.answered(&asked, *answer).await,
            Waited::Lost => {
                // What came before the end has been delivered by now.
                let answer = answer.try_recv().unwrap_or(Err(ServiceError::TransportClosed));
                self.answered(&asked, answer).await
            }
        }
    }

    /// Sends the request, on a new connection if there is none. A request that never left is sent again, once: nobody has
    /// read it.
    async fn ask(
        &self,
        input: Value,
        steps: &Arc<Steps>,
    ) -> Result<(Arc<Connection>, RequestHandle<RoleClient>), ToolError> {
        let arguments = match input {
            Value::Object(arguments) => Some(arguments),
            _ => None,
        };
        let mut params = CallToolRequestParams::new(self.tool.clone());
        params.arguments = arguments;
        for last in [false, true] {
            let connection = self.session.connection().await?;
            let mut request = CallToolRequest::new(params.clone());
            request.extensions.insert(StepsOf(Arc::downgrade(steps)));
            let request = ClientRequest::CallToolRequest(request);
            match connection.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await {
                Ok(handle) => return Ok((connection, handle)),
                Err(error) => {
                    self.session.lose(&connection);
                    if last {
                        return Err(self.lost(&connection, &error).await);
                    }
                }
            }
        }
        Err(ToolError::new("the server could not be asked"))
    }

    /// What the answer means. From here on there is nothing to tell the server, unless a task came back.
    async fn answered(&self, asked: &Asked, answer: Result<ServerResult, ServiceError>) -> Returned {
        match answer {
            Ok(ServerResult::CreateTaskResult(created)) => task::follow(self, &asked.connection, created.task).await,
            Ok(answer) => {
                self.open.settled();
                content::returned(answer)
            }
            Err(ServiceError::McpError(error)) => {
                self.open.settled();
                Err(content::refused(&error))
            }
            Err(error) => {
                self.open.settled();
                Err(self.lost(&asked.connection, &error).await)
            }
        }
    }

    /// What to say about a connection that was lost. Its last words often say why, so they are waited for a little.
    pub(super) async fn lost(&self, connection: &Connection, error: &ServiceError) -> ToolError {
        if connection.wire.closed.is_cancelled() {
            // Whether it ended in time or not: what is known is said.
            let _ = tokio::time::timeout(POST_MORTEM, connection.ended()).await;
        }
        let why = connection.wire.trouble().unwrap_or_else(|| lost_words(error));
        ToolError::new(format!("the MCP server `{}` was lost before it answered: {why}", self.session.server.name))
    }

    /// Tells the server, and waits until it has heard or answered. The runtime ends this when the grace is over.
    async fn stop_request(&self, asked: Asked, id: RequestId, mut answers: Answers) -> Returned {
        let connection = &asked.connection;
        self.open.told(asked.clone());
        let heard = tokio::select! {
            biased;
            answer = answers.come() => return self.late(&asked, answer).await,
            heard = tell_and_be_heard(connection, id, self.words()) => heard,
            () = connection.wire.closed.cancelled() => Err(ServiceError::TransportClosed),
        };
        if heard.is_ok()
            && !connection.way.http
            && let Ok(answer) = tokio::time::timeout(LINGER, answers.come()).await
        {
            return self.late(&asked, answer).await;
        }
        self.open.settled();
        match heard {
            Ok(()) => Err(self.stopped()),
            Err(error) => {
                self.session.lose(connection);
                Err(self.lost(connection, &error).await)
            }
        }
    }

    /// What is said about a call that the server was told to stop. How far it had come, nobody knows.
    pub(super) fn stopped(&self) -> ToolError {
        let words = self.words();
        ToolError::new(format!("stopped; the server was told: {words}. What it had done by then is not undone"))
    }

    /// An answer that came after the pull. One that is a task has yet to be stopped.
    async fn late(&self, asked: &Asked, answer: Answer) -> Returned {
        match answer {
            Ok(answer) => self.answered(asked, Ok(answer)).await,
            Err(error) => {
                self.open.settled();
                Err(ToolError::new(format!("stopped; the server was told, and said: {}", error.message)))
            }
        }
    }

    /// Why it is stopped, for the server.
    pub(super) fn words(&self) -> String {
        stop_words(&self.cord)
    }

    /// Whatever must be done when the call's future is gone.
    async fn clean_up(self) -> Remains {
        let mut remains = Remains::default();
        let server = &self.session.server.name;
        match self.open.take() {
            Stage::Settled => {}
            Stage::Asked(Asked { connection, what }) => {
                let telling = async {
                    match what {
                        What::Request(id) => tell(&connection, id, self.words()).await,
                        What::Task(id) => cancel_task(&connection, id).await,
                    }
                };
                let within = if connection.way.http { TELLING } else { HEARING };
                match tokio::time::timeout(within, telling).await {
                    Ok(Ok(())) => remains.notes.push(format!("the MCP server `{server}` was told: {}", self.words())),
                    Ok(Err(_)) => self.session.lose(&connection),
                    Err(_) => self.give_up(connection, "could not be told", &mut remains).await,
                }
            }
            // Told, and then cut off by a harder stop: it may have heard by now.
            Stage::Told(Asked { connection, what: What::Request(_) }) if self.has_heard(&connection).await => {
                remains.notes.push(format!("the MCP server `{server}` was told: {}", self.words()));
            }
            Stage::Told(Asked { connection, what: What::Request(_) }) => {
                self.give_up(connection, "was told and did not say that it has heard", &mut remains).await;
            }
            Stage::Told(Asked { what: What::Task(id), .. }) => {
                remains.leaked.push(format!("the task `{id}` at the MCP server `{server}`, which was told"));
            }
        }
        remains
    }

    /// Whether a server that speaks in lines has read what it was told. By the newer protocol over HTTP there is nothing to
    /// read: the stream is closed.
    async fn has_heard(&self, connection: &Connection) -> bool {
        match connection.way {
            Way { http: true, modern } => modern,
            Way { http: false, .. } => matches!(tokio::time::timeout(HEARING, is_alive(connection)).await, Ok(Ok(()))),
        }
    }

    /// What becomes of a server that does not heed. A program of ours ends with the last call that uses it, and is leaked
    /// if that cannot be seen. What another machine does is not ours: it is noted.
    async fn give_up(&self, connection: Arc<Connection>, what: &str, remains: &mut Remains) {
        let (tool, server) = (&self.tool, &self.session.server.name);
        self.session.lose(&connection);
        if connection.way.http {
            remains.notes.push(format!("the MCP server `{server}` {what}; `{tool}` may go on there"));
        // Over its budget the end goes on by itself; it is bounded, too.
        } else if tokio::time::timeout(ENDING, connection.gone()).await.is_ok() {
            remains.notes.push(format!("the MCP server `{server}` did not heed the stop and was ended"));
        } else {
            remains.leaked.push(format!("`{tool}` at the MCP server `{server}`, which {what}"));
        }
    }
}

/// The two ways on which an answer can still come once the call is stopped: what was on its way to rmcp before, and what
/// comes over the wire from then on.
struct Answers {
    late: LateAnswer,
    answer: Option<oneshot::Receiver<Result<ServerResult, ServiceError>>>,
}

impl Answers {
    /// The answer. For ever pending if none can come any more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    async fn come(&mut self) -> Answer {
        while let Some(answer) = &mut self.answer {
            let answer = tokio::select! {
                biased;
                answer = self.late.come() => return answer,
                answer = answer => answer,
            };
            match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(ServiceError::McpError(error))) => return Err(error),
                // rmcp lets go of a request that is cancelled, and of all when the connection ends.
                Ok(Err(_)) | Err(_) => self.answer = None,
            }
        }
        self.late.come().await
    }
}

enum Waited {
    Pulled,
    Answered(Box<Result<ServerResult, ServiceError>>),
    Lost,
}

/// Why a call is stopped, in words for the server: the reason, and the note of whoever asked.
fn stop_words(cord: &Cord) -> String {
    match cord.request() {
        Some(request) => match &request.note {
            Some(note) => format!("{}: {note}", request.reason.as_str()),
            None => request.reason.as_str().to_owned(),
        },
        // The call alone is stopped, and not its run: its time was up.
        None => "timeout".to_owned(),
    }
}

/// Tells the server that a request is cancelled. Over HTTP by the newer protocol rmcp closes the response stream instead.
async fn tell(connection: &Connection, id: RequestId, reason: String) -> Result<(), ServiceError> {
    let cancelled = CancelledNotification::new(CancelledNotificationParam::new(Some(id), Some(reason)));
    connection.peer.send_notification(cancelled.into()).await
}

/// Tells the server, and waits until it has read that.
async fn tell_and_be_heard(connection: &Connection, id: RequestId, reason: String) -> Result<(), ServiceError> {
    tell(connection, id, reason).await?;
    if connection.way.http { Ok(()) } else { is_alive(connection).await }
}

/// Asks for something small. Any answer will do, a refusal too.
async fn is_alive(connection: &Connection) -> Result<(), ServiceError> {
    let question = if connection.way.modern {
        ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {}))
    } else {
        ClientRequest::PingRequest(PingRequest { method: Default::default(), extensions: Default::default() })
    };
    match connection.peer.send_request(question).await {
        Ok(_) | Err(ServiceError::McpError(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Asks the server to cancel a task. It says that it has heard, and not that the task is over.
pub(super) async fn cancel_task(connection: &Connection, id: String) -> Result<(), ServiceError> {
    let request = ClientRequest::CancelTaskRequest(CancelTaskRequest::new(CancelTaskParams::new(id)));
    match connection.peer.send_request(request).await {
        Ok(_) | Err(ServiceError::McpError(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
