//! Several processes on one database: whose run it is, and what becomes of the runs of one that is gone or cut off.
//!
//! Each process is a journal of its own here, with a lease and connections of its own. The black hole between one of them and the
//! server is a [`Wire`].

use std::time::Duration;

use andon_practice::Practice;
use andon_runtime::core::event::Event;
use andon_runtime::core::outcome::Ending;
use andon_runtime::{
    Agent, Batch, Cancel, FeedItem, Journal, JournalError, Kind, Reason, ReplyKind, Run, RunId, Runtime, SessionKey,
};
use andon_store::{PostgresJournal, PostgresOptions};

use crate::server::{new_schema, shared, url};
use crate::traffic::{accepted, fact};
use crate::wire::Wire;

/// A lease that is soon over. The machine may be busy, so tests wait for what happens and not for a time.
const SHORT: Duration = Duration::from_secs(2);

fn process(url: &str, schema: &str, lease: Option<Duration>) -> PostgresJournal {
    let options = PostgresOptions::new().schema(schema).program("andon test");
    let options = lease.map_or(options.clone(), |lease| options.lease(lease));
    PostgresJournal::open_with(url, &options).unwrap_or_else(|error| panic!("{error}"))
}

/// A run that has begun.
async fn begin(journal: &PostgresJournal, name: &str) -> RunId {
    let (run, session) = (RunId::new(name).unwrap(), SessionKey::new("shop", "ada", name).unwrap());
    let entries = vec![accepted(&run, &session, "Go."), fact(2, Event::RunStarted)];
    journal.append(Batch::new(run.clone(), 1, entries)).await.unwrap();
    run
}

async fn until(mut holds: impl AsyncFnMut() -> bool) {
    while !holds().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn is_owned<T: std::fmt::Debug>(refused: Result<T, JournalError>) {
    assert!(matches!(&refused, Err(JournalError::Owned { by }) if &**by == "andon test"), "{refused:?}");
}

/// Checks P10: nobody takes a run from a process that is alive, whichever way they try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_a_living_process_is_not_taken() {
    let _server = shared();
    let schema = new_schema();
    let (ours, theirs) = (process(&url(), &schema, None), process(&url(), &schema, None));
    let run = begin(&ours, "r").await;
    is_owned(theirs.claim(&run, 1).await);
    let end = || fact(3, Event::RunSettled { outcome: std::sync::Arc::new(Ending::Lost) });
    is_owned(theirs.append(Batch::taking_over(run.clone(), 1, vec![end()])).await);
    assert_eq!(theirs.abandoned().await, Ok(vec![]));
    assert_eq!(theirs.unsettled().await, Ok(vec![run.clone()]));
    // A batch without a claim is fenced only by its epoch, which nobody has raised.
    ours.append(Batch::new(run.clone(), 1, vec![fact(3, Event::RunQuieted)])).await.unwrap();
    assert_eq!(ours.abandoned().await, Ok(vec![run.clone()]), "its own");
    assert_eq!(ours.claim(&run, 1).await, Ok(Some(2)));
    is_owned(theirs.claim(&run, 2).await);
}

/// Checks P10: the heir's commits have numbers that the dead owner's had, too, and none is taken for one that was written before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_the_heir_of_a_run_appends_is_on_record() {
    let _server = shared();
    let schema = new_schema();
    let mut owner = process(&url(), &schema, None);
    let run = begin(&owner, "r").await;
    for (epoch, seq) in (1..8).zip(3..) {
        // As many commits as the one before, or one more, or one less.
        for number in 0..epoch / 2 % 2 {
            owner.shelf().keep("test", "number", number.into()).await.unwrap();
        }
        owner.append(Batch::new(run.clone(), epoch, vec![fact(seq, Event::RunQuieted)])).await.unwrap();
        let stored = owner.read(&run).await.unwrap().unwrap();
        assert_eq!(stored.facts().last().map(|record| record.seq), Some(seq), "epoch {epoch}");
        drop(owner);
        owner = process(&url(), &schema, None);
        assert_eq!(owner.claim(&run, epoch).await, Ok(Some(epoch + 1)));
    }
}

