//! Brings what was written into the database's own file, on a thread and a connection of its own: it takes tens of
//! milliseconds, and no commit waits for it.
//!
//! What is written while it works stays behind, and as long as anything does, the file of what was written last only grows.
//! That rest is small, and the writer brings it in itself when this is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

pub(crate) struct Sweeper {
    /// Nothing once it is closed.
    ask: Option<SyncSender<()>>,
    is_done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    pub(crate) fn start(connection: Connection) -> std::io::Result<Self> {
        let (ask, asked) = sync_channel(1);
        let is_done = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&is_done);
        let thread = thread::Builder::new().name("andon-sweeper".to_owned()).spawn(move || {
            for () in asked {
                // A reader may be in the way, or the disk may be full: then it is done the next time.
                let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
                done.store(true, Ordering::Relaxed);
            }
        })?;
        Ok(Self { ask: Some(ask), is_done, thread: Some(thread) })
    }

    /// Has it done. While it works on what was asked before, this one is done with it.
    pub(crate) fn sweep(&self) {
        if let Some(ask) = &self.ask {
            let _ = ask.try_send(());
        }
    }

    /// Whether it was done since this was last asked.
    pub(crate) fn has_swept(&self) -> bool {
        self.is_done.swap(false, Ordering::Relaxed)
    }

    /// Lets go of the file.
    pub(crate) fn close(&mut self) {
        self.ask = None;
        // If it panicked there is nothing to wait for.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
