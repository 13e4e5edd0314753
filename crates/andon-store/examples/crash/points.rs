//! Where and when a life is ended: at the n-th hit of a seam by the process itself, or after a while by its parent.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::Probe;
use anyhow::{Context, Error, Result};
use parking_lot::Mutex;
use rustix::process::{Signal, getpid, kill_process};

use crate::log::{What, Witness};
use crate::outage::{self, Cause, Outage};

/// The end of a life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kill {
    /// The process kills itself at this hit of a seam.
    At {
        seam: String,
        hit: u64,
        /// It is held there for this long first, as by a disk that stalls.
        held_us: u64,
    },
    /// The parent kills it this many microseconds after it was ready.
    After { micros: u64 },
}

const AFTER: &str = "after";

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At { seam, hit, held_us: 0 } => write!(f, "{seam}:{hit}"),
            Self::At { seam, hit, held_us } => write!(f, "{seam}:{hit}+{held_us}"),
            Self::After { micros } => write!(f, "{AFTER}:{micros}"),
        }
    }
}

impl FromStr for Kill {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let form = "write a point as \"store: before commit:17\", with +3000 for a hold of 3 ms, or as after:5321";
        let (seam, numbers) = text.rsplit_once(':').context(form)?;
        let (number, held) = numbers.split_once('+').unwrap_or((numbers, "0"));
        let (number, held_us) = (number.parse().context(form)?, held.parse().context(form)?);
        Ok(match seam {
            AFTER => Self::After { micros: number },
            seam => Self::At { seam: seam.to_owned(), hit: number, held_us },
        })
    }
}

/// How a life goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Course {
    /// How it ends, if not by itself.
    pub(crate) kill: Option<Kill>,
    pub(crate) outage: Option<Outage>,
}

impl Course {
    pub(crate) fn fills_the_disk(&self) -> bool {
        self.outage.is_some_and(|outage| outage.cause == Cause::Full)
    }
}

const TO_THE_END: &str = "to the end";
const WITH: &str = " with ";

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kill {
            Some(kill) => kill.fmt(f)?,
            None => f.write_str(TO_THE_END)?,
        }
        self.outage.map_or(Ok(()), |outage| write!(f, "{WITH}{outage}"))
    }
}

impl FromStr for Course {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kill, outage) = text.split_once(WITH).map_or((text, None), |(kill, outage)| (kill, Some(outage)));
        let kill = if kill == TO_THE_END { None } else { Some(kill.parse()?) };
        Ok(Self { kill, outage: outage.map(str::parse).transpose()? })
    }
}

/// Counts the hits of every seam, and kills the process at one of them.
pub(crate) struct Trigger {
    kill: Option<Kill>,
    hits: Mutex<BTreeMap<&'static str, u64>>,
    witness: Arc<Witness>,
}

impl Trigger {
    pub(crate) fn new(kill: Option<Kill>, witness: Arc<Witness>) -> Self {
        Self { kill, hits: Mutex::default(), witness }
    }

    pub(crate) fn seams(&self) -> BTreeMap<String, u64> {
        self.hits.lock().iter().map(|(seam, hits)| ((*seam).to_owned(), *hits)).collect()
    }

