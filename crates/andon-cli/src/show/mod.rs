//! How runs are shown to people.

mod figures;
mod history;
mod json;
pub(crate) mod receipt;
mod recovered;
mod screen;
mod transcript;

pub(crate) use figures::time;
pub(crate) use history::history;
pub(crate) use json::{JsonLines, Questions};
pub(crate) use recovered::{recovered, session_shown};
pub(crate) use screen::{Screen, Streams};
pub(crate) use transcript::{flowing, own_flowing, recap, transcript, with_command};

use crate::print::{columns, plain};

/// A text on one line, cut so that something else fits beside it.
fn one_line(text: &str) -> String {
    let longest = columns().map_or(160, |columns| columns.saturating_sub(24).max(40));
    let line = plain(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short: String = line.chars().take(longest).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

/// A tool result's text, on one line.
fn result_line(result: &andon_runtime::ToolResult) -> String {
    let parts: Vec<&str> = result
        .content
        .iter()
        .map(|content| match content {
            andon_runtime::Content::Text { text } => text.as_str(),
            andon_runtime::Content::Image(_) => "(an image)",
            #[cfg(not(andon_whole))]
            _ => "(a part that this program does not know)",
        })
        .collect();
    one_line(&parts.join(" "))
}
