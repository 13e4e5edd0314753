//! ADK's events as turns of a conversation.

use std::collections::HashSet;

use andon_runtime::core::id::CallId;
use andon_runtime::core::message::{Image, Part, ResultStatus, ToolCall, ToolResult};
use andon_runtime::core::time::{Stamp, Wall};
use andon_runtime::core::usage::{Figure, Usage, Used};
use andon_server::dialect::Problem;
use serde_json::Value;

use super::bad;
use crate::closing::ABORTED;
use crate::valid::{Fields, noted};

/// Calls that ADK makes itself to ask a person.
const RESERVED: [&str; 3] = ["adk_request_credential", "adk_request_confirmation", "adk_request_input"];

/// What a user said, and what followed.
pub(crate) struct ImportedTurn {
    pub(super) invocation: String,
    pub(super) at: Stamp,
    pub(super) input: Vec<Part>,
    pub(super) answers: Vec<Answer>,
    pub(super) end: End,
}

/// How a turn ended.
#[derive(PartialEq)]
pub(super) enum End {
    Whole,
    Stopped,
    Failed(String),
}

/// One answer of the model, and what its calls returned.
pub(super) struct Answer {
    pub(super) at: Stamp,
    pub(super) parts: Vec<Part>,
    pub(super) used: Used,
    pub(super) results: Vec<(Stamp, ToolResult)>,
}

impl Answer {
    pub(super) fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| if let Part::ToolCall(call) = part { Some(call) } else { None })
    }

    fn waits_for(&self, id: &str, name: &str) -> Option<CallId> {
        let open = |call: &&ToolCall| !self.results.iter().any(|(_, result)| result.call == call.id);
        let is_it = |call: &&ToolCall| if id.is_empty() { call.name == name } else { call.id.as_str() == id };
        self.calls().filter(open).find(is_it).map(|call| call.id.clone())
    }
}

/// Reads a conversation.
pub(crate) fn turns(events: &[Fields<'_>], now: Stamp) -> Result<Vec<ImportedTurn>, Problem> {
    let mut reader = Reader { turns: Vec::new(), calls: HashSet::new(), now };
    for (number, event) in events.iter().enumerate() {
        check(number, event)?;
        if !event.is_some_set("partial") {
            reader.take(number, event)?;
        }
    }
    Ok(reader.turns)
}

/// Refuses what only a server may send (invariant 2).
fn check(number: usize, event: &Fields<'_>) -> Result<(), Problem> {
    let refuse = |what: &str| Err(wrong(number, &format!("cannot include {what}")));
    if event.list("longRunningToolIds").is_some_and(|ids| !ids.is_empty()) {
        return refuse("long-running tool IDs");
    }
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if event.map("actions").is_some_and(|actions| !actions.values().all(is_empty)) {
        return refuse("event actions");
    }
    for part in parts_of(event) {
        for kind in ["functionCall", "functionResponse"] {
            let name = part.object(kind).and_then(|call| call.some_text("name"));
            if name.is_some_and(|name| RESERVED.contains(&name)) {
                return refuse("ADK protocol function calls");
            }
        }
    }
    Ok(())
}

/// The refusal of an event, for this reason.
fn wrong(number: usize, what: &str) -> Problem {
    bad(format!("Session initialization event {number} {what}."))
}

fn parts_of<'a>(event: &Fields<'a>) -> Vec<Fields<'a>> {
    event.object("content").map(|content| content.objects("parts")).unwrap_or_default()
}

struct Reader {
    turns: Vec<ImportedTurn>,
    calls: HashSet<CallId>,
    now: Stamp,
}

impl Reader {
    fn take(&mut self, number: usize, event: &Fields<'_>) -> Result<(), Problem> {
        let at = self.time_of(event);
        let parts = parts_of(event);
        let results: Vec<_> = parts.iter().map(|part| part.object("functionResponse")).collect();
        let answers_calls = results.iter().any(Option::is_some);
        if answers_calls {
            if results.iter().any(Option::is_none) {
                return Err(wrong(number, "mixes function responses with other parts"));
            }
            for result in results.into_iter().flatten() {
                self.take_result(at, &result)
                    .ok_or_else(|| wrong(number, "has a function response without its function call"))?;
            }
        }
        let is_users = event.some_text("author") == Some("user");
        if !parts.is_empty() && !answers_calls {
            if is_users {
                self.take_input(number, event, at, &parts)?;
            } else {
                self.take_answer(number, event, at, &parts)?;
            }
        }
        self.take_end(event);
        Ok(())
    }

