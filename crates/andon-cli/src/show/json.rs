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
        write!(io::stderr(), "May {} run with {}? [y/n] ", call.name, call.arguments)
    }
}

fn write_line(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
