//! Renders a run's own events as ADK's.
//!
//! # Invariants
//!
//! 1. It is a fold over a run's feed that reads no clock and no store. So whoever follows a run and whoever looks at its session
//!    later see the same events, with the same ids.
//! 2. One item gives its own event at most, after those that it completes: the responses of a turn, and what a prompt brought along.
//! 3. Every call has exactly one response, and all responses to one answer are one event. A response that a stop has cut says so;
//!    calls that had finished by then keep their results. No result is shown before the hooks after the tools are over: one of them
//!    may replace it.
//! 4. A run that did not complete is closed by one event. No words are put into the model's mouth: where its turn would be
//!    missing, that event holds an empty one.
//! 5. Every question to a person has an id of its own, also if it is the second about one call: an answer fits only what it answers.
//! 6. Pieces are sent only to clients that asked for them. They share the id of the answer that they belong to.

use std::collections::HashMap;
use std::sync::Arc;

use andon_runtime::core::event::{Accepted, Approval, HookChange, HookPoint, ModelEnd};
use andon_runtime::core::standing::StandingFold;
use andon_runtime::core::time::Wall;
use andon_runtime::{
    CallId, Event, FeedItem, Kind, Message, ModelStop, Record, Role, RunId, RunState, StateMap, ToolCall, ToolResult,
    Used,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::closing::Closing;
use super::event::{AdkEvent, AdkPart, Call, Content, NodeInfo, Tokens, parts};
use super::results;

/// The name of the call with which ADK asks a person.
pub(crate) const CONFIRMATION: &str = "adk_request_confirmation";

/// Who the events are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// For whoever looks at the session: includes the person's input, and leaves out a run that never started.
    Session,
    /// For whoever asked for the run: everything except their own input.
    Caller {
        /// Whether to send the pieces of each answer as they come.
        pieces: bool,
    },
}

/// A run, as far as it has been rendered.
#[derive(Debug)]
pub(crate) struct Rendering {
    run: RunId,
    agent: Arc<str>,
    /// The agent's path in its app.
    path: Arc<str>,
    view: View,
    accepted: Option<Arc<Accepted>>,
    /// Where the run stands. It is folded here because the events of a stored session do not say it.
    standing: StandingFold,
    has_started: bool,
    model: ModelCall,
    calls: Vec<OpenCall>,
    /// Questions to a person that the end of the run closed.
    unanswered: Vec<AdkPart>,
    results: u32,
    /// When the last of the open calls got its result, or another one in its place.
    results_at: Wall,
    /// Whether the last rendered turn was the model's.
    is_models_turn: bool,
    closing: Closing,
}

/// The model call in progress, or the last one.
#[derive(Debug, Default)]
struct ModelCall {
    id: Uuid,
    /// Pieces of its answer were sent.
    has_pieces: bool,
    message: Option<Arc<Message>>,
    used: Option<Used>,
}

/// A call of the last answer.
#[derive(Debug)]
struct OpenCall {
    call: ToolCall,
    question: Question,
    /// How often a person was asked about it.
    asked: u32,
    result: Option<(Arc<ToolResult>, Option<StateMap>)>,
}

/// Whether a person is being asked about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// No, or the decision is on record.
    None,
    Open,
    /// A person has decided, which is not on record yet.
    Answered,
}

impl Rendering {
    /// A rendering that has seen nothing of its run yet.
    pub(crate) fn new(run: &RunId, agent: &str, view: View) -> Self {
        Self {
            run: run.clone(),
            agent: agent.into(),
            path: format!("{agent}@1").into(),
            view,
            accepted: None,
            standing: StandingFold::default(),
            has_started: false,
            model: ModelCall::default(),
            calls: Vec::new(),
            unanswered: Vec::new(),
            results: 0,
            results_at: Wall(0),
            is_models_turn: false,
            closing: Closing::default(),
        }
    }

