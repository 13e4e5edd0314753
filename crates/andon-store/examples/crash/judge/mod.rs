//! The judge compares the database with what clients saw, what tools did and what the provider reported.
//!
//! After each life it checks what must hold at every moment, and after each round everything. The numbers are those of the
//! invariants in the design notes.

mod effects;
mod outages;
mod record;
mod shown;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use andon_runtime::{Cursor, Journal, RunId, Runtime, SessionKey};
use andon_testkit::check::{check_feed, check_stored, read_all};
use andon_testkit::wire;
use anyhow::{Context, Result};

use self::effects::{check_deeds, check_deeds_at_the_end, check_usage};
pub(crate) use self::outages::Outages;
use self::outages::{Lasted, check_left, check_refused};
use self::record::{check_cancel, check_end, check_order, check_recovery};
use self::shown::{check_acknowledged, check_lines, check_next_prompts, check_outcomes, check_readers, check_shown};
use crate::book::{Book, Copy};
use crate::log::{Beat, Deed, Line, What};

/// How much of an unfinished answer a crash may lose.
const MAY_BE_LOST_US: u64 = 50_000;
/// While a disk stalls, text is no longer shown once 50 ms of it are not durable; readers may lag this much.
const READERS_LAG_US: u64 = 25_000;
/// No disk stalls this long unnoticed.
const STALL_US: u64 = 2_000_000;
/// If the next beat of a process comes later than this, the process did not run in between.
const LATE_US: u64 = 10_000;

/// What was seen in a round.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) lines: Vec<Line>,
    pub(crate) deeds: Vec<Deed>,
    pub(crate) beats: Vec<Beat>,
    /// When each life that was killed ended, by its number.
    pub(crate) killed_at: BTreeMap<u32, u64>,
    /// The outage of each life that had one, by its number.
    outages: BTreeMap<u32, Lasted>,
}

impl Seen {
    /// Whether something that was shown may be lost in the crash that ended its life: its process ran for less than 50 ms
    /// after it, or the disk stalled or could not be written, and nothing more was shown.
    fn may_be_lost(&self, line: &Line, run: &str) -> bool {
        let Some(killed_at) = self.killed_at.get(&line.life) else { return false };
        let age = self.ran(line.life, line.at_us, *killed_at);
        let same_run =
            |other: &&Line| other.life == line.life && matches!(&other.what, What::Delta { run: id, .. } if id == run);
        let last = self.lines.iter().rev().find(same_run).map_or(line.at_us, |last| last.at_us);
        let shown_later = self.ran(line.life, line.at_us, last);
        let in_outage = self.outages.get(&line.life).is_some_and(|outage| outage.covers(line.at_us));
        let is_held_up = in_outage || age <= STALL_US;
        age <= MAY_BE_LOST_US || (shown_later <= MAY_BE_LOST_US + READERS_LAG_US && is_held_up)
    }

    /// How long a life ran between two instants. While the machine serves others it can make nothing durable.
    fn ran(&self, life: u32, from: u64, to: u64) -> u64 {
        let within = |at_us: &u64| (from..to).contains(at_us);
        let beats = self.beats.iter().filter(|beat| beat.life == life).map(|beat| beat.at_us).filter(within);
        let (mut ran, mut before) = (0, from);
        for at_us in beats.chain([to]) {
            ran += at_us.saturating_sub(before).min(LATE_US);
            before = at_us;
        }
        ran
    }
}

/// The runs of sessions that were deleted.
#[derive(Debug, Default)]
struct Deleted {
    /// Their deletion has begun, so they may or may not exist.
    begun: BTreeSet<String>,
    /// They are deleted.
    done: BTreeSet<String>,
}

impl Deleted {
    fn new(seen: &Seen) -> Self {
        let mut deleted = Self::default();
        let mut asked: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
        for line in &seen.lines {
            match &line.what {
                What::Asked { run, session, .. } => asked.entry(session).or_default().push(run),
                What::Deleting { session } => {
                    let runs = asked.get(session.as_str()).into_iter().flatten();
                    deleted.begun.extend(runs.copied().cloned());
                }
                What::Deleted { session } => {
                    let runs = asked.get(session.as_str()).into_iter().flatten();
                    deleted.done.extend(runs.copied().cloned());
                }
                _ => {}
            }
        }
        deleted
    }

