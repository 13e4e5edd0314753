//! Settled means on disk: its instant is taken when the outcome is durable, is the same everywhere, and is never made
//! up (P7).

use andon_runtime::core::receipt::Took;
use andon_runtime::core::time::{Stamp, Wall};
use andon_runtime::{Observer, Probe, RunFilter, ShownFact};
use andon_testkit::After;
use parking_lot::Mutex;

use crate::common::*;

const DISK: Duration = Duration::from_millis(30);

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}

/// A run in the middle of its answer, on an idle disk.
async fn in_its_answer(runtime: &Runtime) -> (Session, Run) {
    let model = ScriptedModel::new([says_and_hangs("Half")]);
    let session = Agent::builder().model(model).runtime(runtime).open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    tokio::time::sleep(secs(1)).await;
    (session, run)
}

async fn found_by(runtime: &Runtime, run: &Run) -> Receipt {
    runtime.find(run.id()).await.unwrap().unwrap().receipt().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stopped_run_settles_when_its_outcome_is_on_disk_and_not_when_it_is_quiet() {
    let runtime = runtime_on(&TestJournal::slow(None, DISK));
    let (session, run) = in_its_answer(&runtime).await;
    let pulled = tokio::time::Instant::now();
    let reply = run.cancel(Cancel::graceful());
    reply.recorded().await.unwrap();
    let recorded_us = us(pulled.elapsed());
    let receipt = cancelled(&session, &run).await.receipt.clone();

    let took = Took::new().delivered_us(0).quiet_us(0).settled_us(us(DISK));
    assert_eq!((receipt.took, receipt.on_disk), (took, true));
    assert_eq!(receipt.settled_at, receipt.quiet_at.map(|quiet| Wall(quiet.0 + us(DISK))));
    assert!(Some(recorded_us) <= receipt.took.settled_us, "recorded after {recorded_us} µs");
    assert_eq!(receipt.run_us, receipt.settled_at.unwrap().0 - receipt.accepted_at.0);
    assert_eq!(run.receipt().as_ref(), Some(&receipt));
    let listed = runtime.list_runs(RunFilter::default()).await.unwrap();
    assert_eq!((listed[0].settled_at, listed[0].ended_at), (receipt.settled_at, receipt.quiet_at));
}

#[tokio::test(start_paused = true)]
async fn the_instants_of_a_stop_are_in_order_however_slow_the_disk_and_the_tools_are() {
    for disk in [0, 1, 30, 500] {
        let log = ToolLog::new();
        let runtime = runtime_on(&TestJournal::slow(None, millis(disk)));
        let model = ScriptedModel::new([calls(&[("m", "mule")])]);
        let builder = Agent::builder().model(model).runtime(&runtime);
        let session = builder.tool(tools::stubborn("mule", secs(60), &log)).open();
        let run = at_work(&session).await;
        let pulled = tokio::time::Instant::now();
        let reply = run.cancel(Cancel::graceful());
        reply.recorded().await.unwrap();
        let recorded = Some(us(pulled.elapsed()));
        let Took { delivered_us, quiet_us, settled_us, .. } = run.outcome().await.receipt.took;
        let in_order = [Some(0), delivered_us, quiet_us, settled_us];
        assert!(in_order.is_sorted() && recorded <= settled_us, "{in_order:?}, recorded {recorded:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_nobody_stopped_settles_on_disk_too() {
    let runtime = runtime_on(&TestJournal::slow(None, DISK));
    let session = Agent::builder().model(ScriptedModel::new([says("Hi.")])).runtime(&runtime).open();
    let run = session.start("Go.").unwrap();
    let receipt = run.outcome().await.receipt.clone();
    let ended = run.records().last().unwrap().at.wall;
    assert_eq!((receipt.settled_at, receipt.took), (Some(Wall(ended.0 + us(DISK))), Took::default()));
    assert_eq!(receipt.run_us, 2 * us(DISK), "its beginning and its end");
}

#[tokio::test(start_paused = true)]
async fn a_restart_shows_the_instant_that_was_told_live() {
    let journal = TestJournal::slow(None, DISK);
    let (session, run) = in_its_answer(&runtime_on(&journal)).await;
    run.cancel(Cancel::graceful().by("ada"));
    let told = cancelled(&session, &run).await.receipt.clone();
    let next = next_runtime_on(&TestJournal::new(journal.durable(), None));
    assert_eq!(next.recover().await, Ok(vec![]));
    assert_eq!(found_by(&next, &run).await, told);
    let listed = next.list_runs(RunFilter::default()).await.unwrap();
    assert_eq!(listed[0].settled_at, told.settled_at);
}

/// The process dies when a run reaches this seam.
struct DiesAt(&'static str, TestJournal);

impl Probe for DiesAt {
    fn hit(&self, seam: &'static str) {
        if seam == self.0 {
            self.1.crash();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_the_commit_and_the_keeping_of_the_instant_loses_the_instant_and_says_so() {
    let journal = memory();
    let probe = Arc::new(DiesAt("driver: settled on disk", journal.clone()));
    let builder = Runtime::builder().journal(Arc::new(journal.clone())).one_lane().clock(Arc::new(TestClock::new()));
    let (session, run) = in_its_answer(&builder.seed(1).probe(probe).build()).await;
    run.cancel(Cancel::graceful());
    let told = cancelled(&session, &run).await.receipt.clone();
    assert!(told.settled_at.is_some(), "whoever was there has seen it");

    let next = next_runtime_on(&TestJournal::new(journal.durable(), None));
    assert_eq!(next.recover().await, Ok(vec![]), "it is on disk, and there is nothing to recover");
    let took = told.took.settled_us(None);
    assert_eq!(found_by(&next, &run).await, told.settled_at(None).took(took));
    let listed = next.list_runs(RunFilter::default()).await.unwrap();
    assert_eq!((listed[0].settled_at, listed[0].ended_at.is_some()), (None, true));
    assert!(listed[0].ending.is_some(), "that it has settled is known all the same");
}

#[tokio::test(start_paused = true)]
async fn a_recovered_run_settles_when_recoverys_commit_is_on_disk() {
    let journal = memory();
    let (_agent, run) = in_its_answer(&runtime_on(&journal)).await;
    let reply = run.cancel(Cancel::after_turn());
    reply.recorded().await.unwrap();
    journal.crash();

    let slow = TestJournal::slow_on(journal.durable(), DISK);
    let next = next_runtime_on(&slow);
    tokio::time::sleep(secs(5)).await;
    let began = next.now();
    assert_eq!(next.recover().await.unwrap().len(), 1);
    let receipt = found_by(&next, &run).await;
    assert_eq!(receipt.outcome.as_deref().map(Ending::is_cancelled), Some(true));
    assert_eq!((receipt.settled_at, receipt.on_disk), (Some(Wall(began.wall.0 + us(DISK))), true));
    assert_eq!(receipt.took.settled_us, None, "two processes have two clocks");
}

#[tokio::test(start_paused = true)]
async fn what_is_learned_after_the_end_does_not_change_when_it_was() {
    let runtime = runtime_on(&TestJournal::slow(None, DISK));
    let model = ScriptedModel::new([says_and_hangs("Half")]).after_a_cut(After::drained(secs(3), 70, " three four"));
    let session = Agent::builder().model(model).runtime(&runtime).open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    run.cancel(Cancel::now());
    let told = run.outcome().await.receipt.clone();
    let later = run.last_word().await.unwrap();
    assert!(later.revision > told.revision && later.on_disk);
    let when = |receipt: &Receipt| (receipt.settled_at, receipt.took, receipt.run_us);
    assert_eq!(when(&later), when(&told));
    assert_eq!(when(&found_by(&runtime, &run).await), when(&told));
}

/// What an observer was told of a run's end.
#[derive(Default)]
struct Ends(Mutex<Vec<(Stamp, Receipt)>>);

impl Observer for Ends {
    fn fact(&self, seen: &ShownFact<'_>) {
        if matches!(seen.record.event, Event::RunSettled { .. }) {
            self.0.lock().push((seen.now, seen.receipt().unwrap()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn observers_are_told_the_instant_that_is_in_the_receipt() {
    let ends = Arc::new(Ends::default());
    let journal = TestJournal::slow(None, DISK);
    let builder = Runtime::builder().journal(Arc::new(journal.clone())).one_lane().clock(Arc::new(TestClock::new()));
    let (_agent, run) = in_its_answer(&builder.seed(1).observer(Arc::clone(&ends)).build()).await;
    run.cancel(Cancel::graceful());
    let told = run.outcome().await.receipt.clone();
    settle_down().await;
    let ends = ends.0.lock();
    assert_eq!(
        ends.iter().map(|(at, receipt)| (at.wall, receipt)).collect::<Vec<_>>(),
        [(told.settled_at.unwrap(), &told)]
    );
}

#[tokio::test(start_paused = true)]
async fn an_export_carries_the_instant_and_one_without_it_is_read() {
    let runtime = runtime_on(&TestJournal::slow(None, DISK));
    let (session, run) = in_its_answer(&runtime).await;
    run.cancel(Cancel::graceful());
    let told = cancelled(&session, &run).await.receipt.clone();
    let lines = runtime.export(session.key()).await.unwrap().unwrap();

    let there = next_runtime_on(&memory());
    there.import(&lines).await.unwrap();
    assert_eq!(found_by(&there, &run).await, told);

    let settled = lines.lines().find(|line| line.contains(r#""line":"run""#)).unwrap();
    let from = settled.find(r#","settled_at""#).expect("it is there");
    let older = lines.replace(settled, &format!("{}}}", &settled[..from]));
    let there = next_runtime_on(&memory());
    there.import(&older).await.unwrap();
    let receipt = found_by(&there, &run).await;
    assert_eq!((receipt.settled_at, receipt.on_disk), (None, true));

    let open: Vec<&str> = lines.lines().filter(|line| !line.contains(r#""type":"run_settled""#)).collect();
    let open = open.join("\n").replace(
        &format!(r#""lines":{}"#, lines.lines().count() - 1),
        &format!(r#""lines":{}"#, lines.lines().count() - 2),
    );
    let refused = next_runtime_on(&memory()).import(&open).await.unwrap_err();
    assert!(refused.to_string().contains("it says when it settled, but has no end"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_run_under_which_the_journal_failed_is_not_on_disk() {
    let journal = TestJournal::new(MemoryJournal::new(), None);
    let (_agent, run) = in_its_answer(&runtime_on(&journal)).await;
    journal.fail(andon_runtime::JournalError::Closed);
    run.cancel(Cancel::graceful());
    let receipt = run.outcome().await.receipt.clone();
    assert_eq!((receipt.outcome.is_some(), receipt.on_disk, receipt.settled_at), (true, false, None));
    assert_eq!(journal.read(run.id()).await.unwrap().unwrap().settled_at, None);
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_driver_panics_after_its_end_has_settled_once_and_says_when() {
    struct Panics;
    impl Probe for Panics {
        fn hit(&self, seam: &'static str) {
            assert!(seam != "driver: settled on disk", "the driver panics here");
        }
    }
    let journal = TestJournal::slow(None, DISK);
    let builder = Runtime::builder().journal(Arc::new(journal.clone())).one_lane().clock(Arc::new(TestClock::new()));
    let runtime = builder.seed(1).probe(Arc::new(Panics)).build();
    let agent = Agent::builder().model(ScriptedModel::new([vec![Act::text("Hi."), Act::end()]])).runtime(&runtime);
    let run = agent.open().start("Go.").unwrap();
    let receipt = run.outcome().await.receipt.clone();
    let stored = journal.durable().stored(run.id()).unwrap();
    assert_eq!((stored.receipt(), receipt.on_disk), (Some(receipt.clone()), true));
    assert!(receipt.settled_at >= stored.end().map(|end| Wall(end.at.wall.0 + us(DISK))), "{receipt:?}");
}