    /// A run's events as its session shows them.
    pub(crate) fn session(run: &RunId, agent: &str, records: &[Arc<Record>]) -> Vec<AdkEvent> {
        let mut rendering = Self::new(run, agent, View::Session);
        records.iter().flat_map(|record| rendering.fact(record)).collect()
    }

    /// Renders an item. `now` is when a piece came: pieces are not recorded.
    pub(crate) fn tell(&mut self, item: &FeedItem, now: impl FnOnce() -> Wall) -> Vec<AdkEvent> {
        match item {
            FeedItem::Fact(record) => self.fact(record),
            FeedItem::Delta(delta) => {
                let part = match delta.kind {
                    Kind::Text => AdkPart::text(&delta.text),
                    Kind::Thinking => AdkPart::thought(&delta.text),
                    Kind::ToolInput(_) | Kind::ToolOutput(_) => return Vec::new(),
                    #[cfg(not(andon_whole))]
                    _ => return Vec::new(),
                };
                match self.view {
                    View::Caller { pieces: true } => vec![self.piece(part, now())],
                    View::Caller { pieces: false } | View::Session => Vec::new(),
                }
            }
            FeedItem::TextLost { .. } => Vec::new(),
            #[cfg(not(andon_whole))]
            _ => Vec::new(),
        }
    }

    /// Whether the run cannot go on until a person decides.
    pub(crate) fn waits(&self) -> bool {
        self.standing.state() == RunState::Waiting && !self.calls.iter().any(|open| open.question == Question::Answered)
    }

    /// A person has answered: the run goes on, although that is not recorded yet.
    pub(crate) fn answered(&mut self, call: &CallId) {
        let is_open = |open: &&mut OpenCall| open.call.id == *call && open.question == Question::Open;
        if let Some(open) = self.calls.iter_mut().find(is_open) {
            open.question = Question::Answered;
        }
    }

    /// The call that a person is asked about under this id.
    pub(crate) fn asked_about(&self, confirmation: &str) -> Option<&CallId> {
        let is_it = |open: &&OpenCall| {
            open.question == Question::Open && confirmation_id(&self.run, &open.call.id, open.asked) == confirmation
        };
        self.calls.iter().find(is_it).map(|open| &open.call.id)
    }

    /// Renders a fact.
    pub(crate) fn fact(&mut self, record: &Record) -> Vec<AdkEvent> {
        let mut events = Vec::new();
        if ends_the_calls(&record.event) {
            events.extend(self.responses());
        }
        if matches!(record.event, Event::RunStarted) {
            events.extend(self.history_before(record.at.wall));
        }
        events.extend(self.own(record));
        events
    }

    /// What the fact itself is rendered as.
    fn own(&mut self, record: &Record) -> Option<AdkEvent> {
        let at = record.at.wall;
        self.standing.take(&record.event);
        match &record.event {
            Event::RunAccepted { accepted } => {
                self.accepted = Some(Arc::clone(accepted));
                None
            }
            Event::RunStarted => self.started(at),
            Event::ModelStarted { call, .. } => {
                self.model = ModelCall { id: self.id(&format!("model {call}")), ..ModelCall::default() };
                None
            }
            Event::Message { message } => {
                self.model.message = Some(Arc::clone(message));
                None
            }
            Event::Usage { used, .. } => {
                self.model.used = Some(**used);
                None
            }
            Event::ModelFinished { end, .. } => self.answer(end, at),
            Event::HookFinished { change: Some(change), .. } => self.changed(change, at),
            Event::ApprovalRequested { call, .. } => self.question(call, at),
            Event::ApprovalResolved { call, verdict } => self.decision(call, verdict, at),
            Event::ToolFinished { call, result, state, .. } => {
                self.result(call, result, state.as_deref(), at);
                None
            }
            Event::ToolRefused { call, result, .. } => {
                self.result(call, result, None, at);
                None
            }
            Event::CancelRequested { request, .. } => {
                self.closing.stopped(request);
                None
            }
            Event::RunSettled { outcome } => self.end(outcome, at),
            _ => None,
        }
    }

