//! The stop of a call: the server is told, and either the call's end is proven or it is named as leaked.
//!
//! # Theory of operation
//!
//! By the protocol, a cancelled request is not answered: a server that obeys a cancel is as silent as one that ignores it. So
//! neither silence nor most answers prove that the call has ended. These do:
//!
//! 1. The server answers the request with a result anyway, or says that a task has ended. An error is not proof: many servers
//!    send one as soon as they get the cancel, and keep working.
//! 2. The server is a program of ours that has ended with everything that it started. It is ended for this purpose if no other
//!    call uses it ([`in_progress`](super::in_progress)), and started again when it is next needed.
//!
//! Without proof the call is leaked: the server was told, but the end was not seen. No grace is spent waiting for an answer that
//! does not come. The grace is for a server that has not yet read the cancel: a small request follows it (`ping`, or
//! `server/discover` where there is no ping). A server that answers that has read the cancel, because lines are read in order.
//! One that does not answer is busy or hangs; it gets the grace to answer, and is not used again.
//!
//! A graceful stop closes a program's standard input and gives it a moment to end by itself. With force `now`, and when the
//! grace is over, it is killed.

use std::time::Duration;

use andon_runtime::{Remains, Returned};
use rmcp::ServiceError;
use rmcp::model::{
    CancelTaskParams, CancelTaskRequest, CancelledNotification, CancelledNotificationParam, ClientRequest,
    DiscoverRequest, DiscoverRequestParams, PingRequest, RequestId, ServerResult,
};
use tokio::time::timeout;

use super::call::{Answers, McpCall, PendingRequest, RequestKind, Stage};
use super::connection::{Connection, TransportKind};
use super::content;
use super::in_progress::MayEnd;
use super::task;

/// How long the cleanup of a call may take, by the tool's specification. The steps below end within it.
pub(super) const CLEANUP: Duration = Duration::from_millis(1_500);
/// How long the cleanup may take to tell a server, over HTTP and over lines.
const TELLING_HTTP: Duration = Duration::from_millis(400);
const TELLING_LINES: Duration = Duration::from_millis(150);
/// How long it may take to find out whether the server reads, and whether other calls use it.
const HEARING: Duration = Duration::from_millis(500);
const DECIDING: Duration = Duration::from_millis(150);
/// How long it may take to see the end of a killed program.
const ENDING: Duration = Duration::from_millis(500);
/// How long a server may take to say whether a task is over: what the steps before it leave of the cleanup.
const PROVING: Duration = Duration::from_millis(150);
/// The same over HTTP, where no program has to be ended first and closing the stream has told the server.
const PROVING_HTTP: Duration = Duration::from_millis(900);
/// After the server has read the cancel, how long to wait for an answer that was already on its way.
const LINGER: Duration = Duration::from_millis(20);

/// What is known about how the server was told to stop something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CancelReport {
    /// It could not be told.
    NotSent,
    /// It was told, but did not confirm it.
    Unconfirmed,
    /// It has read the cancel.
    Confirmed,
}

impl McpCall {
    /// Tells the server, and waits until it has answered or read that. Then its program may end by itself. The runtime ends
    /// this when the grace is over.
    pub(super) async fn stop_request(&self, asked: PendingRequest, id: RequestId, mut answers: Answers) -> Returned {
        let connection = asked.connection();
        self.open.set(Stage::CancelSent(asked.clone()));
        let heard = tokio::select! {
            biased;
            answer = answers.come() => return self.late(&asked, answer).await,
            heard = tell_and_be_heard(connection, id, self.words()) => heard,
            () = connection.wire.closed.cancelled() => Err(ServiceError::TransportClosed),
        };
        if let Err(error) = heard {
            self.session.lose(connection);
            return Err(self.lost(connection, &error).await);
        }
        self.open.set(Stage::CancelRead(asked.clone()));
        if !connection.dialect.is_modern_http()
            && let Ok(answer) = timeout(LINGER, answers.come()).await
        {
            return self.late(&asked, answer).await;
        }
        self.let_program_end(&asked).await;
        Err(self.stopped())
    }

