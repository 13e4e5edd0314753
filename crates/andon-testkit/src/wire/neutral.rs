//! The promises of [`andon_core::prompt`], checked on its prompts.

use std::borrow::Borrow;
use std::collections::HashSet;

use andon_core::message::{Content, Message, Part, Role};
use serde_json::Value;

use super::violation::{Violation, Violations};

/// Checks the promises that a prompt keeps by itself: 1 to 5, and that no answer ends with a thought.
pub fn check_prompt(prompt: &[Message]) -> Result<(), Vec<Violation>> {
    let mut violations = Violations::default();
    check_ends(prompt, &mut violations);
    let mut before: Option<&Message> = None;
    let mut seen = HashSet::new();
    for (place, message) in prompt.iter().enumerate() {
        let path = format!("prompt[{place}]");
        check_order(&path, before, message, &mut violations);
        check_results(&path, message, prompt.get(place + 1), &mut violations);
        violations.require(!message.parts.is_empty(), &path, "5: no message is without parts");
        let ends_with_a_thought = matches!(message.parts.last(), Some(Part::Thinking { .. }));
        violations.require(!ends_with_a_thought, &path, "6: no answer ends with a thought");
        for (place, part) in message.parts.iter().enumerate() {
            check_part(&format!("{path}.parts[{place}]"), part, message.role, &mut violations);
        }
        for call in message.calls() {
            violations.require(seen.insert(&call.id), &path, "4: call ids are unique");
        }
        before = Some(message);
    }
    violations.into_result()
}

/// Checks the promises that need the stored history: 6 and 7. The history's last message is the user's.
pub fn check_prompt_of<M: Borrow<Message>>(history: &[M], prompt: &[Message]) -> Result<(), Vec<Violation>> {
    let mut violations = Violations::default();
    let whole = history.iter().map(Borrow::borrow).filter(|message| message.cut.is_none());
    let allowed: Vec<&Part> = whole.flat_map(|message| &message.parts).collect();
    for (place, message) in prompt.iter().enumerate() {
        for part in &message.parts {
            let unsigned = matches!(part, Part::Thinking { signature: None, .. });
            let rule = "6: a thought of a cut answer is there with its signature, or not at all";
            violations.require(!unsigned || allowed.contains(&part), &format!("prompt[{place}]"), rule);
        }
    }
    let last_answer = history.iter().rev().map(Borrow::borrow).find(|message| message.role == Role::Assistant);
    if last_answer.is_some_and(|answer| answer.cut.is_some()) {
        let told = prompt.last().filter(|last| last.role == Role::User).is_some_and(tells_of_a_stop);
        violations.require(told, "prompt", "7: a model whose last answer was stopped is told so");
    }
    violations.into_result()
}

/// Whether a note in brackets comes before the user's own words.
fn tells_of_a_stop(message: &Message) -> bool {
    let is_note = |part: &Part| matches!(part, Part::Text { text } if text.starts_with('[') && text.ends_with(']'));
    message.parts.split_last().is_some_and(|(_, before)| before.iter().any(is_note))
}

fn check_ends(prompt: &[Message], violations: &mut Violations) {
    let begins = prompt.first().is_some_and(|first| first.role == Role::User);
    violations.require(begins, "prompt[0]", "1: a prompt begins with a user message");
    let ends = prompt.last().is_some_and(|last| last.role != Role::Assistant);
    violations.require(ends, "prompt", "1: a prompt ends with a user or tool message");
}

fn check_order(path: &str, before: Option<&Message>, message: &Message, violations: &mut Violations) {
    let fits = match (before.map(|before| before.role), message.role) {
        (None, _) => true,
        (Some(Role::User | Role::Tool), Role::Assistant) => true,
        (Some(Role::Assistant), Role::User | Role::Tool) => true,
        (Some(Role::Tool), Role::User) => true,
        (Some(Role::User), Role::User | Role::Tool)
        | (Some(Role::Tool), Role::Tool)
        | (Some(Role::Assistant), Role::Assistant) => false,
    };
    violations.require(fits, path, "2: roles alternate, and only a user message may follow a tool message");
}

fn check_results(path: &str, message: &Message, next: Option<&Message>, violations: &mut Violations) {
    let calls: Vec<&str> = message.calls().map(|call| call.id.as_str()).collect();
    let results: Vec<&str> =
        next.map(|next| next.results().map(|result| result.call.as_str()).collect()).unwrap_or_default();
    if calls != results {
        let (calls, results) = (calls.join(", "), results.join(", "));
        violations.add(path, format!("3: calls [{calls}] are followed by the results [{results}]"));
    }
}

