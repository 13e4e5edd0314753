//! Watches the messages of a connection for progress, late answers and floods.
//!
//! [`Tap`] sits between rmcp and a transport, for five things that rmcp does not do:
//!
//! 1. Progress reaches its call in the order in which it came. rmcp starts a task for each notification.
//! 2. An answer to a cancelled request goes to the call that cancelled it, and to nobody else. rmcp forgets the request once
//!    the cancel is sent.
//! 3. Progress that no call asked for is dropped, and the connection to a server that sends nothing else is closed.
//! 4. The server's own requests are answered here: a ping with an empty result, everything else with a refusal. rmcp keeps a
//!    task for each until its answer is sent, however many there are. If a server asks faster than it reads the answers, the
//!    connection is closed.
//! 5. A slow answer to the first question is dropped. rmcp asks for the newer protocol first and, after ten seconds without an
//!    answer, for the older one; a program that takes longer to start answers both, and rmcp takes the first answer for a breach
//!    of the protocol.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use andon_runtime::Progress;
use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ClientResult, ErrorCode, ErrorData, GetMeta as _, ProgressNotificationParam,
    ProgressToken, RequestId, ServerJsonRpcMessage, ServerNotification, ServerRequest, ServerResult,
};
use rmcp::transport::Transport;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::in_progress::InProgress;

/// How many progress notifications in a row that nobody asked for end the connection.
const STRAYS: u32 = 10_000;
/// How many requests of a server whose answers it has not read end the connection.
const UNANSWERED: usize = 1_000;
/// A request with a longer id is not answered, so that the waiting answers are bounded in size, too.
const LONGEST_ID: usize = 256;
/// After this many messages in a row that are not for rmcp, its loop gets a turn, so that a cancel can go out.
const IN_A_ROW: u32 = 32;

/// What a server answered to one request.
pub(super) type Answer = Result<ServerResult, ErrorData>;

/// Where the progress of one call is shown. It travels with the request as an extension, so that its token is known before the
/// request is sent.
pub(super) struct ProgressSink(pub(super) Progress);

/// A [`ProgressSink`] as it travels: it dies with its call.
#[derive(Clone)]
pub(super) struct ProgressSinkRef(pub(super) Weak<ProgressSink>);

/// What is known about one connection's wire.
#[derive(Default)]
pub(super) struct Wire {
    state: Mutex<WireState>,
    /// The calls that are made over it.
    pub(super) in_progress: InProgress,
    /// Set when the server says that its tools have changed. Like the list of tools, it outlives this connection.
    tools_changed: Arc<AtomicBool>,
    /// Cancelled when nothing more will come.
    pub(super) closed: CancellationToken,
}

#[derive(Default)]
struct WireState {
    steps: HashMap<ProgressToken, Weak<ProgressSink>>,
    late: HashMap<RequestId, oneshot::Sender<Answer>>,
    probe: Probe,
    strays: u32,
    trouble: Option<String>,
    said: Vec<u8>,
}

/// The question whether a server speaks the newer protocol.
#[derive(Default, PartialEq, Eq)]
enum Probe {
    #[default]
    NotSent,
    Sent(RequestId),
    /// The older protocol is used instead, whatever the answer.
    GivenUp(RequestId),
}

impl Probe {
    /// Follows what is sent.
    fn follow(&mut self, request: &ClientRequest, id: &RequestId) {
        *self = match (std::mem::take(self), request) {
            (_, ClientRequest::DiscoverRequest(_)) => Self::Sent(id.clone()),
            (Self::Sent(probe), ClientRequest::InitializeRequest(_)) => Self::GivenUp(probe),
            (unchanged, _) => unchanged,
        };
    }
}

impl Wire {
    pub(super) fn new(tools_changed: Arc<AtomicBool>) -> Self {
        Self { tools_changed, ..Self::default() }
    }

    /// Notes what is wrong. The latest note wins, because it is what a reader wants to know.
    pub(super) fn note(&self, trouble: impl Into<String>) {
        self.state.lock().trouble = Some(trouble.into());
    }

    /// What is wrong, if anything.
    pub(super) fn trouble(&self) -> Option<String> {
        self.state.lock().trouble.clone()
    }

