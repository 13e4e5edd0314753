//! A disk that stalls: a pull takes effect all the same, readers continue, and when the disk is back nothing is lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use andon_runtime::{Probe, Reason, ReplyKind, RunFilter, SessionFilter};
use andon_store::Options;
use andon_testkit::assert_nothing_lost;
use andon_testkit::check::{check_stored, read_all, streamed};
use andon_testkit::wire::check_history;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::*;

/// Long enough for anything that was going to happen.
const A_WHILE: Duration = Duration::from_millis(150);

/// Longer than anything that does not wait for the disk.
const SOON: Duration = Duration::from_secs(90);

/// A disk that stalls at one commit until it is released.
struct Stall {
    /// How many more commits succeed before one stalls. None stalls before this is set.
    good: AtomicUsize,
    stalled: Notify,
    gate: Mutex<Receiver<()>>,
}

impl Stall {
    fn never() -> (Arc<Self>, Sender<()>) {
        Self::after(usize::MAX)
    }

    /// A disk that stalls after this many commits, until the sender is dropped.
    fn after(good: usize) -> (Arc<Self>, Sender<()>) {
        let (let_go, gate) = channel();
        let stall = Self { good: AtomicUsize::new(good), stalled: Notify::new(), gate: Mutex::new(gate) };
        (Arc::new(stall), let_go)
    }

    fn next_commit(&self) {
        self.good.store(0, Ordering::SeqCst);
    }
}

impl Probe for Stall {
    fn hit(&self, seam: &'static str) {
        if seam != "store: before commit" {
            return;
        }
        let good = self.good.load(Ordering::SeqCst);
        self.good.store(good.saturating_sub(1), Ordering::SeqCst);
        if good == 0 {
            self.stalled.notify_one();
            // It ends when the sender is dropped, and does not stall again.
            let _ = self.gate.lock().recv();
        }
    }
}

fn journal(folder: &tempfile::TempDir, stall: &Arc<Stall>) -> Arc<SqliteJournal> {
    let options = Options::new().probe(Arc::clone(stall) as Arc<dyn Probe>);
    Arc::new(SqliteJournal::open_with(folder.path().join("andon.db"), &options).unwrap())
}

/// Checks that nothing passes the gate for a while, and that the request is not recorded.
async fn assert_quiet(run: &Run, model: &ScriptedModel, log: &ToolLog, reply: &andon_runtime::Reply) {
    let (passed, calls) = (run.passed(), model.calls());
    let recorded = timeout(A_WHILE, reply.recorded()).await;
    assert!(recorded.is_err(), "the request was acknowledged while the disk stalls: {recorded:?}");
    assert_eq!((run.passed(), model.calls()), (passed, calls), "something continued after the pull");
    // A tool that had passed the gate may start a little later, on its own thread.
    assert!(log.started() as u64 <= passed.tools, "a tool started that had not passed the gate");
    assert!(run.try_outcome().is_none(), "the run was reported as settled while the disk stalls");
}

