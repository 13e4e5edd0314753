//! What every translation does with a prompt before it translates.
//!
//! # What holds afterwards
//!
//! 1. A thought is there only if the provider takes it back: signed, and at the beginning of its message.
//! 2. An answer's calls stand behind its words: some servers take nothing between a call and its result.
//!
//! The rest is the prompt's own promise: whatever is taken from an answer here, its last part stays.

use andon_core::message::{Content, Message, Part, Role, Signature, ToolResult};
use serde_json::{Map, Value, json};

/// Which thoughts a provider takes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Thoughts {
    /// None: there is no place for them in a request.
    Dropped,
    /// Those with its seal on them.
    Signed,
}

/// Makes the prompt ready for translation. See the module's promises.
pub(super) fn prepare(prompt: &[Message], thoughts: Thoughts) -> Vec<Message> {
    let prepared = prompt.iter().map(|message| match message.role {
        Role::Assistant => Message { parts: answer(&message.parts, thoughts), ..message.clone() },
        Role::User | Role::Tool => message.clone(),
    });
    prepared.collect()
}

fn answer(parts: &[Part], thoughts: Thoughts) -> Vec<Part> {
    let is_taken = |part: &&Part| match part {
        Part::Thinking { signature, .. } => thoughts == Thoughts::Signed && signature.is_some(),
        Part::Text { .. } | Part::Image(_) | Part::ToolCall(_) | Part::ToolResult(_) => true,
    };
    let is_call = |part: &Part| matches!(part, Part::ToolCall(_));
    let is_thought = |part: &Part| matches!(part, Part::Thinking { .. });
    let taken = parts.iter().filter(is_taken).cloned();
    let (calls, mut answer): (Vec<Part>, Vec<Part>) = taken.partition(is_call);
    answer.extend(calls);
    if !answer.first().is_some_and(is_thought) {
        answer.retain(|part| !is_thought(part));
    }
    answer
}

/// Adds a turn in a form where only two speak: the tools' results and the user's next words are one turn.
pub(super) fn push_turn(turns: &mut Vec<Value>, role: &str, field: &str, blocks: impl Iterator<Item = Value>) {
    let last = turns.last_mut().filter(|last| last.get("role").and_then(Value::as_str) == Some(role));
    if let Some(Value::Array(said)) = last.and_then(|last| last.get_mut(field)) {
        said.extend(blocks);
        return;
    }
    let turn = [("role".to_owned(), json!(role)), (field.to_owned(), blocks.collect())];
    turns.push(Value::Object(Map::from_iter(turn)));
}

/// The seal on a thought, if there is one.
pub(super) fn value_of(signature: Option<&Signature>) -> Option<&str> {
    signature.map(|signature| signature.value.as_str())
}

/// What a tool returned, as one text for providers that take no more.
pub(super) fn contents_in_words(result: &ToolResult) -> String {
    let words = result.content.iter().map(|content| match content {
        Content::Text { text } => text.clone(),
        Content::Image(image) => super::image::in_words(image),
    });
    words.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use andon_core::id::CallId;
    use andon_core::message::{Image, ResultStatus, ToolCall};

    fn thought(signature: Option<&str>) -> Part {
        Part::Thinking { text: "hm".into(), signature: signature.map(|seal| Signature::new("maker", seal)) }
    }

    #[test]
    fn a_thought_stays_only_if_it_is_signed_and_opens_the_answer() {
        let kept = vec![thought(Some("seal")), Part::text("So.")];
        assert_eq!(answer(&kept, Thoughts::Signed), kept);
        assert_eq!(answer(&kept, Thoughts::Dropped), vec![Part::text("So.")]);
        assert_eq!(answer(&[thought(None), Part::text("So.")], Thoughts::Signed), vec![Part::text("So.")]);
        let late = [Part::text("So."), thought(Some("seal")), Part::text("Or.")];
        assert_eq!(answer(&late, Thoughts::Signed), vec![Part::text("So."), Part::text("Or.")]);
    }

    #[test]
    fn calls_stand_behind_the_words() {
        let call = Part::ToolCall(ToolCall { id: CallId::new("c").unwrap(), name: "t".into(), arguments: "{}".into() });
        let mixed = [call.clone(), Part::text("Looking.")];
        assert_eq!(answer(&mixed, Thoughts::Dropped), vec![Part::text("Looking."), call]);
    }

    #[test]
    fn what_a_tool_returned_becomes_one_text() {
        let image = Image { media_type: "image/png".into(), reference: "blob-1".into() };
        let content = vec![Content::Text { text: "Seen:".into() }, Content::Image(image)];
        let result = ToolResult { call: CallId::new("c").unwrap(), status: ResultStatus::Ok, content };
        assert_eq!(contents_in_words(&result), "Seen:\n[image of type image/png]");
    }
}
