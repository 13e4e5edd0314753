//! `POST /v1/runs`: starts a run.

use std::sync::Arc;
use std::time::Duration;

use crate::http::json::JsonBody;
use andon_runtime::core::message::Image;
use andon_runtime::{
    Digest, Event, JournalError, Limits, Message, Part, Role, Run, RunId, Session, SessionKey, StartError, StateMap,
    WhenBusy,
};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::SemaphorePermit;
use utoipa::ToSchema;
use uuid::Uuid;

use super::aim::no_such_app;
use super::events::{self, RunEventForm, WantedFeed};
use super::forms::{IdForm, RunView};
use crate::access::principal::{Principal, user_of};
use crate::access::scopes::Scope;
use crate::admission::Applicant;
use crate::admission::apps::{App, refused_app};
use crate::core::Shared;
use crate::feed::presence::OnDisconnect;
use crate::http::body::Body;
use crate::http::problem::{Problem, ProblemForm};
use crate::http::requests;

/// What to run.
// If the client has chosen the run's id, the digest of this request is recorded with the run. A field that is added
// here must therefore be left out of the serialized form when the client does not set it.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateRun {
    /// The app. `GET /v1/apps` lists them.
    #[schema(value_type = IdForm)]
    app: String,
    /// The user whose run it is. By default, the user of the key or token, or `local` if the server needs no key.
    #[schema(value_type = Option<IdForm>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The session, which is created if it does not exist. By default, the run gets a new session of its own.
    #[schema(value_type = Option<IdForm>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The id of the run, so that the request can safely be repeated, and cancelled before it arrives. If the server
    /// needs keys, your ids do not clash with other people's: the answer contains the full id, and you can use either
    /// one.
    #[schema(value_type = Option<IdForm>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    /// The prompt.
    input: Input,
    /// What to do if a run is already in progress in this session. `reject` by default.
    #[serde(default)]
    #[schema(value_type = WhenBusyForm)]
    when_busy: WhenBusy,
    /// What to do when the last reader of the run's feed disconnects. `continue` by default.
    #[serde(default)]
    on_disconnect: OnDisconnect,
    /// Limits for this run. The agent's own limits still apply: the tighter one counts.
    #[serde(default)]
    limits: LimitsForm,
}

/// The prompt: text, or a list of parts.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(untagged, expecting = "must be text, or a list of parts such as {\"type\": \"text\", \"text\": \"…\"}")]
enum Input {
    Text(String),
    Parts(Vec<InputPart>),
}

#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "type", deny_unknown_fields)]
enum InputPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image, by reference. An image with a `data:` URL is stored with its bytes.
    Image {
        /// The media type, such as `image/png`, `image/jpeg`, `image/gif` or `image/webp`. It must match that of a
        /// `data:` URL.
        media_type: String,
        /// The `https:` or `data:` URL of the image.
        reference: String,
    },
}