    /// An empty event by the agent.
    fn blank(&self, id: Uuid, at: Wall) -> AdkEvent {
        AdkEvent::blank(self.run.clone(), Arc::clone(&self.agent), Arc::clone(&self.path), id, at)
    }

    fn id(&self, place: &str) -> Uuid {
        id_of(&self.run, place)
    }

    /// An event by the person.
    fn of_user(&self, place: &str, parts: Vec<AdkPart>, at: Wall) -> AdkEvent {
        AdkEvent {
            content: Some(Content { parts, role: "user" }),
            author: "user".into(),
            node_info: NodeInfo { path: "".into() },
            ..self.blank(self.id(place), at)
        }
    }

    fn started(&mut self, at: Wall) -> Option<AdkEvent> {
        self.has_started = true;
        let accepted = self.accepted.as_ref().filter(|_| self.view == View::Session)?;
        let mut event = self.of_user("input", parts(&accepted.input).0, at);
        event.actions.state_delta = accepted.state.as_deref().cloned().unwrap_or_default();
        Some(event)
    }

    /// What a prompt brought along: it begins the conversation.
    fn history_before(&self, at: Wall) -> Vec<AdkEvent> {
        let accepted = self.accepted.as_ref().filter(|_| self.view == View::Session);
        let mut names: HashMap<&CallId, &str> = HashMap::new();
        let mut events = Vec::new();
        for (index, message) in accepted.iter().flat_map(|accepted| &accepted.history).enumerate() {
            names.extend(message.calls().map(|call| (&call.id, call.name.as_str())));
            let place = format!("before {index}");
            let (mut told, _) = parts(message);
            told.extend(message.results().map(|result| {
                let name = names.get(&result.call).copied().unwrap_or_default();
                AdkPart::response(result.call.as_str(), name, results::response(result))
            }));
            if told.is_empty() {
                told.push(AdkPart::text(""));
            }
            events.push(match message.role {
                Role::User => self.of_user(&place, told, at),
                Role::Assistant | Role::Tool => {
                    let role = if message.role == Role::Tool { "user" } else { "model" };
                    let interrupted = message.cut.is_some().then_some(true);
                    let content = Some(Content { parts: told, role });
                    AdkEvent { content, interrupted, ..self.blank(self.id(&place), at) }
                }
            });
        }
        events
    }

    fn piece(&mut self, part: AdkPart, now: Wall) -> AdkEvent {
        self.model.has_pieces = true;
        let content = Some(Content { parts: vec![part], role: "model" });
        AdkEvent { content, partial: Some(true), ..self.blank(self.model.id, now) }
    }

    /// A model call is over: renders its whole answer, or what had come of it.
    fn answer(&mut self, end: &ModelEnd, at: Wall) -> Option<AdkEvent> {
        let used = self.model.used.take();
        let Some(message) = self.model.message.take() else {
            // It returned nothing; its usage is reported at the end.
            self.closing.used_for_nothing(used);
            return None;
        };
        let open = |call: &ToolCall| OpenCall { call: call.clone(), question: Question::None, asked: 0, result: None };
        self.calls = message.calls().map(open).collect();
        self.is_models_turn = true;
        let (mut parts, unreadable) = parts(&message);
        if parts.is_empty() {
            parts.push(AdkPart::text(""));
        }
        let stop = match end {
            ModelEnd::Answered { stop } if message.cut.is_none() => Some(*stop),
            _ => None,
        };
        Some(AdkEvent {
            content: Some(Content { parts, role: "model" }),
            partial: self.model.has_pieces.then_some(false),
            finish_reason: stop.map(finish_reason),
            interrupted: stop.is_none().then_some(true),
            custom_metadata: metadata(stop, used.as_ref(), &unreadable),
            usage_metadata: used.and_then(|used| Tokens::of(&used.delivered)),
            long_running_tool_ids: (!self.calls.is_empty()).then(Vec::new),
            ..self.blank(self.model.id, at)
        })
    }

