//! An outage: for a while the store cannot write, and then it can again, while its process continues.
//!
//! It begins after a commit, on the thread that writes, so that the next commit is the first to be affected. A lock is a real
//! lock of another connection. A full disk is real, too: the round has its own small disk, and a file takes all the room that is
//! left on it.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use andon_runtime::Probe;
use anyhow::{Context, Error, Result};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::disk::database;
use crate::log::{What, Witness};
use crate::points::{Trigger, hold};

/// Why a store cannot write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// Another connection holds the write lock.
    Locked,
    /// There is no room on the disk.
    Full,
}

/// When a store cannot write, why, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outage {
    pub(crate) cause: Cause,
    /// It begins after this commit of its life; with 0, as soon as the database is open.
    pub(crate) commit: u64,
    pub(crate) millis: u64,
}

/// The seams when an outage has begun and when it is over: a kill can be planned for some time after either.
pub(crate) const BEGUN: &str = "outage: begun";
pub(crate) const OVER: &str = "outage: over";

/// The commits after which an outage may begin: a life has a few more.
const COMMITS: u64 = 20;
/// How long an outage is, in milliseconds.
const SHORT: std::ops::Range<u64> = 10..250;
/// Longer than another program may lock the database before the store reports it.
const LONG: std::ops::Range<u64> = 1050..1200;

impl Outage {
    pub(crate) fn any(cause: Cause, dice: &mut fastrand::Rng) -> Self {
        let is_long = cause == Cause::Locked && dice.u8(0..6) == 0;
        let millis = dice.u64(if is_long { LONG } else { SHORT });
        Self { cause, commit: dice.u64(0..COMMITS), millis }
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self.cause {
            Cause::Locked => "locked",
            Cause::Full => "full",
        };
        write!(f, "{cause}:{}+{}", self.commit, self.millis)
    }
}

impl FromStr for Outage {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let form = "write an outage as locked:17+1200 or full:17+300: after the 17th commit, for so many milliseconds";
        let (cause, numbers) = text.split_once(':').context(form)?;
        let (commit, millis) = numbers.split_once('+').context(form)?;
        let cause = match cause {
            "locked" => Cause::Locked,
            "full" => Cause::Full,
            _ => return Err(Error::msg(form)),
        };
        Ok(Self { cause, commit: commit.parse().context(form)?, millis: millis.parse().context(form)? })
    }
}

/// Causes an outage in a life. It is the store's probe.
pub(crate) struct Breaker {
    outage: Outage,
    folder: PathBuf,
    trigger: Arc<Trigger>,
    witness: Arc<Witness>,
    commits: AtomicU64,
    phase: watch::Sender<Phase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    ToCome,
    Lasts,
    Over,
}

impl Breaker {
    pub(crate) fn new(outage: Outage, folder: &Path, trigger: &Arc<Trigger>, witness: &Arc<Witness>) -> Self {
        let (folder, trigger, witness) = (folder.to_path_buf(), Arc::clone(trigger), Arc::clone(witness));
        Self { outage, folder, trigger, witness, commits: AtomicU64::new(0), phase: watch::Sender::new(Phase::ToCome) }
    }

    /// The database is open.
    pub(crate) fn opened(&self) {
        self.begin_after(0);
    }

    /// Begins the outage if this was the commit before it. Another thread ends it, and passes the seams.
    fn begin_after(&self, commit: u64) {
        if commit != self.outage.commit {
            return;
        }
        self.witness.tell(What::OutageBegan { outage: self.outage });
        self.phase.send_replace(Phase::Lasts);
        let broken = Broken::new(self.outage.cause, &self.folder).unwrap_or_else(|error| {
            // Without its outage this life proves nothing.
            eprintln!("the store cannot be broken: {error:#}");
            std::process::exit(3);
        });
        let (trigger, witness, phase) = (Arc::clone(&self.trigger), Arc::clone(&self.witness), self.phase.clone());
        let lasts = Duration::from_millis(self.outage.millis);
        thread::spawn(move || {
            trigger.hit(BEGUN);
            hold(lasts);
            drop(broken);
            witness.tell(What::OutageOver);
            phase.send_replace(Phase::Over);
            trigger.hit(OVER);
        });
    }

    /// Waits for the end of the outage; false if it did not even begin.
    pub(crate) async fn is_over(&self) -> bool {
        let mut phase = self.phase.subscribe();
        // The sender is ours, so it is not gone.
        *phase.borrow() != Phase::ToCome && phase.wait_for(|phase| *phase == Phase::Over).await.is_ok()
    }
}

impl Probe for Breaker {
    fn hit(&self, seam: &'static str) {
        self.trigger.hit(seam);
        if seam == "store: after commit" {
            self.begin_after(self.commits.fetch_add(1, Ordering::Relaxed) + 1);
        }
    }
}

/// A store that cannot write until this is dropped.
enum Broken {
    Locked {
        _by: Connection,
    },
    /// With a reader, so that the pages of the log cannot be reused either.
    Full {
        filler: PathBuf,
        _reader: Connection,
    },
}

impl Broken {
    fn new(cause: Cause, folder: &Path) -> Result<Self> {
        match cause {
            Cause::Locked => {
                let connection = Connection::open(database(folder))?;
                connection.execute_batch("BEGIN IMMEDIATE")?;
                Ok(Self::Locked { _by: connection })
            }
            Cause::Full => {
                let filler = filler(folder);
                let reader = Connection::open(database(folder))?;
                reader.execute_batch("BEGIN; SELECT count(*) FROM runs")?;
                fill(File::create(&filler)?);
                Ok(Self::Full { filler, _reader: reader })
            }
        }
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        if let Self::Full { filler, .. } = self
            && let Err(error) = fs::remove_file(filler)
        {
            eprintln!("no room can be made: {error}");
            std::process::exit(3);
        }
    }
}

fn filler(folder: &Path) -> PathBuf {
    database(folder).with_file_name("filler")
}

/// Fills the disk.
fn fill(mut filler: File) {
    for size in [1 << 16, 1 << 12, 1] {
        let chunk = vec![b'x'; size];
        while filler.write_all(&chunk).is_ok() {}
    }
}

/// Frees the room that a killed life left filled.
pub(crate) fn make_room(folder: &Path) -> Result<()> {
    let filler = filler(folder);
    if filler.exists() {
        fs::remove_file(filler)?;
    }
    Ok(())
}
