//! What goes to the server in one transaction.
//!
//! # Invariants
//!
//! 1. A wave has each run once: its batches are joined, so that they are accepted or refused together. They can be joined if they
//!    would be refused for the same reason.
//! 2. Waves are written in order, so what was queued after something is written after it.

use std::collections::VecDeque;

use andon_runtime::core::event::{Epoch, Seq};
use andon_runtime::core::id::RunId;
use andon_runtime::{AppendDone, JournalError};

use super::work::{Job, Kind, Work};
use crate::record::{Begins, Encoded, Ends, HashMap, NewState, Row};

/// Batches of a run, joined.
pub(super) struct Joined {
    /// Never empty.
    pub(super) batches: Vec<(Encoded, AppendDone)>,
}

impl Joined {
    fn all(&self) -> impl DoubleEndedIterator<Item = &Encoded> {
        self.batches.iter().map(|(batch, _)| batch)
    }
}

/// A run's part of a wave, as the statements need it.
pub(super) struct Part<'a> {
    pub(super) run: &'a RunId,
    pub(super) epoch: Epoch,
    pub(super) takes_over: Option<Epoch>,
    pub(super) after: Seq,
    pub(super) last: Seq,
    pub(super) begins: Option<&'a Begins>,
    pub(super) starts: bool,
    pub(super) ends: Option<&'a Ends>,
    pub(super) state: NewState,
    pub(super) rows: Vec<&'a Row>,
}

impl<'a> Part<'a> {
    /// The parts of batches of one run that follow each other. `None` if there are none.
    pub(super) fn of(batches: impl IntoIterator<Item = &'a Encoded>) -> Option<Self> {
        let mut batches = batches.into_iter();
        let first = batches.next()?;
        let mut part = Self {
            run: &first.run,
            epoch: first.epoch,
            takes_over: first.takes_over,
            after: first.after,
            last: first.last,
            begins: first.begins.as_ref(),
            starts: first.starts,
            ends: first.ends.as_ref(),
            state: first.state,
            rows: first.rows.iter().collect(),
        };
        for next in batches {
            part.last = next.last;
            part.starts |= next.starts;
            part.ends = next.ends.as_ref();
            if next.state != NewState::Unchanged {
                part.state = next.state;
            }
            part.rows.extend(&next.rows);
        }
        Some(part)
    }
}

/// What goes to the server in one transaction.
pub(super) enum Wave {
    Appends(Vec<Joined>),
    Others(Vec<Box<dyn Work>>),
}

/// Runs with a batch that failed, and its epoch: a later batch would leave a gap.
#[derive(Default)]
pub(super) struct Failed(HashMap<RunId, Epoch>);

impl Failed {
    pub(super) fn note(&mut self, run: &RunId, epoch: Epoch) {
        let failed = self.0.entry(run.clone()).or_default();
        *failed = epoch.max(*failed);
    }

    pub(super) fn forget(&mut self, run: &RunId) {
        if !self.0.is_empty() {
            self.0.remove(run);
        }
    }

    /// Refuses a batch that follows one that failed.
    fn check(&self, batch: &Encoded) -> Result<(), JournalError> {
        match self.0.get(&batch.run) {
            Some(failed) if *failed >= batch.epoch && batch.goes_on() => Err(after_failure(&batch.run)),
            _ => Ok(()),
        }
    }
}

pub(super) fn after_failure(run: &RunId) -> JournalError {
    JournalError::Storage(format!("a batch of run {run} before this one failed"))
}

impl Wave {
    /// Takes the next wave from the front. Batches that are refused in any case are answered at once.
    pub(super) fn take(jobs: &mut VecDeque<Job>, failed: &mut Failed) -> Self {
        if matches!(jobs.front(), Some(Job::Other(_))) {
            return Self::Others(take_others(jobs));
        }
        let mut joined: Vec<Joined> = Vec::new();
        let mut known: HashMap<RunId, usize> = HashMap::default();
        while let Some(job) = jobs.pop_front() {
            match job {
                Job::Append { batch, done } if batch.rows.is_empty() => done.done(Ok(())),
                Job::Append { batch, done } => match known.get(&batch.run).and_then(|place| joined.get_mut(*place)) {
                    Some(run) if fits(run, &batch) => run.batches.push((batch, done)),
                    Some(_) => {
                        jobs.push_front(Job::Append { batch, done });
                        break;
                    }
                    None => match failed.check(&batch) {
                        Ok(()) => {
                            known.insert(batch.run.clone(), joined.len());
                            joined.push(Joined { batches: vec![(batch, done)] });
                        }
                        Err(error) => {
                            failed.note(&batch.run, batch.epoch);
                            done.done(Err(error));
                        }
                    },
                },
                // The batches of its run before it do not depend on it, and those after it wait for the next wave.
                broken @ Job::Broken { .. } => {
                    if let Some((run, _)) = broken.continues()
                        && known.contains_key(run)
                    {
                        jobs.push_front(broken);
                        break;
                    }
                    refuse(broken, failed);
                }
                other @ Job::Other(_) => {
                    jobs.push_front(other);
                    break;
                }
            }
        }
        Self::Appends(joined)
    }

    /// Takes one batch from the front, which is to be written alone. `None` if it is refused in any case.
    pub(super) fn take_one(jobs: &mut VecDeque<Job>, failed: &mut Failed) -> Option<Joined> {
        let mut one: VecDeque<Job> = jobs.pop_front().into_iter().collect();
        match Self::take(&mut one, failed) {
            Self::Appends(joined) => joined.into_iter().next(),
            Self::Others(_) => None,
        }
    }
}

impl From<(Encoded, AppendDone)> for Job {
    fn from((batch, done): (Encoded, AppendDone)) -> Self {
        Self::Append { batch, done }
    }
}

fn refuse(broken: Job, failed: &mut Failed) {
    let Job::Broken { error, .. } = &broken else { return };
    let error = error.clone();
    if let Some((run, epoch)) = broken.continues() {
        failed.note(run, epoch);
    }
    broken.done(Err(error));
}

/// Whether a batch goes on where the others of its run end, and shares their fate (invariant 1).
fn fits(run: &Joined, next: &Encoded) -> bool {
    run.all().next_back().is_some_and(|last| {
        next.goes_on() && last.ends.is_none() && last.epoch == next.epoch && last.last == next.after
    })
}

fn take_others(jobs: &mut VecDeque<Job>) -> Vec<Box<dyn Work>> {
    let mut others: Vec<Box<dyn Work>> = Vec::new();
    while let Some(job) = jobs.pop_front() {
        match job {
            Job::Other(work) if others.is_empty() => {
                let alone = work.kind() == Kind::Alone;
                others.push(work);
                if alone {
                    break;
                }
            }
            Job::Other(work) if work.kind() == Kind::Small => others.push(work),
            next => {
                jobs.push_front(next);
                break;
            }
        }
    }
    others
}
