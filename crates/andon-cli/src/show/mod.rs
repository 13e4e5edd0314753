//! How runs are shown to people.

mod figures;
mod flow;
mod history;
mod json;
pub(crate) mod out;
mod plain;
pub(crate) mod receipt;
mod recovered;
mod screen;
mod table;
mod transcript;
pub(crate) mod when;

pub(crate) use figures::time;
pub(crate) use history::history;
pub(crate) use json::{JsonLines, Questions};
pub(crate) use out::{aside, write, write_line};
pub(crate) use plain::{plain, plain_line};
pub(crate) use recovered::{recovered, session_shown};
pub(crate) use screen::{Screen, Streams};
pub(crate) use table::{Cell, Table};
pub(crate) use transcript::{flowing, own_flowing, recap, transcript, with_command};

use anstyle::AnsiColor;

/// Text styles. They are dropped if the output is not a terminal, or if NO_COLOR is set.
pub(crate) struct Style;

impl Style {
    /// Thinking, and remarks beside the answer.
    pub(crate) const DIM: anstyle::Style = anstyle::Style::new().dimmed();
    /// Headings.
    pub(crate) const BOLD: anstyle::Style = anstyle::Style::new().bold();
    /// Tools.
    pub(crate) const TOOL: anstyle::Style = AnsiColor::Cyan.on_default();
    /// It went well.
    pub(crate) const GOOD: anstyle::Style = AnsiColor::Green.on_default();
    /// It was stopped.
    pub(crate) const STOP: anstyle::Style = AnsiColor::Yellow.on_default().bold();
    /// It went wrong.
    pub(crate) const BAD: anstyle::Style = AnsiColor::Red.on_default().bold();
}

/// A text on one line, cut so that something else fits beside it.
fn one_line(text: &str) -> String {
    let longest = crate::terminal::columns().map_or(160, |columns| columns.saturating_sub(24).max(40));
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
        })
        .collect();
    one_line(&parts.join(" "))
}
