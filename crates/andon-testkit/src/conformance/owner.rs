//! One writer owns a run: a former owner is refused.

use andon_runtime::core::event::{Entry, Epoch};
use andon_runtime::{Append, Batch, JournalError};

use super::story::{Story, parts};
use super::subject::Subject;

pub(super) async fn a_stale_writer_is_refused_once_the_run_was_claimed(subject: Subject) {
    let mut stale = Story::open("r", &subject).await;
    let mut owner = stale.clone();
    owner.epoch = subject.journal().claim(stale.run(), stale.epoch).await.unwrap().unwrap();
    assert_eq!(owner.epoch, 2, "a claim raises the epoch by one");
    let next = stale.quieted();
    let refused = stale.give(subject.journal(), [next.clone()]).await;
    assert_eq!(refused, Err(JournalError::Fenced { ours: 1, owner: 2 }));
    stale.is_refused(&subject, [next], "a stale writer's batch").await;
    owner.go_on(&subject).await;
    let last = stale.settled();
    stale.is_refused(&subject, [last], "a stale writer's end").await;
}

pub(super) async fn a_batch_of_a_newer_epoch_is_refused_unless_it_takes_the_run_over(subject: Subject) {
    let mut owner = Story::open("r", &subject).await;
    for epoch in [2, 5, Epoch::MAX] {
        for ends in [false, true] {
            let mut newer = as_owner(&owner, epoch);
            let next = if ends { newer.settled() } else { newer.quieted() };
            let refused = newer.give(subject.journal(), [next]).await;
            assert_eq!(refused, Err(JournalError::Fenced { ours: epoch, owner: 1 }), "with its end: {ends}");
        }
        owner.go_on(&subject).await;
    }
    assert_eq!(subject.stored(&owner).await.epoch, 1);
}

pub(super) async fn a_take_over_that_is_refused_changes_nothing(subject: Subject) {
    let mut owner = Story::open("r", &subject).await;
    let mut ahead = owner.clone();
    let (_skipped, gap) = (ahead.quieted(), ahead.quieted());
    assert!(take_over(&subject, &owner, [gap]).await.is_err(), "it has a gap");
    assert_eq!(subject.stored(&owner).await.epoch, 1);
    owner.go_on(&subject).await;
}

pub(super) async fn the_owner_goes_on_with_its_epoch(subject: Subject) {
    let mut story = Story::open("r", &subject).await;
    for epoch in [1, 2, 3] {
        story.go_on(&subject).await;
        story.go_on(&subject).await;
        assert_eq!(subject.stored(&story).await.epoch, epoch);
        story.epoch = subject.journal().claim(story.run(), epoch).await.unwrap().unwrap();
    }
    assert_eq!(story.epoch, 4);
}

pub(super) async fn a_claim_waits_for_the_batches_before_it(subject: Subject) {
    let mut story = Story::open("r", &subject).await;
    let appends: Vec<Append> = (0..300)
        .map(|_| {
            let next = story.quieted();
            story.give(subject.journal(), [next])
        })
        .collect();
    let claim = subject.journal().claim(story.run(), story.epoch);
    let next = story.clone().quieted();
    let after = story.give(subject.journal(), [next]);
    assert_eq!(claim.await, Ok(Some(2)));
    // Nobody has awaited the batches: they are durable all the same.
    let stored = subject.stored(&story).await;
    assert_eq!(stored.facts().count(), 302, "batches that were given before the claim");
    for append in appends {
        assert_eq!(append.await, Ok(()));
    }
    assert_eq!(after.await, Err(JournalError::Fenced { ours: 1, owner: 2 }), "a batch after the claim");
}

pub(super) async fn a_run_is_claimed_from_its_owner_and_from_nobody_else(subject: Subject) {
    let stale = Story::open("r", &subject).await;
    let mut owner = stale.clone();
    owner.epoch = subject.journal().claim(stale.run(), stale.epoch).await.unwrap().unwrap();
    for from in [1, 3] {
        let refused = subject.journal().claim(stale.run(), from).await;
        assert_eq!(refused, Err(JournalError::Fenced { ours: from, owner: 2 }));
    }
    // A claim that came too late has taken nothing from the owner.
    owner.go_on(&subject).await;
    owner.settle(&subject).await;
    assert_eq!(subject.journal().claim(stale.run(), 2).await, Ok(Some(3)), "a run that has settled");
}

pub(super) async fn an_unknown_run_cannot_be_claimed(subject: Subject) {
    let story = Story::new("nobody");
    assert_eq!(subject.journal().claim(story.run(), story.epoch).await, Ok(None));
    assert!(!subject.knows(&story).await, "a claim has made a run");
}

pub(super) async fn epochs_never_decrease_along_the_record(subject: Subject) {
    let mut story = Story::open("r", &subject).await;
    let mut owner = 1;
    for epoch in [3, 1, 2, 2, 1, 4, 3] {
        if epoch == owner + 1 {
            owner = subject.journal().claim(story.run(), owner).await.unwrap().unwrap();
        }
        let mut writer = as_owner(&story, epoch);
        let next = writer.quieted();
        let written = writer.give(subject.journal(), [next]).await;
        assert_eq!(written.is_ok(), epoch == owner, "epoch {epoch} where {owner} owns it: {written:?}");
        if written.is_ok() {
            story = writer;
        }
    }
    let stored = subject.stored(&story).await;
    let epochs: Vec<Epoch> = stored.entries.iter().filter_map(Entry::fact).map(|record| record.epoch).collect();
    assert_eq!(epochs, [1, 1, 1, 2, 2, 3]);
}

