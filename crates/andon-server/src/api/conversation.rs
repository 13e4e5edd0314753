//! `GET /v1/runs/{run_id}/conversation`: a conversation as the model would see it next.
//!
//! # Invariants
//!
//! 1. It ends with the run: messages of later runs are not in it.
//! 2. What is shown as stored is stored. What the next request will contain but nobody knows yet is represented by a
//!    placeholder, in the request only, and marked as such. The same goes for what earlier runs that have not settled
//!    are yet to say.
//! 3. Only a few are made at once, each of limited size, and each keeps its slot until it has been sent. So clients
//!    that ask for many, or read slowly, cost no more than that.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use andon_runtime::core::message::ResultStatus;
use andon_runtime::core::progress::{CallState, RunProgress};
use andon_runtime::{
    Agent, CallId, Event, HistoryBefore, Message, ModelRequest, Part, Rendering, Role, Run, RunId, ToolResult,
};
use axum::body::Body;
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
use crate::http::answers::holding;
use crate::http::path::PathParams;
use crate::http::problem::{Problem, Refusals};

/// The approximate maximum size of the messages in bytes: more than models accept. Older messages are left out.
const MOST: usize = 4 << 20;

/// How many bytes of messages are also listed as stored, besides the request, which contains them all.
const TWICE: usize = 1 << 20;

/// The size of the chunks in which an answer is sent, in bytes.
const PIECE: usize = 64 << 10;

const NEXT_PROMPT: &str = "<the next prompt>";
const NO_RESULT: &str = "<no result yet>";
const NOT_SETTLED: &str = "<output of an earlier run, still in progress>";

/// A conversation up to and including a run, as the next request to the model would contain it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Conversation {
    /// The model that would be called. If the app is no longer served, the model that was called last, if there was
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The format of the request: `anthropic`, `openai_chat`, `openai_responses`, `gemini`, `ollama` or `bedrock`.
    /// `andon` for a model that has no format of its own, and if the app is no longer served.
    #[schema(value_type = String)]
    form: Cow<'static, str>,
    /// The request body that would be sent.
    #[schema(value_type = Object)]
    request: Value,
    /// The messages as stored. Those of this run, and of earlier runs that have not settled, are included as far as
    /// they are durable.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Arc<Message>>,
    /// How many earlier messages are missing from `messages` because it would be too long; `request` contains them.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    messages_left_out: usize,
    /// The parts of the next request that are not known yet. In `request`, the given text is their placeholder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    open: Vec<OpenPart>,
    /// Whether the beginning was left out because the conversation is too long to be shown.
    truncated: bool,
}

/// Something that the next request will contain but that is not known yet.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
#[schema(as = OpenInConversation)]
enum OpenPart {
    /// The user's next prompt.
    Prompt {
        /// The placeholder in `request`.
        text: &'static str,
    },
    /// The result of a tool call.
    Result {
        /// The id of the call.
        #[schema(value_type = String)]
        call: CallId,
        /// The placeholder in `request`.
        text: &'static str,
    },
    /// What an earlier run that has not settled may still say.
    Run {
        /// The id of the run.
        #[schema(value_type = String)]
        run: RunId,
        /// The placeholder in `request`.
        text: &'static str,
    },
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The conversation up to and including a run, as the next request to the model would contain it: with the app's
/// current instructions and tools, and with the notes that tell the model where an answer was cut. Nothing is sent, and
/// it contains no API key.
#[utoipa::path(
    get, path = "/v1/runs/{run_id}/conversation", tag = "runs",
    params(("run_id" = inline(IdForm), Path, description = "The id of the run")),
    responses(
        (status = 200, body = Conversation),
        Refusals,
    )
)]
pub(crate) async fn conversation(
    State(core): State<Shared>,
    principal: Principal,
    PathParams(run): PathParams<String>,
) -> Result<Response, Problem> {
    let too_many =
        |_| Problem::too_many("too-many-requests", "too many conversations are being shown: try again later");
    let place = Arc::clone(&core.showing).try_acquire_owned().map_err(too_many)?;
    let run = runs::find(&core, &principal, &run).await?;
    let earlier = core.runtime.history_before(run.id(), MOST).await?.ok_or_else(runs::unknown)?;
    let mut unsettled = Vec::new();
    for id in &earlier.unsettled {
        // A run that has just been deleted is skipped.
        unsettled.extend(core.runtime.find(id).await?);
    }
    let agent = match core.apps.get(&run.session().app) {
        Some(App::Served { agent, .. }) => Some(agent),
        Some(App::Refused { .. }) | None => None,
    };
    // Folding, rendering and serializing long texts takes time, so it must not block the async threads.
    let written = tokio::task::spawn_blocking(move || {
        let progress = run.progress().ok_or_else(runs::unknown)?;
        let said = Messages::new(earlier, &unsettled, &run, &progress);
        let text = serde_json::to_vec(&said.show(agent.as_ref(), &run)).map_err(|_| defect())?;
        Ok(in_chunks(text, place))
    });
    written.await.map_err(|_| defect())?
}

fn defect() -> Problem {
    Problem::unavailable("defect", "the conversation cannot be rendered: please report this")
}

/// Sends the answer in chunks. The slot is released with the last one (invariant 3).
fn in_chunks(mut text: Vec<u8>, place: OwnedSemaphorePermit) -> Response {
    text.push(b'\n');
    let length = HeaderValue::from(text.len());
    let mut rest = holding(text, place);
    let pieces = std::iter::from_fn(move || {
        let piece = rest.split_to(rest.len().min(PIECE));
        (!piece.is_empty()).then_some(Ok::<_, Infallible>(piece))
    });
    let head = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json")), (header::CONTENT_LENGTH, length)];
    (head, Body::from_stream(futures_util::stream::iter(pieces))).into_response()
}

