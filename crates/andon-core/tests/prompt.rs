//! Whatever a session has stored, the prompt made from it keeps its promises.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashSet;

use andon_core::cancel::Reason;
use andon_core::id::CallId;
use andon_core::message::{Content, Cut, Message, Part, ResultStatus, Role, Signature, ToolCall, ToolResult};
use andon_core::prompt::prompt;
use proptest::prelude::*;

fn id(text: &str) -> CallId {
    CallId::new(text).unwrap()
}

fn assistant(parts: Vec<Part>, cut: Option<Cut>) -> Message {
    Message::new(Role::Assistant, parts).cut(cut)
}

fn thought(signature: Option<&str>) -> Part {
    Part::Thinking { text: "hm".into(), signature: signature.map(|seal| Signature::new("maker", seal)) }
}

/// A piece of an answer. A call gets its id later, so that all ids of a history differ.
#[derive(Debug, Clone)]
enum Said {
    Text(String),
    Thought { text: String, signature: Option<Signature> },
    Call { arguments: String },
}

/// A turn whose answer came whole and asked for something, with how each call may have ended.
type Turn = (Vec<Said>, Vec<(ResultStatus, String)>);

/// How a run's last answer ended: not at all, whole, or cut.
type Last = Option<(Vec<Said>, Option<Cut>)>;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just(" \n".to_owned()), "[a-zå ]{1,8}"]
}

fn arguments() -> impl Strategy<Value = String> {
    let fixed = ["", " ", "{}", "{\"a\": 1}", " {\"b\": 2 } ", "[1]", "null", "{oops", "{\"a\":1}{"];
    prop_oneof![proptest::sample::select(fixed.to_vec()).prop_map(str::to_owned), "[ -~]{0,12}"]
}

fn said_part() -> impl Strategy<Value = Said> {
    let seal = proptest::option::of(Just(Signature::new("maker", "seal")));
    prop_oneof![
        text().prop_map(Said::Text),
        (text(), seal).prop_map(|(text, signature)| Said::Thought { text, signature }),
        arguments().prop_map(|arguments| Said::Call { arguments }),
    ]
}

fn status() -> impl Strategy<Value = ResultStatus> {
    proptest::sample::select(vec![
        ResultStatus::Ok,
        ResultStatus::Error,
        ResultStatus::Refused,
        ResultStatus::Cut,
        ResultStatus::Unknown,
    ])
}

fn cut() -> impl Strategy<Value = Option<Cut>> {
    let reasons = [Reason::Requested, Reason::Superseded, Reason::Deadline];
    let cuts = reasons.map(Cut::Cancelled).into_iter().chain([Cut::Broken, Cut::Lost]);
    proptest::option::of(proptest::sample::select(cuts.collect::<Vec<_>>()))
}

/// What runs of one session stored: each a user's words, turns with tools, and a last answer or none.
fn history() -> impl Strategy<Value = Vec<Message>> {
    let turn = (proptest::collection::vec(said_part(), 0..4), proptest::collection::vec((status(), text()), 4));
    let last = proptest::option::of((proptest::collection::vec(said_part(), 0..4), cut()));
    let run = (text(), proptest::collection::vec(turn, 0..3), last);
    proptest::collection::vec(run, 1..5).prop_map(|runs| {
        let mut history = Vec::new();
        for (input, turns, last) in runs {
            store_run(&mut history, input, turns, last);
        }
        history
    })
}

fn store_run(history: &mut Vec<Message>, input: String, turns: Vec<Turn>, last: Last) {
    history.push(Message::user(input));
    for (mut said, ends) in turns {
        // A turn without calls would have been the last.
        said.push(Said::Call { arguments: "{}".into() });
        store_answer(history, said, None, &ends);
    }
    if let Some((said, cut)) = last {
        store_answer(history, said, cut, &[(ResultStatus::Refused, "Not run.".into())]);
    }
}