fn check_part(path: &str, part: &Part, role: Role, violations: &mut Violations) {
    let fits = match (part, role) {
        (Part::Text { .. } | Part::Image(_), Role::User | Role::Assistant) => true,
        (Part::Thinking { .. } | Part::ToolCall(_), Role::Assistant) => true,
        (Part::ToolResult(_), Role::Tool) => true,
        (Part::Text { .. } | Part::Image(_), Role::Tool)
        | (Part::Thinking { .. } | Part::ToolCall(_), Role::User | Role::Tool)
        | (Part::ToolResult(_), Role::User | Role::Assistant) => false,
        #[cfg(not(andon_whole))]
        _ => true,
    };
    violations.require(fits, path, "2: a part fits its message's role");
    let is_blank = |content: &Content| matches!(content, Content::Text { text } if text.trim().is_empty());
    let empty = match part {
        Part::Text { text } => text.trim().is_empty(),
        Part::Thinking { text, signature } => text.is_empty() && signature.is_none(),
        Part::ToolResult(result) => result.content.is_empty() || result.content.iter().any(is_blank),
        Part::Image(_) | Part::ToolCall(_) => false,
        #[cfg(not(andon_whole))]
        _ => false,
    };
    violations.require(!empty, path, "5: no part is empty");
    if let Part::ToolCall(call) = part {
        let is_object = serde_json::from_str::<Value>(&call.arguments).is_ok_and(|value| value.is_object());
        violations.require(is_object, path, "4: arguments are a JSON object");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use andon_core::cancel::Reason;
    use andon_core::id::CallId;
    use andon_core::message::{Cut, ResultStatus, Signature, ToolCall, ToolResult};

    fn call(id: &str, arguments: &str) -> Part {
        Part::ToolCall(ToolCall::new(CallId::new(id).unwrap(), "look", arguments))
    }

    fn result(id: &str, text: &str) -> Part {
        Part::ToolResult(ToolResult::text(CallId::new(id).unwrap(), ResultStatus::Ok, text))
    }

    fn message(role: Role, parts: Vec<Part>) -> Message {
        Message::new(role, parts)
    }

    fn good() -> Vec<Message> {
        vec![
            Message::user("Look."),
            message(Role::Assistant, vec![call("a", "{}"), call("b", "{}")]),
            message(Role::Tool, vec![result("a", "seen"), result("b", "seen")]),
            Message::user("Go on."),
        ]
    }

    #[test]
    fn a_good_prompt_passes() {
        assert_eq!(check_prompt(&good()), Ok(()));
    }

    #[test]
    fn every_broken_promise_is_named_with_its_place() {
        type Change = fn(&mut Vec<Message>);
        let wrong: Vec<(&str, &str, Change)> = vec![
            ("prompt[0]", "1: a prompt begins", |prompt| drop(prompt.remove(0))),
            ("prompt", "1: a prompt ends", |prompt| prompt.push(Message::assistant("So."))),
            ("prompt[1]", "2: roles", |prompt| prompt.insert(1, Message::user("Look."))),
            ("prompt[2].parts[0]", "2: a part", |prompt| prompt[2].parts[0] = Part::text("seen")),
            ("prompt[1]", "3: calls [a, b] are followed by the results [b, a]", |prompt| prompt[2].parts.swap(0, 1)),
            ("prompt[1]", "3: calls [a, b] are followed by the results [a]", |prompt| drop(prompt[2].parts.pop())),
            ("prompt[1]", "3: calls [a] are followed", |prompt| drop(prompt[1].parts.pop())),
            ("prompt[1]", "4: call ids", |prompt| prompt[1].parts[1] = call("a", "{}")),
            ("prompt[1].parts[0]", "4: arguments", |prompt| prompt[1].parts[0] = call("a", "")),
            ("prompt[0]", "5: no message", |prompt| prompt[0].parts.clear()),
            ("prompt[0].parts[0]", "5: no part", |prompt| prompt[0].parts[0] = Part::text(" ")),
            ("prompt[2].parts[0]", "5: no part", |prompt| prompt[2].parts[0] = result("a", "")),
            ("prompt[1]", "6: no answer ends", |prompt| {
                prompt[1]
                    .parts
                    .push(Part::Thinking { text: "hm".into(), signature: Some(Signature::new("maker", "seal")) });
            }),
        ];
        for (path, words, change) in wrong {
            let mut prompt = good();
            change(&mut prompt);
            let violations = check_prompt(&prompt).unwrap_err();
            let named = violations.iter().any(|found| found.path == path && found.rule.contains(words));
            assert!(named, "expected `{words}` at {path}, found {violations:?}");
        }
    }

    #[test]
    fn a_model_that_was_not_told_of_its_stop_is_noticed() {
        let cut = Message::assistant("One").cut(Cut::Cancelled(Reason::Requested));
        let history = [Message::user("Count"), cut, Message::user("Go on.")];
        let told = andon_core::prompt::prompt(&history);
        assert_eq!(check_prompt_of(&history, &told), Ok(()));
        let untold = [Message::user("Count"), Message::assistant("One"), Message::user("Go on.")];
        assert!(check_prompt_of(&history, &untold).unwrap_err()[0].rule.starts_with("7"));
    }

    #[test]
    fn a_half_thought_in_a_prompt_is_noticed() {
        let thought = vec![Part::Thinking { text: "hm".into(), signature: None }, Part::text("So.")];
        let sent = message(Role::Assistant, thought);
        let cut = sent.clone().cut(Cut::Lost);
        let history = [Message::user("A"), cut, Message::user("B")];
        let violations = check_prompt_of(&history, &[Message::user("A"), sent, Message::user("B")]).unwrap_err();
        assert!(violations[0].rule.starts_with("6"), "{violations:?}");
    }
}
