//! Strict stand-ins for the providers: what a stored history becomes on the wire, and whether its server would accept it.
//!
//! Promise P2 says that a stored conversation can be sent to every supported provider as its next request. [`check_history`] checks
//! for a history, as a session stores it, what holds for all of them. With the feature `providers` it also renders the history for
//! each of them, without a network: `Provider::render` renders a prompt as its adapter in `andon_models` does, and
//! `Provider::validate` checks a body against the rules of the strictest known server of that API. A validator knows nothing about
//! rendering: it can judge any adapter's body.

#[cfg(feature = "providers")]
mod anthropic;
#[cfg(feature = "providers")]
mod bedrock;
#[cfg(feature = "providers")]
mod deepseek;
#[cfg(feature = "providers")]
mod gemini;
#[cfg(feature = "strategies")]
pub mod histories;
#[cfg(feature = "providers")]
mod mistral;
mod neutral;
#[cfg(feature = "providers")]
mod ollama;
#[cfg(feature = "providers")]
mod openai_chat;
#[cfg(feature = "providers")]
mod openai_responses;
#[cfg(feature = "providers")]
mod providers;
#[cfg(feature = "providers")]
mod rules;
mod violation;

use std::borrow::Borrow;
use std::collections::HashSet;
use std::sync::LazyLock;

use andon_core::message::Message;
use andon_core::prompt::prompt;
use parking_lot::Mutex;

pub use neutral::{check_prompt, check_prompt_of};
#[cfg(feature = "providers")]
pub use providers::{Provider, signature_of};
pub use violation::Violation;
use violation::violations_of;

/// Checks that a stored history can go on: with one more user message it keeps the promises of [`andon_core::prompt`], and, with the
/// feature `providers`, every provider accepts it, with tools, thinking and caching, and without. Returns what does not hold, and for
/// which provider.
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
    #[cfg(feature = "providers")]
    found.extend(providers::refused(&prompt));
    found
}

#[cfg(feature = "providers")]
#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use andon_core::cancel::Reason;
    use andon_core::id::CallId;
    use andon_core::message::{Content, Cut, Image, Part, ResultStatus, Role, ToolCall, ToolResult};
    use serde_json::Value;

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