fn store_answer(history: &mut Vec<Message>, said: Vec<Said>, cut: Option<Cut>, ends: &[(ResultStatus, String)]) {
    let turn = history.len();
    let parts = said.into_iter().enumerate().map(|(place, said)| match said {
        Said::Text(text) => Part::Text { text },
        Said::Thought { text, signature } => Part::Thinking { text, signature },
        Said::Call { arguments } => {
            Part::ToolCall(ToolCall::new(id(&format!("call-{turn}-{place}")), "look", arguments))
        }
    });
    let answer = assistant(parts.collect(), cut);
    let closed = answer.calls().zip(ends.iter().cycle());
    let results: Vec<Part> = closed
        .map(|(call, (status, text))| Part::ToolResult(ToolResult::text(call.id.clone(), *status, text)))
        .collect();
    history.push(answer);
    if !results.is_empty() {
        history.push(Message::new(Role::Tool, results));
    }
}

fn assert_promises_one_and_two(prompt: &[Message]) {
    assert_eq!(prompt.first().map(|first| first.role), Some(Role::User), "1: it begins with a user message");
    assert_ne!(prompt.last().map(|last| last.role), Some(Role::Assistant), "1: it ends with a user or tool message");
    for pair in prompt.windows(2) {
        let fits = matches!(
            (pair[0].role, pair[1].role),
            (Role::User | Role::Tool, Role::Assistant) | (Role::Assistant, _) | (Role::Tool, Role::User)
        );
        assert!(fits && pair[0].role != pair[1].role, "2: roles alternate: {pair:?}");
    }
}

fn assert_promises_three_to_five(prompt: &[Message]) {
    let mut seen = HashSet::new();
    for (place, message) in prompt.iter().enumerate() {
        let calls: Vec<_> = message.calls().map(|call| &call.id).collect();
        let next = prompt.get(place + 1);
        let results: Vec<_> = next.iter().flat_map(|next| next.results()).map(|result| &result.call).collect();
        assert_eq!(calls, results, "3: every call has its result, in order");
        for call in message.calls() {
            assert!(seen.insert(&call.id), "4: ids are unique");
            let value: serde_json::Value = serde_json::from_str(&call.arguments).unwrap();
            assert!(value.is_object(), "4: arguments are an object");
        }
        assert!(!message.parts.is_empty(), "5: no message is without parts");
        assert!(!message.parts.iter().any(is_empty), "5: no part is empty: {message:?}");
    }
}

fn is_empty(part: &Part) -> bool {
    let is_blank = |content: &Content| matches!(content, Content::Text { text } if text.trim().is_empty());
    match part {
        Part::Text { text } => text.trim().is_empty(),
        Part::Thinking { text, signature } => text.is_empty() && signature.is_none(),
        Part::ToolResult(result) => result.content.is_empty() || result.content.iter().any(is_blank),
        Part::Image(_) | Part::ToolCall(_) => false,
        #[cfg(not(andon_whole))]
        _ => false,
    }
}

fn assert_promises_six_and_seven(history: &[Message], prompt: &[Message]) {
    let whole: Vec<&Part> =
        history.iter().filter(|message| message.cut.is_none()).flat_map(|message| &message.parts).collect();
    for part in prompt.iter().flat_map(|message| &message.parts) {
        let unsigned = matches!(part, Part::Thinking { signature: None, .. });
        assert!(!unsigned || whole.contains(&part), "6: a half thought was sent: {part:?}");
    }
    let ends_with_a_thought = |message: &Message| matches!(message.parts.last(), Some(Part::Thinking { .. }));
    assert!(!prompt.iter().any(ends_with_a_thought), "6: no answer ends with a thought");
    let last_answer = history.iter().rfind(|message| message.role == Role::Assistant);
    if last_answer.is_some_and(|answer| answer.cut.is_some()) {
        let last = prompt.last().unwrap();
        let told = |part: &Part| matches!(part, Part::Text { text } if text.starts_with("[Your previous answer"));
        assert!(last.role == Role::User && last.parts.iter().any(told), "7: the model is told: {last:?}");
    }
}

