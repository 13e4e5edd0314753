//! Strict stand-ins for the providers: what a stored history becomes on the wire, and whether its server would accept it.
//!
//! Promise P2 says that a stored conversation can be sent to every supported provider as its next request. Here that is checked
//! without a network: [`Provider::render`] renders a prompt as its adapter in [`andon_models`] does, [`Provider::validate`]
//! checks a body against the rules of the strictest known server of that API, and [`check_history`] does both for a history as a
//! session stores it. A validator knows nothing about rendering: it can judge any adapter's body.

mod anthropic;
mod bedrock;
mod deepseek;
mod gemini;
#[cfg(any(test, feature = "strategies"))]
pub mod histories;
mod mistral;
mod neutral;
mod ollama;
mod openai_chat;
mod openai_responses;
mod rules;
mod violation;

use std::borrow::Borrow;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use andon_core::message::{Message, Signature};
use andon_core::prompt::prompt;
use andon_models::render::{self, Ask};
use andon_models::settings::{Settings, Thinking};
use andon_runtime::ToolSpec;
use parking_lot::Mutex;
use serde_json::{Value, json};

pub use neutral::{check_prompt, check_prompt_of};
pub use violation::Violation;
use violation::Violations;

/// A request format, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API, and the many servers that speak it.
    OpenAiChat,
    /// OpenAI's Responses API, without state on the server.
    OpenAiResponses,
    /// Google's Gemini API.
    Gemini,
    /// Amazon Bedrock's Converse API.
    Bedrock,
    /// Ollama's own API.
    Ollama,
    /// Mistral's own servers, which speak OpenAI's Chat Completions API more strictly than others.
    Mistral,
    /// DeepSeek's own servers, which want back the thoughts that led to a call.
    DeepSeek,
}

impl Provider {
    /// Every provider.
    pub const ALL: [Self; 8] = [
        Self::Anthropic,
        Self::OpenAiChat,
        Self::OpenAiResponses,
        Self::Gemini,
        Self::Bedrock,
        Self::Ollama,
        Self::Mistral,
        Self::DeepSeek,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiChat => "openai_chat",
            Self::OpenAiResponses => "openai_responses",
            Self::Gemini => "gemini",
            Self::Bedrock => "bedrock",
            Self::Ollama => "ollama",
            Self::Mistral => "mistral",
            Self::DeepSeek => "deepseek",
        }
    }

    /// The name of a provider with this format in [`andon_models::names`].
    pub fn adapter(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic | Self::Gemini | Self::Bedrock | Self::Ollama | Self::Mistral | Self::DeepSeek => {
                self.name()
            }
        }
    }

    /// Its strictest model.
    pub fn strictest_model(self) -> &'static str {
        match self {
            Self::Anthropic => "claude-sonnet-5",
            Self::OpenAiChat | Self::OpenAiResponses => "gpt-5.2",
            Self::Gemini => "gemini-3-pro-preview",
            Self::Bedrock => "anthropic.claude-sonnet-4-5-20250929-v1:0",
            Self::Ollama => "qwen3",
            Self::Mistral => "mistral-large-latest",
            Self::DeepSeek => "deepseek-reasoner",
        }
    }

    /// A request to its strictest model, without instructions.
    pub fn ask<'a>(self, prompt: &'a [Message], tools: &'a [Arc<ToolSpec>], settings: &'a Settings) -> Ask<'a> {
        Ask::new(self.adapter(), self.strictest_model(), prompt, settings).tools(tools)
    }

    /// The body of the next request, as the provider's adapter makes it.
    pub fn render(self, ask: &Ask<'_>) -> Value {
        match self {
            Self::Anthropic => render::anthropic::body(ask),
            Self::OpenAiChat | Self::Mistral | Self::DeepSeek => render::openai_chat::body(ask),
            Self::OpenAiResponses => render::openai_responses::body(ask),
            Self::Gemini => render::gemini::body(ask),
            Self::Bedrock => render::bedrock::body(ask),
            Self::Ollama => render::ollama::body(ask),
        }
    }

    /// Checks the body of a request against the rules of the strictest known server. `Err` has every broken rule.
    pub fn validate(self, body: &Value) -> Result<(), Vec<Violation>> {
        let mut violations = Violations::default();
        match self {
            Self::Anthropic => anthropic::check(body, &mut violations),
            Self::OpenAiChat => openai_chat::check(body, &mut violations),
            Self::OpenAiResponses => openai_responses::check(body, &mut violations),
            Self::Gemini => gemini::check(body, &mut violations),
            Self::Bedrock => bedrock::check(body, &mut violations),
            Self::Ollama => ollama::check(body, &mut violations),
            Self::Mistral => mistral::check(body, &mut violations),
            Self::DeepSeek => deepseek::check(body, &mut violations),
        }
        violations.into_result()
    }
}