    /// Whether a run may be missing.
    fn explains(&self, run: &str, book: &Book) -> bool {
        self.begun.contains(run) && !book.runs.contains_key(run)
    }
}

/// Nothing is left of a deleted session.
fn check_deleted(book: &Book, deleted: &Deleted) -> Vec<String> {
    let left = deleted.done.iter().filter(|run| book.runs.contains_key(*run));
    let mut broken: Vec<String> = left.map(|run| format!("{run}: its session was deleted, and it is there")).collect();
    if book.orphans > 0 {
        broken.push(format!("{} rows belong to no run", book.orphans));
    }
    broken
}

/// What must hold at every moment; checked after each life.
pub(crate) fn check_now(book: &Book, seen: &Seen, life: u32) -> Vec<String> {
    let mut broken: Vec<String> = book.damage.iter().map(|damage| format!("the file is damaged: {damage}")).collect();
    for (run, pages) in &book.runs {
        broken.extend(check_order(pages).into_iter().map(|text| format!("{run}: {text}")));
    }
    let deleted = Deleted::new(seen);
    broken.extend(check_deleted(book, &deleted));
    broken.extend(check_shown(book, seen, &deleted, |line| line.life == life));
    broken.extend(check_acknowledged(book, seen, &deleted));
    broken.extend(check_deeds(book, seen));
    broken.extend(check_lines(seen, |line| line.life == life));
    broken.extend(check_outcomes(book, seen, &deleted));
    broken.extend(check_refused(book, seen, |line| line.life == life));
    broken.extend(check_left(book, seen, life, &deleted));
    broken
}

/// What must hold when a round is over.
pub(crate) async fn check_round(copy: &Copy, seen: &Seen) -> Result<Vec<String>> {
    let book = copy.read()?;
    let mut broken: Vec<String> = book.damage.iter().map(|damage| format!("the file is damaged: {damage}")).collect();
    for (run, pages) in &book.runs {
        let found = [
            check_order(pages),
            check_end(pages),
            check_recovery(pages, seen.may_be_orphaned(run)),
            check_cancel(pages),
        ]
        .concat();
        broken.extend(found.into_iter().map(|text| format!("{run}: {text}")));
        broken.extend(check_usage(run, pages, seen));
    }
    let deleted = Deleted::new(seen);
    broken.extend(check_deleted(&book, &deleted));
    broken.extend(check_shown(&book, seen, &deleted, |_| true));
    broken.extend(check_readers(seen));
    broken.extend(check_acknowledged(&book, seen, &deleted));
    broken.extend(check_deeds(&book, seen));
    broken.extend(check_deeds_at_the_end(&book, seen));
    broken.extend(check_lines(seen, |_| true));
    broken.extend(check_outcomes(&book, seen, &deleted));
    broken.extend(check_next_prompts(&book, seen, &deleted));
    broken.extend(check_refused(&book, seen, |_| true));
    broken.extend(check_stored_runs(copy, &book).await?);
    Ok(broken)
}

/// P2, P3, P6, I11: every run as the runtime reads it, and every session's history.
async fn check_stored_runs(copy: &Copy, book: &Book) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    let journal = copy.journal()?;
    let runtime = Runtime::builder().journal(Arc::clone(&journal)).build();
    for run in book.runs.keys() {
        let id = RunId::new(run)?;
        let stored = journal.read(&id).await?.with_context(|| format!("{run} cannot be read"))?;
        broken.extend(check_stored(&stored).into_iter().map(|text| format!("{run}: {text}")));
        let Some(mut feed) = runtime.feed(&id, Cursor::default()).await? else { continue };
        if book.runs.get(run).is_some_and(|pages| pages.is_settled) {
            let told = read_all(&mut feed).await;
            broken.extend(check_feed(&told).into_iter().map(|text| format!("{run}: {text}")));
        }
    }
    let sessions: BTreeSet<&str> = book.runs.values().map(|pages| pages.session.as_str()).collect();
    for session in sessions {
        let history = journal.history(&SessionKey::new("crash", "local", session)?).await?;
        let objections = wire::check_history(&history);
        broken.extend(objections.into_iter().map(|text| format!("session {session}: I11: {text}")));
    }
    Ok(broken)
}
