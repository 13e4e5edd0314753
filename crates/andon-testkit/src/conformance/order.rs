//! Events come in order, without a gap, and in whole batches.

use std::sync::Arc;

use andon_runtime::JournalError;
use andon_runtime::core::answer::{Kind, MarkKind};
use andon_runtime::core::event::{Entry, Record};
use andon_runtime::core::message::Signature;
use andon_runtime::core::outcome::ModelStop;
use andon_runtime::core::usage::Usage;

use super::story::{Story, input};
use super::subject::Subject;

pub(super) async fn batches_are_stored_in_the_order_in_which_they_are_given(subject: Subject) {
    let mut story = Story::new("r");
    let mut told = story.begun();
    let mut appends = vec![story.give(subject.journal(), told.clone())];
    // Each is given before the one before it is awaited.
    for size in 1..=40 {
        let batch: Vec<Entry> = (0..size % 4 + 1).map(|_| story.quieted()).collect();
        appends.push(story.give(subject.journal(), batch.clone()));
        told.extend(batch);
    }
    for append in appends {
        assert_eq!(append.await, Ok(()));
    }
    assert_eq!(subject.stored(&story).await.entries, told);
}

pub(super) async fn lumps_are_stored_between_the_facts_where_they_belong(subject: Subject) {
    let mut story = Story::new("r");
    let mut batches = vec![story.begun()];
    batches.push(vec![story.model_started(), story.streamed(&Kind::Thinking, "så här")]);
    // Marks without bytes, several in one place, each in a lump of its own.
    batches.push(vec![story.marked(MarkKind::ThinkingEnded { signature: Some(Signature::new("maker", "seal")) })]);
    batches.push(vec![story.marked(MarkKind::Used(Box::new(Usage::reported(1, 1))))]);
    batches.push(vec![story.marked(MarkKind::Used(Box::new(Usage::reported(1, 2))))]);
    batches.push(vec![story.streamed(&Kind::Text, "gör "), story.streamed(&Kind::Text, "vi 🙂")]);
    batches.push(vec![story.quieted(), story.streamed(&input(0, "c1"), "{\"ä\":")]);
    batches.push(vec![story.streamed(&input(0, "c1"), "1}"), story.marked(MarkKind::CallEnded { index: 0 })]);
    batches.push(story.answered(ModelStop::ToolUse));
    for batch in &batches {
        story.write(&subject, batch.clone()).await;
    }
    assert_eq!(subject.stored(&story).await.entries, batches.concat());
    let again = subject.opened_again();
    assert_eq!(again.stored(&story).await.entries, batches.concat(), "when it was opened again");
}

pub(super) async fn a_gap_is_refused_and_nothing_of_its_batch_is_stored(subject: Subject) {
    // Inside a batch, and at its beginning.
    for (name, skipped) in [("inside", 1), ("before", 0)] {
        let mut story = Story::open(name, &subject).await;
        let mut batch: Vec<Entry> = (0..3).map(|_| story.quieted()).collect();
        batch.remove(skipped);
        story.is_refused(&subject, batch, &format!("a gap {name} a batch")).await;
    }
    let mut first = Story::new("first");
    let mut batch = first.begun();
    batch.extend([first.quieted(), first.quieted()]);
    batch.remove(2);
    first.is_refused(&subject, batch, "a gap in a first batch").await;
    assert!(!subject.knows(&first).await, "a first batch was refused, and its run is there");
}

pub(super) async fn a_repeat_is_refused_and_nothing_of_its_batch_is_stored(subject: Subject) {
    for name in ["inside", "again"] {
        let mut story = Story::open(name, &subject).await;
        let one = story.quieted();
        let batch = match name {
            "inside" => vec![one.clone(), one, story.quieted()],
            _ => {
                story.write(&subject, [one.clone()]).await;
                vec![one, story.quieted()]
            }
        };
        story.is_refused(&subject, batch, &format!("a repeat ({name})")).await;
    }
}

pub(super) async fn text_in_the_wrong_place_is_refused_with_its_batch(subject: Subject) {
    for (name, late) in [("late", true), ("early", false)] {
        let mut story = Story::open(name, &subject).await;
        let mut batch = vec![story.model_started()];
        let text = story.streamed(&Kind::Text, "here");
        batch.push(story.quieted());
        batch.insert(if late { 2 } else { 0 }, text);
        story.is_refused(&subject, batch, &format!("text that comes {name}")).await;
    }
}

pub(super) async fn a_run_begins_with_event_one(subject: Subject) {
    let mut story = Story::new("r");
    story.seq = 4;
    let batch = story.begun();
    story.is_refused(&subject, batch, "a run that begins with event 5").await;
    assert!(!subject.knows(&story).await, "there is a run without its first four events");
    assert_eq!(subject.journal().unsettled().await, Ok(vec![]));
}

pub(super) async fn a_run_begins_with_run_accepted(subject: Subject) {
    let mut story = Story::new("r");
    let batch = vec![story.started(), story.quieted()];
    story.is_refused(&subject, batch, "a run that nobody accepted, and that belongs to no session,").await;
    assert!(!subject.knows(&story).await, "there is a run that nobody accepted");
}

