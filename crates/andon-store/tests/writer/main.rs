//! The thread that writes: what it remembers after a failure, and what its callers are told when it is gone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod failed;
mod gone;
mod instants;
mod rows;
mod told;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use andon_runtime::core::time::Wall;
use andon_runtime::{Batch, Journal, JournalError, Probe, RunFilter};
use andon_store::{Options, SqliteJournal};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::told::{Told, key};

/// Longer than anything that does not hang.
const SOON: Duration = Duration::from_secs(90);

/// What the writer does when it is released from a seam.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    GoesOn,
    Panics,
}

/// Holds the writer at a seam until it is released; jobs queue behind it.
struct Hold {
    /// The seam, and whether the writer has begun a commit since it was set.
    armed: Mutex<Option<(&'static str, bool)>>,
    held: Notify,
    gate: Mutex<Receiver<Then>>,
}

impl Hold {
    fn new() -> (Arc<Self>, Sender<Then>) {
        let (let_go, gate) = channel();
        (Arc::new(Self { armed: Mutex::new(None), held: Notify::new(), gate: Mutex::new(gate) }), let_go)
    }

    /// Holds the writer at this seam of its next commit. It may still be at the last seam of the previous one.
    fn at(&self, seam: &'static str) {
        *self.armed.lock() = Some((seam, false));
    }

    fn open(self: &Arc<Self>, path: &Path) -> SqliteJournal {
        SqliteJournal::open_with(path, &Options::new().probe(Arc::clone(self) as Arc<dyn Probe>)).unwrap()
    }
}

impl Probe for Hold {
    fn hit(&self, seam: &'static str) {
        let is_it = self.armed.lock().take_if(|(armed, begun)| {
            *begun |= seam == "store: before commit";
            *begun && *armed == seam
        });
        if is_it.is_none() {
            return;
        }
        self.held.notify_one();
        let then = self.gate.lock().recv();
        if then == Ok(Then::Panics) {
            panic!("the probe panics at {seam:?}");
        }
    }
}
