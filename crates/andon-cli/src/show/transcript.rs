//! A conversation, shown as it looked when it happened.

use std::sync::Arc;

use andon_runtime::core::message::ResultStatus;
use andon_runtime::{CallId, Message, Part, Role, ToolResult};

use super::history::{cut_word, history};
use super::{one_line, result_line};
use crate::print::{Flow, Style, plain, plain_line, text_columns};

/// A whole conversation.
pub(crate) fn transcript(messages: &[Arc<Message>]) -> String {
    let mut text = String::new();
    for (place, message) in messages.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|before| messages.get(before));
        // An empty line before each prompt, and between a tool's result and the answer.
        if before.is_some_and(|before| message.role == Role::User || before.role == Role::Tool) {
            text.push('\n');
        }
        text.push_str(&shown(message, messages));
    }
    text
}

/// Where the person left off: the last prompt with everything after it, and a few lines of the turn before.
pub(crate) fn recap(messages: &[Arc<Message>]) -> String {
    let last_prompt = |messages: &[Arc<Message>]| messages.iter().rposition(|message| message.role == Role::User);
    let split = |messages: &'_ [Arc<Message>]| last_prompt(messages).unwrap_or(0);
    let Some((earlier, last)) = messages.split_at_checked(split(messages)) else { return String::new() };
    let Some((hidden, before)) = earlier.split_at_checked(split(earlier)) else { return String::new() };
    let dim = Style::DIM;
    let mut text = String::new();
    match hidden.len() {
        0 => {}
        1 => text.push_str(&format!("{dim}(1 earlier message: /history){dim:#}\n")),
        count => text.push_str(&format!("{dim}({count} earlier messages: /history){dim:#}\n")),
    }
    if !before.is_empty() {
        text.push_str(&history(before));
        text.push('\n');
    }
    text.push_str(&transcript(last));
    text
}

fn shown(message: &Message, all: &[Arc<Message>]) -> String {
    let (bold, dim, stop, tool) = (Style::BOLD, Style::DIM, Style::STOP, Style::TOOL);
    let mut text = String::new();
    for part in &message.parts {
        text.push_str(&match part {
            Part::Text { text } if message.role == Role::User => format!("{bold}> {}{bold:#}", plain(text)),
            Part::Text { text } => flowing(text),
            Part::Image(image) => format!("(an image: {})", plain_line(&image.media_type)),
            Part::Thinking { text, .. } => format!("{dim}{}{dim:#}\n", flowing(text).trim_end_matches('\n')),
            Part::ToolCall(call) => format!("{tool}→ {}{tool:#} {}", plain_line(&call.name), one_line(&call.arguments)),
            Part::ToolResult(result) => {
                let name = name_of(&result.call, all);
                format!("{tool}← {name}{tool:#} {}: {}", result_word(result), result_line(result))
            }
            #[cfg(not(andon_whole))]
            _ => "(a part that this program does not know)".to_owned(),
        });
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    if let Some(cut) = message.cut {
        text.push_str(&format!("{stop}■ cut here:{stop:#} {}\n", cut_word(cut)));
    }
    text
}

/// Foreign text, made plain and wrapped to the terminal.
pub(crate) fn flowing(text: &str) -> String {
    own_flowing(&plain(text))
}

/// Like [`flowing`], for our own text, which keeps its styles.
pub(crate) fn own_flowing(text: &str) -> String {
    flow().broken(text)
}

/// A sentence and a command, which stays in one piece: on the next line if it does not fit.
pub(crate) fn with_command(sentence: &str, command: &str) -> String {
    let mut flow = flow();
    let sentence = flow.broken(sentence);
    if flow.has_room_for(command) { format!("{sentence} {command}") } else { format!("{sentence}\n{command}") }
}

fn flow() -> Flow {
    Flow::new(text_columns())
}

fn name_of(call: &CallId, all: &[Arc<Message>]) -> String {
    let known = all.iter().flat_map(|message| message.calls()).filter(|known| known.id == *call).last();
    known.map_or_else(|| plain_line(call.as_str()), |known| plain_line(&known.name))
}

fn result_word(result: &ToolResult) -> &'static str {
    match result.status {
        ResultStatus::Ok => "answered",
        ResultStatus::Error => "failed",
        ResultStatus::Refused => "was not run",
        ResultStatus::Cut => "was stopped",
        ResultStatus::Unknown => "was stopped, effect unknown",
        #[cfg(not(andon_whole))]
        _ => "ended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use andon_runtime::core::message::Cut;

    fn message(role: Role, text: &str, cut: Option<Cut>) -> Arc<Message> {
        Arc::new(Message::new(role, vec![Part::Text { text: text.to_owned() }]).cut(cut))
    }

    fn conversation() -> Vec<Arc<Message>> {
        let turn = |number: u32| {
            let prompt = message(Role::User, &format!("prompt {number}"), None);
            [prompt, message(Role::Assistant, &format!("answer {number}\n\nof two lines"), None)]
        };
        let mut all: Vec<_> = (1..=3).flat_map(turn).collect();
        all.push(message(Role::User, "prompt 4", None));
        all.push(message(Role::Assistant, "# cut in  the", Some(Cut::Lost)));
        all
    }

    fn without_looks(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_recap_has_the_whole_last_answer_and_a_little_of_the_turn_before() {
        let expected = "(4 earlier messages: /history)\n  you  prompt 3\nagent  answer 3 of two lines\n\n\
                        > prompt 4\n# cut in  the\n■ cut here: the program ended\n";
        assert_eq!(without_looks(&recap(&conversation())), expected);
        assert_eq!(recap(&[]), "");
    }

    #[test]
    fn a_transcript_has_every_word() {
        let text = without_looks(&transcript(&conversation()));
        assert!(text.starts_with("> prompt 1\nanswer 1\n\nof two lines\n\n> prompt 2\n"), "{text}");
    }
}