pub(super) async fn a_failed_batch_ends_its_epoch(subject: Subject) {
    let mut story = Story::open("r", &subject).await;
    let good = story.clone();
    let (_skipped, gap) = (story.quieted(), story.quieted());
    // Both are given before either is awaited: the second would fit, were it not for the first.
    let broken = story.give(subject.journal(), [gap]);
    let mut next = good.clone();
    let fits = next.quieted();
    let fitting = next.give(subject.journal(), [fits.clone()]);
    assert!(matches!(broken.await, Err(JournalError::Storage(_))), "a gap");
    assert!(matches!(fitting.await, Err(JournalError::Storage(_))), "a batch after one that failed");
    next.is_refused(&subject, [fits], "a batch after one that failed, later,").await;
    // Whoever claims the run goes on, and fails in its turn; and once more.
    let mut newer = good.clone();
    newer.epoch = subject.journal().claim(newer.run(), newer.epoch).await.unwrap().unwrap();
    newer.go_on(&subject).await;
    let mut ahead = newer.clone();
    let (_skipped, gap) = (ahead.quieted(), ahead.quieted());
    ahead.is_refused(&subject, [gap], "a second gap").await;
    let next = newer.clone().quieted();
    newer.is_refused(&subject, [next], "a batch after the second gap").await;
    newer.epoch = subject.journal().claim(newer.run(), newer.epoch).await.unwrap().unwrap();
    newer.go_on(&subject).await;
}

pub(super) async fn an_older_writer_does_not_reopen_an_epoch(subject: Subject) {
    let mut older = Story::open("r", &subject).await;
    let mut newer = older.clone();
    newer.epoch = subject.journal().claim(newer.run(), newer.epoch).await.unwrap().unwrap();
    let mut ahead = newer.clone();
    let (_skipped, gap) = (ahead.quieted(), ahead.quieted());
    ahead.is_refused(&subject, [gap], "a gap").await;
    older.cannot_go_on(&subject, "a batch of an older epoch than one that failed").await;
    newer.cannot_go_on(&subject, "a batch after a failed one of its epoch").await;
}

pub(super) async fn a_run_whose_first_batch_failed_can_be_begun_again(subject: Subject) {
    let mut broken = Story::new("r");
    let mut batch = broken.begun();
    batch.remove(0);
    broken.is_refused(&subject, batch, "half a first batch").await;
    let mut story = Story::new("r");
    let begun = story.begun();
    let given = story.give(subject.journal(), begun.clone()).await;
    assert_eq!(given, Ok(()), "nothing of the run is stored, so nothing can be left out, and its id is free");
    assert_eq!(subject.stored(&story).await.entries, begun);
}

pub(super) async fn a_batch_before_a_run_began_does_not_block_the_run(subject: Subject) {
    let mut early = Story::new("r");
    early.begun();
    early.cannot_go_on(&subject, "a batch of a run that nobody has begun").await;
    let mut story = Story::open("r", &subject).await;
    story.go_on(&subject).await;
}

pub(super) async fn a_batch_that_is_refused_harms_no_other_run(subject: Subject) {
    let mut stories: Vec<Story> = (0..12).map(|number| Story::new(&format!("r{number}"))).collect();
    let begun: Vec<_> = stories.iter_mut().map(|story| (story.begun(), story.clone())).collect();
    let begun: Vec<_> = begun.into_iter().map(|(begun, story)| story.give(subject.journal(), begun)).collect();
    for append in begun {
        assert_eq!(append.await, Ok(()));
    }
    // Given together, so that they may share a commit: every third has two ends, every third a gap, every third is good.
    let mut appends = Vec::new();
    for (number, story) in stories.iter_mut().enumerate() {
        let batch = match number % 3 {
            0 => vec![story.settled(), story.settled()],
            1 => vec![story.quieted(), story.quieted(), story.quieted()].split_off(1),
            _ => vec![story.quieted(), story.settled()],
        };
        appends.push(story.give(subject.journal(), batch));
    }
    for (number, append) in appends.into_iter().enumerate() {
        let taken = append.await.is_ok();
        assert_eq!(taken, number % 3 == 2, "run r{number}");
        let facts = subject.stored(&stories[number]).await.facts().count();
        assert_eq!(facts, if taken { 4 } else { 2 }, "run r{number}");
    }
}

pub(super) async fn what_was_acknowledged_is_there_when_the_journal_is_opened_again(subject: Subject) {
    let mut stories: Vec<Story> = (0..5).map(|number| Story::new(&format!("r{number}"))).collect();
    let mut told: Vec<Vec<Entry>> = Vec::new();
    for story in &mut stories {
        let entries = story.whole("Gut — 好");
        for entry in &entries {
            story.write(&subject, [entry.clone()]).await;
        }
        told.push(entries);
    }
    let subject = subject.opened_again();
    for (story, told) in stories.iter().zip(told) {
        let stored = subject.stored(story).await;
        assert_eq!(stored.entries, told);
        let seqs: Vec<_> = stored.facts().map(|record: &Arc<Record>| record.seq).collect();
        assert_eq!(seqs, (1..=story.seq).collect::<Vec<_>>(), "numbered without a gap");
    }
}