    /// Takes a piece of a program's standard error, and keeps the end of it all.
    pub(super) fn heard(&self, said: &[u8], keep: usize) {
        let mut state = self.state.lock();
        state.said.extend_from_slice(said);
        let over = state.said.len().saturating_sub(keep);
        state.said.drain(..over);
    }

    /// Notes how a program ended, with the last line of its standard error, after what was wrong before.
    pub(super) fn note_end(&self, how: &str) {
        let mut state = self.state.lock();
        let said = String::from_utf8_lossy(&state.said).into_owned();
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        let words = last.map_or_else(|| how.to_owned(), |line| format!("{how}, and its last output was `{line}`"));
        state.trouble = Some(match state.trouble.take() {
            Some(before) => format!("{before}; {words}"),
            None => words,
        });
    }

    /// Claims the answer to this request for whoever cancels it, until the handle is dropped.
    pub(super) fn late_answer(self: &Arc<Self>, id: &RequestId) -> LateAnswer {
        let (sender, receiver) = oneshot::channel();
        self.state.lock().late.insert(id.clone(), sender);
        LateAnswer { wire: Arc::clone(self), id: id.clone(), receiver }
    }

    fn sent(&self, message: &ClientJsonRpcMessage) {
        let ClientJsonRpcMessage::Request(request) = message else { return };
        self.state.lock().probe.follow(&request.request, &request.id);
        let ClientRequest::CallToolRequest(call) = &request.request else { return };
        let steps = call.extensions.get::<ProgressSinkRef>();
        if let (Some(steps), Some(token)) = (steps, request.request.get_meta().get_progress_token()) {
            let mut state = self.state.lock();
            state.steps.retain(|_, steps| steps.strong_count() > 0);
            state.steps.insert(token, steps.0.clone());
        }
    }

    /// Takes messages that are for us. The others are for rmcp.
    fn received(&self, message: ServerJsonRpcMessage) -> Incoming {
        match message {
            ServerJsonRpcMessage::Response(response) if self.has_given_up(&response.id) => Incoming::Taken,
            ServerJsonRpcMessage::Error(error) if error.id.as_ref().is_some_and(|id| self.has_given_up(id)) => {
                Incoming::Taken
            }
            ServerJsonRpcMessage::Notification(note) => match note.notification {
                ServerNotification::ProgressNotification(progress) => self.progressed(&progress.params),
                ServerNotification::ToolListChangedNotification(_) => {
                    self.tools_changed.store(true, Ordering::Relaxed);
                    for_rmcp(ServerJsonRpcMessage::Notification(note))
                }
                _ => for_rmcp(ServerJsonRpcMessage::Notification(note)),
            },
            ServerJsonRpcMessage::Response(response) => match self.wanted(&response.id, AnswerKind::Result) {
                Some(late) => give(late, Ok(response.result)),
                None => for_rmcp(ServerJsonRpcMessage::Response(response)),
            },
            ServerJsonRpcMessage::Error(error) => {
                match error.id.as_ref().and_then(|id| self.wanted(id, AnswerKind::Error)) {
                    Some(late) => give(late, Err(error.error)),
                    None => for_rmcp(ServerJsonRpcMessage::Error(error)),
                }
            }
            ServerJsonRpcMessage::Request(request) => match request.id {
                RequestId::String(id) if id.len() > LONGEST_ID => Incoming::Taken,
                id => Incoming::Asked(Box::new(reply(&request.request, id))),
            },
        }
    }

    fn has_given_up(&self, id: &RequestId) -> bool {
        matches!(&self.state.lock().probe, Probe::GivenUp(probe) if probe == id)
    }

    fn wanted(&self, id: &RequestId, kind: AnswerKind) -> Option<oneshot::Sender<Answer>> {
        let mut state = self.state.lock();
        state.strays = 0;
        if kind == AnswerKind::Result {
            state.trouble = None;
        }
        // Some servers send a number back as text.
        let number = match id {
            RequestId::String(text) => text.parse().ok().map(RequestId::Number),
            RequestId::Number(_) => None,
        };
        [Some(id), number.as_ref()].into_iter().flatten().find_map(|id| {
            // An error proves nothing: many servers send one as soon as they get the cancel.
            if kind == AnswerKind::Result {
                self.in_progress.answered(id);
            }
            state.late.remove(id)
        })
    }

