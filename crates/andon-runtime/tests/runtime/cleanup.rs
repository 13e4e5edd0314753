//! Whatever a call started is ended before its run settles: the cleanup runs once, however the work ended, and what it
//! could not end is named (P5, P7, P12).

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use andon_runtime::{BoxFuture, Probe, Remains, ToolSpec};

use crate::common::*;

/// What became of a tool's work and of its cleanup.
#[derive(Default)]
struct Seen {
    /// How many futures of the work are alive.
    working: AtomicUsize,
    /// How many cleanups have begun, and how many are done.
    begun: AtomicUsize,
    done: AtomicUsize,
    /// Whether a cleanup began while the work was alive.
    too_early: AtomicBool,
}

impl Seen {
    fn cleanups(&self) -> (usize, usize) {
        assert!(!self.too_early.load(Ordering::SeqCst), "the cleanup began before the work had ended");
        (self.begun.load(Ordering::SeqCst), self.done.load(Ordering::SeqCst))
    }
}

/// Counts the work as alive.
struct Working(Arc<Seen>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::SeqCst);
    }
}

type Does = fn(Invocation) -> BoxFuture<Returned>;

/// A tool whose cleanup takes a second and may take ten.
fn tool(seen: &Arc<Seen>, does: Does) -> FnTool {
    cleaning(seen, does, |_| Box::pin(async { Remains::NONE })).grace(secs(2))
}

fn cleaning(seen: &Arc<Seen>, does: Does, then: fn(Arc<Seen>) -> BoxFuture<Remains>) -> FnTool {
    let seen = Arc::clone(seen);
    let spec = ToolSpec::new("tool", "Leaves something behind.", json!({"type": "object"}));
    let tool = FnTool::from_spec(spec, move |call| {
        let seen = Arc::clone(&seen);
        seen.working.fetch_add(1, Ordering::SeqCst);
        let (working, work) = (Working(Arc::clone(&seen)), does(call));
        let doing = async move {
            let _working = working;
            work.await
        };
        Work::task(doing).cleanup(move || async move {
            if seen.working.load(Ordering::SeqCst) > 0 {
                seen.too_early.store(true, Ordering::SeqCst);
            }
            seen.begun.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(secs(1)).await;
            let remains = then(Arc::clone(&seen)).await;
            seen.done.fetch_add(1, Ordering::SeqCst);
            remains
        })
    });
    tool.cleanup_within(secs(10))
}

fn hangs(_: Invocation) -> BoxFuture<Returned> {
    Box::pin(std::future::pending())
}

fn looks(call: Invocation) -> BoxFuture<Returned> {
    Box::pin(async move {
        call.cord.pulled().await;
        Ok("part".into())
    })
}

fn returns(_: Invocation) -> BoxFuture<Returned> {
    Box::pin(async { Ok("whole".into()) })
}

fn fails(_: Invocation) -> BoxFuture<Returned> {
    Box::pin(async { Err(ToolError::new("no")) })
}

fn panics(_: Invocation) -> BoxFuture<Returned> {
    Box::pin(async { panic!("on purpose") })
}

fn one_tool(tool: FnTool) -> Session {
    builder(tool).runtime(&runtime()).open()
}

fn builder(tool: FnTool) -> AgentBuilder {
    Agent::builder().model(ScriptedModel::new([calls(&[("c", "tool")]), says("Well.")])).tool(tool)
}

async fn at_work(session: &Session) -> Run {
    let run = start_until(session, "Go.", |event| matches!(event, Event::ToolStarted { .. })).await;
    settle_down().await;
    run
}

#[tokio::test(start_paused = true)]
async fn the_cleanup_runs_once_after_a_return_an_error_and_a_panic_and_the_call_is_closed_when_it_is_done() {
    for (does, status) in
        [(returns as Does, ResultStatus::Ok), (fails, ResultStatus::Error), (panics, ResultStatus::Error)]
    {
        let seen = Arc::new(Seen::default());
        let session = one_tool(tool(&seen, does));
        let began = Instant::now();
        let run = start_until(&session, "Go.", |event| matches!(event, Event::ToolFinished { .. })).await;
        assert_eq!((seen.cleanups(), began.elapsed()), ((1, 1), secs(1)));
        assert_eq!(settled(&session, &run).await.text_so_far(), "Well.");
        assert_eq!(result_of(&session.history().await.unwrap(), "c").status, status);
        session.agent().runtime().idle().await;
        assert_eq!(seen.cleanups(), (1, 1));
    }
}

