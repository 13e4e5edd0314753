//! A run whose driver is gone, because its tokio runtime was shut down, is still settled, from its journal and with the
//! requests that it got (P1, P5).

use andon_runtime::core::event::Approval;
use andon_runtime::{Provenance, RunId};
use andon_testkit::ScriptedMeter;
use andon_testkit::check::check_stored;

use crate::common::held::{HeldJournal, is_answer, is_end, is_first};
use crate::common::*;

fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

/// An agent whose drivers run where its runs are started, and whose tools and hooks run on Andon's threads.
fn agent_on(journal: Arc<dyn Journal>, model: ScriptedModel) -> AgentBuilder {
    Agent::builder().model(model).runtime(&Runtime::builder().journal(journal).build())
}

/// When a driver that was sent a request is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dropped {
    AtOnce,
    OnceItIsHeard,
}

/// Whether a batch with this entry waits for the disk.
type IsHeld = fn(&Entry) -> bool;

/// Starts a run, does more in the same tokio runtime, and shuts that runtime down.
fn start_and_shut_down<T>(session: &Session, then: impl AsyncFnOnce(&Run) -> T) -> (Run, T) {
    let gone = tokio_runtime();
    let both = gone.block_on(async {
        let run = session.start("Go.").unwrap();
        let more = then(&run).await;
        (run, more)
    });
    drop(gone);
    both
}

async fn within_a_minute<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(secs(60), wait).await.expect("whoever waits is told")
}

/// Waits for the end of a run and checks every promise, in memory and in the journal.
async fn settled_as_stored(session: &Session, run: &Run, journal: &dyn Journal) -> Arc<Outcome> {
    let outcome = within_a_minute(settled(session, run)).await;
    let stored = journal.read(run.id()).await.unwrap().unwrap();
    assert_eq!(check_stored(&stored), Vec::<String>::new());
    assert_eq!(session.history().await.unwrap(), journal.history(session.key()).await.unwrap());
    outcome
}

#[test]
fn a_run_whose_driver_was_never_polled_is_lost_on_record_and_its_session_is_free() {
    let (journal, model) = (memory(), ScriptedModel::new([]));
    let session = agent_on(Arc::new(journal.clone()), model.clone()).open();
    let (run, ()) = start_and_shut_down(&session, async |_| {});

    tokio_runtime().block_on(async {
        let outcome = settled_as_stored(&session, &run, &journal).await;
        assert_eq!((&*outcome.ending, model.calls()), (&Ending::Lost, 0));
        assert_eq!(event_types(&run), ["run_accepted", "run_settled"]);
        assert_eq!(run.cancel(Cancel::now()).kind().as_str(), "too_late");
        assert_usable(&session).await;
    });
}

#[test]
fn a_run_whose_driver_is_dropped_while_a_commit_is_on_its_way_is_settled_after_that_commit() {
    let completed = Ending::Completed { stop: ModelStop::EndTurn };
    // A call and its result have no text.
    let cases: [(IsHeld, Ending, usize, &[&str]); 3] = [
        (is_first, Ending::Lost, 0, &["Go."]),
        (is_answer, Ending::Lost, 0, &["Go.", "", ""]),
        (is_end, completed, 1, &["Go.", "", "", "Hi."]),
    ];
    for (holds_from, ending, started, history) in cases {
        let (journal, log) = (HeldJournal::new(holds_from), ToolLog::new());
        let model = ScriptedModel::new([calls(&[("a", "look")]), says("Hi.")]);
        let builder = agent_on(Arc::clone(&journal) as Arc<dyn Journal>, model);
        let session = builder.tool(tools::quick("look", &log)).open();
        let (run, ()) = start_and_shut_down(&session, async |_| journal.until_a_batch_is_held().await);

        tokio_runtime().block_on(async {
            within_a_minute(journal.until_a_claim_is_held()).await;
            assert!(run.try_outcome().is_none(), "nothing is shown before the journal has answered");
            journal.release().await;
            let outcome = settled_as_stored(&session, &run, &*journal).await;
            assert_eq!((&*outcome.ending, log.started()), (&ending, started));
            assert_eq!(texts(&session.history().await.unwrap()), history);
        });
    }
}

