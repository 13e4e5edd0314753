//! Rules that messages must follow for [`prompt`](crate::prompt::prompt) to turn them into something that every provider accepts.
//!
//! Histories that Andon wrote are valid. One from elsewhere is checked before it is stored, and one that a hook changed is checked before
//! it is sent. They may end differently: a user message still follows the first, and the second is sent as it is.

use std::collections::HashSet;
use std::sync::Arc;

use crate::id::CallId;
use crate::message::{ImageError, Message, Part, Role};

/// Why messages from elsewhere cannot be a history, and what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("message {index} of the history: {why}")]
#[non_exhaustive]
pub struct BadHistory {
    /// The index of the message at fault, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub why: HistoryFault,
}

impl BadHistory {
    /// Creates the error for the message at this index.
    pub fn new(index: usize, why: HistoryFault) -> Self {
        Self { index, why }
    }
}

/// What is wrong with a message of a history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum HistoryFault {
    /// The first message is not a user message.
    #[error("the history must begin with a user message")]
    NoUserFirst,
    /// There are no messages to send.
    #[error("the history is empty: add a user message")]
    NoMessages,
    /// The messages were to be sent, but the last one is an answer.
    #[error("the last message is the assistant's: end with a user message")]
    NothingToAnswer,
    /// A user message has no parts.
    #[error("this user message is empty: add text or an image, or remove it")]
    NothingAsked,
    /// A message has a part that its role cannot have.
    #[error(
        "this role cannot have such a part: user messages have text and images, answers have text, thoughts and calls, and tool messages have results"
    )]
    PartOfAnotherRole,
    /// Two calls have the same id.
    #[error("two calls have the id {0}: give each its own id, and its result the same id")]
    DuplicateCall(CallId),
    /// A call has no result.
    #[error("call {0} has no result: put one into the tool message after its answer")]
    NoResult(CallId),
    /// A result matches no call that is open.
    #[error("the result of {0} matches no open call of the previous answer: remove it")]
    NoCall(CallId),
    /// Results are in another order than their calls.
    #[error("the results are in another order than their calls, which some providers refuse: reorder them")]
    OtherOrder,
    /// A tool message has no results.
    #[error("this tool message has no results: remove it")]
    NoResults,
    /// An image is not valid.
    #[error(transparent)]
    BadImage(#[from] ImageError),
}

/// Checks that messages from elsewhere can be a history that the next user message continues.
pub fn check(messages: &[Arc<Message>]) -> Result<(), BadHistory> {
    last_of(messages.iter().map(|message| &**message)).map(drop)
}

/// Checks that messages can be sent to a model as they are.
pub fn check_sendable<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Result<(), BadHistory> {
    match last_of(messages)? {
        None => Err(BadHistory { index: 0, why: HistoryFault::NoMessages }),
        Some((index, Role::Assistant)) => Err(BadHistory { index, why: HistoryFault::NothingToAnswer }),
        Some((_, Role::User | Role::Tool)) => Ok(()),
    }
}

/// Checks messages, whatever comes after them. Returns the index and the role of the last one.
fn last_of<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Result<Option<(usize, Role)>, BadHistory> {
    let mut known = HashSet::new();
    let mut before: Option<(usize, &Message)> = None;
    for (index, message) in messages.into_iter().enumerate() {
        follows(before.map(|(_, before)| before), message).map_err(|why| BadHistory { index, why })?;
        stands(message, &mut known).map_err(|why| BadHistory { index, why })?;
        before = Some((index, message));
    }
    let Some((index, last)) = before else { return Ok(None) };
    match last.calls().next() {
        Some(call) => Err(BadHistory { index, why: HistoryFault::NoResult(call.id.clone()) }),
        None => Ok(Some((index, last.role))),
    }
}

/// Whether a message may come after the one before it. Two answers in a row are sent as one.
fn follows(before: Option<&Message>, message: &Message) -> Result<(), HistoryFault> {
    let asked: Vec<&CallId> = before.into_iter().flat_map(Message::calls).map(|call| &call.id).collect();
    match (before.map(|before| before.role), message.role) {
        (None, Role::Assistant | Role::Tool) => Err(HistoryFault::NoUserFirst),
        (_, Role::Tool) => answers(&asked, message),
        (_, Role::User | Role::Assistant) => match asked.first() {
            Some(open) => Err(HistoryFault::NoResult((*open).clone())),
            None => Ok(()),
        },
    }
}

/// Whether a tool message has the results of these calls.
fn answers(asked: &[&CallId], message: &Message) -> Result<(), HistoryFault> {
    let given: Vec<&CallId> = message.results().map(|result| &result.call).collect();
    if given.is_empty() && asked.is_empty() {
        return Err(HistoryFault::NoResults);
    }
    let mut left = asked.to_vec();
    for result in &given {
        match left.iter().position(|call| call == result) {
            Some(place) => drop(left.remove(place)),
            None => return Err(HistoryFault::NoCall((*result).clone())),
        }
    }
    match left.first() {
        Some(open) => Err(HistoryFault::NoResult((*open).clone())),
        None if given != asked => Err(HistoryFault::OtherOrder),
        None => Ok(()),
    }
}

