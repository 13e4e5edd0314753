//! What ADK's clients ask for: `RunRequest`, as we understand it.
//!
//! Unknown fields are ignored, as in ADK. What would mean something different here is refused.

use andon_runtime::core::message::Image;
use andon_runtime::{Message, Part, Role, StateMap};
use andon_server::dialect::Problem;
use serde_json::Value;

use super::render::CONFIRMATION;
use super::valid::{self, Fields, json, noted};

/// A request for a run.
#[derive(Debug)]
pub(crate) struct RunRequest {
    pub(crate) app: Option<String>,
    pub(crate) user: String,
    pub(crate) session: String,
    pub(crate) asked: RequestInput,
    /// Whether to send the pieces of each answer.
    pub(crate) streaming: bool,
    pub(crate) state: StateMap,
}

/// What a message asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum RequestInput {
    /// A run with this input.
    Run(Message),
    /// Decisions about calls for which runs are waiting.
    Decide(Vec<Decision>),
}

/// A person's yes or no.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The id of the question.
    pub(crate) id: String,
    pub(crate) is_yes: bool,
}

/// One part of a message.
enum MessagePart {
    Part(Part),
    Decision(Decision),
}

impl RunRequest {
    /// Reads a request.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Problem> {
        valid::read(&json(bytes)?, Self::of)
    }

    fn of(fields: &Fields<'_>) -> Result<Self, Problem> {
        let app = fields.some_text("appName").map(str::to_owned);
        let user = fields.text("userId");
        let session = fields.text("sessionId");
        let parts = fields.needed("newMessage").map(|content| parts(&content));
        let streaming = fields.is_set("streaming");
        let state = fields.map("stateDelta").cloned().unwrap_or_default();
        let resumed = fields.some_text("invocationId");
        let (Some(user), Some(session), Some(parts)) = (user, session, parts) else { return Err(noted()) };
        if resumed.is_some() {
            let detail =
                "invocationId: runs cannot be resumed here, so that no tool runs twice; leave it out and ask again";
            return Err(Problem::bad_request("no-resume", detail));
        }
        let (user, session) = (user.to_owned(), session.to_owned());
        Ok(Self { app, user, session, asked: input(parts?)?, streaming, state })
    }
}

/// What an ADK message asks for.
pub(crate) fn message(content: &Fields<'_>) -> Result<RequestInput, Problem> {
    input(parts(content)?)
}

fn parts(content: &Fields<'_>) -> Result<Vec<MessagePart>, Problem> {
    content.forbid_others(&["parts", "role"]);
    content.some_text("role");
    content.objects("parts").iter().map(message_part).collect()
}

/// Either all of it is input for the model, or all of it answers questions.
fn input(parts: Vec<MessagePart>) -> Result<RequestInput, Problem> {
    let (mut words, mut decisions) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            MessagePart::Part(part) => words.push(part),
            MessagePart::Decision(decision) => decisions.push(decision),
        }
    }
    let says_something = |part: &Part| !matches!(part, Part::Text { text } if text.trim().is_empty());
    if !decisions.is_empty() {
        if words.iter().any(says_something) {
            let detail = "newMessage: it has both a confirmation and other content; send one, then the other";
            return Err(Problem::bad_request("mixed-message", detail));
        }
        return Ok(RequestInput::Decide(decisions));
    }
    if !words.iter().any(says_something) {
        return Err(Problem::bad_request("no-input", "newMessage: it is empty; send a prompt"));
    }
    Ok(RequestInput::Run(Message::new(Role::User, words)))
}

const TEXT: &str = "text";
const INLINE: &str = "inlineData";
const FILE: &str = "fileData";
const RESPONSE: &str = "functionResponse";
const MIME: &str = "mimeType";
const KNOWN: [&str; 14] = [
    TEXT,
    INLINE,
    FILE,
    RESPONSE,
    "thought",
    "functionCall",
    "codeExecutionResult",
    "executableCode",
    "mediaResolution",
    "thoughtSignature",
    "toolCall",
    "toolResponse",
    "partMetadata",
    "videoMetadata",
];

fn message_part(part: &Fields<'_>) -> Result<MessagePart, Problem> {
    part.forbid_others(&KNOWN);
    if let Some(text) = part.some_text(TEXT) {
        return Ok(MessagePart::Part(Part::text(text)));
    }
    if let Some(inline) = part.object(INLINE) {
        return image(&inline, "data", |media, data| format!("data:{media};base64,{data}"));
    }
    if let Some(file) = part.object(FILE) {
        return image(&file, "fileUri", |_, address| address.to_owned());
    }
    if let Some(response) = part.object(RESPONSE) {
        return decision(&response);
    }
    if part.has_errors() || part.has(TEXT) {
        return Ok(MessagePart::Part(Part::text("")));
    }
    let detail = "newMessage: only text, images and confirmations are supported here";
    Err(Problem::bad_request("bad-part", detail))
}

/// An image, by its bytes or its address. No other media are accepted.
fn image(data: &Fields<'_>, holds: &str, reference: impl FnOnce(&str, &str) -> String) -> Result<MessagePart, Problem> {
    let (media_type, held) = (data.text(MIME), data.text(holds));
    let (Some(media_type), Some(held)) = (media_type, held) else { return Ok(MessagePart::Part(Part::text(""))) };
    let reference = reference(media_type, &standard(held));
    let image = Image::new(media_type.to_owned(), reference);
    image.check().map_err(|error| Problem::bad_request("bad-media", format!("newMessage: {error}")))?;
    if !image.reference.starts_with("data:") && !image.reference.starts_with("https://") {
        return Err(Problem::bad_request("bad-media", "newMessage: a fileUri must begin with https:// here"));
    }
    Ok(MessagePart::Part(Part::Image(image)))
}

/// Base64 in the standard alphabet: ADK's clients also write the URL-safe one.
fn standard(data: &str) -> String {
    if data.starts_with("https://") { data.to_owned() } else { data.replace('-', "+").replace('_', "/") }
}

/// A person's answer, in any of the forms that ADK's clients write.
fn decision(response: &Fields<'_>) -> Result<MessagePart, Problem> {
    let name = response.some_text("name");
    let id = response.text("id");
    let said = response.map("response");
    let Some(id) = id else { return Ok(MessagePart::Part(Part::text(""))) };
    if name.is_some_and(|name| name != CONFIRMATION) {
        let detail = format!("newMessage: only responses to {CONFIRMATION} are accepted; tools run on this server");
        return Err(Problem::bad_request("bad-part", detail));
    }
    // ADK's own client wraps the answer once more, as a string.
    let wrapped =
        said.and_then(|said| said.get("response")?.as_str()).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let confirmed = wrapped.as_ref().and_then(|wrapped| wrapped.get("confirmed")).or_else(|| said?.get("confirmed"));
    match confirmed.and_then(Value::as_bool) {
        Some(is_yes) => Ok(MessagePart::Decision(Decision { id: id.to_owned(), is_yes })),
        None => Err(Problem::bad_request("bad-part", "newMessage: a confirmation needs confirmed: true or false")),
    }
}
