//! Blocking tools have a bounded number of separate threads: they delay nobody, wait in line, and are given up by name
//! when they do not stop (P1, P5, P6, P12).
//!
//! These run on the real clock and on real threads, and are driven by channels.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use andon_testkit::tools::Deed;

use crate::common::*;

/// How long a test waits at most, because a broken promise would make it wait forever.
const LONG: Duration = Duration::from_secs(20);

/// A blocking tool that reports when a call has begun, and goes on until it is released, whatever its cord says.
struct Blocks {
    begun: Mutex<Receiver<String>>,
    release: Sender<()>,
    /// How many calls have begun, and how many are at work.
    counts: Arc<(AtomicUsize, AtomicUsize)>,
}

fn blocks(name: &str) -> (FnTool, Blocks) {
    let (begin, begun) = channel();
    let (release, released) = channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let count = Arc::clone(&counts);
    let begin = Mutex::new(begin);
    let tool = FnTool::blocking(name, "Blocks.", json!({"type": "object"}), move |call: Invocation| {
        count.0.fetch_add(1, Ordering::SeqCst);
        count.1.fetch_add(1, Ordering::SeqCst);
        begin.lock().unwrap().send(call.call.to_string()).unwrap();
        // The test may have ended with a failure.
        let _ = released.lock().unwrap().recv_timeout(LONG);
        count.1.fetch_sub(1, Ordering::SeqCst);
        Ok("done at last".into())
    });
    (tool.grace(millis(30)), Blocks { begun: Mutex::new(begun), release, counts })
}

impl Blocks {
    /// The next call that begins.
    fn next(&self) -> String {
        let begun = self.begun.lock().unwrap();
        tokio::task::block_in_place(|| begun.recv_timeout(LONG)).expect("a call begins")
    }

    fn let_go(&self, calls: usize) {
        for _ in 0..calls {
            self.release.send(()).unwrap();
        }
    }

    fn begun(&self) -> usize {
        self.counts.0.load(Ordering::SeqCst)
    }

    fn at_work(&self) -> usize {
        self.counts.1.load(Ordering::SeqCst)
    }
}

fn runtime_with(places: usize, abandoned: usize) -> Runtime {
    Runtime::builder().blocking_tools(places, abandoned).build()
}

fn agent_in(runtime: &Runtime, model: ScriptedModel) -> AgentBuilder {
    Agent::builder().model(model).runtime(runtime)
}

fn verdict(receipt: &Receipt, call: &str) -> Verdict {
    receipt.calls.iter().find(|account| account.call.as_str() == call).expect("the call has an account").verdict
}

async fn in_time<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, wait).await.expect("it ends")
}

/// This many calls of one tool, with the ids `b0`, `b1` and so on.
fn many(tool: &'static str, number: usize) -> Vec<andon_testkit::Act> {
    let ids: Vec<String> = (0..number).map(|number| format!("b{number}")).collect();
    calls(&ids.iter().map(|id| (id.as_str(), tool)).collect::<Vec<_>>())
}

