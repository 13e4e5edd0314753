//! What the writer remembers after a failure, and what it forgets.

use andon_runtime::core::event::Entry;
use andon_runtime::{SessionFilter, StateMap};
use rusqlite::Connection;

use super::*;

#[path = "../bad_disks/disk.rs"]
#[expect(dead_code, reason = "not everything that a test disk can do is used here")]
mod disk;

use disk::Disk;

/// A run with two events on record, and its entries.
async fn begun(journal: &SqliteJournal) -> (Told, Vec<Entry>) {
    let mut told = Told::new("r", "s");
    let begun = told.begun();
    told.write(journal, begun.clone()).await;
    (told, begun)
}

/// After a write that failed, nothing more of that epoch is accepted; after a claim, it is.
async fn assert_refused_until_claimed(journal: &SqliteJournal, before: &Told, mut record: Vec<Entry>) {
    let mut told = before.clone();
    told.is_refused(journal, [told.clone().quieted()], "an event in place of one that failed").await;
    let text = told.streamed("after");
    told.is_refused(journal, [text], "text after what failed").await;
    let mut told = before.clone();
    told.epoch = journal.claim(&told.run, told.epoch).await.unwrap().unwrap();
    assert_eq!(told.epoch, 2);
    record.extend([told.streamed("I go on."), told.quieted()]);
    told.write(journal, record[record.len() - 2..].to_vec()).await;
    assert_eq!(told.stored(journal).await, record);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_text_that_a_full_disk_refused_nothing_is_accepted_until_the_run_is_claimed() {
    let Some(disk) = Disk::mount("size=3m") else { return };
    let journal = SqliteJournal::open(disk.path()).unwrap();
    let (told, record) = begun(&journal).await;
    disk.fill();
    let lost = told.clone().streamed("lost");
    let refused = told.give(&journal, [lost]).await;
    assert!(matches!(&refused, Err(JournalError::Storage(why)) if why.contains("full")), "{refused:?}");
    disk.make_room();
    assert_refused_until_claimed(&journal, &told, record).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_event_that_a_full_disk_refused_nothing_is_accepted_until_the_run_is_claimed() {
    let Some(disk) = Disk::mount("size=3m") else { return };
    let journal = SqliteJournal::open(disk.path()).unwrap();
    let (told, record) = begun(&journal).await;
    disk.fill();
    let mut ahead = told.clone();
    let (lost, after) = (ahead.quieted(), ahead.streamed("after"));
    let given = [told.give(&journal, [lost]), told.give(&journal, [after])];
    for refused in given {
        let refused = refused.await;
        assert!(matches!(refused, Err(JournalError::Storage(_))), "{refused:?}");
    }
    disk.make_room();
    assert_refused_until_claimed(&journal, &told, record).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_takeover_that_a_full_disk_refused_does_no_harm() {
    let Some(disk) = Disk::mount("size=3m") else { return };
    let (hold, let_go) = Hold::new();
    let journal = hold.open(&disk.path());
    let (mut owner, _) = begun(&journal).await;
    owner.epoch = journal.claim(&owner.run, owner.epoch).await.unwrap().unwrap();
    hold.at("store: before commit");
    // More than the write-ahead log has room for, if a checkpoint has let it begin anew.
    let large = || StateMap::from_iter([("text".to_owned(), "x".repeat(600 << 10).into())]);
    let before = journal.sessions().create(&key("before"), Wall(1), large());
    timeout(SOON, hold.held.notified()).await.expect("the writer is held");
    disk.fill();
    // The latecomer would have had the owner's epoch. It is written with something that needs room, so that the disk refuses.
    let created = journal.sessions().create(&key("new"), Wall(1), large());
    let late = journal.append(Batch::taking_over(owner.run.clone(), 1, vec![owner.clone().quieted()]));
    let_go.send(Then::GoesOn).unwrap();
    assert!(before.await.is_err() && created.await.is_err(), "the disk is full");
    assert!(late.await.is_err(), "it comes too late");
    disk.make_room();
    let next = owner.quieted();
    owner.write(&journal, [next]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_that_wait_for_a_locked_file_are_written_in_order_when_it_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let journal = SqliteJournal::open(&path).unwrap();
    let (mut told, mut record) = begun(&journal).await;
    let theirs = Connection::open(&path).unwrap();
    theirs.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = [told.streamed("late"), told.quieted()];
    let given = waiting.clone().map(|entry| told.give(&journal, [entry]));
    while journal.trouble().is_none() {
        tokio::task::yield_now().await;
    }
    theirs.execute_batch("ROLLBACK").unwrap();
    for taken in given {
        taken.await.unwrap();
    }
    record.extend(waiting);
    assert_eq!(told.stored(&journal).await, record);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_full_disk_refused_is_not_mistaken_for_another() {
    let Some(disk) = Disk::mount("size=3m") else { return };
    let journal = SqliteJournal::open(disk.path()).unwrap();
    disk.fill();
    let mut told = Told::new("r", "s");
    let first = told.clone().begun();
    assert!(told.give(&journal, first).await.is_err(), "the disk is full");
    disk.make_room();
    // It gets the row that the other would have had.
    let mut other = Told::new("other", "t");
    let theirs = other.begun();
    other.write(&journal, theirs.clone()).await;
    let mut ours = told.begun();
    told.write(&journal, ours.clone()).await;
    ours.push(told.quieted());
    told.write(&journal, [ours[2].clone()]).await;
    assert_eq!(told.stored(&journal).await, ours);
    assert_eq!(other.stored(&journal).await, theirs);
    assert_eq!(listed(&journal).await, [("s".to_owned(), 1), ("t".to_owned(), 1)]);
}

/// The sessions, and how many runs each has.
async fn listed(journal: &SqliteJournal) -> Vec<(String, u64)> {
    let sessions = journal.sessions().list(SessionFilter::default()).await.unwrap();
    let mut sessions: Vec<_> = sessions.iter().map(|info| (info.key.session.to_string(), info.runs)).collect();
    sessions.sort();
    sessions
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_rolled_back_with_another_batch_is_not_believed_to_exist() {
    let folder = tempfile::tempdir().unwrap();
    let (hold, let_go) = Hold::new();
    let journal = hold.open(&folder.path().join("andon.db"));
    let (mut told, record) = begun(&journal).await;
    // While this commit is held, later jobs gather for the next one.
    hold.at("store: before commit");
    // More than the write-ahead log has room for, if a checkpoint has let it begin anew.
    let large = || StateMap::from_iter([("text".to_owned(), "x".repeat(600 << 10).into())]);
    let before = journal.sessions().create(&key("before"), Wall(1), large());
    timeout(SOON, hold.held.notified()).await.expect("the writer is held");
    let (mut good, mut later) = (Told::new("good", "new"), Told::new("later", "newer"));
    let (goods, laters) = (good.begun(), later.begun());
    let given = [good.give(&journal, goods.clone()), later.give(&journal, laters)];
    let last = told.settled();
    // Refused by the database itself, which rolls back everything in the transaction.
    let twice = told.give(&journal, [last, told.clone().settled()]);
    let_go.send(Then::GoesOn).unwrap();
    assert_eq!(before.await, Ok(true));
    for given in given {
        assert_eq!(given.await, Ok(()), "another run's second end is not its fault");
    }
    let refused = twice.await;
    assert!(matches!(&refused, Err(JournalError::Storage(why)) if why.contains("order")), "{refused:?}");
    let expected = [("before", 0), ("new", 1), ("newer", 1), ("s", 1)].map(|(name, runs)| (name.to_owned(), runs));
    assert_eq!(listed(&journal).await, expected);
    let runs = journal.sessions().runs(RunFilter::default()).await.unwrap();
    assert_eq!(runs.iter().map(|info| info.run.as_str()).collect::<Vec<_>>(), ["later", "good", "r"]);
    // All of them can continue.
    let next = good.quieted();
    good.write(&journal, [next.clone()]).await;
    assert_eq!(good.stored(&journal).await, [goods, vec![next]].concat());
    let mut again = Told::new("again", "new");
    let begun = again.begun();
    again.write(&journal, begun).await;
    assert_eq!(listed(&journal).await[1], ("new".to_owned(), 2));
    assert_eq!(told.stored(&journal).await, record);
}
