//! What every renderer does to a prompt first.
//!
//! # What holds afterwards
//!
//! 1. A thought is there only if the provider accepts it: signed by that provider, and in a place where it accepts one.
//! 2. An answer's calls come after its text: some servers accept nothing between a call and its result. Where thoughts keep their
//!    places, the whole answer does.
//!
//! The prompt promises the rest: whatever is removed from an answer here, its last part stays.

use std::borrow::Cow;

use andon_runtime::core::message::{Content, Message, Part, Role, ToolResult};
use serde_json::{Map, Value, json};

/// Which thoughts a provider accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Thoughts {
    /// None: there is no place for them in a request.
    Dropped,
    /// Those without a signature.
    Unsigned,
    /// Those with its own signature, and then nothing in the whole answer may be moved.
    InPlace(&'static str),
    /// Those with its own signature, each bound to the part that follows it.
    Bound(&'static str),
}

/// Prepares the prompt. The module's docs say what holds afterwards.
pub(super) fn prepare(prompt: &[Message], thoughts: Thoughts) -> impl Iterator<Item = Cow<'_, Message>> {
    prompt.iter().map(move |message| match message.role {
        Role::Assistant if !is_text(message) => {
            Cow::Owned(Message::new(message.role, answer(&message.parts, thoughts)).cut(message.cut))
        }
        Role::Assistant | Role::User | Role::Tool => Cow::Borrowed(message),
    })
}

fn is_text(message: &Message) -> bool {
    message.parts.iter().all(|part| matches!(part, Part::Text { .. }))
}

fn answer(parts: &[Part], thoughts: Thoughts) -> Vec<Part> {
    match thoughts {
        Thoughts::Dropped => calls_last(parts.iter().filter(|part| !is_thought(part)).cloned()),
        Thoughts::Unsigned => calls_last(parts.iter().filter(|part| !is_thought(part) || is_unsigned(part)).cloned()),
        Thoughts::InPlace(by) => {
            let kept = parts.iter().filter(|part| !is_thought(part) || is_signed(part, by)).cloned();
            if parts.iter().any(|part| is_signed(part, by)) { kept.collect() } else { calls_last(kept) }
        }
        Thoughts::Bound(by) => bound(parts, by),
    }
}

fn calls_last(parts: impl Iterator<Item = Part>) -> Vec<Part> {
    let (calls, mut answer): (Vec<Part>, Vec<Part>) = parts.partition(|part| matches!(part, Part::ToolCall(_)));
    answer.extend(calls);
    answer
}

/// Each thought goes with the part after it.
fn bound(parts: &[Part], by: &str) -> Vec<Part> {
    let (mut words, mut calls, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        let place = match part {
            Part::Thinking { .. } => {
                waiting.extend(is_signed(part, by).then(|| part.clone()));
                continue;
            }
            Part::ToolCall(_) => &mut calls,
            Part::Text { .. } | Part::Image(_) | Part::ToolResult(_) => &mut words,
            #[cfg(not(andon_whole))]
            _ => &mut words,
        };
        place.append(&mut waiting);
        place.push(part.clone());
    }
    words.append(&mut calls);
    words
}

fn is_thought(part: &Part) -> bool {
    matches!(part, Part::Thinking { .. })
}

fn is_signed(part: &Part, name: &str) -> bool {
    matches!(part, Part::Thinking { signature: Some(signature), .. } if &*signature.by == name)
}

fn is_unsigned(part: &Part) -> bool {
    matches!(part, Part::Thinking { signature: None, .. })
}

/// The turns of an API with only two roles, user and assistant, each with its blocks in `content`.
pub(super) fn two_sided(
    prompt: &[Message],
    thoughts: Thoughts,
    block: impl Fn(&Part, Role) -> Value + Copy,
) -> Vec<Value> {
    let mut turns = Vec::new();
    for message in prepare(prompt, thoughts) {
        let role = match message.role {
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
        };
        push_turn(&mut turns, role, "content", message.parts.iter().map(|part| block(part, message.role)));
    }
    turns
}

