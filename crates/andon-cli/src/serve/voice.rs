//! What a server prints.
//!
//! # Invariants
//!
//! 1. Printing never waits for a reader: a paused terminal or a full pipe delays no stop and no request.
//! 2. Each stream is in order. If too much is unread, the newest lines are dropped.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use anyhow::Context;

use crate::print::{Style, aside, plain, write};

/// How many lines may be unread.
const UNREAD: usize = 1_024;
/// How long to wait for the last lines to be written.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Standard output and standard error, each written by its own thread.
pub(super) struct Voice {
    words: SyncSender<String>,
    complaints: SyncSender<String>,
    /// Closed when everything has been written.
    written: Receiver<()>,
}

impl Voice {
    pub(super) fn new() -> anyhow::Result<Self> {
        let (writing, written) = channel::<()>();
        // A server goes on even if nobody reads.
        let words = start(writing.clone(), |line| drop(write(line)))?;
        let complaints = start(writing, aside)?;
        Ok(Self { words, complaints, written })
    }

    /// Prints a line to standard output.
    pub(super) fn say(&self, text: impl Into<String>) {
        let _ = self.words.try_send(text.into());
    }

    /// Prints an error to standard error.
    pub(super) fn complain(&self, text: &str) {
        let bad = Style::BAD;
        let _ = self.complaints.try_send(format!("{bad}error:{bad:#} {}", plain(text)));
    }

    /// Waits a moment until everything is written.
    pub(super) fn end(self) {
        let Self { words, complaints, written } = self;
        drop((words, complaints));
        let _ = written.recv_timeout(LAST_WORDS);
    }
}

/// Starts a thread that writes lines, and has `writing` until the last one is written.
fn start(writing: Sender<()>, write: fn(&str)) -> anyhow::Result<SyncSender<String>> {
    let (lines, unread) = sync_channel::<String>(UNREAD);
    let work = move || {
        unread.iter().for_each(|line| write(&format!("{line}\n")));
        drop(writing);
    };
    let thread = std::thread::Builder::new().name("andon-voice".to_owned());
    thread.spawn(work).context("cannot start the thread that writes the output")?;
    Ok(lines)
}