/// Text of answers that is not blank, in order.
fn spoken(messages: &[Message]) -> String {
    let answers = messages.iter().filter(|message| message.role == Role::Assistant);
    let words = answers.flat_map(|answer| &answer.parts).filter(|part| !is_empty(part));
    words.filter_map(|part| if let Part::Text { text } = part { Some(text.as_str()) } else { None }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_with_a_next_prompt_keeps_the_promises(mut history in history()) {
        history.push(Message::user("Go on."));
        let prompt = prompt(&history);
        assert_promises_one_and_two(&prompt);
        assert_promises_three_to_five(&prompt);
        assert_promises_six_and_seven(&history, &prompt);
    }

    #[test]
    fn a_prompt_says_every_word_of_the_answers_as_it_was(mut history in history()) {
        history.push(Message::user("Go on."));
        prop_assert_eq!(spoken(&prompt(&history)), spoken(&history));
    }

    #[test]
    fn a_longer_history_begins_with_the_same_prompt_so_that_a_cache_holds(mut history in history()) {
        let next = Message::user("Go on.");
        let shorter = prompt(history.iter().chain([&next]));
        history.extend([next, Message::assistant("So."), Message::user("And?")]);
        prop_assert_eq!(&prompt(&history)[..shorter.len()], &shorter[..]);
    }
}

fn texts(prompt: &[Message]) -> Vec<&str> {
    let parts = prompt.iter().flat_map(|message| &message.parts);
    parts.filter_map(|part| if let Part::Text { text } = part { Some(text.as_str()) } else { None }).collect()
}

#[test]
fn an_answer_that_is_only_a_thought_is_not_sent_and_the_model_is_still_told_of_its_stop() {
    let lost = "[Your previous answer broke off because the program ended, and is incomplete.]";
    for (cut, expected) in [(None, vec!["A", "B"]), (Some(Cut::Lost), vec!["A", lost, "B"])] {
        let answer = assistant(vec![thought(Some("seal"))], cut);
        let prompt = prompt(&[Message::user("A"), answer, Message::user("B")]);
        assert_eq!((prompt.len(), texts(&prompt)), (1, expected));
    }
}

#[test]
fn a_thought_at_the_end_of_an_answer_is_not_sent_and_one_before_its_words_is() {
    let said = vec![thought(Some("seal")), Part::text("So."), thought(Some("seal")), thought(None)];
    let prompt = prompt(&[Message::user("A"), assistant(said.clone(), None), Message::user("B")]);
    assert_eq!(prompt[1].parts, said[..2]);
}

#[test]
fn a_blank_input_still_leaves_a_prompt_that_begins_with_the_user() {
    let history = [Message::user(" "), Message::assistant("Yes?"), Message::user("Go on.")];
    let expected = [Message::user("(no text)"), Message::assistant("Yes?"), Message::user("Go on.")];
    assert_eq!(prompt(&history), expected);
}

#[test]
fn a_result_is_sent_without_blank_texts_and_never_empty() {
    let call = Part::ToolCall(ToolCall::new(id("a"), "look", "{}"));
    let text = |text: &str| Content::Text { text: text.into() };
    let cases = [(vec![], "(no output)"), (vec![text("")], "(no output)"), (vec![text(" "), text("seen")], "seen")];
    for (content, expected) in cases {
        let results = |content| {
            let result = ToolResult::new(id("a"), ResultStatus::Error, content);
            Message::new(Role::Tool, vec![Part::ToolResult(result)])
        };
        let history = [Message::user("A"), assistant(vec![call.clone()], None), results(content)];
        assert_eq!(prompt(&history)[2], results(vec![text(expected)]));
    }
}

#[test]
fn a_model_that_was_not_stopped_is_not_told_that_it_was() {
    let history = [Message::user("A"), assistant(vec![], None), Message::user("B")];
    let told = |part: &Part| matches!(part, Part::Text { text } if text.contains("stopped"));
    assert!(!prompt(&history).iter().flat_map(|message| &message.parts).any(told));
}

#[test]
fn an_unsigned_thought_of_a_whole_answer_is_sent_before_its_words_unless_it_is_empty() {
    let nothing = Part::Thinking { text: String::new(), signature: None };
    let said = vec![nothing, thought(None), Part::text("So.")];
    let prompt = prompt(&[Message::user("A"), assistant(said.clone(), None), Message::user("B")]);
    assert_eq!(prompt[1].parts, said[1..]);
}