/// The beginning of a signature that [`signature_of`] made.
const SIGNATURE_OF: &str = "signature-of-";

/// A signature that names its provider, in that provider's format. Only its provider can read a real one, so every validator refuses
/// one that names another.
pub fn signature_of(by: &str) -> Signature {
    let value = format!("{SIGNATURE_OF}{by}");
    if by == render::openai_responses::NAME {
        return render::openai_responses::seal("rs_1", &value);
    }
    Signature::new(by, value)
}

/// Checks that a stored history can go on: with one more user message it keeps the promises of [`andon_core::prompt`], and every
/// provider accepts it, with tools, thinking and caching, and without. Returns what does not hold, and for which provider.
///
/// A good history is checked once: the explorer sees few that differ, each at thousands of points.
pub fn check_history<M: Borrow<Message>>(history: &[M]) -> Vec<String> {
    static GOOD: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let history: Vec<&Message> = history.iter().map(Borrow::borrow).collect();
    let known = serde_json::to_string(&history).unwrap_or_default();
    if GOOD.lock().contains(&known) {
        return Vec::new();
    }
    let found = check_new_history(history);
    if found.is_empty() {
        GOOD.lock().insert(known);
    }
    found
}

fn check_new_history(history: Vec<&Message>) -> Vec<String> {
    let next = Message::user("Go on.");
    let history: Vec<&Message> = history.into_iter().chain([&next]).collect();
    let prompt = prompt(history.iter().copied());
    let mut found = violations_of("prompt", check_prompt(&prompt));
    found.extend(violations_of("prompt", check_prompt_of(&history, &prompt)));
    let tool = ToolSpec::new("look", "Looks.", json!({"type": "object", "properties": {}}));
    let tools = [Arc::new(tool)];
    let plain = Settings::default();
    let rich = Settings::default().thinking(Thinking::High).cache(true);
    for provider in Provider::ALL {
        for (tools, settings) in [(&[][..], &plain), (&tools[..], &rich)] {
            let ask = provider.ask(&prompt, tools, settings).instructions("Be brief.");
            let body = provider.render(&ask);
            // Most violations occur both ways.
            for line in violations_of(provider.name(), provider.validate(&body)) {
                if !found.contains(&line) {
                    found.push(line);
                }
            }
        }
    }
    found
}

fn violations_of(who: &str, checked: Result<(), Vec<Violation>>) -> Vec<String> {
    let violations = checked.err().unwrap_or_default();
    violations.iter().map(|violation| format!("{who}: {violation}")).collect()
}

#[cfg(test)]
mod tests {
    use andon_core::cancel::Reason;
    use andon_core::id::CallId;
    use andon_core::message::{Content, Cut, Image, Part, ResultStatus, Role, ToolCall, ToolResult};

    use super::*;

    /// A place, words of the rule that is broken there, and a change that breaks it.
    pub(crate) type Wrong = (&'static str, &'static str, fn(&mut Value));

    /// Makes each change to a good body, which passes, and expects the matching violation.
    pub(crate) fn assert_each_is_refused(provider: Provider, good: &Value, wrong: &[Wrong]) {
        assert_eq!(provider.validate(good), Ok(()));
        for (path, words, change) in wrong {
            let mut body = good.clone();
            change(&mut body);
            let violations = provider.validate(&body).expect_err(words);
            let named = violations.iter().any(|found| found.path == *path && found.rule.contains(words));
            assert!(named, "expected `{words}` at {path}, found {violations:#?}");
        }
    }