/// A batch that takes over one run and goes on with others is refused for that one alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_run_of_a_living_process_among_many_batches_is_left_out() {
    let _server = shared();
    let schema = new_schema();
    let (ours, theirs) = (process(&url(), &schema, None), process(&url(), &schema, None));
    let taken = begin(&theirs, "theirs").await;
    let mut own = Vec::new();
    for number in 0..20 {
        own.push(begin(&ours, &format!("r{number}")).await);
    }
    let refused = ours.append(Batch::taking_over(taken.clone(), 1, vec![fact(3, Event::RunQuieted)]));
    let appends: Vec<_> =
        own.iter().map(|run| ours.append(Batch::new(run.clone(), 1, vec![fact(3, Event::RunQuieted)]))).collect();
    is_owned(refused.await);
    for append in appends {
        assert_eq!(append.await, Ok(()));
    }
    assert_eq!(theirs.read(&taken).await.unwrap().unwrap().epoch, 1);
}

/// Whoever ends in order leaves its runs to the others at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_runs_of_a_process_that_ended_are_there_for_the_next() {
    let _server = shared();
    let schema = new_schema();
    let gone = process(&url(), &schema, None);
    let run = begin(&gone, "r").await;
    drop(gone);
    let next = process(&url(), &schema, None);
    assert_eq!(next.abandoned().await, Ok(vec![run.clone()]));
    assert_eq!(next.claim(&run, 1).await, Ok(Some(2)));
}

/// An heir that dies as well leaves both its own runs and those that it had inherited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_runs_of_a_dead_process_whose_heir_is_dead_too_are_there_for_the_next() {
    let _server = shared();
    let schema = new_schema();
    let (gone, heir) = (process(&url(), &schema, None), process(&url(), &schema, None));
    let run = begin(&gone, "r").await;
    let own = begin(&heir, "own").await;
    drop(gone);
    assert_eq!(heir.abandoned().await, Ok(vec![run.clone(), own.clone()]));
    let next = process(&url(), &schema, None);
    assert_eq!(next.abandoned().await, Ok(vec![]), "it has an heir");
    drop(heir);
    assert_eq!(next.abandoned().await, Ok(vec![run, own]));
}

/// Checks P10: a process that is cut off stops by itself before its lease is over, and then has one heir.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_cut_off_has_one_heir_once_its_lease_is_over() {
    let _server = shared();
    let (schema, wire) = (new_schema(), Wire::new());
    let others = [process(&url(), &schema, Some(SHORT)), process(&url(), &schema, Some(SHORT))];
    let cut_off = process(&wire.url(), &schema, Some(SHORT));
    let run = begin(&cut_off, "r").await;
    let lease = cut_off.lease().unwrap();
    assert!(lease.is_held());
    wire.silence();
    let mut heir = None;
    until(async || {
        for (number, other) in others.iter().enumerate() {
            if other.abandoned().await.unwrap() == [run.clone()] {
                assert!(!lease.is_held(), "its runs may be taken and it would still drive them");
                assert_eq!(*heir.get_or_insert(number), number, "two heirs at once");
            }
        }
        heir.is_some()
    })
    .await;
    let heir = &others[heir.unwrap()];
    assert_eq!(heir.claim(&run, 1).await, Ok(Some(2)));
    until(async || cut_off.trouble().is_some_and(|why| why.to_string().contains("lease"))).await;
    wire.speak();
    let late = cut_off.append(Batch::new(run.clone(), 1, vec![fact(3, Event::RunQuieted)])).await;
    assert_eq!(late, Err(JournalError::Fenced { ours: 1, owner: 2 }));
    until(async || lease.is_held() && cut_off.trouble().is_none()).await;
}

/// A process with agents.
struct Replica {
    runtime: Runtime,
    agent: Agent,
}

impl Replica {
    async fn new(journal: PostgresJournal) -> Self {
        let runtime = Runtime::builder().journal(journal).build();
        let agent = Agent::builder().name("writer").model(Practice::new()).runtime(&runtime).build().unwrap();
        runtime.recover().await.unwrap();
        Self { runtime, agent }
    }