    fn progressed(&self, params: &ProgressNotificationParam) -> Incoming {
        let steps = {
            let mut state = self.state.lock();
            let steps = state.steps.get(&params.progress_token).and_then(Weak::upgrade);
            match &steps {
                Some(_) => state.strays = 0,
                None => {
                    state.steps.remove(&params.progress_token);
                    state.strays += 1;
                }
            }
            if state.strays > STRAYS {
                state.trouble = Some("it sent too many progress messages for calls that had ended".to_owned());
                return Incoming::Flood;
            }
            steps
        };
        if let Some(steps) = steps {
            steps.0.step(params.progress, params.total, params.message.as_deref());
        }
        Incoming::Taken
    }
}

/// The answer to a server's request. It should not ask for anything, because nothing was advertised.
fn reply(request: &ServerRequest, id: RequestId) -> ClientJsonRpcMessage {
    match request {
        ServerRequest::PingRequest(_) => ClientJsonRpcMessage::response(ClientResult::empty(()), id),
        _ => {
            let refusal = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "this client does not support that", None);
            ClientJsonRpcMessage::error(refusal, Some(id))
        }
    }
}

fn for_rmcp(message: ServerJsonRpcMessage) -> Incoming {
    Incoming::ForRmcp(Box::new(message))
}

fn give(late: oneshot::Sender<Answer>, answer: Answer) -> Incoming {
    // The call may just have stopped waiting; then the answer is too late.
    let _ = late.send(answer);
    Incoming::Taken
}

/// Whether an answer shows that whatever was wrong is over.
#[derive(PartialEq, Eq)]
enum AnswerKind {
    Result,
    Error,
}

enum Incoming {
    ForRmcp(Box<ServerJsonRpcMessage>),
    Taken,
    /// The server has asked for something; this is the reply.
    Asked(Box<ClientJsonRpcMessage>),
    Flood,
}

/// Waits for the answer to a cancelled request.
pub(super) struct LateAnswer {
    wire: Arc<Wire>,
    id: RequestId,
    receiver: oneshot::Receiver<Answer>,
}

impl LateAnswer {
    /// The answer. Pending forever if none can come.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub(super) async fn come(&mut self) -> Answer {
        match (&mut self.receiver).await {
            Ok(answer) => answer,
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for LateAnswer {
    fn drop(&mut self) {
        self.wire.state.lock().late.remove(&self.id);
    }
}

/// A transport whose messages a [`Wire`] watches.
pub(super) struct Tap<T> {
    transport: T,
    wire: Arc<Wire>,
    in_a_row: u32,
    /// Replies to the server's own requests that are being sent. They end with the connection.
    replies: JoinSet<()>,
}

impl<T> Tap<T> {
    pub(super) fn new(transport: T, wire: Arc<Wire>) -> Self {
        Self { transport, wire, in_a_row: 0, replies: JoinSet::new() }
    }
}

impl<T: Transport<RoleClient>> Tap<T> {
    /// Sends a reply. Returns false if too many are still being sent.
    fn reply(&mut self, reply: ClientJsonRpcMessage) -> bool {
        while self.replies.try_join_next().is_some() {}
        if self.replies.len() >= UNANSWERED {
            self.wire.note("it sent endless requests and did not read the answers");
            return false;
        }
        let sending = self.transport.send(reply);
        self.replies.spawn(async move {
            // It fails only if the server is gone, which is noticed elsewhere.
            let _ = sending.await;
        });
        true
    }
}

impl<T> Drop for Tap<T> {
    fn drop(&mut self) {
        self.wire.closed.cancel();
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tap<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.wire.sent(&message);
        self.transport.send(message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if self.in_a_row >= IN_A_ROW {
                self.in_a_row = 0;
                tokio::task::yield_now().await;
            }
            let Some(message) = self.transport.receive().await else { break };
            match self.wire.received(message) {
                Incoming::ForRmcp(message) => {
                    self.in_a_row = 0;
                    return Some(*message);
                }
                Incoming::Taken => self.in_a_row += 1,
                Incoming::Asked(reply) => {
                    self.in_a_row += 1;
                    if !self.reply(*reply) {
                        break;
                    }
                }
                Incoming::Flood => break,
            }
        }
        self.replies.abort_all();
        self.wire.closed.cancel();
        None
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.transport.close()
    }
}
