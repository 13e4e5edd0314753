//! What a server prints.
//!
//! # Invariants
//!
//! 1. Printing never waits for a reader: a paused terminal or a full pipe delays no stop and no request.
//! 2. Each stream is in order. If too much is unread, the newest lines are dropped.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
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
        let (words, said) = sync_channel::<String>(UNREAD);
        let (complaints, complained) = sync_channel::<String>(UNREAD);
        let is_writing = writing.clone();
        // A server goes on even if nobody reads.
        start(move || {
            let _until_written = writing;
            said.iter().for_each(|text| drop(write(&format!("{text}\n"))));
        })?;
        start(move || {
            let _until_written = is_writing;
            complained.iter().for_each(|text| aside(&format!("{text}\n")));
        })?;
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

fn start(write: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let thread = std::thread::Builder::new().name("andon-voice".to_owned());
    thread.spawn(write).map(drop).context("cannot start the thread that writes the output")
}