/// Checks that the record on disk is whole and matches the feed.
async fn assert_all_there(runtime: &Runtime, journal: &Arc<SqliteJournal>, run: &Run) {
    let history = runtime.history(run.session()).await.unwrap();
    assert_nothing_lost(run, &history).await;
    assert_eq!(check_history(&history), Vec::<String>::new());
    let stored = journal.read(run.id()).await.unwrap().unwrap();
    assert_eq!(check_stored(&stored), Vec::<String>::new());
    let live = read_all(&mut run.feed()).await;
    let mut told = runtime.feed(run.id(), andon_runtime::Cursor::default()).await.unwrap().unwrap();
    assert_eq!(streamed(&read_all(&mut told).await), streamed(&live), "what was shown is what is stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_disk_stalls_a_pull_takes_effect_and_readers_continue() {
    let folder = tempfile::tempdir().unwrap();
    let (stall, let_go) = Stall::never();
    let journal = journal(&folder, &stall);
    let runtime = runtime_on(Arc::clone(&journal));
    // It streams without end, a little at a time.
    let mut answer = vec![Act::text("Before. ")];
    for _ in 0..10_000 {
        answer.extend([Act::text("on and "), Act::Pause(Duration::from_millis(1))]);
    }
    let model = ScriptedModel::new([vec![Act::text("Hello."), Act::end()], answer]);
    let log = ToolLog::new();
    let session = session_on(&runtime, &model, &log);
    session.run("Hi").await.unwrap();
    let run = session.start("Talk").unwrap();
    until_shown(&run, "on and on and").await;
    stall.next_commit();
    timeout(SOON, stall.stalled.notified()).await.expect("the disk stalls");

    // Text that cannot be made durable is not shown for long.
    let mut shown = run.passed().pieces;
    timeout(SOON, async {
        loop {
            tokio::time::sleep(A_WHILE).await;
            let now = run.passed().pieces;
            if std::mem::replace(&mut shown, now) == now {
                return;
            }
        }
    })
    .await
    .expect("showing waits for the disk");
    let reply = run.cancel(Cancel::graceful().note("stop button"));
    assert_eq!(*reply.kind(), ReplyKind::Accepted);
    assert_quiet(&run, &model, &log, &reply).await;
    let reads = async {
        assert_eq!(runtime.history(session.key()).await.unwrap().len(), 2);
        assert_eq!(runtime.list_sessions(SessionFilter::default()).await.unwrap().len(), 1);
        assert_eq!(runtime.list_runs(RunFilter::default()).await.unwrap().len(), 2);
        assert!(journal.read(run.id()).await.unwrap().is_some());
    };
    timeout(SOON, reads).await.expect("readers do not wait for the writer");

    drop(let_go);
    assert_eq!(timeout(SOON, reply.recorded()).await.expect("the disk is back"), Ok(()));
    let outcome = timeout(SOON, run.outcome()).await.expect("the run settles");
    assert_eq!(*outcome.ending, Ending::Cancelled { reason: Reason::Requested });
    assert_all_there(&runtime, &journal, &run).await;
    assert_eq!(model.open(), 0, "the connection is closed");
    assert_eq!(session.run("And now?").await.unwrap().stop_reason(), "end_turn");
}

/// A run with text, two tools and a final answer.
fn script() -> Vec<Vec<Act>> {
    let calls = [Act::call(0, "c1", "look", "{\"n\":1}"), Act::call(1, "c2", "look", "{\"n\":2}")].concat();
    vec![
        [vec![Act::text("Let me look.")], calls, vec![Act::usage(3, 4), Act::tool_use()]].concat(),
        vec![Act::text("I have looked."), Act::usage(5, 6), Act::end()],
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn at_whichever_commit_the_disk_stalls_a_pull_stops_the_run_and_nothing_is_lost() {
    let mut endings = Vec::new();
    for good in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let (stall, let_go) = Stall::after(good);
        let journal = journal(&folder, &stall);
        let runtime = runtime_on(Arc::clone(&journal));
        let (model, log) = (ScriptedModel::new(script()), ToolLog::new());
        let session = session_on(&runtime, &model, &log);
        let run = session.start("Look").unwrap();
        let stalled = tokio::select! {
            () = stall.stalled.notified() => true,
            _ = run.outcome() => false,
        };
        // After the end the writer may stall over a note about it, before or after the end is shown.
        let stored = journal.read(run.id()).await.unwrap();
        let is_settled = stored.is_some_and(|stored| stored.end().is_some());
        if !stalled || is_settled {
            drop(let_go);
            timeout(SOON, run.outcome()).await.expect("the run settles");
            assert_nothing_lost(&run, &session.history().await.unwrap()).await;
            break;
        }
        let reply = run.cancel(Cancel::graceful());
        assert_quiet(&run, &model, &log, &reply).await;
        drop(let_go);
        assert_eq!(timeout(SOON, reply.recorded()).await.expect("the disk is back"), Ok(()), "after {good} commits");
        let outcome = timeout(SOON, run.outcome()).await.expect("the run settles");
        let expected = match reply.too_late() {
            Some(ending) => ending.clone(),
            None => Ending::Cancelled { reason: Reason::Requested },
        };
        assert_eq!(*outcome.ending, expected, "after {good} commits");
        assert_all_there(&runtime, &journal, &run).await;
        assert_eq!(session.run("And now?").await.unwrap().stop_reason(), "end_turn", "after {good} commits");
        endings.push(outcome.ending.as_str());
    }
    // A run takes more or fewer commits, depending on how its batches meet, so the last one is not always hit. That each ending
    // fits the reply is checked above.
    assert!(endings.contains(&"cancelled"), "{endings:?}");
    assert!(endings.len() > 3, "the run has more commits than that: {endings:?}");
}
