//! A run as lines of JSON: each item of its feed, and then its receipt.

use std::io;

use andon_runtime::{FeedItem, Receipt, ToolCall};
use serde_json::json;

use crate::follow::Listener;
use crate::print::out::{write_beside, write_line};
use crate::print::plain_line;

/// Standard output as lines of JSON.
pub(crate) struct JsonLines;

impl JsonLines {
    /// Writes the receipt: the last line.
    pub(crate) fn receipt(&mut self, receipt: &Receipt) -> io::Result<()> {
        write_line(&serde_json::to_string(&json!({"type": "receipt", "receipt": receipt}))?)
    }
}

impl Listener for JsonLines {
    fn item(&mut self, item: &FeedItem) -> io::Result<()> {
        write_line(&serde_json::to_string(item)?)
    }

    fn ask(&mut self, call: &ToolCall) -> io::Result<()> {
        ask_aside(call)
    }

    fn aside(&mut self, words: &str) -> io::Result<()> {
        write_beside(&format!("{words}\n"))
    }
}

/// Shows only the questions of a run, for one that comes before the run whose output was asked for.
pub(crate) struct Questions;

impl Listener for Questions {
    fn item(&mut self, _: &FeedItem) -> io::Result<()> {
        Ok(())
    }

    fn ask(&mut self, call: &ToolCall) -> io::Result<()> {
        ask_aside(call)
    }

    fn aside(&mut self, words: &str) -> io::Result<()> {
        write_beside(&format!("{words}\n"))
    }
}

/// The question, with the model's text made plain.
fn question(call: &ToolCall) -> String {
    format!("May {} run with {}? [y/n] ", plain_line(&call.name), plain_line(&call.arguments))
}

fn ask_aside(call: &ToolCall) -> io::Result<()> {
    write_beside(&question(call))
}

#[cfg(test)]
mod tests {
    use super::*;
    use andon_runtime::CallId;

    #[test]
    fn the_terminal_does_not_obey_what_the_model_wrote() {
        let id = CallId::new("c1").unwrap();
        let call =
            ToolCall { id, name: "sh\u{1b}[2Jell".to_owned(), arguments: "{\"a\":\"\u{1b}]0;x\u{7}\"}".to_owned() };
        assert!(!question(&call).contains(['\u{1b}', '\u{7}']));
    }
}