// How the runtime's own type is described.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes the runtime's own type, which is what is read and written")]
enum WhenBusyForm {
    /// Refuse the new run with 409.
    Reject,
    /// Start the new run when the other runs are over.
    Queue,
    /// Cancel the run in progress and the queued ones, then start. This requires the scope `run:cancel`.
    Supersede,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct LimitsForm {
    /// The maximum duration of the run, in milliseconds.
    #[schema(minimum = 1, format = "uint64")]
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<u64>,
    /// How long the model may send nothing, in milliseconds.
    #[schema(minimum = 1, format = "uint64")]
    #[serde(skip_serializing_if = "Option::is_none")]
    silence_ms: Option<u64>,
    /// The maximum number of turns.
    #[schema(minimum = 1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<u32>,
    /// The maximum number of input and output tokens.
    #[schema(minimum = 1, format = "uint64")]
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
}

/// Start a run.
///
/// With `Accept: text/event-stream`, the answer is the run's feed.
#[utoipa::path(
    post, path = "/v1/runs", tag = "runs", request_body = CreateRun,
    responses(
        (status = 201, description = "The run was created and is on record", body = RunView),
        (status = 200, description = "The run that an earlier copy of this request started, or the feed",
         content((RunView = "application/json"), (RunEventForm = "text/event-stream"))),
        (status = 204, description = "An earlier copy of this request started the run, and you already have its last event"),
        (status = "4XX", description = "The request was refused", body = ProblemForm, content_type = "application/problem+json"),
        (status = 503, description = "Temporarily unavailable", body = ProblemForm, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn create(
    State(core): State<Shared>,
    principal: Principal,
    headers: HeaderMap,
    Body(request): Body<CreateRun>,
) -> Result<Response, Problem> {
    if request.when_busy == WhenBusy::Supersede {
        // This cancels other runs.
        principal.needs(Scope::RunCancel)?;
    }
    let _permit = may_create(&core)?;
    let named = Named::of(&principal, &request)?;
    let wanted = |session: &SessionKey| match events::wants_feed(&headers) {
        true => WantedFeed::new(&core, &principal, user_of(session), events::place(&headers, None)?).map(Some),
        false => Ok(None),
    };
    // This comes first, so that a repeated request finds its run even if the app has changed or is gone.
    if let Some(named) = &named
        && let Some(run) = named.find(&core, &principal).await?
    {
        let wanted = wanted(run.session())?;
        return answer(&core, &principal, &run, StatusCode::OK, wanted);
    }
    let order = RunOrder::of(&core, &principal, request, named.as_ref())?;
    // If no feed can be opened, no run is started.
    let mut wanted = wanted(order.session.key())?;
    let (run, status) = start(&core, &principal, &order, named.as_ref(), &mut wanted).await?;
    answer(&core, &principal, &run, status, wanted)
}

/// A permit to start a run.
pub(crate) fn may_create(core: &Shared) -> Result<SemaphorePermit<'_>, Problem> {
    let too_many = |_| Problem::too_many("too-many-requests", "too many runs are being started: try again in a moment");
    core.creating.try_acquire().map_err(too_many)
}

/// The run or its feed.
fn answer(
    core: &Shared,
    principal: &Principal,
    run: &Run,
    status: StatusCode,
    wanted: Option<WantedFeed>,
) -> Result<Response, Problem> {
    if let Some(wanted) = wanted {
        return Ok(events::feed(core, run, wanted));
    }
    // Relative to the requested path, so that it is right wherever the router is mounted.
    let location = format!("runs/{}", events::encoded(run.id()));
    let unrecorded = || Problem::unavailable("journal", "the run is not on record yet");
    let view = RunView::of(run, principal).ok_or_else(unrecorded)?;
    let mut response = (status, JsonBody(view)).into_response();
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// A request with a client-chosen run id, which may be a repeated one.
pub(crate) struct Named {
    run_id: RunId,
    /// The user whose run it will be.
    user: String,
    /// The digest of the parsed request, so that its formatting does not matter.
    digest: Digest,
}

impl Named {
    fn of(principal: &Principal, request: &CreateRun) -> Result<Option<Self>, Problem> {
        let Some(run_id) = &request.run_id else { return Ok(None) };
        let run_id = RunId::new(run_id).and_then(|run_id| principal.chosen(&run_id));
        let run_id = run_id.map_err(|error| Problem::bad_id("run_id", &error))?;
        let user = principal.user_or_own(request.user.as_deref())?.to_owned();
        let defect = |_| Problem::unprocessable("bad-field", "the request cannot be serialized: leave run_id out");
        let canonical = serde_json::to_vec(request).map_err(defect)?;
        Ok(Some(Self { run_id, user, digest: Digest::of(&canonical) }))
    }

    /// The run that an earlier copy of this request started.
    async fn find(&self, core: &Shared, principal: &Principal) -> Result<Option<Run>, Problem> {
        let Some(run) = core.runtime.find(&self.run_id).await? else { return Ok(None) };
        run.accepted().await?;
        let is_same = match run.records().first().map(|first| &first.event) {
            Some(Event::RunAccepted { accepted }) => accepted.request == Some(self.digest),
            _ => false,
        };
        if is_same && principal.reaches(run.session()) && *run.session().user == *self.user {
            return Ok(Some(run));
        }
        let detail = "this run id was used for another request: choose another, or leave it out";
        Err(Problem::new(StatusCode::CONFLICT, "run-id-taken", detail))
    }
}

/// A run to start.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunOrder {
    /// The session, opened with the agent that does the run.
    pub session: Session,
    /// The run's id.
    pub run_id: RunId,
    /// The prompt.
    pub input: Message,
    /// What to do if a run is already in progress in the session.
    pub when_busy: WhenBusy,
    /// What to do when the last reader of the run's feed disconnects.
    pub on_disconnect: andon_runtime::OnDisconnect,
    /// The limits that were asked for. They tighten the agent's.
    pub limits: Limits,
    /// Changes to the session's state when the run starts.
    pub state: StateMap,
}

andon_runtime::core::with!(RunOrder: when_busy: WhenBusy, on_disconnect: andon_runtime::OnDisconnect, limits: Limits, state: StateMap);

impl From<LimitsForm> for Limits {
    fn from(asked: LimitsForm) -> Self {
        Self::new()
            .deadline(asked.deadline_ms.map(Duration::from_millis))
            .silence(asked.silence_ms.map(Duration::from_millis))
            .turns(asked.turns)
            .tokens(asked.tokens)
    }
}

impl RunOrder {
    /// A run with the defaults for everything else.
    pub fn new(session: Session, run_id: RunId, input: Message) -> Self {
        Self {
            session,
            run_id,
            input,
            when_busy: WhenBusy::default(),
            on_disconnect: andon_runtime::OnDisconnect::default(),
            limits: Limits::NONE,
            state: StateMap::new(),
        }
    }

    fn of(core: &Shared, principal: &Principal, request: CreateRun, named: Option<&Named>) -> Result<Self, Problem> {
        let agent = match core.apps.get(&request.app) {
            Some(App::Served { agent, .. }) => agent,
            Some(App::Refused { why }) => return Err(refused_app(principal, &request.app, &why)),
            None => return Err(no_such_app(core, principal, &request.app, &[], "nothing was started")),
        };
        let run_id = match named {
            Some(named) => named.run_id.clone(),
            None => RunId::new(Uuid::now_v7().to_string()).map_err(|error| Problem::bad_id("run_id", &error))?,
        };
        let user = principal.user_or_own(request.user.as_deref())?;
        if let Some(why) = request.session.as_deref().and_then(|name| (core.refuses_session)(name)) {
            return Err(Problem::bad_request("bad-id", format!("session: {why}")));
        }
        let bad_id = |error| Problem::bad_id("user or session", &error);
        let session = match request.session {
            Some(session) => {
                let key = SessionKey::new(agent.name(), user, session).map_err(bad_id)?;
                agent.session_by_key(&key.tenant(Arc::clone(&principal.tenant)))?
            }
            None => agent.new_session_of(&principal.tenant, user).map_err(bad_id)?,
        };
        let limits = Limits::from(request.limits);
        if let Some(limit) = limits.zero() {
            return Err(StartError::ZeroLimit(limit).into());
        }
        Ok(Self {
            session,
            run_id,
            input: message(request.input)?,
            when_busy: request.when_busy,
            on_disconnect: request.on_disconnect.into(),
            limits,
            state: StateMap::new(),
        })
    }
}

fn message(input: Input) -> Result<Message, Problem> {
    let message = match input {
        Input::Text(text) => Message::user(text),
        Input::Parts(parts) => {
            let parts = parts.into_iter().map(|part| match part {
                InputPart::Text { text } => Part::Text { text },
                InputPart::Image { media_type, reference } => Part::Image(Image::new(media_type, reference)),
            });
            Message::new(Role::User, parts.collect())
        }
    };
    for image in message.images() {
        image.check().map_err(|error| bad_media(&error.to_string()))?;
        if !["https://", "data:"].iter().any(|scheme| image.reference.starts_with(scheme)) {
            return Err(bad_media("the reference of an image must begin with https:// or data:"));
        }
    }
    let says_something = |part: &Part| !matches!(part, Part::Text { text } if text.trim().is_empty());
    if message.parts.iter().any(says_something) {
        return Ok(message);
    }
    Err(Problem::unprocessable("no-input", "input: it is empty; send a prompt"))
}

fn bad_media(why: &str) -> Problem {
    Problem::unprocessable("bad-media", format!("input: {why}"))
}

/// Starts the run, and waits until it is on record.
pub(crate) async fn start(
    core: &Shared,
    principal: &Principal,
    order: &RunOrder,
    named: Option<&Named>,
    wanted: &mut Option<WantedFeed>,
) -> Result<(Run, StatusCode), Problem> {
    // Two copies of the same request arrived at once, and the other one won.
    let repeated = || async {
        let known = match named {
            Some(named) => named.find(core, principal).await?,
            None => None,
        };
        known.map(|run| (run, StatusCode::OK)).ok_or_else(|| StartError::RunIdTaken(order.run_id.clone()).into())
    };
    let run = match begin(core, principal, order, named, wanted)? {
        Err(StartError::RunIdTaken(_)) => return repeated().await,
        other => other?,
    };
    match run.accepted().await {
        Ok(()) => {
            requests::started(run.id());
            Ok((run, StatusCode::CREATED))
        }
        Err(JournalError::RunExists(_)) => repeated().await,
        Err(error) => Err(error.into()),
    }
}

/// Starts the run, if it may start.
fn begin(
    core: &Shared,
    principal: &Principal,
    order: &RunOrder,
    named: Option<&Named>,
    wanted: &mut Option<WantedFeed>,
) -> Result<Result<Run, StartError>, Problem> {
    let run_id = named.map(|named| &named.run_id);
    let applicant = Applicant { session: order.session.key(), principal, run_id };
    let mut is_stopped = false;
    let run = core.admission.admit(&core.options, &applicant, |born_cancelled| {
        is_stopped = born_cancelled.is_some();
        let prompt = order.session.prompt(order.input.clone()).run_id(order.run_id.clone());
        let prompt = prompt.when_busy(order.when_busy).limits(order.limits).state(order.state.clone());
        let mut prompt = prompt.on_disconnect(order.on_disconnect);
        if wanted.as_ref().is_some_and(WantedFeed::is_missed) {
            prompt = prompt.with_reader();
        }
        if let Some(named) = named {
            prompt = prompt.request(named.digest);
        }
        if let Some(cancel) = born_cancelled {
            prompt = prompt.born_cancelled(cancel);
        }
        let run = prompt.start()?;
        // Before the run is on record, so that a client that disconnects while the disk is slow counts as disconnected.
        if let Some(wanted) = wanted {
            wanted.watch(&run);
        }
        Ok(run)
    })?;
    if is_stopped && run.is_ok() {
        core.admission.forget_when_on_record(principal, &order.run_id);
    }
    Ok(run)
}
