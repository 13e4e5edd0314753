//! A run as lines of JSON: each item of its feed, and then its receipt.

use std::io::{self, Write};

use andon::{FeedItem, Receipt, ToolCall};
use serde_json::json;

use crate::follow::Listener;

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
        writeln!(io::stderr(), "{words}")
    }
}

/// Nothing but its questions: a run that comes before the one whose output was asked for.
pub(crate) struct Questions;

impl Listener for Questions {
    fn item(&mut self, _: &FeedItem) -> io::Result<()> {
        Ok(())
    }

    fn ask(&mut self, call: &ToolCall) -> io::Result<()> {
        ask_aside(call)
    }

    fn aside(&mut self, words: &str) -> io::Result<()> {
        writeln!(io::stderr(), "{words}")
    }
}

fn ask_aside(call: &ToolCall) -> io::Result<()> {
    write!(io::stderr(), "May {} run with {}? [y/n] ", call.name, call.arguments)
}

/// Writes one line, at once.
pub(crate) fn write_line(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