    fn fire(&self, held_us: u64) -> ! {
        if held_us > 0 {
            hold(Duration::from_micros(held_us));
        }
        if let Some(kill) = &self.kill {
            self.witness.tell(What::Killing { point: kill.to_string() });
        }
        loop {
            // Nothing in this process runs after this.
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread that stands still is what a stalled disk looks like")]
pub(crate) fn hold(time: Duration) {
    std::thread::sleep(time);
}

impl Probe for Trigger {
    fn hit(&self, seam: &'static str) {
        let hits = {
            let mut hits = self.hits.lock();
            let hits = hits.entry(seam).or_default();
            *hits += 1;
            *hits
        };
        match &self.kill {
            Some(Kill::At { seam: wanted, hit, held_us }) if wanted == seam && *hit == hits => self.fire(*held_us),
            Some(Kill::At { .. } | Kill::After { .. }) | None => {}
        }
    }
}

/// All kills of a campaign: every hit of the store's and the tools' seams in order, then as many of the runtime's own seams as
/// fit, then random instants. In between, the first commits of lives that begin with a recovery, repeatedly.
pub(crate) struct Plan {
    points: VecDeque<Kill>,
    in_recovery: VecDeque<Kill>,
    handed_out: usize,
    random: fastrand::Rng,
    /// How long a life is.
    life_us: u64,
}

/// At least this share of all kills is at random instants.
const RANDOM_PERCENT: usize = 30;
/// At most this share of all kills is in the first commits of a life that recovers.
const RECOVERY_PERCENT: usize = 10;
/// This many commits of a life are assumed to belong to recovery.
const RECOVERY_COMMITS: u64 = 8;
/// The longest hold.
const HELD_US: u64 = 4000;
/// The seam that is passed when a run that could not be settled is tried again.
const MENDING: &str = "mender: before settling";
/// How long runs that an outage delayed take to settle.
const BEHIND_US: u64 = 150_000;
/// About how long recovery takes.
const RECOVERY_US: u64 = 25_000;

impl Plan {
    pub(crate) fn new(seams: &BTreeMap<String, u64>, kills: usize, life_us: u64, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let is_boundary = |seam: &str| seam.starts_with("store: ") || seam.starts_with("tool: ");
        let (boundaries, others): (Vec<_>, Vec<_>) = seams.iter().partition(|(seam, _)| is_boundary(seam));
        let in_order = boundaries.iter().map(|(seam, hits)| (seam.as_str(), (1..=**hits).collect()));
        let mut points = round_robin(in_order.collect());
        // There are too many of these to do them all, so a selection is spread over the life.
        let spread = others.iter().map(|(seam, hits)| {
            let mut numbers: Vec<u64> = (1..=**hits).collect();
            random.shuffle(&mut numbers);
            (seam.as_str(), numbers.into())
        });
        points.extend(round_robin(spread.collect()));
        points.truncate(kills - kills * (RANDOM_PERCENT + RECOVERY_PERCENT) / 100);
        let store = boundaries.iter().filter(|(seam, _)| seam.starts_with("store: "));
        let first = round_robin(store.map(|(seam, _)| (seam.as_str(), (1..=RECOVERY_COMMITS).collect())).collect());
        let in_recovery: Vec<_> = first.into_iter().cycle().take(kills * RECOVERY_PERCENT / 100).collect();
        let mut hold_some = |(seam, hit): (String, u64)| {
            let held_us = if seam.starts_with("store: ") && random.bool() { random.u64(200..HELD_US) } else { 0 };
            Kill::At { seam, hit, held_us }
        };
        let points = points.into_iter().map(&mut hold_some).collect();
        let in_recovery = in_recovery.into_iter().map(&mut hold_some).collect();
        Self { points, in_recovery, handed_out: 0, random, life_us }
    }

    /// The kill of a life with an outage: during it, soon after it, when a stalled run is tried again, or wherever the next kill
    /// is due. Some lives are not killed at all.
    pub(crate) fn next_with(&mut self, outage: &Outage, life: u32) -> Option<Kill> {
        let (seam, most_us) = match self.random.u8(0..8) {
            0..3 => return None,
            3..5 => (outage::BEGUN, outage.millis * 1000),
            5 => (outage::OVER, BEHIND_US),
            6 if outage.cause == Cause::Full => (MENDING, HELD_US),
            _ => return Some(self.next(life)),
        };
        Some(Kill::At { seam: seam.to_owned(), hit: 1, held_us: self.random.u64(0..most_us) })
    }

    /// The next kill, for the n-th life of a round.
    pub(crate) fn next(&mut self, life: u32) -> Kill {
        self.handed_out += 1;
        let recovers = life > 1;
        if recovers
            && self.handed_out.is_multiple_of(4)
            && let Some(kill) = self.in_recovery.pop_front()
        {
            return kill;
        }
        let most = if recovers && self.random.bool() { RECOVERY_US } else { self.life_us.max(1) };
        let micros = self.random.u64(0..most);
        self.points.pop_front().unwrap_or(Kill::After { micros })
    }
}

/// One of each seam, then another of each, and so on.
fn round_robin(mut seams: Vec<(&str, VecDeque<u64>)>) -> Vec<(String, u64)> {
    let mut points = Vec::new();
    while !seams.is_empty() {
        seams.retain_mut(|(seam, hits)| {
            points.extend(hits.pop_front().map(|hit| ((*seam).to_owned(), hit)));
            !hits.is_empty()
        });
    }
    points
}
