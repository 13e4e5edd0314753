//! The conversation so far, for people.

use std::sync::Arc;

use andon_runtime::core::message::Cut;
use andon_runtime::{Message, Part, Role};

use super::{one_line, result_line};
use crate::print::{Style, plain_line};

/// A conversation, a line for each part of it.
pub(crate) fn history(messages: &[Arc<Message>]) -> String {
    if messages.is_empty() {
        return "Nothing has been said yet.\n".to_owned();
    }
    messages.iter().map(|message| lines(message)).collect()
}

fn lines(message: &Message) -> String {
    let (bold, dim, stop) = (Style::BOLD, Style::DIM, Style::STOP);
    let who = match message.role {
        Role::User => "you",
        Role::Assistant => "agent",
        Role::Tool => "tools",
    };
    let mut text = String::new();
    for part in &message.parts {
        let line = match part {
            Part::Text { text } => one_line(text),
            Part::Image(image) => format!("(an image: {})", plain_line(&image.media_type)),
            Part::Thinking { text, .. } => format!("{dim}(thought) {}{dim:#}", one_line(text)),
            Part::ToolCall(call) => format!("→ {} {}", plain_line(&call.name), one_line(&call.arguments)),
            Part::ToolResult(result) => format!("← {}", result_line(result)),
            #[cfg(not(andon_whole))]
            _ => "(a part that this program does not know)".to_owned(),
        };
        text.push_str(&format!("{bold}{who:>5}{bold:#}  {line}\n"));
    }
    if let Some(cut) = message.cut {
        text.push_str(&format!("       {stop}■ cut here:{stop:#} {}\n", cut_word(cut)));
    }
    text
}

pub(super) fn cut_word(cut: Cut) -> &'static str {
    match cut {
        Cut::Cancelled(reason) => reason.as_str(),
        Cut::Broken => "the stream broke",
        Cut::Lost => "the program ended",
        #[cfg(not(andon_whole))]
        _ => "the answer ended early",
    }
}
