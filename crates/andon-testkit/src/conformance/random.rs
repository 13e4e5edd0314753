//! Owners that write at random, compared with a model that is simple enough to be right.

use std::collections::BTreeMap;
use std::sync::Arc;

use andon_runtime::core::answer::Kind;
use andon_runtime::core::event::{Addendum, AddendumKind, Entry, Epoch, Event};
use andon_runtime::core::usage::{Usage, Used};
use andon_runtime::{JournalError, RequestFate, RunId};

use super::story::{Parts, Story, parts, request, stamp};
use super::subject::Subject;

/// The seeds that are tried, each with runs of its own.
const SEEDS: std::ops::Range<u64> = 1..13;

/// How much happens with each seed.
const STEPS: usize = 120;

/// Numbers that look random and are the same each time (`splitmix64`).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// What a journal must hold about one run.
#[derive(Default)]
struct Expected {
    stored: Parts,
    seq: u64,
    settled: bool,
    failed: Epoch,
}

/// What a journal must say to a batch.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Taken,
    Refused,
}

impl Expected {
    fn judge(&mut self, epoch: Epoch, entries: &[Entry]) -> Verdict {
        if self.settled || (self.seq > 0 && epoch != self.stored.0) {
            return Verdict::Refused;
        }
        let mut seq = self.seq;
        let mut settled = false;
        let fits = entries.iter().all(|entry| {
            let open = !settled;
            match entry {
                Entry::Fact(record) => {
                    seq += 1;
                    settled |= matches!(record.event, Event::RunSettled { .. });
                    open && record.seq == seq
                }
                Entry::Lump(lump) => open && lump.span.after == seq,
            }
        });
        if !fits || epoch <= self.failed {
            self.failed = self.failed.max(epoch);
            return Verdict::Refused;
        }
        (self.seq, self.settled, self.stored.0) = (seq, settled, epoch);
        self.stored.1.extend(entries.iter().cloned());
        Verdict::Taken
    }
}

/// Several owners of several runs, each with its own idea of where its run is.
struct RandomOwners {
    dice: Dice,
    subject: Subject,
    expected: BTreeMap<RunId, Expected>,
    owners: Vec<Story>,
}

pub(super) async fn owners_that_write_at_random_leave_what_a_simple_model_says(subject: Subject) {
    let mut subject = subject;
    for seed in SEEDS {
        let mut world = RandomOwners { dice: Dice(seed), subject, expected: BTreeMap::new(), owners: Vec::new() };
        for run in 0..3 {
            let mut story = Story::new(&format!("seed {seed} run {run}"));
            let begun = story.begun();
            story.write(&world.subject, begun.clone()).await;
            let expected = world.expected.entry(story.run().clone()).or_default();
            assert_eq!(expected.judge(1, &begun), Verdict::Taken);
            world.owners.extend([story.clone(), story]);
        }
        for step in 0..STEPS {
            world.step(&format!("seed {seed}, step {step}")).await;
        }
        subject = world.subject.opened_again();
        for (run, expected) in world.expected {
            let stored: Parts = parts(subject.journal().read(&run).await.unwrap().unwrap());
            assert_eq!(stored, expected.stored, "seed {seed}, {run}");
        }
    }
}

impl RandomOwners {
    async fn step(&mut self, place: &str) {
        let owner = self.dice.roll(self.owners.len() as u64) as usize;
        let mut story = self.owners[owner].clone();
        match self.dice.roll(12) {
            0 => self.claim(&mut story, place).await,
            1 => self.catch_up(&mut story),
            2 => self.ask(&story, place).await,
            3 => self.learn(&story, place).await,
            4 => self.presume(story.clone(), place).await,
            5 => {
                story.seq += self.dice.roll(3);
                self.write(&mut story, place).await;
            }
            _ => self.write(&mut story, place).await,
        }
        self.owners[owner] = story;
    }

    fn expected(&mut self, story: &Story) -> &mut Expected {
        self.expected.get_mut(story.run()).expect("every run is known")
    }

