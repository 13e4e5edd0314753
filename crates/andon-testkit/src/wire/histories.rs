//! Random histories: anything that a session can have stored. Every provider must accept it as its next request (P2).

use andon_core::cancel::Reason;
use andon_core::id::CallId;
use andon_core::message::{Content, Cut, Image, Message, Part, ResultStatus, Role, ToolCall, ToolResult};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::signature_of;

/// Histories of up to three runs: whole and cut answers, parallel calls, thoughts signed by anybody, images, blank texts.
pub fn histories() -> impl Strategy<Value = Vec<Message>> {
    vec(run(), 0..4).prop_map(stored)
}

/// A piece of an answer. A call gets its id later, so that all ids of a history differ.
#[derive(Debug, Clone)]
enum AnswerPart {
    Part(Part),
    Call { id: &'static str, name: String, arguments: String },
}

/// How a call ended: what its result says besides the call's id.
type End = (ResultStatus, Vec<Content>);

/// One run of a session: the input, answers that asked for tools, and the last answer, whole, cut or missing.
#[derive(Debug, Clone)]
struct Run {
    input: Vec<Part>,
    turns: Vec<Vec<AnswerPart>>,
    last: Option<(Vec<AnswerPart>, Option<Cut>)>,
    /// Used in a cycle, one for each call.
    ends: Vec<End>,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just(" \n".to_owned()), "[a-zå ]{1,8}"]
}

fn image() -> impl Strategy<Value = Image> {
    let references = select(vec!["https://example.com/a.png", "data:image/png;base64,AAAA", "blob-1"]);
    references.prop_map(|reference| Image::new("image/png", reference))
}

fn input() -> impl Strategy<Value = Vec<Part>> {
    vec(prop_oneof![text().prop_map(Part::text), image().prop_map(Part::Image)], 0..3)
}

fn call() -> impl Strategy<Value = AnswerPart> {
    let ids =
        select(vec!["call", "functions.look:0", "kall é", "fc_1|rs_2", "toolu_01234567890123456789012345678901234"]);
    let names = prop_oneof![Just("look".to_owned()), select(vec!["", "1st", "look at"]).prop_map(str::to_owned)];
    let odd = select(vec!["", " ", "{}", "{\"a\": 1}", " {\"b\": 2 } ", "[1]", "null", "{oops", "{\"a\":1}{"]);
    let arguments = prop_oneof![odd.prop_map(str::to_owned), "[ -~]{0,12}"];
    (ids, names, arguments).prop_map(|(id, name, arguments)| AnswerPart::Call { id, name, arguments })
}

fn answer_part() -> impl Strategy<Value = AnswerPart> {
    let makers = vec!["anthropic", "bedrock", "gemini", "openai-responses", "somebody else"];
    let signature = option::of(select(makers).prop_map(signature_of));
    let thought = (text(), signature).prop_map(|(text, signature)| Part::Thinking { text, signature });
    let part = prop_oneof![4 => text().prop_map(Part::text), 4 => thought, 1 => image().prop_map(Part::Image)];
    prop_oneof![2 => part.prop_map(AnswerPart::Part), 1 => call()]
}

fn end() -> impl Strategy<Value = End> {
    let statuses =
        [ResultStatus::Ok, ResultStatus::Error, ResultStatus::Refused, ResultStatus::Cut, ResultStatus::Unknown];
    let content = prop_oneof![text().prop_map(|text| Content::Text { text }), image().prop_map(Content::Image)];
    (select(statuses.to_vec()), vec(content, 0..3))
}

fn cut() -> impl Strategy<Value = Option<Cut>> {
    let reasons = [Reason::Requested, Reason::Superseded, Reason::Deadline];
    let cuts = reasons.map(Cut::Cancelled).into_iter().chain([Cut::Broken, Cut::Lost]);
    option::of(select(cuts.collect::<Vec<_>>()))
}

fn run() -> impl Strategy<Value = Run> {
    // A turn without calls would have been the last.
    let turn = (vec(answer_part(), 0..4), call(), vec(answer_part(), 0..2))
        .prop_map(|(before, call, after)| before.into_iter().chain([call]).chain(after).collect::<Vec<_>>());
    let last = option::of((vec(answer_part(), 0..5), cut()));
    (input(), vec(turn, 0..3), last, vec(end(), 1..5)).prop_map(|(input, turns, last, ends)| Run {
        input,
        turns,
        last,
        ends,
    })
}

/// What these runs leave in their session, in order.
fn stored(runs: Vec<Run>) -> Vec<Message> {
    let mut history = Vec::new();
    for Run { input, turns, last, ends } in runs {
        history.push(Message::new(Role::User, input));
        let answers = turns.into_iter().map(|said| (said, None)).chain(last);
        for (said, cut) in answers {
            store_answer(&mut history, said, cut, &ends);
        }
    }
    history
}

#[expect(clippy::expect_used, reason = "these ids are plain and short")]
fn store_answer(history: &mut Vec<Message>, said: Vec<AnswerPart>, cut: Option<Cut>, ends: &[End]) {
    let turn = history.len();
    let part = |(place, said)| match said {
        AnswerPart::Part(part) => part,
        AnswerPart::Call { id, name, arguments } => {
            let id = CallId::new(format!("{id}-{turn}-{place}")).expect("a plain id");
            Part::ToolCall(ToolCall::new(id, name, arguments))
        }
    };
    let answer = Message::new(Role::Assistant, said.into_iter().enumerate().map(part).collect()).cut(cut);
    let result = |(call, (status, content)): (&ToolCall, &End)| {
        Part::ToolResult(ToolResult::new(call.id.clone(), *status, content.clone()))
    };
    let parts: Vec<Part> = answer.calls().zip(ends.iter().cycle()).map(result).collect();
    history.push(answer);
    if !parts.is_empty() {
        history.push(Message::new(Role::Tool, parts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::check_history;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_history_that_a_session_can_have_stored_can_be_sent_next(history in histories()) {
            prop_assert_eq!(check_history(&history), Vec::<String>::new(), "{:#?}", history);
        }
    }
}