/// The messages of a conversation.
struct Messages {
    /// As stored.
    messages: Vec<Arc<Message>>,
    /// As the next request contains them.
    history: Vec<Arc<Message>>,
    open: Vec<OpenPart>,
    truncated: bool,
}

impl Messages {
    fn new(earlier: HistoryBefore, unsettled: &[Run], run: &Run, progress: &RunProgress) -> Self {
        let HistoryBefore { messages, truncated, .. } = earlier;
        let mut said = Self { history: messages.clone(), messages, open: Vec::new(), truncated };
        for before in unsettled {
            if let Some(progress) = before.progress() {
                said.before(before, &progress);
            }
        }
        said.own(run, progress);
        said
    }

    /// Adds an earlier run that had not settled when it was looked up.
    fn before(&mut self, run: &Run, progress: &RunProgress) {
        self.store(progress.messages());
        if is_over(run, progress) {
            return;
        }
        let (more, open) = match progress.messages().last() {
            Some(last) if last.role == Role::Assistant && !progress.calls().is_empty() => results(progress),
            Some(_) => (None, Vec::new()),
            None => (Some(Arc::clone(&progress.accepted().input)), Vec::new()),
        };
        let rest = Message::new(Role::Assistant, vec![Part::text(NOT_SETTLED)]);
        self.bring(progress);
        self.history.extend(more.into_iter().chain([Arc::new(rest)]));
        self.open.extend(open);
        self.open.push(OpenPart::Run { run: run.id().clone(), text: NOT_SETTLED });
    }

    /// Adds the run that is shown.
    fn own(&mut self, run: &Run, progress: &RunProgress) {
        let (kept, is_cut) = shortened(progress.messages());
        self.truncated |= is_cut;
        self.store(&kept);
        let (more, open) = next(progress, is_over(run, progress));
        self.bring(progress);
        self.history.extend(more);
        self.open.extend(open);
    }

    /// Adds what the prompt of a run that has not started brings along.
    fn bring(&mut self, progress: &RunProgress) {
        if !progress.has_started() {
            self.history.extend(progress.accepted().history.iter().cloned());
        }
    }

    fn store(&mut self, messages: &[Arc<Message>]) {
        self.messages.extend_from_slice(messages);
        self.history.extend_from_slice(messages);
    }

    fn show(self, agent: Option<&Agent>, run: &Run) -> Conversation {
        let Self { mut messages, history, open, truncated } = self;
        let (model, Rendering { form, body, .. }) = match agent {
            Some(agent) => (Some(agent.model_name().to_owned()), agent.rendering(run.id(), history)),
            None => (last_model(run), Rendering::plain(&bare(run, history))),
        };
        let messages_left_out = messages.len() - fitting(&messages, TWICE);
        messages.drain(..messages_left_out);
        Conversation { model, form, request: body, messages, messages_left_out, open, truncated }
    }
}

fn is_over(run: &Run, progress: &RunProgress) -> bool {
    run.try_outcome().is_some() || progress.ending().is_some()
}

/// The prompt and the last turns, at least one, of a run that is too long to be shown.
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

/// How many of the last messages fit into this many bytes.
fn fitting(messages: &[Arc<Message>], most: usize) -> usize {
    let mut room = most;
    let fits = |message: &&Arc<Message>| {
        // A message that cannot be serialized takes no space.
        let size = serde_json::to_vec(message).map_or(0, |text| text.len());
        room.checked_sub(size).inspect(|left| room = *left).is_some()
    };
    messages.iter().rev().take_while(fits).count()
}

/// What the next request contains after the stored messages, and which parts of it are placeholders (invariant 2).
fn next(progress: &RunProgress, is_over: bool) -> (Option<Arc<Message>>, Vec<OpenPart>) {
    let prompt = || (Some(Arc::new(Message::user(NEXT_PROMPT))), vec![OpenPart::Prompt { text: NEXT_PROMPT }]);
    if is_over {
        return prompt();
    }
    let ends_with = progress.messages().last().map(|message| message.role);
    match ends_with {
        // The run is queued: its prompt is known, but not yet part of the conversation.
        None => (Some(Arc::clone(&progress.accepted().input)), Vec::new()),
        Some(Role::User | Role::Tool) => (None, Vec::new()),
        Some(Role::Assistant) if progress.calls().is_empty() => prompt(),
        Some(Role::Assistant) => results(progress),
    }
}

/// The results of an unfinished turn, with placeholders for those that are not there yet.
fn results(progress: &RunProgress) -> (Option<Arc<Message>>, Vec<OpenPart>) {
    let mut open = Vec::new();
    let parts = progress.calls().iter().map(|call| match &call.state {
        CallState::Closed(result) => Part::ToolResult((**result).clone()),
        // Whatever state it is in: it has no result yet.
        _ => {
            let id = call.call.id.clone();
            open.push(OpenPart::Result { call: id.clone(), text: NO_RESULT });
            Part::ToolResult(ToolResult::text(id, ResultStatus::Ok, NO_RESULT))
        }
    });
    let message = Message::new(Role::Tool, parts.collect());
    (Some(Arc::new(message)), open)
}

/// A request for an app that is no longer served, without the instructions and tools, which are not known.
fn bare(run: &Run, history: Vec<Arc<Message>>) -> ModelRequest {
    ModelRequest::new(run.id().clone(), 1, history)
}

fn last_model(run: &Run) -> Option<String> {
    run.records().iter().rev().find_map(|record| match &record.event {
        Event::ModelStarted { model, .. } => Some(model.to_string()),
        _ => None,
    })
}
