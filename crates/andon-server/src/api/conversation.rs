//! `GET /v1/runs/{run_id}/conversation`: a conversation as its model is going to see it.
//!
//! # Invariants
//!
//! 1. It ends with the run: what later runs said is not in it.
//! 2. What is shown as stored is stored. What the next request will carry and nobody knows yet is a stand-in, in the request
//!    alone, and is told as one. So is what runs say that come before this one and have not settled.
//! 3. A few are made at one time, each of a bounded size, and its place is taken until it has been sent: whoever asks
//!    for many, or reads slowly, costs no more than that.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use andon_runtime::core::message::ResultStatus;
use andon_runtime::core::progress::{CallState, Progress};
use andon_runtime::{Agent, CallId, Earlier, Event, Message, Part, Rendering, Request, Role, Run, RunId, ToolResult};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use utoipa::ToSchema;

use super::forms::IdForm;
use super::runs;
use crate::access::principal::Principal;
use crate::admission::apps::App;
use crate::core::Shared;
use crate::http::path::Path;
use crate::http::problem::{Problem, ProblemForm};

/// How many bytes of messages are shown, about: more than models take. What is older is left out.
const MOST: usize = 4 << 20;

/// How many bytes of messages are told as they are stored, beside the request that has them all.
const TWICE: usize = 1 << 20;

/// How many bytes of an answer are handed out at one time.
const PIECE: usize = 64 << 10;

const NEXT_PROMPT: &str = "<the next prompt>";
const NO_RESULT: &str = "<no result yet>";
const NOT_SETTLED: &str = "<what a run before this one says until it settles>";

/// A conversation up to a run and with it, as the next request to the model would carry it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Conversation {
    /// The model that would be asked. If the app is not served any more: the one that was asked last, if one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The form of the request: `anthropic`, `openai_chat`, `openai_responses`, `gemini`, `ollama`, `bedrock`, or `andon` for
    /// a model that has none of its own and where the app is not served any more.
    #[schema(value_type = String)]
    form: Cow<'static, str>,
    /// The body that would be sent.
    #[schema(value_type = Object)]
    request: Value,
    /// The messages as they are stored: those of the run, and of runs before it that have not settled, as far as they are
    /// durable.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Arc<Message>>,
    /// How many messages are left out before these because there is much of them; `request` has them.
    #[serde(skip_serializing_if = "is_none")]
    #[schema(required = false)]
    messages_left_out: usize,
    /// What the next request will carry and nobody knows yet. Its text stands in for it in `request`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    open: Vec<Open>,
    /// The conversation is too long to be shown: its beginning is left out.
    truncated: bool,
}

/// Something that the next request will carry and nobody knows yet.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
#[schema(as = OpenInConversation)]
enum Open {
    /// What the user says next.
    Prompt {
        /// What stands in for it.
        text: &'static str,
    },
    /// What a tool says.
    Result {
        /// The call.
        #[schema(value_type = String)]
        call: CallId,
        /// What stands in for it.
        text: &'static str,
    },
    /// What a run that comes before this one and has not settled says yet, or may say.
    Run {
        /// The run.
        #[schema(value_type = String)]
        run: RunId,
        /// What stands in for it.
        text: &'static str,
    },
}

fn is_none(number: &usize) -> bool {
    *number == 0
}

