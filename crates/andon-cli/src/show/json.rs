//! A run as lines of JSON: each item of its feed, and then its receipt.

use std::io;

use andon_runtime::{FeedItem, Receipt};
use serde_json::json;

use crate::follow::Listener;
use crate::print::write_line;

/// Standard output as lines of JSON.
pub(crate) struct JsonLines;

impl JsonLines {
    /// Writes the receipt: the last line.
    pub(crate) fn receipt(&mut self, receipt: &Receipt) -> io::Result<()> {
        write_line(&json!({"type": "receipt", "receipt": receipt}).to_string())
    }
}

impl Listener for JsonLines {
    fn item(&mut self, item: &FeedItem) -> io::Result<()> {
        write_line(&serde_json::to_string(item)?)
    }
}

/// Shows only the questions of a run, for one that comes before the run whose output was asked for.
pub(crate) struct Questions;

impl Listener for Questions {
    fn item(&mut self, _: &FeedItem) -> io::Result<()> {
        Ok(())
    }
}