    /// Lets the program end by itself, if no other call uses it.
    pub(super) async fn let_program_end(&self, asked: &PendingRequest) {
        let connection = asked.connection();
        if connection.dialect.over == TransportKind::Program
            && matches!(asked.slot.may_end_program().await, MayEnd::Yes)
        {
            self.session.lose(connection);
            connection.end();
            connection.program_over().await;
        }
    }

    /// The cleanup after the call's future is gone: tells the server, if that was not done, and proves that the request has
    /// ended, or names it as leaked.
    pub(super) async fn clean_up(self) -> Remains {
        let (asked, told) = match self.open.take() {
            Stage::Settled => return Remains::NONE,
            Stage::Requested(asked) => (asked, None),
            Stage::CancelSent(asked) => (asked, Some(CancelReport::Unconfirmed)),
            Stage::CancelRead(asked) => (asked, Some(CancelReport::Confirmed)),
        };
        // Claimed before the server is told, so that no answer is missed.
        let late = match &asked.kind {
            RequestKind::Request(id) => Some(asked.connection().wire.late_answer(id)),
            RequestKind::Task(_) => None,
        };
        let told = match told {
            Some(told) => told,
            None => self.tell_at_last(&asked).await,
        };
        if let Some(remains) = self.end_program(&asked, told).await {
            return remains;
        }
        if let Some(mut late) = late
            && !asked.connection().dialect.is_modern_http()
            && let Ok(answer) = timeout(LINGER, late.come()).await
            && let Some(remains) = answered(answer)
        {
            return remains;
        }
        let told = self.look_at_server(&asked, told).await;
        let is_http = asked.connection().dialect.over == TransportKind::Http;
        let proving = if is_http { PROVING_HTTP } else { PROVING };
        if let RequestKind::Task(id) = &asked.kind
            && matches!(timeout(proving, task::is_over(asked.connection(), id)).await, Ok(true))
        {
            return Remains::NONE;
        }
        self.name_as_leaked(&asked, told)
    }

    /// Tells a server that was not told before the call's future was dropped.
    async fn tell_at_last(&self, asked: &PendingRequest) -> CancelReport {
        let connection = asked.connection();
        let telling = async {
            match &asked.kind {
                RequestKind::Request(id) => tell(connection, id.clone(), self.words()).await,
                RequestKind::Task(id) => cancel_task(connection, id.clone()).await,
            }
        };
        let within = if connection.dialect.over == TransportKind::Http { TELLING_HTTP } else { TELLING_LINES };
        match timeout(within, telling).await {
            Ok(Ok(())) => CancelReport::Unconfirmed,
            Ok(Err(_)) | Err(_) => CancelReport::NotSent,
        }
    }

    /// Ends the program, if no other call uses it, and returns what remains. `None` if there is no program, it is in use, or
    /// its end was not seen.
    async fn end_program(&self, asked: &PendingRequest, told: CancelReport) -> Option<Remains> {
        let connection = asked.connection();
        if connection.dialect.over != TransportKind::Program {
            return None;
        }
        // A program that has closed its end of the connection is ended in any case.
        if !connection.wire.closed.is_cancelled() {
            match timeout(DECIDING, asked.slot.may_end_program()).await {
                Ok(MayEnd::Yes) => {}
                Ok(MayEnd::InUse) | Err(_) => return None,
            }
        }
        self.session.lose(connection);
        connection.hurry();
        connection.end();
        let mut remains = timeout(ENDING, connection.program_over()).await.ok()?;
        if self.cord.is_pulled() {
            let (server, words) = (&self.session.server.name, self.words());
            let told = match told {
                CancelReport::NotSent => format!("the MCP server `{server}` could not be told"),
                CancelReport::Unconfirmed | CancelReport::Confirmed => {
                    format!("the MCP server `{server}` was told: {words}")
                }
            };
            remains.notes.insert(0, format!("{told}; its program was ended, and is started again when needed"));
        }
        Some(remains)
    }