/// The conversation up to a run and with it, as the next request to the model would carry it: the app's instructions and tools
/// as they are now, cut answers with the note that tells the model of the cut. Nothing is sent, and no key is in it.
#[utoipa::path(
    get, path = "/v1/runs/{run_id}/conversation", tag = "runs",
    params(("run_id" = inline(IdForm), Path, description = "The run")),
    responses(
        (status = 200, body = Conversation),
        (status = "4XX", body = ProblemForm, content_type = "application/problem+json"),
        (status = 503, description = "Not now", body = ProblemForm, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn conversation(
    State(core): State<Shared>,
    principal: Principal,
    Path(run): Path<String>,
) -> Result<Response, Problem> {
    let too_many = |_| Problem::too_many("too-many-requests", "too many conversations are being shown: try again soon");
    let place = Arc::clone(&core.showing).try_acquire_owned().map_err(too_many)?;
    let run = runs::find(&core, &principal, &run).await?;
    let earlier = core.runtime.said_before(run.id(), MOST).await?.ok_or_else(runs::unknown)?;
    let mut unsettled = Vec::new();
    for id in &earlier.unsettled {
        // One that was deleted meanwhile says nothing.
        unsettled.extend(core.runtime.find(id).await?);
    }
    let agent = match core.apps.get(&run.session().app) {
        Some(App::Served { agent, .. }) => Some(agent),
        Some(App::Refused { .. }) | None => None,
    };
    // Folding, rendering and writing much text takes its time: not where others are served.
    let written = tokio::task::spawn_blocking(move || {
        let progress = run.progress().ok_or_else(runs::unknown)?;
        let said = Said::new(earlier, &unsettled, &run, &progress);
        let text = serde_json::to_vec(&said.show(agent.as_ref(), &run)).map_err(|_| defect())?;
        Ok(handed_out(text, place))
    });
    written.await.map_err(|_| defect())?
}

fn defect() -> Problem {
    Problem::unavailable("defect", "the conversation cannot be rendered: please report it")
}

/// An answer, with the place that it takes.
struct Held {
    text: Vec<u8>,
    _place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// The answer, piece by piece: the last piece gives the place back (invariant 3).
fn handed_out(mut text: Vec<u8>, place: OwnedSemaphorePermit) -> Response {
    text.push(b'\n');
    let length = HeaderValue::from(text.len());
    let mut rest = Bytes::from_owner(Held { text, _place: place });
    let pieces = std::iter::from_fn(move || {
        let piece = rest.split_to(rest.len().min(PIECE));
        (!piece.is_empty()).then_some(Ok::<_, Infallible>(piece))
    });
    let head = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json")), (header::CONTENT_LENGTH, length)];
    (head, Body::from_stream(futures_util::stream::iter(pieces))).into_response()
}

/// What is known of a conversation.
struct Said {
    /// As it is stored.
    messages: Vec<Arc<Message>>,
    /// As the next request carries it.
    history: Vec<Arc<Message>>,
    open: Vec<Open>,
    truncated: bool,
}

impl Said {
    fn new(earlier: Earlier, unsettled: &[Run], run: &Run, progress: &Progress) -> Self {
        let Earlier { messages, truncated, .. } = earlier;
        let mut said = Self { history: messages.clone(), messages, open: Vec::new(), truncated };
        for before in unsettled {
            if let Some(progress) = before.progress() {
                said.before(before, &progress);
            }
        }
        said.own(run, progress);
        said
    }

    /// A run that comes before the one that is shown, and had not settled when that was looked for.
    fn before(&mut self, run: &Run, progress: &Progress) {
        self.store(progress.messages());
        if is_over(run, progress) {
            return;
        }
        let (more, open) = match progress.messages().last() {
            Some(last) if last.role == Role::Assistant && !progress.calls().is_empty() => results(progress),
            Some(_) => (None, Vec::new()),
            None => (Some(Arc::clone(&progress.accepted().input)), Vec::new()),
        };
        let rest = Message { role: Role::Assistant, parts: vec![Part::text(NOT_SETTLED)], cut: None };
        self.history.extend(more.into_iter().chain([Arc::new(rest)]));
        self.open.extend(open);
        self.open.push(Open::Run { run: run.id().clone(), text: NOT_SETTLED });
    }

    /// The run that is shown.
    fn own(&mut self, run: &Run, progress: &Progress) {
        let (kept, is_cut) = shortened(progress.messages());
        self.truncated |= is_cut;
        self.store(&kept);
        let (more, open) = next(progress, is_over(run, progress));
        self.history.extend(more);
        self.open.extend(open);
    }

    fn store(&mut self, messages: &[Arc<Message>]) {
        self.messages.extend_from_slice(messages);
        self.history.extend_from_slice(messages);
    }

    fn show(self, agent: Option<&Agent>, run: &Run) -> Conversation {
        let Self { mut messages, history, open, truncated } = self;
        let (model, Rendering { form, body }) = match agent {
            Some(agent) => (Some(agent.model_name().to_owned()), agent.rendering(run.id(), history)),
            None => (last_model(run), Rendering::plain(&bare(run, history))),
        };
        let messages_left_out = messages.len() - fitting(&messages, TWICE);
        messages.drain(..messages_left_out);
        Conversation { model, form, request: body, messages, messages_left_out, open, truncated }
    }
}

fn is_over(run: &Run, progress: &Progress) -> bool {
    run.try_outcome().is_some() || progress.ending().is_some()
}

/// Of a run that is too long to be shown: its prompt and its last turns, at least one.
fn shortened(messages: &[Arc<Message>]) -> (Cow<'_, [Arc<Message>]>, bool) {
    let fits = fitting(messages, MOST);
    if fits == messages.len() {
        return (messages.into(), false);
    }
    let is_answer = |place: &usize| messages.get(*place).is_some_and(|message| message.role == Role::Assistant);
    let last = || (1..messages.len()).rev().find(is_answer);
    let from = (messages.len() - fits..messages.len()).find(is_answer).or_else(last).unwrap_or(messages.len());
    let kept = messages.iter().take(1).chain(messages.iter().skip(from.max(1)));
    (kept.cloned().collect::<Vec<_>>().into(), true)
}

/// How many of the last messages take no more than so many bytes.
fn fitting(messages: &[Arc<Message>], most: usize) -> usize {
    let mut room = most;
    let fits = |message: &&Arc<Message>| {
        // What cannot be written down takes no room.
        let size = serde_json::to_vec(message).map_or(0, |text| text.len());
        room.checked_sub(size).inspect(|left| room = *left).is_some()
    };
    messages.iter().rev().take_while(fits).count()
}

/// What the next request carries behind the stored messages, and what of that is a stand-in (invariant 2).
fn next(progress: &Progress, is_over: bool) -> (Option<Arc<Message>>, Vec<Open>) {
    let prompt = || (Some(Arc::new(Message::user(NEXT_PROMPT))), vec![Open::Prompt { text: NEXT_PROMPT }]);
    if is_over {
        return prompt();
    }
    let ends_with = progress.messages().last().map(|message| message.role);
    match ends_with {
        // It waits for its turn; its prompt is known and not yet in the conversation.
        None => (Some(Arc::clone(&progress.accepted().input)), Vec::new()),
        Some(Role::User | Role::Tool) => (None, Vec::new()),
        Some(Role::Assistant) if progress.calls().is_empty() => prompt(),
        Some(Role::Assistant) => results(progress),
    }
}

/// The results of a turn that is not over, with stand-ins for those that are not there yet.
fn results(progress: &Progress) -> (Option<Arc<Message>>, Vec<Open>) {
    let mut open = Vec::new();
    let parts = progress.calls().iter().map(|call| match &call.state {
        CallState::Closed(result) => Part::ToolResult((**result).clone()),
        CallState::Ready | CallState::AwaitingApproval | CallState::Denied(_) | CallState::Running(_) => {
            let id = call.call.id.clone();
            open.push(Open::Result { call: id.clone(), text: NO_RESULT });
            Part::ToolResult(ToolResult::text(id, ResultStatus::Ok, NO_RESULT))
        }
    });
    let message = Message { role: Role::Tool, parts: parts.collect(), cut: None };
    (Some(Arc::new(message)), open)
}

/// A request of an app that is not served any more: nobody knows what it was told.
fn bare(run: &Run, history: Vec<Arc<Message>>) -> Request {
    let tools = Arc::from([]);
    Request { run: run.id().clone(), number: 1, instructions: None, history: history.into(), tools, anchor: None }
}

fn last_model(run: &Run) -> Option<String> {
    run.records().iter().rev().find_map(|record| match &record.event {
        Event::ModelStarted { model, .. } => Some(model.to_string()),
        _ => None,
    })
}