    /// A hook has changed something. What was sent of it stays sent; a text that takes the place of a whole answer follows it.
    fn changed(&mut self, change: &HookChange, at: Wall) -> Option<AdkEvent> {
        match change {
            HookChange::Call { call } => {
                let open = self.calls.iter_mut().find(|open| open.call.id == call.id)?;
                open.call = call.clone();
                None
            }
            HookChange::Result { result } => {
                let open = self.calls.iter_mut().find(|open| open.call.id == result.call)?;
                open.result.as_mut()?.0 = Arc::clone(result);
                self.results_at = at;
                None
            }
            HookChange::Answer { answer, .. } if answer.calls().next().is_none() => {
                let (parts, _) = parts(answer);
                (!parts.is_empty()).then(|| AdkEvent {
                    content: Some(Content { parts, role: "model" }),
                    ..self.blank(self.id(&format!("instead of {}", self.model.id)), at)
                })
            }
            HookChange::Answer { .. } | HookChange::Input { .. } | HookChange::Request { .. } => None,
            #[cfg(not(andon_whole))]
            _ => None,
        }
    }

    /// A person must approve.
    fn question(&mut self, call: &CallId, at: Wall) -> Option<AdkEvent> {
        let open = self.calls.iter_mut().find(|open| open.call.id == *call && open.result.is_none())?;
        open.question = Question::Open;
        open.asked += 1;
        let asked = open.asked;
        let (name, args) = (open.call.name.clone(), results::arguments(&open.call));
        let original = Call { id: call.to_string(), args, name };
        let hint = format!("Approve or reject calling {} with these arguments.", open.call.name);
        let confirmation = json!({"hint": hint, "confirmed": false});
        let args = json!({"originalFunctionCall": original, "toolConfirmation": confirmation});
        let id = confirmation_id(&self.run, call, asked);
        let mut event = AdkEvent {
            content: Some(Content { parts: vec![AdkPart::call(&id, CONFIRMATION, args)], role: "model" }),
            long_running_tool_ids: Some(vec![id]),
            ..self.blank(self.id(&place("question", call, asked)), at)
        };
        event.actions.requested_tool_confirmations.insert(call.to_string(), confirmation);
        Some(event)
    }

    /// A person has decided, or a stop has closed the question.
    fn decision(&mut self, call: &CallId, verdict: &Approval, at: Wall) -> Option<AdkEvent> {
        let open = self.calls.iter_mut().find(|open| open.call.id == *call && open.question != Question::None)?;
        open.question = Question::None;
        let asked = open.asked;
        let answer = |response| AdkPart::response(confirmation_id(&self.run, call, asked), CONFIRMATION, response);
        let confirmed = match verdict {
            Approval::Approved { .. } => true,
            Approval::Denied { .. } => false,
            Approval::Closed => {
                let closed = answer(json!({"error": "Nobody decided before the run was stopped."}));
                self.unanswered.push(closed);
                return None;
            }
            #[cfg(not(andon_whole))]
            _ => return None,
        };
        let answer = answer(json!({"confirmed": confirmed}));
        (self.view == View::Session).then(|| self.of_user(&place("decision", call, asked), vec![answer], at))
    }

    /// A call has its result. It is held back until nothing can replace it (invariant 3).
    fn result(&mut self, call: &CallId, result: &Arc<ToolResult>, state: Option<&StateMap>, at: Wall) {
        let is_it = |open: &&mut OpenCall| open.call.id == *call && open.result.is_none();
        if let Some(open) = self.calls.iter_mut().find(is_it) {
            open.result = Some((Arc::clone(result), state.cloned()));
            self.results_at = at;
        }
    }