/// Waits until a run's calls have passed the gate.
async fn until_begun(run: &Run, tools: u64) {
    in_time(async {
        while run.passed().tools < tools {
            tokio::time::sleep(millis(1)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_blocking_tools_are_at_work_than_there_are_places_whichever_runs_they_belong_to() {
    let (tool, blocks) = blocks("block");
    let (runtime, tool) = (runtime_with(2, 8), Arc::new(tool));
    let build = |name: &str| {
        let model = ScriptedModel::new([many("block", 3)]);
        agent_in(&runtime, model).name(name).tool(Arc::clone(&tool)).open()
    };
    let agents = [build("one"), build("two")];
    let runs: Vec<Run> = agents.iter().map(|session| session.start("Go.").unwrap()).collect();
    for run in &runs {
        until_begun(run, 3).await;
    }
    for _ in 0..6 {
        blocks.next();
        assert!(blocks.at_work() <= 2, "{} are at work", blocks.at_work());
        if blocks.begun() >= 2 {
            blocks.let_go(1);
        }
    }
    blocks.let_go(6);
    for (session, run) in agents.iter().zip(&runs) {
        assert_eq!(in_time(settled(session, run)).await.stop_reason(), "end_turn");
    }
    assert_eq!(blocks.begun(), 6, "each has run, and once");
}

#[tokio::test(start_paused = true)]
async fn the_call_that_has_waited_longest_gets_the_next_place() {
    let log = ToolLog::new();
    let clock = Arc::new(andon_runtime::TestClock::new());
    let runtime = Runtime::builder().one_lane().clock(clock).seed(1).blocking_tools(1, 8).build();
    let tool = Arc::new(tools::on_thread("block", secs(10), false, &log));
    let mut runs = Vec::new();
    for number in 0..5 {
        let model = ScriptedModel::new([calls(&[(&format!("b{number}"), "block")])]);
        let session = agent_in(&runtime, model).name(format!("a{number}")).tool(Arc::clone(&tool)).open();
        let run = session.start("Go.").unwrap();
        settle_down().await;
        runs.push((session, run));
    }
    // One that waits gives up: the others move up.
    runs[2].1.cancel(Cancel::graceful());
    for (session, run) in &runs {
        settled(session, run).await;
    }
    let started: Vec<String> = log
        .deeds()
        .iter()
        .filter_map(|deed| match deed {
            Deed::Started { call, .. } => Some(call.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(started, ["b0", "b1", "b3", "b4"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_for_a_place_when_the_cord_is_pulled_is_never_started_and_its_function_never_runs() {
    for cancel in [Cancel::graceful(), Cancel::now()] {
        let (tool, blocks) = blocks("block");
        let runtime = runtime_with(1, 8);
        let session = agent_in(&runtime, ScriptedModel::new([many("block", 4)])).tool(tool).open();
        let run = session.start("Go.").unwrap();
        let first = blocks.next();
        until_begun(&run, 4).await;
        run.cancel(cancel.clone());
        let outcome = in_time(cancelled(&session, &run)).await;
        for account in &outcome.receipt.calls {
            let is_first = account.call.as_str() == first;
            let expected = if is_first { Verdict::Leaked } else { Verdict::NeverStarted };
            assert_eq!(account.verdict, expected, "{cancel:?}: {}", account.call);
            assert_eq!(account.took_us.is_some(), is_first, "what never ran took no time");
        }
        let history = session.history().await.unwrap();
        let refused =
            (0..4).filter(|number| result_of(&history, &format!("b{number}")).status == ResultStatus::Refused);
        assert_eq!(refused.count(), 3);
        // The place is free, and no call that waited for it takes it.
        blocks.let_go(4);
        in_time(runtime.idle()).await;
        assert_eq!(blocks.begun(), 1, "{cancel:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_for_a_place_can_be_cancelled_alone() {
    let (tool, blocks) = blocks("block");
    let runtime = runtime_with(1, 8);
    let session = agent_in(&runtime, ScriptedModel::new([many("block", 2), says("Well.")])).tool(tool).open();
    let run = session.start("Go.").unwrap();
    let first = blocks.next();
    until_begun(&run, 2).await;
    let other = if first == "b0" { "b1" } else { "b0" };
    assert_eq!(run.cancel_call(&id(other), Cancel::graceful()).kind().as_str(), "accepted");
    in_time(until(&run, |event| matches!(event, Event::ToolFinished { call, .. } if *call == id(other)))).await;
    blocks.let_go(2);
    let outcome = in_time(settled(&session, &run)).await;
    assert_eq!((outcome.text_so_far().as_str(), blocks.begun()), ("Well.", 1));
    assert_eq!(
        (verdict(&outcome.receipt, other), verdict(&outcome.receipt, &first)),
        (Verdict::NeverStarted, Verdict::Finished)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_was_abandoned_gives_its_place_back_and_its_late_result_is_an_addendum() {
    let (tool, blocks) = blocks("block");
    let runtime = runtime_with(1, 8);
    let model = ScriptedModel::new([calls(&[("a", "block")]), calls(&[("b", "block")]), says("Well.")]);
    let session = agent_in(&runtime, model).tool(tool).open();
    let run = session.start("Go.").unwrap();
    assert_eq!(blocks.next(), "a");
    run.cancel(Cancel::graceful());
    let outcome = in_time(cancelled(&session, &run)).await;
    assert_eq!(
        (verdict(&outcome.receipt, "a"), outcome.receipt.leaked.as_slice()),
        (Verdict::Leaked, &["block (a)".to_owned()][..])
    );

    let second = session.start("Again.").unwrap();
    assert_eq!(blocks.next(), "b", "there was one place, and it is free");
    blocks.let_go(2);
    assert_eq!(in_time(settled(&session, &second)).await.text_so_far(), "Well.");
    in_time(runtime.idle()).await;
    let receipt = runtime.find(run.id()).await.unwrap().unwrap().receipt().unwrap();
    assert_eq!((verdict(&receipt, "a"), receipt.leaked), (Verdict::Late, Vec::<String>::new()));
    let result = Arc::new(ToolResult::text(id("a"), ResultStatus::Ok, "done at last"));
    assert_eq!(receipt.addenda[0].what, AddendumKind::LateResult { call: id("a"), result, remains: None });
    assert_eq!(receipt.addenda.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_too_many_abandoned_threads_a_call_gets_an_error_in_words_until_one_of_them_ends() {
    let (tool, blocks) = blocks("block");
    let runtime = runtime_with(2, 1);
    let model = ScriptedModel::new([
        calls(&[("a", "block")]),
        calls(&[("b", "block")]),
        says("Not now."),
        calls(&[("c", "block")]),
        says("Now."),
    ]);
    let session = agent_in(&runtime, model).tool(tool).open();
    let run = session.start("Go.").unwrap();
    blocks.next();
    run.cancel(Cancel::now());
    in_time(cancelled(&session, &run)).await;

    assert_eq!(in_time(session.run("Again.")).await.unwrap().completed().unwrap().text(), "Not now.");
    let told = result_of(&session.history().await.unwrap(), "b");
    assert_eq!((told.status, blocks.begun()), (ResultStatus::Error, 1));
    let words = "Not run: 1 blocking tools did not stop when they were told and still hold their threads";
    assert!(told.to_text().starts_with(words), "{}", told.to_text());

    blocks.let_go(1);
    in_time(runtime.idle()).await;
    let third = session.start("Once more.").unwrap();
    assert_eq!(blocks.next(), "c");
    blocks.let_go(1);
    assert_eq!(in_time(settled(&session, &third)).await.text_so_far(), "Now.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calls_that_wait_for_a_place_do_not_slip_past_the_bound_of_abandoned_threads() {
    let (tool, blocks) = blocks("block");
    let runtime = runtime_with(1, 2);
    let model = ScriptedModel::new([many("block", 8), says("Well.")]);
    let session = agent_in(&runtime, model).tool(tool).open();
    let run = session.start("Go.").unwrap();
    until_begun(&run, 8).await;
    for _ in 0..2 {
        let call = blocks.next();
        run.cancel_call(&id(&call), Cancel::now());
        in_time(until(&run, |event| matches!(event, Event::ToolFinished { call: ended, .. } if *ended == id(&call))))
            .await;
    }
    let outcome = in_time(settled(&session, &run)).await;
    assert_eq!(blocks.begun(), 2, "a tool that always hangs eats no more threads than are allowed");
    let failed = |account: &&andon_runtime::core::receipt::CallAccount| account.verdict == Verdict::Finished;
    assert_eq!(outcome.receipt.calls.iter().filter(failed).count(), 6, "the others have an error result");
    blocks.let_go(8);
    in_time(runtime.idle()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_on_a_thread_ends_its_own_call_and_its_place_is_free() {
    let tool = FnTool::blocking("bomb", "Panics.", json!({"type": "object"}), |_| panic!("boom on a thread"));
    let runtime = runtime_with(1, 1);
    let model = ScriptedModel::new([calls(&[("a", "bomb"), ("b", "bomb"), ("c", "bomb")]), says("Well.")]);
    let session = agent_in(&runtime, model).tool(tool).open();
    let run = session.start("Go.").unwrap();
    assert_eq!(in_time(settled(&session, &run)).await.text_so_far(), "Well.");
    for call in ["a", "b", "c"] {
        let told = result_of(&session.history().await.unwrap(), call);
        assert_eq!(told.status, ResultStatus::Error);
        assert!(told.to_text().ends_with("It said: boom on a thread"), "{}", told.to_text());
    }
    in_time(runtime.idle()).await;
    assert_eq!(runtime.tasks(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_thread_that_panics_later_is_no_longer_counted_and_says_so_in_an_addendum() {
    let (release, released) = channel::<()>();
    let (begin, begun) = channel();
    let (released, begin) = (Mutex::new(released), Mutex::new(begin));
    let tool = FnTool::blocking("bomb", "Panics later.", json!({"type": "object"}), move |_| {
        begin.lock().unwrap().send(()).unwrap();
        let _ = released.lock().unwrap().recv_timeout(LONG);
        // The lock is released first, so that it is not poisoned for the next call.
        panic!("late boom")
    });
    let runtime = runtime_with(1, 1);
    let model = ScriptedModel::new([calls(&[("a", "bomb")]), calls(&[("b", "quick")]), says("Well.")]);
    let quick = FnTool::blocking("quick", "Returns.", json!({"type": "object"}), |_| Ok("ok".into()));
    let session = agent_in(&runtime, model).tool(tool).tool(quick).open();
    let run = session.start("Go.").unwrap();
    tokio::task::block_in_place(|| begun.recv_timeout(LONG)).unwrap();
    run.cancel(Cancel::now());
    in_time(cancelled(&session, &run)).await;
    release.send(()).unwrap();
    in_time(runtime.idle()).await;
    let receipt = run.receipt().unwrap();
    let result = Arc::new(ToolResult::text(id("a"), ResultStatus::Error, "late boom"));
    assert_eq!(receipt.addenda[0].what, AddendumKind::LateResult { call: id("a"), result, remains: None });
    assert_eq!(in_time(session.run("Again.")).await.unwrap().completed().unwrap().text(), "Well.");
    assert_eq!(result_of(&session.history().await.unwrap(), "b").to_text(), "ok", "no thread is counted as abandoned");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_can_use_its_cord_its_progress_and_its_key() {
    let tool = FnTool::blocking("tool", "Shows.", json!({"type": "object"}), |call: Invocation| {
        assert!(!call.cord.is_pulled());
        call.progress.show("from a thread\n");
        call.progress.step(1.0, Some(2.0), Some("pages"));
        let reply = call.cord.pull(Cancel::graceful().by("thread"));
        let pulled = call.cord.is_pulled();
        Ok(format!("{} {pulled} {}", reply.kind().as_str(), call.effect_id()).into())
    });
    let runtime = runtime_with(1, 1);
    let session = agent_in(&runtime, ScriptedModel::new([calls(&[("c", "tool")])])).tool(tool).open();
    let run = session.start("Go.").unwrap();
    let outcome = in_time(cancelled(&session, &run)).await;
    assert_eq!(outcome.receipt.by.as_deref(), Some("thread"));
    let key = format!("{}.c", run.id());
    assert_eq!(outcome.receipt.calls[0].effect_id.as_deref(), Some(key.as_str()));
    let told = result_of(&session.history().await.unwrap(), "c").to_text();
    assert!(told.ends_with(&format!("accepted true {key}")), "{told}");
    let mut feed = run.feed();
    let mut shown = String::new();
    while let Some(item) = feed.next().await {
        if let andon_runtime::FeedItem::Delta(delta) = item
            && matches!(delta.kind, andon_runtime::Kind::ToolOutput(_))
        {
            shown.push_str(&delta.text);
        }
    }
    assert_eq!(shown, "from a thread\n1/2 pages\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_returns_promptly_when_it_is_told_is_cut_with_what_it_had_and_not_leaked() {
    for cancel in [Cancel::graceful(), Cancel::now()] {
        let (begin, begun) = channel();
        let begin = Mutex::new(begin);
        let tool = FnTool::blocking("tool", "Looks.", json!({"type": "object"}), move |call: Invocation| {
            begin.lock().unwrap().send(()).unwrap();
            while !call.cord.is_pulled() {
                std::thread::yield_now();
            }
            Ok("as far as it came".into())
        })
        .effect(Effect::ReadOnly);
        let runtime = runtime_with(1, 1);
        let session = agent_in(&runtime, ScriptedModel::new([calls(&[("c", "tool")])])).tool(tool).open();
        let run = session.start("Go.").unwrap();
        tokio::task::block_in_place(|| begun.recv_timeout(LONG)).unwrap();
        run.cancel(cancel.clone());
        let outcome = in_time(cancelled(&session, &run)).await;
        assert_eq!((verdict(&outcome.receipt, "c"), outcome.receipt.leaked.len()), (Verdict::Cut, 0), "{cancel:?}");
        let told = result_of(&session.history().await.unwrap(), "c");
        assert_eq!(told.status, ResultStatus::Cut);
        assert!(told.to_text().ends_with("as far as it came"), "{cancel:?}: {}", told.to_text());
        assert_eq!(run.receipt().unwrap().addenda, []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_thread_holds_its_place_and_is_not_counted_as_abandoned() {
    let (tool, blocks) = blocks("block");
    let runtime = runtime_with(2, 1);
    let model = ScriptedModel::new([calls(&[("a", "block")]), calls(&[("b", "block")]), says("Well.")]);
    let session = agent_in(&runtime, model).tool(tool.on_cancel(OnCancel::Detach)).open();
    let run = session.start("Go.").unwrap();
    blocks.next();
    run.cancel(Cancel::now());
    assert_eq!(verdict(&in_time(cancelled(&session, &run)).await.receipt, "a"), Verdict::Detached);
    let second = session.start("Again.").unwrap();
    assert_eq!(blocks.next(), "b", "no thread is counted as abandoned");
    blocks.let_go(2);
    assert_eq!(in_time(settled(&session, &second)).await.text_so_far(), "Well.");
    in_time(runtime.idle()).await;
    assert_eq!(run.receipt().unwrap().addenda.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_counts_the_thread_that_it_could_not_stop() {
    let (tool, blocks) = blocks("block");
    let runtime = runtime_with(1, 1);
    let session = agent_in(&runtime, ScriptedModel::new([calls(&[("a", "block")])])).tool(tool).open();
    let run = session.start("Go.").unwrap();
    blocks.next();
    assert_eq!(runtime.shutdown(secs(1)).await, Err(1));
    in_time(cancelled_because(&session, &run, andon_runtime::Reason::Shutdown)).await;
    blocks.let_go(1);
    in_time(runtime.idle()).await;
    assert_eq!(runtime.tasks(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_quick_blocking_calls_do_not_make_a_thousand_threads() {
    let names = Arc::new(Mutex::new(std::collections::HashSet::new()));
    let (at_work, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (seen, now, peak) = (Arc::clone(&names), Arc::clone(&at_work), Arc::clone(&most));
    let tool = FnTool::blocking("quick", "Returns.", json!({"type": "object"}), move |_| {
        peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        seen.lock().unwrap().insert(std::thread::current().id());
        std::thread::yield_now();
        now.fetch_sub(1, Ordering::SeqCst);
        Ok("ok".into())
    });
    let runtime = runtime_with(4, 4);
    let model = ScriptedModel::new((0..10).map(|turn| {
        let ids: Vec<String> = (0..100).map(|number| format!("c{turn}-{number}")).collect();
        calls(&ids.iter().map(|id| (id.as_str(), "quick")).collect::<Vec<_>>())
    }));
    let session = agent_in(&runtime, model).tools_at_once(100).tool(tool).open();
    let run = session.start("Go.").unwrap();
    let outcome = in_time(run.outcome()).await;
    assert_eq!((outcome.stop_reason(), outcome.receipt.calls.len()), ("end_turn", 1_000));
    assert!(outcome.receipt.calls.iter().all(|account| account.verdict == Verdict::Finished));
    in_time(runtime.idle()).await;
    assert!(most.load(Ordering::SeqCst) <= 4, "{most:?} were at work in four places");
    // The threads are shared with the other tests of this program, which leave some behind.
    let threads = names.lock().unwrap().len();
    assert!(threads <= 40, "{threads} threads for four places");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_all_places_are_blocked_other_runs_start_call_their_tools_and_are_stopped() {
    let (tool, blocks) = blocks("block");
    let runtime = runtime_with(2, 8);
    let stuck = agent_in(&runtime, ScriptedModel::new([many("block", 6)])).tool(tool).open();
    let run = stuck.start("Go.").unwrap();
    blocks.next();
    blocks.next();
    until_begun(&run, 6).await;

    let look = FnTool::new("look", "Looks.", json!({"type": "object"}), |_| async { Ok("seen".into()) });
    let model = ScriptedModel::new([calls(&[("l", "look")]), says_and_hangs("Hm")]);
    let other = agent_in(&runtime, model).name("other").tool(look).open();
    let second = other.start("Look.").unwrap();
    in_time(until_shown(&second, "Hm")).await;
    second.cancel(Cancel::graceful());
    in_time(cancelled(&other, &second)).await;
    assert_eq!(result_of(&other.history().await.unwrap(), "l").to_text(), "seen");

    blocks.let_go(6);
    assert_eq!(in_time(settled(&stuck, &run)).await.stop_reason(), "end_turn");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_a_blocking_tool_is_told_in_its_own_words() {
    let tool = FnTool::blocking("sad", "Fails.", json!({"type": "object"}), |_| Err(ToolError::new("no such file")));
    let runtime = runtime_with(1, 1);
    let session = agent_in(&runtime, ScriptedModel::new([calls(&[("c", "sad")])])).tool(tool).open();
    in_time(session.run("Go.")).await.unwrap();
    let expected = ToolResult::text(id("c"), ResultStatus::Error, "no such file");
    assert_eq!(result_of(&session.history().await.unwrap(), "c"), expected);
}