    const CANCELLED: Option<Cut> = Some(Cut::Cancelled(Reason::Requested));

    fn assistant(parts: Vec<Part>, cut: Option<Cut>) -> Message {
        Message::new(Role::Assistant, parts).cut(cut)
    }

    fn thought(by: Option<&str>) -> Part {
        Part::Thinking { text: "Let me see.".into(), signature: by.map(signature_of) }
    }

    fn call(id: &str, name: &str, arguments: &str) -> Part {
        Part::ToolCall(ToolCall::new(CallId::new(id).unwrap(), name, arguments))
    }

    fn result(id: &str, status: ResultStatus) -> Part {
        Part::ToolResult(ToolResult::text(CallId::new(id).unwrap(), status, "It was so."))
    }

    fn results(parts: Vec<Part>) -> Message {
        Message::new(Role::Tool, parts)
    }

    fn assert_can_be_sent_next(history: &[Message]) {
        assert_eq!(check_history(history), Vec::<String>::new(), "{history:#?}");
    }

    #[test]
    fn an_empty_history_can_be_sent_next() {
        assert_can_be_sent_next(&[]);
    }

    #[test]
    fn an_answer_that_was_cut_in_its_text_can_be_sent_next_for_every_reason() {
        for cut in [CANCELLED, Some(Cut::Cancelled(Reason::Superseded)), Some(Cut::Broken), Some(Cut::Lost), None] {
            assert_can_be_sent_next(&[Message::user("Count"), assistant(vec![Part::text("One, two ")], cut)]);
            assert_can_be_sent_next(&[Message::user("Count"), assistant(vec![Part::text(" \n")], cut)]);
        }
    }

    #[test]
    fn an_answer_that_was_cut_while_thinking_can_be_sent_next_wherever_the_cut_was() {
        let pieces = [
            vec![thought(None)],
            vec![thought(Some("anthropic"))],
            vec![thought(Some("anthropic")), thought(None)],
            vec![thought(Some("anthropic")), Part::text("So")],
            vec![thought(Some("anthropic")), Part::text("So"), thought(None)],
            vec![thought(Some("anthropic")), Part::text("So"), thought(Some("anthropic"))],
            vec![Part::text("So"), thought(Some("anthropic"))],
            vec![Part::Thinking { text: String::new(), signature: Some(signature_of("anthropic")) }],
        ];
        for parts in pieces {
            assert_can_be_sent_next(&[Message::user("A"), assistant(parts.clone(), CANCELLED)]);
            assert_can_be_sent_next(&[Message::user("A"), assistant(parts.clone(), None)]);
            let again = [Message::user("A"), assistant(parts.clone(), CANCELLED), Message::user("B")];
            assert_can_be_sent_next(&[&again[..], &[assistant(parts, Some(Cut::Lost))]].concat());
        }
    }

    #[test]
    fn blank_inputs_and_results_without_words_can_be_sent_next() {
        let blank = |id: &str| Part::ToolResult(ToolResult::text(CallId::new(id).unwrap(), ResultStatus::Error, " "));
        let silent = ToolResult::new(CallId::new("b").unwrap(), ResultStatus::Ok, vec![]);
        let answer = assistant(vec![call("a", "look", "{}"), call("b", "look", "{}")], None);
        assert_can_be_sent_next(&[Message::user(" "), answer, results(vec![blank("a"), Part::ToolResult(silent)])]);
        assert_can_be_sent_next(&[Message::user("").parts(vec![]), Message::assistant("Yes?")]);
    }

    #[test]
    fn an_empty_cut_answer_and_unanswered_prompts_can_be_sent_next() {
        assert_can_be_sent_next(&[Message::user("A"), assistant(vec![], CANCELLED)]);
        assert_can_be_sent_next(&[Message::user("A")]);
        assert_can_be_sent_next(&[Message::user("A"), Message::user("B")]);
        assert_can_be_sent_next(&[
            Message::user("A"),
            Message::assistant("So."),
            Message::user("B"),
            Message::user("C"),
        ]);
    }