    /// The results of the turn's calls, once all have one.
    fn responses(&mut self) -> Option<AdkEvent> {
        if self.calls.is_empty() || self.calls.iter().any(|open| open.result.is_none()) {
            return None;
        }
        self.results += 1;
        self.is_models_turn = false;
        let (mut parts, mut state_delta) = (std::mem::take(&mut self.unanswered), StateMap::new());
        for OpenCall { call, result, .. } in std::mem::take(&mut self.calls) {
            let Some((result, state)) = result else { continue };
            parts.push(AdkPart::response(call.id.as_str(), call.name, results::response(&result)));
            state_delta.extend(state.unwrap_or_default());
        }
        let mut event = AdkEvent {
            content: Some(Content { parts, role: "user" }),
            ..self.blank(self.id(&format!("results {}", self.results)), self.results_at)
        };
        event.actions.state_delta = state_delta;
        Some(event)
    }

    /// The event that ends a turn on a live connection.
    pub(crate) fn turn_complete(&self, now: Wall) -> AdkEvent {
        AdkEvent { turn_complete: Some(true), ..self.blank(self.id("turn"), now) }
    }

    /// The run has settled (invariant 4).
    fn end(&mut self, outcome: &andon_runtime::Ending, at: Wall) -> Option<AdkEvent> {
        if self.view == View::Session && !self.has_started {
            return None;
        }
        let blank = self.blank(self.id("end"), at);
        let mut event = self.closing.event(outcome, &self.run, self.standing.force(), blank)?;
        if self.has_started && !self.is_models_turn {
            event.content = Some(Content { parts: vec![AdkPart::text("")], role: "model" });
        }
        Some(event)
    }
}

/// The id of the event with the run's answer of this number.
pub(crate) fn answer_id(run: &RunId, call: u64) -> Uuid {
    id_of(run, &format!("model {call}"))
}

/// An event's id: the same every time it is rendered.
fn id_of(run: &RunId, place: &str) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{run} {place}").as_bytes())
}

/// The id under which ADK's clients answer a question about a call.
fn confirmation_id(run: &RunId, call: &CallId, asked: u32) -> String {
    format!("adk-{}", id_of(run, &place("confirmation", call, asked)))
}

/// The place of what belongs to a question. A second question about a call is another one: a hook has changed the call.
fn place(what: &str, call: &CallId, asked: u32) -> String {
    match asked {
        0 | 1 => format!("{what} {call}"),
        // An id of a call has no control characters, so this is no other call's place.
        again => format!("{what} {call}\n{again}"),
    }
}

/// Whether no hook can replace the result of a call of the last answer any more.
fn ends_the_calls(event: &Event) -> bool {
    match event {
        Event::HookStarted { point } | Event::HookFinished { point, .. } => {
            matches!(point, HookPoint::BeforeModel | HookPoint::AfterModel | HookPoint::AfterRun)
        }
        Event::ModelStarted { .. } | Event::RunSettled { .. } => true,
        _ => false,
    }
}

fn finish_reason(stop: ModelStop) -> &'static str {
    match stop {
        ModelStop::EndTurn | ModelStop::ToolUse | ModelStop::StopSequence => "STOP",
        ModelStop::MaxTokens => "MAX_TOKENS",
        ModelStop::Refused => "SAFETY",
        #[cfg(not(andon_whole))]
        _ => "STOP",
    }
}

/// What ADK has no fields for: the usage of a cut call and how it is known, and arguments that are not a JSON object.
fn metadata(stop: Option<ModelStop>, used: Option<&Used>, unreadable: &[(String, String)]) -> Option<Value> {
    let mut told = serde_json::Map::new();
    if stop.is_none() {
        told.insert("usage".to_owned(), json!(used.copied().unwrap_or(Used::UNKNOWN)));
    }
    if !unreadable.is_empty() {
        let as_written = unreadable.iter().map(|(id, arguments)| (id.clone(), Value::from(arguments.as_str())));
        told.insert("unreadableArguments".to_owned(), Value::Object(as_written.collect()));
    }
    (!told.is_empty()).then(|| json!({"andon": told}))
}