/// How the running call is stopped.
type Stops = fn(&Run);

#[tokio::test(start_paused = true)]
async fn the_cleanup_runs_once_however_a_call_is_stopped_and_the_run_settles_when_it_is_done() {
    let graceful: Stops = |run| drop(run.cancel(Cancel::graceful()));
    let now: Stops = |run| drop(run.cancel(Cancel::now()));
    let harden: Stops = |run| {
        run.cancel(Cancel::graceful());
        run.cancel(Cancel::now());
    };
    let alone: Stops = |run| drop(run.cancel_call(&id("c"), Cancel::graceful()));
    let alone_now: Stops = |run| drop(run.cancel_call(&id("c"), Cancel::now()));
    // Each with the time until the run has settled: the grace, if there is one, and the cleanup's second.
    let cases: [(&str, Does, Stops, u64); 8] = [
        ("told", looks, graceful, 1),
        ("dropped when its grace was over", hangs, graceful, 3),
        ("dropped at once", hangs, now, 1),
        ("dropped at once, and would have looked", looks, now, 1),
        ("dropped at the second pull", hangs, harden, 1),
        ("told alone", looks, alone, 1),
        ("dropped alone", hangs, alone, 3),
        ("dropped alone and at once", hangs, alone_now, 1),
    ];
    for (case, does, stop, takes) in cases {
        let seen = Arc::new(Seen::default());
        let session = one_tool(tool(&seen, does));
        let run = at_work(&session).await;
        let pulled = Instant::now();
        stop(&run);
        let mut feed = run.feed();
        while let Some(item) = feed.next().await {
            if matches!(&item, FeedItem::Fact(record) if matches!(record.event, Event::RunSettled { .. })) {
                assert_eq!(seen.cleanups(), (1, 1), "{case}: nothing is alive when the end is shown");
            }
        }
        assert_eq!(pulled.elapsed(), secs(takes), "{case}");
        let outcome = settled(&session, &run).await;
        assert_eq!(outcome.receipt.leaked, Vec::<String>::new(), "{case}");
        session.agent().runtime().idle().await;
        assert_eq!(seen.cleanups(), (1, 1), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_cleanup_runs_after_a_time_limit_a_deadline_and_under_each_way_to_be_cancelled() {
    for on_cancel in [OnCancel::Cooperate, OnCancel::Drop, OnCancel::Finish { within: secs(1) }, OnCancel::Detach] {
        let seen = Arc::new(Seen::default());
        let session = one_tool(tool(&seen, hangs).timeout(secs(5)).on_cancel(on_cancel));
        let run = session.start("Go.").unwrap();
        assert_eq!(settled(&session, &run).await.text_so_far(), "Well.");
        assert_eq!(seen.cleanups(), (1, 1), "{on_cancel:?} over its limit");

        let seen = Arc::new(Seen::default());
        let limits = Limits::new().deadline(secs(3));
        let tool = tool(&seen, hangs).on_cancel(on_cancel).timeout(secs(20));
        let session = builder(tool).runtime(&runtime()).limits(limits).open();
        let run = session.start("Go.").unwrap();
        cancelled_because(&session, &run, andon_runtime::Reason::Deadline).await;
        session.agent().runtime().idle().await;
        assert_eq!(seen.cleanups(), (1, 1), "{on_cancel:?} and the run's deadline");
    }
}

#[tokio::test(start_paused = true)]
async fn what_remains_is_named_in_the_receipt_with_its_call() {
    let seen = Arc::new(Seen::default());
    let tool = cleaning(&seen, hangs, |_| {
        let remains = Remains::new().leaked(vec!["pid 4711".into()]).notes(vec!["killed by best effort".into()]);
        Box::pin(async move { remains })
    });
    let session = one_tool(tool);
    let run = at_work(&session).await;
    let outcome = stop(&session, &run, Cancel::now()).await;
    assert_eq!(outcome.receipt.leaked, ["tool (c): pid 4711"]);
    assert_eq!(outcome.receipt.calls[0].notes, ["killed by best effort"]);
    assert_eq!(outcome.receipt.calls[0].verdict, Verdict::Unknown, "the call itself is over");
    let told = session.agent().runtime().find(run.id()).await.unwrap().unwrap().receipt().unwrap();
    assert_eq!(told, outcome.receipt, "and the journal has the same");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_told_elsewhere_and_not_seen_to_end_is_leaked_by_name() {
    let unended = |_| -> BoxFuture<Remains> { Box::pin(async { Remains::new().unended("told, not seen to end") }) };
    for (does, cancel) in [(looks as Does, Cancel::graceful()), (hangs, Cancel::now())] {
        let seen = Arc::new(Seen::default());
        let session = one_tool(cleaning(&seen, does, unended).effect(andon_runtime::Effect::ReadOnly));
        let run = at_work(&session).await;
        let pulled = Instant::now();
        let outcome = stop(&session, &run, cancel).await;
        assert_eq!(pulled.elapsed(), secs(1), "the cleanup's second, and no grace");
        assert_eq!(outcome.receipt.leaked, ["tool (c): told, not seen to end"]);
        assert_eq!(outcome.receipt.calls[0].verdict, Verdict::Leaked);
        assert_eq!(result_of(&session.history().await.unwrap(), "c").status, ResultStatus::Unknown);
        let graces = run.records().iter().filter(|record| matches!(record.event, Event::GraceEnded { .. })).count();
        assert_eq!(graces, 0, "no grace was spent");
        let told = session.agent().runtime().find(run.id()).await.unwrap().unwrap().receipt().unwrap();
        assert_eq!(told, outcome.receipt, "and the journal has the same");
    }
    // A call that ended by itself has finished, whatever it left behind.
    let seen = Arc::new(Seen::default());
    let session = one_tool(cleaning(&seen, returns, unended));
    let outcome = settled(&session, &session.start("Go.").unwrap()).await;
    assert_eq!(outcome.receipt.calls[0].verdict, Verdict::Finished);
    assert_eq!(outcome.receipt.leaked, ["tool (c): told, not seen to end"]);
}

#[tokio::test(start_paused = true)]
async fn a_cleanup_over_its_time_is_given_up_and_named() {
    let seen = Arc::new(Seen::default());
    let session = one_tool(cleaning(&seen, hangs, |_| Box::pin(std::future::pending())));
    let run = at_work(&session).await;
    let pulled = Instant::now();
    let outcome = stop(&session, &run, Cancel::now()).await;
    assert_eq!((pulled.elapsed(), seen.cleanups()), (secs(10), (1, 0)));
    assert_eq!(outcome.receipt.leaked, ["tool (c): its cleanup did not end within 10s"]);
    assert_eq!(session.agent().runtime().tasks(), 0, "nobody waits for it");
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_cleanup_that_panics_is_named_with_what_it_said() {
    let seen = Arc::new(Seen::default());
    let session = one_tool(cleaning(&seen, returns, |_| Box::pin(async { panic!("cannot clean") })));
    let (_, outcome) = run_to_end(&session, "Go.").await;
    assert_eq!((outcome.text_so_far().as_str(), seen.cleanups()), ("Well.", (1, 0)));
    assert_eq!(outcome.receipt.leaked, ["tool (c): its cleanup panicked: cannot clean"]);
    assert_eq!(result_of(&session.history().await.unwrap(), "c").to_text(), "whole", "what it returned is kept");
}

#[tokio::test(start_paused = true)]
async fn a_cleanup_that_panics_before_it_begins_is_named_too() {
    let mut spec = ToolSpec::new("tool", "Panics.", json!({"type": "object"}));
    spec.cleanup = secs(1);
    let tool = FnTool::from_spec(spec, |_| {
        let make: fn() -> BoxFuture<Remains> = || panic!("cannot begin");
        Work::task(async { Ok("whole".into()) }).cleanup(make)
    });
    let session = one_tool(tool);
    let (_, outcome) = run_to_end(&session, "Go.").await;
    assert_eq!(outcome.receipt.leaked, ["tool (c): its cleanup panicked: cannot begin"]);
}

#[tokio::test(start_paused = true)]
async fn the_cleanup_of_a_call_that_never_began_is_not_run() {
    let seen = Arc::new(Seen::default());
    let session = one_tool(tool(&seen, hangs).needs_approval());
    let run = start_until(&session, "Go.", |event| matches!(event, Event::ApprovalRequested { .. })).await;
    run.decide(&id("c")).approve().send().unwrap();
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(outcome.receipt.calls[0].verdict, Verdict::NeverStarted);
    session.agent().runtime().idle().await;
    assert_eq!((seen.cleanups(), seen.working.load(Ordering::SeqCst)), ((0, 0), 0));
}

/// Panics once, at this seam.
struct PanicAt(&'static str, AtomicBool);

impl Probe for PanicAt {
    fn hit(&self, seam: &'static str) {
        if seam == self.0 && self.1.swap(false, Ordering::SeqCst) {
            panic!("on purpose, at {seam}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_cleanup_runs_when_the_driver_panics_and_the_run_settles_when_it_is_done() {
    let (journal, seen) = (memory(), Arc::new(Seen::default()));
    let probe = Arc::new(PanicAt("driver: poll", false.into()));
    let clock = Arc::new(TestClock::new());
    let runtime = Runtime::builder().journal(Arc::new(journal.clone())).one_lane().clock(clock);
    let runtime = runtime.probe(Arc::clone(&probe) as Arc<dyn Probe>).build();
    let session = builder(tool(&seen, hangs)).runtime(&runtime).open();
    let run = at_work(&session).await;
    probe.1.store(true, Ordering::SeqCst);
    run.cancel(Cancel::graceful());
    settled(&session, &run).await;
    assert_eq!(seen.cleanups(), (1, 1), "nothing is alive when the end is shown");
    runtime.idle().await;
    assert_eq!(seen.cleanups(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_cleanup_runs_once_when_the_journal_fails() {
    let (journal, seen) = (memory(), Arc::new(Seen::default()));
    let session = builder(tool(&seen, hangs)).runtime(&runtime_on(&journal)).open();
    let run = at_work(&session).await;
    journal.fail(JournalError::Storage("disk full".into()));
    run.cancel(Cancel::graceful());
    run.settled().await.unwrap_err();
    assert_eq!((seen.cleanups(), seen.working.load(Ordering::SeqCst)), ((1, 1), 0), "it does not wait for the disk");
    journal.heal();
    cancelled(&session, &run).await;
    session.agent().runtime().idle().await;
    assert_eq!((seen.cleanups(), seen.working.load(Ordering::SeqCst)), ((1, 1), 0));
}

#[test]
fn the_cleanup_runs_once_when_the_tokio_runtime_of_the_driver_is_dropped() {
    let seen = Arc::new(Seen::default());
    let tool = cleaning(&seen, hangs, |_| Box::pin(async { Remains::NONE }));
    let session = builder(tool).runtime(&Runtime::builder().build()).open();
    let paused = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let gone = paused();
    let run = gone.block_on(async {
        let run = session.start("Go.").unwrap();
        while seen.working.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(millis(1)).await;
        }
        run
    });
    drop(gone);
    paused().block_on(async {
        let outcome = tokio::time::timeout(secs(30), run.outcome()).await.expect("whoever waits is told");
        assert_eq!(*outcome.ending, Ending::Lost);
        assert_eq!(seen.cleanups(), (1, 1), "nothing is alive when the end is shown");
        assert_eq!(outcome.receipt.calls[0].verdict, Verdict::Unknown);
        session.agent().runtime().idle().await;
        assert_eq!((seen.cleanups(), seen.working.load(Ordering::SeqCst)), ((1, 1), 0));
    });
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_comes_while_a_finished_call_is_cleaned_up_keeps_its_result() {
    for cancel in [Cancel::graceful(), Cancel::now()] {
        let seen = Arc::new(Seen::default());
        let session = one_tool(tool(&seen, returns));
        let run = at_work(&session).await;
        assert_eq!(seen.cleanups(), (1, 0), "the test is about this moment");
        let outcome = stop(&session, &run, cancel.clone()).await;
        assert_eq!((seen.cleanups(), outcome.receipt.calls[0].verdict), ((1, 1), Verdict::Finished), "{cancel:?}");
        assert_eq!(result_of(&session.history().await.unwrap(), "c").to_text(), "whole", "{cancel:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_cleanup_of_a_thread_runs_when_the_thread_has_ended_and_when_it_is_abandoned() {
    for takes in [millis(100), secs(60)] {
        let cleaned = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&cleaned);
        let mut spec = ToolSpec::new("tool", "Blocks.", json!({"type": "object"}));
        (spec.cleanup, spec.grace) = (secs(1), secs(1));
        let tool = FnTool::from_spec(spec, move |_| {
            let count = Arc::clone(&count);
            let work = async move {
                tokio::time::sleep(takes).await;
                Ok("whole".into())
            };
            Work::simulated_thread(work).cleanup(move || async move {
                count.fetch_add(1, Ordering::SeqCst);
                Remains::NONE
            })
        });
        let session = one_tool(tool);
        let run = at_work(&session).await;
        stop(&session, &run, Cancel::graceful()).await;
        assert_eq!(cleaned.load(Ordering::SeqCst), 1, "{takes:?}");
        session.agent().runtime().idle().await;
        assert_eq!(cleaned.load(Ordering::SeqCst), 1, "{takes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn on_a_slow_disk_the_cleanup_does_not_wait_for_the_disk() {
    let (journal, seen) = (TestJournal::slow(None, secs(3)), Arc::new(Seen::default()));
    let session = builder(tool(&seen, hangs)).runtime(&runtime_on(&journal)).open();
    let run = at_work(&session).await;
    run.cancel(Cancel::now());
    tokio::time::sleep(millis(1_001)).await;
    assert_eq!(seen.cleanups(), (1, 1));
    cancelled(&session, &run).await;
}

/// An async tool that blocks its thread until it is released: its task cannot even notice that it must stop.
fn never_yields() -> (FnTool, Sender<()>, Receiver<()>) {
    let (release, released) = channel::<()>();
    let (begin, begun) = channel();
    let (released, begin) = (Arc::new(Mutex::new(released)), Mutex::new(begin));
    let tool = FnTool::new("mule", "Never yields.", json!({"type": "object"}), move |_| {
        let (released, begin) = (Arc::clone(&released), begin.lock().unwrap().clone());
        async move {
            begin.send(()).unwrap();
            let _ = released.lock().unwrap().recv_timeout(Duration::from_secs(20));
            Ok("late".into())
        }
    });
    (tool, release, begun)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_is_given_up_shortens_no_other_tools_cleanup() {
    let (mule, release, begun) = never_yields();
    let seen = Arc::new(Seen::default());
    let model = ScriptedModel::new([calls(&[("m", "mule"), ("c", "tool")])]);
    let session =
        Agent::builder().model(model).runtime(&Runtime::builder().build()).tool(mule).tool(tool(&seen, hangs)).open();
    let run = session.start("Go.").unwrap();
    tokio::task::block_in_place(|| begun.recv_timeout(secs(20))).unwrap();
    while seen.working.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(millis(1)).await;
    }
    run.cancel(Cancel::now());
    let outcome = tokio::time::timeout(secs(20), cancelled(&session, &run)).await.expect("it settles");
    release.send(()).unwrap();
    assert_eq!(outcome.receipt.leaked, ["mule (m)"], "the other one was still being cleaned up, within its time limit");
    assert_eq!(seen.cleanups(), (1, 1));
    session.agent().runtime().idle().await;
}