    #[test]
    fn parallel_calls_can_be_sent_next_with_any_mix_of_ends() {
        let statuses =
            [ResultStatus::Ok, ResultStatus::Error, ResultStatus::Refused, ResultStatus::Cut, ResultStatus::Unknown];
        let ids = ["a", "b", "c", "d", "e"];
        let mut said = vec![thought(Some("anthropic")), Part::text("Looking.")];
        said.extend(ids.map(|id| call(id, "look", "{\"at\": 1}")));
        let ends = ids.into_iter().zip(statuses).map(|(id, status)| result(id, status)).collect();
        let turn = [Message::user("Look."), assistant(said, None), results(ends)];
        assert_can_be_sent_next(&turn);
        assert_can_be_sent_next(&[&turn[..], &[Message::assistant("So.")]].concat());
        assert_can_be_sent_next(&[&turn[..], &[assistant(vec![Part::text("So")], CANCELLED)]].concat());
        assert_can_be_sent_next(&[&turn[..], &[assistant(vec![thought(None)], CANCELLED)]].concat());
    }

    #[test]
    fn a_refused_call_of_a_cut_answer_can_be_sent_next() {
        let answer = assistant(vec![call("a", "look", "{}"), Part::text("And")], CANCELLED);
        assert_can_be_sent_next(&[Message::user("Look."), answer, results(vec![result("a", ResultStatus::Refused)])]);
    }

    #[test]
    fn malformed_arguments_can_be_sent_next() {
        for arguments in ["", " ", "{", "[1]", "null", "\"text\"", "{\"a\":1}}", "{\"a\":\"\\ud800\"}", "{\"a\":1e999}"]
        {
            let answer = assistant(vec![call("a", "look", arguments)], None);
            assert_can_be_sent_next(&[
                Message::user("Look."),
                answer,
                results(vec![result("a", ResultStatus::Refused)]),
            ]);
        }
    }

    #[test]
    fn strange_ids_and_names_can_be_sent_next() {
        let long = "x".repeat(256);
        let ids = ["functions.look:0", "call 1", "ünïcode", long.as_str(), "fc_1|rs_2", "-"];
        let names = ["functions.look", "", "look at/this", "1st", long.as_str(), "ögon"];
        let said = ids.iter().zip(names).map(|(id, name)| call(id, name, "{}")).collect();
        let ends = ids.iter().map(|id| result(id, ResultStatus::Ok)).collect();
        assert_can_be_sent_next(&[Message::user("Look."), assistant(said, None), results(ends)]);
    }

    #[test]
    fn images_can_be_sent_next_wherever_their_bytes_are() {
        let references = ["https://example.com/a.png", "data:image/png;base64,AAAA", "blob-1"];
        let image = |reference: &str| Image::new("image/png", reference);
        let content = references.iter().map(|reference| Content::Image(image(reference))).collect();
        let seen = ToolResult::new(CallId::new("a").unwrap(), ResultStatus::Ok, content);
        let user = Message::user("").parts(references.iter().map(|reference| Part::Image(image(reference))).collect());
        let answer = assistant(vec![Part::Image(image("blob-1")), call("a", "look", "{}")], None);
        assert_can_be_sent_next(&[user, answer, results(vec![Part::ToolResult(seen)])]);
    }

    #[test]
    fn a_history_of_shared_messages_can_be_checked_and_a_lost_result_is_seen_by_everyone() {
        let history = [Arc::new(Message::user("A")), Arc::new(assistant(vec![call("a", "look", "{}")], None))];
        let found = check_history(&history);
        for who in ["prompt"].into_iter().chain(Provider::ALL.map(Provider::name)) {
            assert!(found.iter().any(|line| line.starts_with(&format!("{who}: "))), "{who}: {found:#?}");
        }
    }
}