    /// A run that shows text.
    async fn talk(&self) -> (Run, String) {
        let run = self.agent.start("Tell me a very long story").unwrap();
        run.accepted().await.unwrap();
        let mut feed = run.feed();
        let mut shown = String::new();
        while shown.len() < 40 {
            if let Some(FeedItem::Delta(delta)) = feed.next().await
                && delta.kind == Kind::Text
            {
                shown.push_str(&delta.text);
            }
        }
        (run, shown)
    }
}

/// Checks P1 and P10: a run is cancelled through a process that does not drive it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_cancelled_through_another_process() {
    let _server = shared();
    let schema = new_schema();
    let (here, there) = (process(&url(), &schema, None), process(&url(), &schema, None));
    let (here, there) = (Replica::new(here).await, Replica::new(there).await);
    let (run, shown) = here.talk().await;
    let reply = there.runtime.cancel(run.id(), Cancel::graceful().by("ada").note("from afar")).await.unwrap();
    assert_eq!(*reply.kind(), ReplyKind::Accepted);
    let outcome = run.outcome().await;
    assert_eq!(*outcome.ending, Ending::Cancelled { reason: Reason::Requested });
    assert_eq!((outcome.receipt.by.as_deref(), outcome.receipt.note.as_deref()), (Some("ada"), Some("from afar")));
    assert!(outcome.text_so_far().starts_with(&shown), "text that was shown is kept");
    // It is asked again, of the record.
    let late = there.runtime.cancel(run.id(), Cancel::now()).await.unwrap();
    assert!(late.too_late().is_some(), "{late:?}");
}

/// Checks P5 and P10: a process that is cut off cuts its runs at the fence. If nobody has taken them over when the server is back,
/// their end is written with all that was shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_cut_at_the_fence_and_its_text_is_kept() {
    let _server = shared();
    let (schema, wire) = (new_schema(), Wire::new());
    let alone = Replica::new(process(&wire.url(), &schema, Some(SHORT))).await;
    let (run, shown) = alone.talk().await;
    wire.silence();
    run.cord().pulled().await;
    assert_eq!(run.cord().request().unwrap().reason, Reason::OwnerLost);
    assert!(alone.runtime.journal_trouble().is_some());
    wire.speak();
    let outcome = run.outcome().await;
    assert_eq!(*outcome.ending, Ending::Cancelled { reason: Reason::OwnerLost });
    assert!(outcome.text_so_far().starts_with(&shown), "{}", outcome.text_so_far());
    // It can be used again.
    until(async || alone.runtime.journal_trouble().is_none()).await;
    let (again, _) = alone.talk().await;
    again.cancel(Cancel::now());
    assert_eq!(*again.outcome().await.ending, Ending::Cancelled { reason: Reason::Requested });
}

/// Checks P10: a run that another process has taken over is that one's, for whoever has a handle on it, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_taken_over_ends_as_its_heir_says() {
    let _server = shared();
    let (schema, wire) = (new_schema(), Wire::new());
    let heir = Replica::new(process(&url(), &schema, Some(SHORT))).await;
    let cut_off = Replica::new(process(&wire.url(), &schema, Some(SHORT))).await;
    let (run, shown) = cut_off.talk().await;
    wire.silence();
    // The heir takes it up without being told to.
    until(async || heir.runtime.find(run.id()).await.unwrap().is_some_and(|found| found.try_outcome().is_some())).await;
    wire.speak();
    let outcome = run.outcome().await;
    assert_eq!(*outcome.ending, Ending::Lost);
    assert!(shown.starts_with(&outcome.text_so_far()) || outcome.text_so_far().starts_with(&shown));
    assert!(cut_off.runtime.find_in_progress(run.id()).is_none());
    let late = cut_off.runtime.cancel(run.id(), Cancel::now()).await.unwrap();
    assert_eq!(late.too_late(), Some(&Ending::Lost));
}