/// Whether a message is valid by itself. `known` are the ids of earlier calls.
fn stands(message: &Message, known: &mut HashSet<CallId>) -> Result<(), HistoryFault> {
    let fits = |part: &Part| match (message.role, part) {
        (Role::User, Part::Text { .. } | Part::Image(_)) => true,
        (Role::Assistant, Part::Text { .. } | Part::Thinking { .. } | Part::ToolCall(_)) => true,
        (Role::Tool, Part::ToolResult(_)) => true,
        (Role::User, Part::Thinking { .. } | Part::ToolCall(_) | Part::ToolResult(_))
        | (Role::Assistant, Part::Image(_) | Part::ToolResult(_))
        | (Role::Tool, Part::Text { .. } | Part::Image(_) | Part::Thinking { .. } | Part::ToolCall(_)) => false,
    };
    if !message.parts.iter().all(fits) {
        return Err(HistoryFault::PartOfAnotherRole);
    }
    if message.role == Role::User && message.parts.is_empty() {
        return Err(HistoryFault::NothingAsked);
    }
    for call in message.calls() {
        if !known.insert(call.id.clone()) {
            return Err(HistoryFault::DuplicateCall(call.id.clone()));
        }
    }
    for image in message.images().chain(message.results().flat_map(|result| result.images())) {
        image.check()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Image, ResultStatus, ToolCall, ToolResult};

    fn id(text: &str) -> CallId {
        CallId::new(text).unwrap()
    }

    fn calls(ids: &[&str]) -> Message {
        let call = |text: &&str| ToolCall { id: id(text), name: "look".into(), arguments: "{}".into() };
        let parts = ids.iter().map(|text| Part::ToolCall(call(text))).collect();
        Message { role: Role::Assistant, parts, cut: None }
    }

    fn results(ids: &[&str]) -> Message {
        let result = |text: &&str| Part::ToolResult(ToolResult::text(id(text), ResultStatus::Ok, "seen"));
        Message { role: Role::Tool, parts: ids.iter().map(result).collect(), cut: None }
    }

    fn checked(messages: impl IntoIterator<Item = Message>) -> Result<(), BadHistory> {
        check(&messages.into_iter().map(Arc::new).collect::<Vec<_>>())
    }

    #[test]
    fn a_history_that_every_provider_accepts_is_accepted() {
        let user = || Message::user("Hi");
        assert_eq!(checked([]), Ok(()));
        assert_eq!(checked([user(), Message::assistant("Hello"), user(), user()]), Ok(()));
        let talk = [user(), calls(&["a", "b"]), results(&["a", "b"]), calls(&["c"]), results(&["c"])];
        assert_eq!(checked(talk.clone()), Ok(()), "the input may come right after a tool message");
        assert_eq!(check_sendable(&talk), Ok(()));
        assert_eq!(checked([user(), Message::assistant("Hello"), Message::assistant("You")]), Ok(()), "they are one");
        let withdrawn = Message { parts: vec![], ..Message::assistant("") };
        assert_eq!(check_sendable(&[user(), withdrawn, user()]), Ok(()));
    }

    #[test]
    fn messages_that_leave_a_model_nothing_to_answer_cannot_be_sent() {
        let wrong = |messages: &[Message]| check_sendable(messages).unwrap_err();
        assert_eq!(wrong(&[]), BadHistory { index: 0, why: HistoryFault::NoMessages });
        let answered = [Message::user("Hi"), Message::assistant("Hello")];
        assert_eq!(wrong(&answered), BadHistory { index: 1, why: HistoryFault::NothingToAnswer });
    }

    #[test]
    fn what_a_provider_would_refuse_is_refused_with_its_place_and_what_to_do() {
        use HistoryFault::{
            BadImage, DuplicateCall, NoCall, NoResult, NoResults, NoUserFirst, NothingAsked, OtherOrder,
            PartOfAnotherRole,
        };
        let user = || Message::user("Hi");
        let said = || Message::assistant("Hello");
        let image = Image { media_type: "text/plain".into(), reference: "https://example.com/a".into() };
        let of_user = |part: Part| Message { role: Role::User, parts: vec![part], cut: None };
        let wrong: Vec<(Vec<Message>, usize, HistoryFault)> = vec![
            (vec![said()], 0, NoUserFirst),
            (vec![results(&["a"])], 0, NoUserFirst),
            (vec![user(), Message { parts: vec![], ..user() }], 1, NothingAsked),
            (vec![user(), calls(&["a"])], 1, NoResult(id("a"))),
            (vec![user(), calls(&["a"]), user()], 2, NoResult(id("a"))),
            (vec![user(), calls(&["a"]), said()], 2, NoResult(id("a"))),
            (vec![user(), calls(&["a", "b"]), results(&["a"])], 2, NoResult(id("b"))),
            (vec![user(), calls(&["a"]), results(&["a", "b"])], 2, NoCall(id("b"))),
            (vec![user(), calls(&["a"]), results(&["a", "a"])], 2, NoCall(id("a"))),
            (vec![user(), said(), results(&["a"])], 2, NoCall(id("a"))),
            (vec![user(), results(&["a"])], 1, NoCall(id("a"))),
            (vec![user(), calls(&["a", "b"]), results(&["b", "a"])], 2, OtherOrder),
            (vec![user(), said(), results(&[])], 2, NoResults),
            (vec![user(), calls(&["a", "a"])], 1, DuplicateCall(id("a"))),
            (vec![user(), calls(&["a"]), results(&["a"]), calls(&["a"]), results(&["a"])], 3, DuplicateCall(id("a"))),
            (vec![of_user(Part::Thinking { text: "Hm".into(), signature: None })], 0, PartOfAnotherRole),
            (vec![of_user(Part::Image(image.clone()))], 0, BadImage(image.check().unwrap_err())),
        ];
        for (messages, index, why) in wrong {
            let wrong = Err(BadHistory { index, why });
            assert_eq!(checked(messages.clone()), wrong, "{messages:?}");
            assert_eq!(check_sendable(&messages), wrong, "{messages:?}");
        }
        let error = checked([user(), calls(&["a"])]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "message 1 of the history: call a has no result: put one into the tool message after its answer"
        );
    }
}
