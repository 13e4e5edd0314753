//! What clients saw and what tools did, beside the database. Each line is one write(2), so that SIGKILL loses nothing that was
//! written.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::event::Seq;
use andon_runtime::{Ending, ReplyKind};
use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::outage::Outage;

/// What clients saw.
pub(crate) const SEEN: &str = "seen.jsonl";
/// What tools did.
pub(crate) const EFFECTS: &str = "effects.jsonl";
/// When the process ran.
pub(crate) const BEATS: &str = "beats.jsonl";

/// How often a process writes down that it runs.
const BEAT: Duration = Duration::from_millis(5);

/// Microseconds on the clock that all processes of the machine share.
pub(crate) fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1000
}

/// One thing that a client saw.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The life in which it happened, from 1.
    pub(crate) life: u32,
    /// When it was written down.
    pub(crate) at_us: u64,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// What a client saw.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub(crate) enum What {
    /// The process has started; nothing is open yet.
    Ready,
    /// A session was given a prompt. If `must_complete`, the run must complete unless the life is killed.
    Asked { run: String, session: String, must_complete: bool },
    /// A fact was shown.
    Fact { run: String, seq: Seq, body: String },
    /// Text was shown that ends at this byte after this event.
    Delta { run: String, seq: Seq, end: usize, text: String },
    /// A returning reader was told that text was lost, and continues here.
    TextLost { run: String, seq: Seq, byte: usize },
    /// A feed ended.
    FeedEnded { run: String },
    /// An outcome was shown.
    Outcome { run: String, ending: Ending },
    /// A cancel was answered from memory.
    Replied { run: String, reply: ReplyKind },
    /// A cancel's answer is durable.
    Acknowledged { run: String, reply: ReplyKind },
    /// Recovery reported what happened to a run.
    Recovered { run: String, fate: String },
    /// A writer that must not write tried to.
    Ghost { run: String, tried: String, taken: bool, answer: String },
    /// A client is about to delete a session.
    Deleting { session: String },
    /// The client was told that the session is deleted.
    Deleted { session: String },
    /// The model's provider reported this usage.
    Provided { run: String, call: u32, output: u64 },
    /// From now on the store cannot write.
    OutageBegan { outage: Outage },
    /// It can again.
    OutageOver,
    /// A cancel's answer could not be made durable.
    NotRecorded { run: String, why: String },
    /// A feed ended, and no outcome of its run is recorded.
    NotSettled { run: String, why: String },
    /// A session could not be deleted.
    NotDeleted { session: String, why: String },
    /// A client saw something that must not happen.
    Trouble { text: String },
    /// The process is about to kill itself.
    Killing { point: String },
    /// The life ended by itself.
    Ended { seams: BTreeMap<String, u64> },
}

impl What {
    /// The run that it is about.
    pub(crate) fn run(&self) -> Option<&str> {
        match self {
            Self::Asked { run, .. }
            | Self::Fact { run, .. }
            | Self::Delta { run, .. }
            | Self::TextLost { run, .. }
            | Self::FeedEnded { run }
            | Self::Outcome { run, .. }
            | Self::Replied { run, .. }
            | Self::Acknowledged { run, .. }
            | Self::Recovered { run, .. }
            | Self::Ghost { run, .. }
            | Self::Provided { run, .. }
            | Self::NotRecorded { run, .. }
            | Self::NotSettled { run, .. } => Some(run),
            Self::Ready
            | Self::Deleting { .. }
            | Self::Deleted { .. }
            | Self::NotDeleted { .. }
            | Self::OutageBegan { .. }
            | Self::OutageOver
            | Self::Trouble { .. }
            | Self::Killing { .. }
            | Self::Ended { .. } => None,
        }
    }
}

/// One thing that a tool did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Deed {
    pub(crate) life: u32,
    pub(crate) run: String,
    pub(crate) call: String,
    pub(crate) moment: Moment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Moment {
    Begin,
    End,
}

/// The process ran at this time. Where beats are missing it did not: the machine had others to serve.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Beat {
    pub(crate) life: u32,
    pub(crate) at_us: u64,
}

/// Writes lines for the parent.
#[derive(Debug)]
pub(crate) struct Witness {
    life: u32,
    seen: File,
    effects: File,
    beats: File,
}

impl Witness {
    pub(crate) fn open(folder: &Path, life: u32) -> Result<Self> {
        let open = |name| {
            let file = OpenOptions::new().create(true).append(true).open(folder.join(name));
            file.with_context(|| format!("{name} cannot be opened"))
        };
        Ok(Self { life, seen: open(SEEN)?, effects: open(EFFECTS)?, beats: open(BEATS)? })
    }

    /// Begins to write down when this process runs.
    #[expect(clippy::disallowed_methods, reason = "what is measured is how late the machine lets a thread wake up")]
    pub(crate) fn begin_to_beat(self: &Arc<Self>) {
        let witness = Arc::clone(self);
        std::thread::spawn(move || {
            loop {
                append(&witness.beats, &Beat { life: witness.life, at_us: now_us() });
                std::thread::sleep(BEAT);
            }
        });
    }

    /// Writes down what a client saw.
    pub(crate) fn tell(&self, what: What) {
        append(&self.seen, &Line { life: self.life, at_us: now_us(), what });
    }

    /// Writes down something that must not happen.
    pub(crate) fn trouble(&self, text: impl Into<String>) {
        self.tell(What::Trouble { text: text.into() });
    }

    /// Writes down what a tool does.
    pub(crate) fn tell_deed(&self, run: &str, call: &str, moment: Moment) {
        append(&self.effects, &Deed { life: self.life, run: run.to_owned(), call: call.to_owned(), moment });
    }
}

/// Appends a line with one write(2).
fn append(mut file: &File, line: &impl Serialize) {
    let written = serde_json::to_vec(line).map_err(std::io::Error::other).and_then(|mut bytes| {
        bytes.push(b'\n');
        file.write_all(&bytes)
    });
    if let Err(error) = written {
        // Without a witness this life proves nothing.
        eprintln!("what was seen cannot be written down: {error}");
        std::process::exit(3);
    }
}

/// The lines of a file from an offset on, and the offset after them. `None` if there is no file yet.
pub(crate) fn read_from<T: DeserializeOwned>(path: &Path, from: u64) -> Result<(Vec<T>, u64)> {
    if !path.exists() {
        return Ok((Vec::new(), from));
    }
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    // SIGKILL may cut a write at the end of a page: an unfinished line does not count.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    bytes.truncate(whole);
    let read = from + whole as u64;
    if file.metadata()?.len() > read {
        file.set_len(read)?;
    }
    let text = String::from_utf8(bytes)?;
    let lines = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
    Ok((lines.with_context(|| format!("{} is unreadable", path.display()))?, read))
}