pub(super) async fn an_owner_is_remembered_when_the_journal_is_opened_again(subject: Subject) {
    let mut stale = Story::open("r", &subject).await;
    assert_eq!(subject.journal().claim(stale.run(), stale.epoch).await, Ok(Some(2)));
    let subject = subject.opened_again();
    stale.cannot_go_on(&subject, "a stale writer's batch").await;
    assert_eq!(subject.journal().claim(stale.run(), 2).await, Ok(Some(3)));
}

/// Hands over entries and takes the run over from the owner of a story's epoch.
fn take_over(subject: &Subject, from: &Story, entries: impl Into<Vec<Entry>>) -> Append {
    subject.journal().append(Batch::taking_over(from.run().clone(), from.epoch, entries.into()))
}

/// A take-over from an epoch that is over: it is refused, and everything is as it was.
async fn is_fenced(subject: &Subject, from: &Story, entries: impl Into<Vec<Entry>>, owner: Epoch, what: &str) {
    let before = parts(subject.stored(from).await);
    let refused = take_over(subject, from, entries).await;
    assert_eq!(refused, Err(JournalError::Fenced { ours: from.epoch + 1, owner }), "{what}");
    assert_eq!(parts(subject.stored(from).await), before, "{what} was refused and has changed something");
}

/// The same run, written by the owner of another epoch.
fn as_owner(story: &Story, epoch: Epoch) -> Story {
    let mut story = story.clone();
    story.epoch = epoch;
    story
}

/// The entry that would come next in a story, which stays as it is.
fn next_of(story: &Story) -> Entry {
    story.clone().quieted()
}

pub(super) async fn taking_a_run_over_is_one_step(subject: Subject) {
    let stale = Story::open("r", &subject).await;
    let mut owner = as_owner(&stale, 2);
    let next = owner.quieted();
    assert_eq!(take_over(&subject, &stale, [next]).await, Ok(()));
    assert_eq!(subject.stored(&owner).await.epoch, 2);
    let after = as_owner(&owner, 1);
    let refused = after.give(subject.journal(), [next_of(&after)]).await;
    assert_eq!(refused, Err(JournalError::Fenced { ours: 1, owner: 2 }));
    owner.go_on(&subject).await;
}

pub(super) async fn a_run_that_was_claimed_is_not_taken_over_from_the_owner_before(subject: Subject) {
    let stale = Story::open("r", &subject).await;
    let mut owner = stale.clone();
    owner.epoch = subject.journal().claim(stale.run(), stale.epoch).await.unwrap().unwrap();
    // The one that claimed and the one that takes over would have the same epoch.
    for entries in [vec![next_of(&stale)], vec![stale.clone().settled()]] {
        is_fenced(&subject, &stale, entries, 2, "a take-over of a run that was claimed").await;
    }
    for _ in 0..2 {
        owner.go_on(&subject).await;
    }
    is_fenced(&subject, &stale, [next_of(&owner)], 2, "a take-over that fits after what the owner wrote").await;
    owner.settle(&subject).await;
}

pub(super) async fn the_first_of_two_that_take_a_run_over_owns_it(subject: Subject) {
    let stale = Story::open("r", &subject).await;
    let mut first = as_owner(&stale, 2);
    let (next, last) = (first.quieted(), stale.clone().settled());
    // Both are given before either is awaited, so that they may share a commit; and once more.
    let took = take_over(&subject, &stale, [next]);
    let late = take_over(&subject, &stale, [last.clone()]);
    assert_eq!((took.await, late.await), (Ok(()), Err(JournalError::Fenced { ours: 2, owner: 2 })));
    is_fenced(&subject, &stale, [last], 2, "a second take-over").await;
    is_fenced(&subject, &stale, [next_of(&first)], 2, "a second take-over that fits").await;
    first.go_on(&subject).await;
    let subject = subject.opened_again();
    is_fenced(&subject, &stale, [next_of(&first)], 2, "a second take-over, after the journal was opened again,").await;
    first.settle(&subject).await;
}

pub(super) async fn a_run_is_not_taken_over_from_an_owner_that_never_was(subject: Subject) {
    let mut owner = Story::open("r", &subject).await;
    let ahead = as_owner(&owner, 4);
    is_fenced(&subject, &ahead, [next_of(&owner)], 1, "a take-over from an owner that there never was").await;
    owner.go_on(&subject).await;
}

pub(super) async fn a_run_that_has_settled_is_not_taken_over(subject: Subject) {
    let mut story = Story::open("r", &subject).await;
    story.settle(&subject).await;
    is_fenced(&subject, &story, [next_of(&story)], 1, "a take-over of a run that has settled").await;
}

pub(super) async fn a_late_take_over_that_makes_no_sense_harms_nobody(subject: Subject) {
    let stale = Story::open("r", &subject).await;
    let mut owner = stale.clone();
    owner.epoch = subject.journal().claim(stale.run(), stale.epoch).await.unwrap().unwrap();
    let mut ahead = stale.clone();
    let (_skipped, gap) = (ahead.quieted(), ahead.quieted());
    let mut torn = stale.clone();
    let mut batch = vec![torn.quieted(), torn.quieted(), torn.quieted()];
    batch.remove(1);
    for entries in [vec![gap], batch] {
        let before = parts(subject.stored(&stale).await);
        assert!(take_over(&subject, &stale, entries).await.is_err(), "it has a gap, and comes too late");
        assert_eq!(parts(subject.stored(&stale).await), before);
        owner.go_on(&subject).await;
    }
}