#[test]
fn a_cancel_that_was_accepted_is_on_record_and_in_force_although_the_driver_is_dropped() {
    for moment in [Dropped::AtOnce, Dropped::OnceItIsHeard] {
        let journal = memory();
        let builder = agent_on(Arc::new(journal.clone()), ScriptedModel::new([]));
        let session = builder.before_model(|_| std::future::pending::<()>()).open();
        let (run, reply) = start_and_shut_down(&session, async |run| {
            until(run, |event| matches!(event, Event::HookStarted { .. })).await;
            let reply = run.cancel(Cancel::after_turn().by("ada"));
            if moment == Dropped::OnceItIsHeard {
                settle_down().await;
            }
            reply
        });
        assert_eq!(reply.kind().as_str(), "accepted");

        tokio_runtime().block_on(async {
            let outcome = settled_as_stored(&session, &run, &journal).await;
            assert_eq!(*outcome.ending, Ending::Cancelled { reason: Reason::Requested }, "{moment:?}");
            assert_eq!(outcome.receipt.by.as_deref(), Some("ada"));
            assert_eq!(within_a_minute(reply.recorded()).await, Ok(()));
            assert_eq!(count(&run, |event| matches!(event, Event::CancelRequested { .. })), 1);
        });
    }
}

#[test]
fn a_dropped_run_under_an_id_that_is_on_record_leaves_the_run_of_that_id_as_it_was() {
    let journal = memory();
    let session = agent_on(Arc::new(journal.clone()), ScriptedModel::new([says("Hi.")])).open();
    let id = RunId::new("mine").unwrap();
    tokio_runtime().block_on(session.prompt("Go.").run_id(id.clone()).run()).unwrap();
    let before = journal.durable().stored(&id).unwrap().entries;
    let gone = tokio_runtime();
    let run = gone.block_on(async { session.prompt("Again.").run_id(id.clone()).start().unwrap() });
    drop(gone);

    tokio_runtime().block_on(async {
        let outcome = within_a_minute(run.outcome()).await;
        assert_eq!(journal.durable().stored(&id).unwrap().entries, before);
        assert_eq!(texts(&session.history().await.unwrap()), ["Go.", "Hi."]);
        assert_eq!(outcome.stop_reason(), "failed", "{:?}", outcome.ending);
    });
}

#[test]
fn the_last_word_on_a_run_whose_driver_is_gone_comes_with_the_estimate_of_its_open_call() {
    let model = ScriptedModel::new([vec![Act::usage(12, 0), Act::text("Half an answer"), Act::Silence]]);
    let model = model.metered(&Arc::<ScriptedMeter>::default());
    let journal = memory();
    let session = agent_on(Arc::new(journal.clone()), model).open();
    let (run, ()) = start_and_shut_down(&session, async |run| {
        let mut feed = run.feed();
        while let Some(item) = feed.next().await {
            if matches!(item, FeedItem::Delta(_)) {
                break;
            }
        }
    });

    tokio_runtime().block_on(async {
        let receipt = within_a_minute(run.last_word()).await.unwrap();
        let account = &receipt.model_calls[0];
        assert_eq!((account.pending, account.usage.delivered.input.value), (None, Some(12)));
        let output = account.usage.delivered.output;
        assert_eq!((output.value, output.provenance), (Some(4), Provenance::Estimated));
        settled_as_stored(&session, &run, &journal).await;
    });
}

#[test]
fn a_decision_that_was_accepted_is_on_record_although_the_driver_is_dropped_before_it_hears_of_it() {
    let approve = |run: &Run| run.decide(&id("b")).approve().by("ada").send();
    let deny = |run: &Run| run.decide(&id("b")).deny().by("ada").note("Not today.").send();
    for decide in [approve as fn(&Run) -> Result<(), andon_runtime::DecideError>, deny] {
        let (journal, log) = (memory(), ToolLog::new());
        let model = ScriptedModel::new([calls(&[("a", "mule"), ("b", "danger")])]);
        let builder = agent_on(Arc::new(journal.clone()), model).tool(tools::stubborn("mule", secs(60), &log));
        let session = builder.tool(tools::quick("danger", &log).needs_approval()).open();
        let (run, ()) = start_and_shut_down(&session, async |run| {
            until_tool_started(run, "a").await;
            decide(run).unwrap();
        });

        tokio_runtime().block_on(async {
            let outcome = settled_as_stored(&session, &run, &journal).await;
            assert_eq!(*outcome.ending, Ending::Lost);
            let decided = events(&run).into_iter().filter_map(|event| match event {
                Event::ApprovalResolved { verdict, .. } => Some(*verdict),
                _ => None,
            });
            let by = decided.map(|verdict| match verdict {
                Approval::Approved { by, .. } | Approval::Denied { by, .. } => by,
                _ => None,
            });
            assert_eq!(by.collect::<Vec<_>>(), [Some("ada".into())]);
            let is_start = |event: &Event| matches!(event, Event::ToolStarted { call, .. } if *call == id("b"));
            assert_eq!(count(&run, is_start), 0, "nothing starts any more");
        });
    }
}
