//! Readers, owners and cancels at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use andon_runtime::core::answer::Kind;
use andon_runtime::core::event::{Entry, Epoch};
use andon_runtime::{Journal, JournalError, RequestFate};
use tokio::task::JoinHandle;

use super::story::{Story, request};
use super::subject::Subject;

fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    #[expect(clippy::disallowed_methods, reason = "these tasks use a journal without a runtime")]
    tokio::spawn(task)
}

pub(super) async fn every_read_is_a_prefix_of_what_is_written(subject: Subject) {
    let mut story = Story::new("r");
    let begun = story.begun();
    story.write(&subject, begun.clone()).await;
    let over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (journal, over) = (Arc::clone(subject.journal()), Arc::clone(&over));
            let run = story.run().clone();
            spawn(async move {
                let mut reads: Vec<Vec<Entry>> = Vec::new();
                loop {
                    let last = over.load(Ordering::SeqCst);
                    reads.push(journal.read(&run).await.unwrap().unwrap().entries);
                    if last {
                        return reads;
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let (mut told, mut ends) = (begun, vec![2]);
    for round in 0..60 {
        let mut batch = vec![story.quieted(), story.quieted()];
        batch.push(story.streamed(&Kind::Text, "ab"));
        if round % 2 == 0 {
            batch.push(story.streamed(&Kind::Text, "c"));
        }
        story.write(&subject, batch.clone()).await;
        told.extend(batch);
        ends.push(told.len());
    }
    over.store(true, Ordering::SeqCst);
    for reader in readers {
        let reads = reader.await.unwrap();
        let lengths: Vec<usize> = reads.iter().map(Vec::len).collect();
        assert!(lengths.is_sorted(), "a later read has seen less: {lengths:?}");
        assert_eq!(lengths.last(), Some(&told.len()), "the last read began after the last write was acknowledged");
        for read in reads {
            assert_eq!(read, told[..read.len()], "a read is not a prefix");
            assert!(ends.contains(&read.len()), "a read has seen half a batch: {} entries", read.len());
        }
    }
}

pub(super) async fn a_cancel_request_that_races_the_end_is_recorded_or_too_late(subject: Subject) {
    for round in 0..120 {
        let mut story = Story::open(&format!("r{round}"), &subject).await;
        let end = story.settled();
        let (journal, run) = (Arc::clone(subject.journal()), story.run().clone());
        // From two threads, and each of them first in every second round.
        let asks = move || spawn(async move { journal.request_cancel(&run, request("race")).await });
        let (writer, journal) = (story.clone(), Arc::clone(subject.journal()));
        let ends = move || spawn(async move { writer.give(&journal, [end]).await });
        let (asked, ended) = if round % 2 == 0 {
            let asked = asks();
            (asked, ends())
        } else {
            let ended = ends();
            (asks(), ended)
        };
        assert_eq!(ended.await.unwrap(), Ok(()), "a request must not keep a run from its end");
        let asked = asked.await.unwrap().unwrap();
        let kept = subject.stored(&story).await.requests.len();
        match asked {
            RequestFate::Recorded => assert_eq!(kept, 1, "a request was acknowledged and is lost"),
            RequestFate::TooLate => assert_eq!(kept, 0, "a request that came too late is on record"),
            RequestFate::Unknown => panic!("run {} is known", story.run()),
        }
    }
    // In line: what is given first is first.
    for (first, expected) in [("asked", RequestFate::Recorded), ("ended", RequestFate::TooLate)] {
        let mut story = Story::open(first, &subject).await;
        let end = story.settled();
        let journal: &dyn Journal = &**subject.journal();
        let asked = if first == "asked" {
            let asked = journal.request_cancel(story.run(), request("first"));
            assert_eq!(story.give(subject.journal(), [end]).await, Ok(()));
            asked.await
        } else {
            let ended = story.give(subject.journal(), [end]);
            let asked = journal.request_cancel(story.run(), request("second")).await;
            assert_eq!(ended.await, Ok(()));
            asked
        };
        assert_eq!(asked, Ok(expected), "{first} first");
    }
}

pub(super) async fn one_of_two_owners_writes_each_event(subject: Subject) {
    let story = Story::open("r", &subject).await;
    let owners: Vec<_> = (0..2)
        .map(|_| {
            let (journal, mut story) = (Arc::clone(subject.journal()), story.clone());
            spawn(async move {
                let mut written = Vec::new();
                for _ in 0..30 {
                    story.epoch = claim_from_whoever_has_it(&journal, &story).await;
                    story.seq = journal.read(story.run()).await.unwrap().unwrap().facts().count() as u64;
                    for _ in 0..3 {
                        let next = story.quieted();
                        match story.give(&journal, [next.clone()]).await {
                            Ok(()) => written.push(next),
                            Err(JournalError::Fenced { .. }) => break,
                            // An owner that claimed and then read knows the next event, unless somebody else has claimed since.
                            Err(other) => panic!("an owner was refused for another reason: {other}"),
                        }
                    }
                }
                written
            })
        })
        .collect();
    let mut written = Vec::new();
    for owner in owners {
        written.extend(owner.await.unwrap());
    }
    let stored = subject.stored(&story).await;
    written.sort_by_key(|entry| entry.fact().unwrap().seq);
    assert_eq!(stored.entries[2..], written, "what was acknowledged is what is there, and each event once");
    assert!(stored.facts().map(|record| record.epoch).is_sorted(), "epochs decrease");
}

/// Claims a run from its owner, as often as it takes.
async fn claim_from_whoever_has_it(journal: &Arc<dyn Journal>, story: &Story) -> Epoch {
    loop {
        let owner = journal.read(story.run()).await.unwrap().unwrap().epoch;
        match journal.claim(story.run(), owner).await {
            Err(JournalError::Fenced { .. }) => {}
            claimed => return claimed.unwrap().unwrap(),
        }
    }
}