    /// Checks whether the server reads at all. One that does not is not used again.
    async fn look_at_server(&self, asked: &PendingRequest, told: CancelReport) -> CancelReport {
        let connection = asked.connection();
        let told = match told {
            CancelReport::Unconfirmed if connection.dialect.is_modern_http() => CancelReport::Confirmed,
            CancelReport::Unconfirmed if matches!(timeout(HEARING, is_alive(connection)).await, Ok(Ok(()))) => {
                CancelReport::Confirmed
            }
            told => told,
        };
        if told != CancelReport::Confirmed {
            self.session.lose(connection);
        }
        told
    }

    /// The report on a call whose end was not seen.
    fn name_as_leaked(&self, asked: &PendingRequest, told: CancelReport) -> Remains {
        let dialect = asked.connection().dialect;
        if dialect.over == TransportKind::Program {
            let request = match &asked.kind {
                RequestKind::Request(id) => Some(id),
                RequestKind::Task(_) => None,
            };
            asked.slot.is_unproven(request);
        }
        if self.cord.is_pulled() {
            let words = format!("{}; it may still be running", self.told_words(asked, told));
            return Remains::new().unended(words);
        }
        // The call failed by itself, and leaves this behind.
        let words = match &asked.kind {
            RequestKind::Request(_) => {
                format!("the MCP server `{}` was lost; it may still be running", self.session.server.name)
            }
            RequestKind::Task(_) => format!("{}; it may still be running", self.told_words(asked, told)),
        };
        Remains::new().leaked(vec![words])
    }

    /// How the server was told, in words for the receipt.
    fn told_words(&self, asked: &PendingRequest, told: CancelReport) -> String {
        let server = &self.session.server.name;
        let (what, is_closed) = match &asked.kind {
            RequestKind::Request(_) => ("it".to_owned(), asked.connection().dialect.is_modern_http()),
            RequestKind::Task(id) => (format!("its task `{id}`"), false),
        };
        match told {
            CancelReport::NotSent => format!("the MCP server `{server}` could not be told to stop {what}"),
            CancelReport::Unconfirmed | CancelReport::Confirmed if is_closed => {
                format!("the MCP server `{server}` was told to stop {what} by closing its stream")
            }
            CancelReport::Unconfirmed => {
                format!("the MCP server `{server}` was told to stop {what} and did not confirm it")
            }
            CancelReport::Confirmed => format!("the MCP server `{server}` was told to stop {what} ({})", self.words()),
        }
    }
}

/// What remains after an answer at the last moment: its output. `None` for a task, which goes on, and for an error, after which
/// the work may go on.
fn answered(answer: super::wire::Answer) -> Option<Remains> {
    let output = match answer {
        Ok(ServerResult::CreateTaskResult(_)) | Err(_) => return None,
        Ok(answer) => content::returned(answer).map(|output| output.0).unwrap_or_default(),
    };
    Some(Remains::new().output(output))
}

/// Tells the server that a request is cancelled. Over HTTP with the newer protocol, rmcp closes the response stream instead.
async fn tell(connection: &Connection, id: RequestId, reason: String) -> Result<(), ServiceError> {
    let cancelled = CancelledNotification::new(CancelledNotificationParam::new(Some(id), Some(reason)));
    connection.peer.send_notification(cancelled.into()).await
}

/// Tells the server, and waits until it has read that.
async fn tell_and_be_heard(connection: &Connection, id: RequestId, reason: String) -> Result<(), ServiceError> {
    tell(connection, id, reason).await?;
    if connection.dialect.is_modern_http() { Ok(()) } else { is_alive(connection).await }
}

/// Sends a small request. Any answer will do, even a refusal.
async fn is_alive(connection: &Connection) -> Result<(), ServiceError> {
    let question = if connection.dialect.modern {
        ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {}))
    } else {
        ClientRequest::PingRequest(PingRequest { method: Default::default(), extensions: Default::default() })
    };
    match connection.peer.send_request(question).await {
        Ok(_) | Err(ServiceError::McpError(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Asks the server to cancel a task. The answer only confirms that the server has read it, not that the task has ended.
pub(super) async fn cancel_task(connection: &Connection, id: String) -> Result<(), ServiceError> {
    let request = ClientRequest::CancelTaskRequest(CancelTaskRequest::new(CancelTaskParams::new(id)));
    match connection.peer.send_request(request).await {
        Ok(_) | Err(ServiceError::McpError(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