/// Adds a turn for an API with only two roles: the tools' results and the user's next message are one turn.
pub(super) fn push_turn(turns: &mut Vec<Value>, role: &str, field: &str, blocks: impl Iterator<Item = Value>) {
    let last = turns.last_mut().filter(|last| last.get("role").and_then(Value::as_str) == Some(role));
    if let Some(Value::Array(said)) = last.and_then(|last| last.get_mut(field)) {
        said.extend(blocks);
        return;
    }
    let turn = [("role".to_owned(), json!(role)), (field.to_owned(), blocks.collect())];
    turns.push(Value::Object(Map::from_iter(turn)));
}

/// What a tool returned, as one text for providers that accept nothing else.
pub(super) fn contents_in_words(result: &ToolResult) -> String {
    let words = result.content.iter().map(|content| match content {
        Content::Text { text } => Cow::Borrowed(text.as_str()),
        Content::Image(image) => Cow::Owned(super::image::in_words(image)),
        #[cfg(not(andon_whole))]
        _ => Cow::Borrowed(super::UNKNOWN),
    });
    words.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use andon_runtime::core::id::CallId;
    use andon_runtime::core::message::{Image, ResultStatus, Signature, ToolCall};

    const OWN: Thoughts = Thoughts::InPlace("maker");
    const BOUND: Thoughts = Thoughts::Bound("maker");

    fn thought(by: Option<&str>) -> Part {
        Part::Thinking { text: "hm".into(), signature: by.map(|by| Signature::new(by, "seal")) }
    }

    fn call() -> Part {
        Part::ToolCall(ToolCall::new(CallId::new("c").unwrap(), "t", "{}"))
    }

    #[test]
    fn a_signed_thought_goes_back_only_to_its_own_provider() {
        let kept = vec![thought(Some("maker")), Part::text("So.")];
        assert_eq!(answer(&kept, OWN), kept);
        assert_eq!(answer(&kept, Thoughts::Dropped), vec![Part::text("So.")]);
        for other in [thought(None), thought(Some("somebody else"))] {
            assert_eq!(answer(&[other.clone(), Part::text("So.")], OWN), vec![Part::text("So.")]);
            assert_eq!(answer(&[other, Part::text("So.")], BOUND), vec![Part::text("So.")]);
        }
    }

    #[test]
    fn an_answer_with_a_thought_of_its_own_provider_keeps_its_order() {
        let late = [Part::text("So."), thought(Some("maker")), call(), thought(Some("maker")), Part::text("Or.")];
        assert_eq!(answer(&late, OWN), late);
        let mixed = [thought(Some("somebody else")), call(), Part::text("So.")];
        assert_eq!(answer(&mixed, OWN), vec![Part::text("So."), call()]);
    }

    #[test]
    fn a_bound_thought_stays_with_the_part_after_it() {
        let said = [thought(Some("maker")), call(), thought(Some("else")), Part::text("So.")];
        assert_eq!(answer(&said, BOUND), vec![Part::text("So."), thought(Some("maker")), call()]);
        let late = [Part::text("So."), thought(Some("maker")), call()];
        assert_eq!(answer(&late, BOUND), late);
    }

    #[test]
    fn a_plain_thought_is_sent_only_to_providers_that_accept_it() {
        let said = [thought(None), thought(Some("maker")), Part::text("So.")];
        assert_eq!(answer(&said, Thoughts::Unsigned), vec![thought(None), Part::text("So.")]);
    }

    #[test]
    fn calls_come_after_the_text() {
        let mixed = [call(), Part::text("Looking.")];
        assert_eq!(answer(&mixed, Thoughts::Dropped), vec![Part::text("Looking."), call()]);
    }

    #[test]
    fn what_a_tool_returned_becomes_one_text() {
        let image = Image::new("image/png", "blob-1");
        let content = vec![Content::Text { text: "Seen:".into() }, Content::Image(image)];
        let result = ToolResult::new(CallId::new("c").unwrap(), ResultStatus::Ok, content);
        assert_eq!(contents_in_words(&result), "Seen:\n[image of type image/png]");
    }
}