    /// When an event happened, if it says so, but never later than now.
    fn time_of(&self, event: &Fields<'_>) -> Stamp {
        let seconds = event.some_number("timestamp").filter(|seconds| seconds.is_finite() && *seconds > 0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it saturates, and is not negative"
        )]
        let micros = seconds.map(|seconds| (seconds * 1e6) as u64);
        Stamp { wall: micros.map_or(self.now.wall, |micros| Wall(micros).min(self.now.wall)), ..self.now }
    }

    fn take_input(
        &mut self,
        number: usize,
        event: &Fields<'_>,
        at: Stamp,
        parts: &[Fields<'_>],
    ) -> Result<(), Problem> {
        let invocation = event.some_text("invocationId").unwrap_or_default().to_owned();
        let mut input = Vec::new();
        for part in parts {
            let part = content_part(number, part)?;
            if matches!(part, Part::ToolCall(_) | Part::Thinking { .. }) {
                return Err(wrong(number, "has a part from the user that only a model can send"));
            }
            input.push(part);
        }
        match self.turns.last_mut() {
            // The user's input in two events.
            Some(turn) if turn.answers.is_empty() && turn.end == End::Whole && turn.invocation == invocation => {
                turn.input.extend(input);
            }
            _ => self.turns.push(ImportedTurn { invocation, at, input, answers: Vec::new(), end: End::Whole }),
        }
        Ok(())
    }

    fn take_answer(
        &mut self,
        number: usize,
        event: &Fields<'_>,
        at: Stamp,
        parts: &[Fields<'_>],
    ) -> Result<(), Problem> {
        let mut answer = Vec::new();
        for part in parts {
            let part = content_part(number, part)?;
            if part == Part::text("") {
                continue;
            }
            if let Part::ToolCall(call) = &part
                && !self.calls.insert(call.id.clone())
            {
                return Err(wrong(number, "uses the id of another function call"));
            }
            answer.push(part);
        }
        if answer.is_empty() {
            return Ok(());
        }
        let used = used(event);
        let turn =
            self.turns.last_mut().ok_or_else(|| wrong(number, "has content from a model before any from a user"))?;
        match turn.answers.last_mut() {
            // One answer in two events.
            Some(last) if last.calls().next().is_none() => {
                last.parts.extend(answer);
                last.used = used;
            }
            _ => turn.answers.push(Answer { at, parts: answer, used, results: Vec::new() }),
        }
        Ok(())
    }

    /// Adds a result; `None` if no call waits for it.
    fn take_result(&mut self, at: Stamp, result: &Fields<'_>) -> Option<()> {
        let (id, name) = (result.some_text("id").unwrap_or_default(), result.some_text("name").unwrap_or_default());
        let response = result.get("response").cloned().unwrap_or_default();
        result.map("response");
        let last = self.turns.last_mut()?.answers.last_mut()?;
        let call = last.waits_for(id, name)?;
        last.results.push((at, returned(call, &response)));
        Some(())
    }

    fn take_end(&mut self, event: &Fields<'_>) {
        let Some(code) = event.some_text("errorCode") else { return };
        let words = event.some_text("errorMessage").unwrap_or_default();
        if let Some(turn) = self.turns.last_mut() {
            turn.end = if code == ABORTED { End::Stopped } else { End::Failed(format!("{code}: {words}")) };
        }
    }
}

/// The content of a part.
fn content_part(number: usize, part: &Fields<'_>) -> Result<Part, Problem> {
    if let Some(text) = part.some_text("text") {
        let text = text.to_owned();
        let is_thought = part.is_some_set("thought");
        return Ok(if is_thought { Part::Thinking { text, signature: None } } else { Part::Text { text } });
    }
    if let Some(call) = part.object("functionCall") {
        let name = call.some_text("name").filter(|name| !name.is_empty());
        if name.is_none() {
            call.missing("name");
        }
        let name = name.ok_or_else(noted)?.to_owned();
        let arguments = call.map("args").map_or_else(|| "{}".to_owned(), |args| Value::from(args.clone()).to_string());
        let id = call.some_text("id").filter(|id| !id.is_empty()).map_or_else(new_call, str::to_owned);
        let id = CallId::new(id).map_err(|error| Problem::bad_id("functionCall.id", &error))?;
        return Ok(Part::ToolCall(ToolCall::new(id, name, arguments)));
    }
    let image = |media: &str, reference: String| {
        let image = Image::new(media.to_owned(), reference);
        let checked = image.check().map_err(|error| bad(format!("Session initialization event {number}: {error}.")));
        checked.map(|()| Some(Part::Image(image)))
    };
    let mut seen = None;
    if let Some(data) = part.object("inlineData") {
        let (media, bytes) =
            (data.some_text("mimeType").unwrap_or_default(), data.some_text("data").unwrap_or_default());
        seen = image(media, format!("data:{media};base64,{bytes}"))?;
    } else if let Some(file) = part.object("fileData") {
        let (media, uri) =
            (file.some_text("mimeType").unwrap_or_default(), file.some_text("fileUri").unwrap_or_default());
        seen = image(media, uri.to_owned())?;
    }
    let words = "has an unsupported part: send text, images, function calls and function responses";
    seen.ok_or_else(|| wrong(number, words))
}

/// What a call returned, stored so that it is shown again exactly as it was sent.
fn returned(call: CallId, response: &Value) -> ToolResult {
    let only = |name: &str| {
        let fields = response.as_object().filter(|fields| fields.len() == 1)?;
        fields.get(name)?.as_str()
    };
    match (only("error"), only("result")) {
        (Some(error), _) => ToolResult::text(call, ResultStatus::Error, error),
        (None, Some(text)) => ToolResult::text(call, ResultStatus::Ok, text),
        (None, None) => ToolResult::text(call, ResultStatus::Ok, response.to_string()),
    }
}

fn new_call() -> String {
    format!("adk-{}", uuid::Uuid::now_v7())
}

fn used(event: &Fields<'_>) -> Used {
    let Some(figures) = event.object("usageMetadata") else { return Used::UNKNOWN };
    let figure = |name: &str| figures.get(name).and_then(Value::as_u64);
    // A request has more than 0 tokens, so a zero was not counted.
    let prompt = figure("promptTokenCount").filter(|tokens| *tokens > 0);
    let (Some(prompt), Some(candidates)) = (prompt, figure("candidatesTokenCount")) else { return Used::UNKNOWN };
    let (cached, thoughts) = (figure("cachedContentTokenCount"), figure("thoughtsTokenCount"));
    let cached = cached.filter(|cached| *cached <= prompt);
    let known = |tokens: Option<u64>| tokens.map_or(Figure::UNKNOWN, Figure::reported);
    Used::whole(
        (Usage::reported(prompt - cached.unwrap_or(0), candidates.saturating_add(thoughts.unwrap_or(0))))
            .cache_read(known(cached))
            .reasoning(known(thoughts)),
    )
}
