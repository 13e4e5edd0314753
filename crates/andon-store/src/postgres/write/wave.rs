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

    /// The epoch that the run must have.
    pub(super) fn expects(&self) -> Epoch {
        self.takes_over.unwrap_or(self.epoch)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use andon_runtime::core::event::{Accepted, Entry, Event, Record};
    use andon_runtime::core::id::SessionKey;
    use andon_runtime::core::outcome::Ending;
    use andon_runtime::core::time::{Stamp, Wall};
    use andon_runtime::{Append, Batch, Message};

    use super::*;

    fn entry(seq: Seq, event: Event) -> Entry {
        let at = Stamp { wall: Wall(seq), mono_us: seq };
        Entry::Fact(Arc::new(Record::new(seq, 1, at, event)))
    }

    fn quieted(seq: Seq) -> Entry {
        entry(seq, Event::RunQuieted)
    }

    fn settled(seq: Seq) -> Entry {
        entry(seq, Event::RunSettled { outcome: Arc::new(Ending::Lost) })
    }

    fn job(run: &str, epoch: Epoch, entries: Vec<Entry>) -> (Job, Append) {
        let (append, done) = Append::pending();
        (Job::append(Batch::new(RunId::new(run).unwrap(), epoch, entries), done), append)
    }

    /// The runs of each wave, with how many batches each joins.
    fn waves(jobs: Vec<(Job, Append)>) -> Vec<Vec<(String, usize)>> {
        let (mut jobs, mut failed) = (jobs.into_iter().map(|(job, _)| job).collect::<VecDeque<_>>(), Failed::default());
        let mut waves = Vec::new();
        while !jobs.is_empty() {
            let Wave::Appends(joined) = Wave::take(&mut jobs, &mut failed) else { panic!("there is nothing else") };
            let part = |run: &Joined| Part::of(run.all()).map(|part| (part.run.to_string(), run.batches.len()));
            waves.push(joined.iter().filter_map(part).collect());
        }
        waves
    }

    #[test]
    fn batches_of_a_run_are_joined_if_they_share_one_fate_and_else_wait_for_the_next_wave() {
        let accepted = Accepted::new(
            RunId::new("new").unwrap(),
            SessionKey::new("shop", "ada", "s").unwrap(),
            Arc::new(Message::user("Go.")),
        );
        let begun = entry(1, Event::RunAccepted { accepted: Arc::new(accepted) });
        let joined = [job("new", 1, vec![begun]), job("a", 1, vec![quieted(3)]), job("new", 1, vec![quieted(2)])];
        assert_eq!(waves(joined.into()), [[("new".to_owned(), 2), ("a".to_owned(), 1)]]);
        // A gap, another epoch, and whatever follows the end.
        for second in [("a", 1, vec![quieted(5)]), ("a", 2, vec![quieted(4)])] {
            let (run, epoch, entries) = second;
            let apart = vec![job("a", 1, vec![quieted(3)]), job(run, epoch, entries), job("b", 1, vec![quieted(3)])];
            let rest = vec![("a".to_owned(), 1), ("b".to_owned(), 1)];
            assert_eq!(waves(apart), [vec![("a".to_owned(), 1)], rest]);
        }
        let after_the_end = vec![job("a", 1, vec![settled(3)]), job("a", 1, vec![quieted(4)])];
        assert_eq!(waves(after_the_end).len(), 2);
    }

    #[test]
    fn a_batch_after_one_that_failed_is_refused_at_once() {
        let (first, _) = job("a", 1, vec![quieted(3)]);
        let (newer, _) = job("a", 2, vec![quieted(3)]);
        let mut failed = Failed::default();
        failed.note(&RunId::new("a").unwrap(), 1);
        let mut jobs: VecDeque<Job> = [first, newer].into();
        let Wave::Appends(joined) = Wave::take(&mut jobs, &mut failed) else { panic!("there is nothing else") };
        assert_eq!(joined.iter().flat_map(Joined::all).map(|batch| batch.epoch).collect::<Vec<_>>(), [2]);
    }
}