    /// An owner reads where the run is.
    fn catch_up(&mut self, story: &mut Story) {
        let expected = self.expected(story);
        (story.seq, story.epoch) = (expected.seq, expected.stored.0);
    }

    async fn claim(&mut self, story: &mut Story, place: &str) {
        let claimed = self.subject.journal().claim(story.run(), story.epoch).await;
        let expected = self.expected(story);
        let owner = expected.stored.0;
        if story.epoch != owner {
            assert_eq!(claimed, Err(JournalError::Fenced { ours: story.epoch, owner }), "{place}");
            return;
        }
        expected.stored.0 += 1;
        assert_eq!(claimed, Ok(Some(expected.stored.0)), "{place}");
        (story.seq, story.epoch) = (expected.seq, expected.stored.0);
    }

    /// An owner writes in an epoch that nobody has claimed.
    async fn presume(&mut self, mut story: Story, place: &str) {
        let owner = self.expected(&story).stored.0;
        story.epoch = owner + 1;
        let next = story.quieted();
        let refused = story.give(self.subject.journal(), [next]).await;
        assert_eq!(refused, Err(JournalError::Fenced { ours: story.epoch, owner }), "{place}");
    }

    async fn ask(&mut self, story: &Story, place: &str) {
        let asked = self.subject.journal().request_cancel(story.run(), request(place)).await;
        let expected = self.expected(story);
        if expected.settled {
            assert_eq!(asked, Ok(RequestFate::TooLate), "{place}");
        } else {
            assert_eq!(asked, Ok(RequestFate::Recorded), "{place}");
            expected.stored.3.push(Arc::new(request(place)));
        }
    }

    async fn learn(&mut self, story: &Story, place: &str) {
        let output = self.dice.roll(1_000);
        let what = AddendumKind::UsageCorrected { call: 1, used: Box::new(Used::whole(Usage::reported(1, output))) };
        let added = self.subject.journal().append_addendum(story.run(), stamp(output), what.clone()).await;
        assert_eq!(added, Ok(()), "{place}");
        let addenda = &mut self.expected(story).stored.2;
        let number = u32::try_from(addenda.len()).unwrap() + 1;
        addenda.push(Addendum::new(number, stamp(output), what));
    }

    /// One to four batches, given together: the owner does not wait to see whether the first is accepted.
    async fn write(&mut self, story: &mut Story, place: &str) {
        let mut given = Vec::new();
        for _ in 0..=self.dice.roll(4) {
            let mut writer = story.clone();
            let batch = self.batch(&mut writer);
            let verdict = self.expected(story).judge(writer.epoch, &batch);
            given.push((writer.give(self.subject.journal(), batch), verdict));
            *story = writer;
        }
        for (append, verdict) in given {
            let said = match append.await {
                Ok(()) => Verdict::Taken,
                Err(JournalError::Fenced { .. } | JournalError::Storage(_)) => Verdict::Refused,
                Err(other) => panic!("{place}: {other}"),
            };
            assert_eq!(said, verdict, "{place}: {}, epoch {}, event {}", story.run(), story.epoch, story.seq);
        }
    }

    fn batch(&mut self, story: &mut Story) -> Vec<Entry> {
        let mut batch = Vec::new();
        for _ in 0..=self.dice.roll(4) {
            batch.push(match self.dice.roll(24) {
                0 => story.settled(),
                1..8 => {
                    let letters = ["ä", "b", "🙂"][self.dice.roll(3) as usize];
                    story.streamed(&Kind::Text, letters)
                }
                _ => story.quieted(),
            });
        }
        // Now and then something is left out or repeated.
        let place = self.dice.roll(batch.len() as u64) as usize;
        match self.dice.roll(16) {
            0 if batch.len() > 1 => drop(batch.remove(place)),
            1 => batch.insert(place, batch[place].clone()),
            _ => {}
        }
        batch
    }
}
