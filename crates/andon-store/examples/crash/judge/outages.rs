//! What an outage of the store may do to a run, and what must hold when it is over.

use std::collections::BTreeSet;
use std::fmt;

use andon_runtime::core::outcome::FailureKind;
use andon_runtime::core::progress::{RunProgress, RunState};
use andon_runtime::{Ending, ReplyKind};

use super::{Deleted, MAY_BE_LOST_US, READERS_LAG_US, Seen};
use crate::book::{Book, Pages};
use crate::log::{Line, What};
use crate::outage::{Cause, Outage};
use crate::provider::Scene;

/// An outage that has begun.
#[derive(Debug)]
pub(super) struct Lasted {
    outage: Outage,
    began_us: u64,
    /// `None` if its life did not see its end.
    over_us: Option<u64>,
}

impl Lasted {
    /// Whether what was shown at this time could not become durable before the outage was over.
    pub(super) fn covers(&self, at_us: u64) -> bool {
        let is_late = self.over_us.is_some_and(|over_us| at_us > over_us);
        at_us + MAY_BE_LOST_US + READERS_LAG_US >= self.began_us && !is_late
    }
}

/// The outages of a round or a campaign, and what became of runs.
#[derive(Debug, Default, Clone)]
pub(crate) struct Outages {
    /// Lives whose store was locked, and lives whose disk was full.
    locked: usize,
    full: usize,
    /// Lives with an outage that ended by themselves.
    survived: usize,
    /// Runs that failed because of an outage, and runs that could not even begin.
    failed: usize,
    refused: usize,
}

impl Outages {
    pub(crate) fn add(&mut self, other: &Self) {
        self.locked += other.locked;
        self.full += other.full;
        self.survived += other.survived;
        self.failed += other.failed;
        self.refused += other.refused;
    }
}

impl fmt::Display for Outages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { locked, full, survived, failed, refused } = self;
        write!(
            f,
            "in {locked} lives the store was locked for a while, in {full} it was full, and {survived} of them came to \
             their end; {failed} runs failed because of it, and {refused} could not begin"
        )
    }
}

impl Seen {
    pub(crate) fn add(&mut self, lines: Vec<Line>) {
        for line in &lines {
            match line.what {
                What::OutageBegan { outage } => {
                    self.outages.insert(line.life, Lasted { outage, began_us: line.at_us, over_us: None });
                }
                What::OutageOver => {
                    if let Some(lasted) = self.outages.get_mut(&line.life) {
                        lasted.over_us = Some(line.at_us);
                    }
                }
                _ => {}
            }
        }
        self.lines.extend(lines);
    }

    pub(crate) fn count_outages(&self) -> Outages {
        let caused_by = |cause| self.outages.values().filter(|lasted| lasted.outage.cause == cause).count();
        let count = |is_it: &dyn Fn(&What) -> bool| self.lines.iter().filter(|line| is_it(&line.what)).count();
        Outages {
            locked: caused_by(Cause::Locked),
            full: caused_by(Cause::Full),
            survived: self.outages.keys().filter(|life| self.has_ended(**life)).count(),
            failed: count(&|what| matches!(what, What::Outcome { ending, .. } if is_journals(ending))),
            refused: count(&|what| matches!(what, What::NotSettled { .. })),
        }
    }

    /// Whether a life ended by itself.
    pub(super) fn has_ended(&self, life: u32) -> bool {
        self.lines.iter().any(|line| line.life == life && matches!(line.what, What::Ended { .. }))
    }

    /// Whether writes were refused in a life before this line.
    fn was_full(&self, line: &Line) -> bool {
        let is_full = |lasted: &Lasted| lasted.outage.cause == Cause::Full && lasted.began_us <= line.at_us;
        self.outages.get(&line.life).is_some_and(is_full)
    }

    /// Whether a run may have been settled by the same process in which its driver could not write.
    pub(super) fn may_be_orphaned(&self, run: &str) -> bool {
        let is_full = |life| self.outages.get(&life).is_some_and(|lasted| lasted.outage.cause == Cause::Full);
        self.lines.iter().any(|line| line.what.run() == Some(run) && is_full(line.life))
    }
}

fn is_journals(ending: &Ending) -> bool {
    matches!(ending, Ending::Failed(failure) if failure.error == FailureKind::Journal)
}

/// Only a full disk causes refusals, and a run whose feed ends without an outcome was never recorded.
pub(super) fn check_refused(book: &Book, seen: &Seen, is_wanted: impl Fn(&Line) -> bool) -> Vec<String> {
    let mut broken = Vec::new();
    for line in seen.lines.iter().filter(|line| is_wanted(line)) {
        let is_explained = seen.was_full(line);
        match &line.what {
            What::NotRecorded { run, why } if !is_explained => {
                broken.push(format!("{run}: I12: its cancel was not recorded: {why}"));
            }
            What::NotDeleted { session, why } if !is_explained => {
                broken.push(format!("session {session} could not be deleted: {why}"));
            }
            What::NotSettled { run, why } if !is_explained || book.runs.contains_key(run) => {
                broken.push(format!("{run}: I1: its feed ended without an end: {why}"));
            }
            What::Outcome { run, ending } if is_journals(ending) && !seen.may_be_orphaned(run) => {
                broken.push(format!("{run}: I1: it ended {ending:?}, and nothing was wrong with the store"));
            }
            _ => {}
        }
    }
    broken
}

/// What remains of a life that ended by itself: its only open runs wait for a person, or wait behind such a run; and every run
/// that was told to stop is cancelled, whether or not that could be written at once.
pub(super) fn check_left(book: &Book, seen: &Seen, life: u32, deleted: &Deleted) -> Vec<String> {
    if !seen.has_ended(life) {
        return Vec::new();
    }
    let mut broken = Vec::new();
    let (mut driven, mut stopped, mut refused) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for line in seen.lines.iter().filter(|line| line.life == life) {
        match &line.what {
            What::Asked { run, .. } => drop(driven.insert(run)),
            What::Recovered { run, fate } if fate.starts_with("LivesOn") => drop(driven.insert(run)),
            What::NotSettled { run, .. } => drop(refused.insert(run)),
            What::Replied { run, reply: ReplyKind::Accepted | ReplyKind::Hardened } => drop(stopped.insert(run)),
            _ => {}
        }
    }
    for run in driven.into_iter().filter(|run| !refused.contains(run) && !deleted.explains(run, book)) {
        match book.runs.get(run) {
            None => broken.push(format!("{run}: I1: it was taken on in life {life}, and is not on record")),
            Some(pages) if !pages.is_settled && !waits_for_a_person(pages) => {
                broken.push(format!("{run}: I1: life {life} ended, and the run did not"));
            }
            Some(_) => {}
        }
    }
    for run in stopped {
        let ending = book.runs.get(run).and_then(|pages| pages.ending.as_ref());
        if ending.is_some_and(|ending| !ending.is_cancelled()) {
            broken.push(format!("{run}: I12: its cancel was accepted, and it ended {ending:?}"));
        }
    }
    broken
}

fn waits_for_a_person(pages: &Pages) -> bool {
    let state = RunProgress::fold(&pages.entries_before(pages.epoch + 1)).map(|progress| progress.state());
    pages.session == Scene::Approve.name() && matches!(state, Ok(RunState::Waiting | RunState::Queued))
}
