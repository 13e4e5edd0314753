//! `GET /v1/runs/{run_id}/conversation`: a conversation as its model is going to see it.
//!
//! # Invariants
//!
//! 1. It ends with the run: what later runs said is not in it.
//! 2. What is shown as stored is stored. What the next request will carry and nobody knows yet is a stand-in, in the request
//!    alone, and is told as one.

use std::borrow::Cow;
use std::sync::Arc;

use andon::core::message::ResultStatus;
use andon::core::progress::{CallState, Progress};
use andon::{Agent, CallId, Event, Message, Part, Rendering, Request, Role, Run, ToolResult};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::forms::IdForm;
use super::runs;
use crate::Shared;
use crate::apps::App;
use crate::json::Json;
use crate::path::Path;
use crate::principal::Principal;
use crate::problem::{Problem, ProblemForm};

/// How many bytes of what was said before a run are read, about. What is older is left out.
const MOST: usize = 8 << 20;

const NEXT_PROMPT: &str = "<the next prompt>";
const NO_RESULT: &str = "<no result yet>";

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
    /// The messages as they are stored, the run's own as far as they are durable.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Arc<Message>>,
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
    let run = runs::find(&core, &principal, &run).await?;
    let earlier = core.runtime.said_before(run.id(), MOST).await?.ok_or_else(runs::unknown)?;
    let agent = match core.apps.get(&run.session().app) {
        Some(App::Served { agent, .. }) => Some(agent),
        Some(App::Refused { .. }) | None => None,
    };
    // Folding, rendering and writing much text takes its time: not where others are served.
    let written = tokio::task::spawn_blocking(move || {
        let progress = run.progress().ok_or_else(runs::unknown)?;
        let messages = [earlier.messages, progress.messages().to_vec()].concat();
        let shown = show(agent.as_ref(), &run, &progress, messages);
        Ok(Json(Conversation { truncated: earlier.truncated, ..shown }).into_response())
    });
    let failed = |_| Problem::unavailable("defect", "the conversation cannot be rendered: please report it");
    written.await.map_err(failed)?
}

fn show(agent: Option<&Agent>, run: &Run, progress: &Progress, messages: Vec<Arc<Message>>) -> Conversation {
    let is_over = run.try_outcome().is_some() || progress.ending().is_some();
    let (more, open) = next(progress, is_over);
    let history = messages.iter().cloned().chain(more).collect();
    let (model, Rendering { form, body }) = match agent {
        Some(agent) => (Some(agent.model_name().to_owned()), agent.rendering(run.id(), history)),
        None => (last_model(run), Rendering::plain(&bare(run, history))),
    };
    Conversation { model, form, request: body, messages, open, truncated: false }
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
    Request { run: run.id().clone(), number: 1, instructions: None, history, tools, anchor: None }
}

fn last_model(run: &Run) -> Option<String> {
    run.records().iter().rev().find_map(|record| match &record.event {
        Event::ModelStarted { model, .. } => Some(model.to_string()),
        _ => None,
    })
}
