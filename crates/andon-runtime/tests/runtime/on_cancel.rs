//! What a pull does to a tool is what the tool declares: it is told, dropped, let finish, or let go; and the receipt, the
//! history and the model are told which (P1, P2, P5, P7).

use andon_runtime::core::event::ToolEnd;
use andon_runtime::{Probe, ToolSpec};

use crate::common::held::HeldJournal;
use crate::common::*;

const ALL: [OnCancel; 4] = [OnCancel::Cooperate, OnCancel::Drop, FINISH, OnCancel::Detach];
const FINISH: OnCancel = OnCancel::Finish { within: Duration::from_secs(30) };
const GOES_ON: &str = "This call keeps running in the background, as intended. Its result will not appear here: check \
                       before you repeat it.";

/// An agent with one tool, which the model calls once as `c` and then says "Well.".
fn one_tool(tool: FnTool) -> Session {
    let model = ScriptedModel::new([calls(&[("c", "tool")]), says("Well.")]);
    agent(&model).tool(tool).open()
}

fn verdict(receipt: &Receipt, call: &str) -> Verdict {
    receipt.calls.iter().find(|account| account.call.as_str() == call).expect("the call has an account").verdict
}

/// The receipt from the journal, with its addenda.
async fn told_later(session: &Session, run: &Run) -> Receipt {
    session.agent().runtime().find(run.id()).await.unwrap().unwrap().receipt().unwrap()
}

async fn status(session: &Session, call: &str) -> ResultStatus {
    result_of(&session.history().await.unwrap(), call).status
}

/// The late results of a receipt, as text.
fn late(receipt: &Receipt) -> Vec<String> {
    let late = receipt.addenda.iter().filter_map(|addendum| match &addendum.what {
        AddendumKind::LateResult { call, result, .. } => Some(format!("{call}: {}", result.to_text())),
        _ => None,
    });
    late.collect()
}

#[tokio::test(start_paused = true)]
async fn each_way_to_be_cancelled_settles_in_its_own_time_and_with_its_own_verdict() {
    let (unknown, finished, detached) = (Verdict::Unknown, Verdict::Finished, Verdict::Detached);
    // The tool takes ten seconds, has a grace of one, and does not check its cord.
    let cases = [
        (OnCancel::Cooperate, Cancel::graceful(), secs(1), unknown),
        (OnCancel::Cooperate, Cancel::graceful().grace(secs(3)), secs(3), unknown),
        (OnCancel::Cooperate, Cancel::graceful().grace(secs(30)), secs(10), finished),
        (OnCancel::Cooperate, Cancel::now(), secs(0), unknown),
        (OnCancel::Drop, Cancel::graceful(), secs(0), unknown),
        (OnCancel::Drop, Cancel::graceful().grace(secs(30)), secs(0), unknown),
        (OnCancel::Drop, Cancel::now(), secs(0), unknown),
        (FINISH, Cancel::graceful(), secs(10), finished),
        (FINISH, Cancel::graceful().grace(millis(1)), secs(10), finished),
        (FINISH, Cancel::now(), secs(0), unknown),
        (OnCancel::Finish { within: secs(4) }, Cancel::graceful(), secs(4), unknown),
        (OnCancel::Finish { within: secs(4) }, Cancel::graceful().grace(secs(30)), secs(4), unknown),
        (OnCancel::Detach, Cancel::graceful(), secs(0), detached),
        (OnCancel::Detach, Cancel::graceful().grace(secs(30)), secs(0), detached),
        (OnCancel::Detach, Cancel::now(), secs(0), detached),
    ];
    for (on_cancel, cancel, takes, expected) in cases {
        let log = ToolLog::new();
        let session = one_tool(tools::slow("tool", secs(10), &log).grace(secs(1)).on_cancel(on_cancel));
        let run = at_work(&session).await;
        let pulled = Instant::now();
        let outcome = stop(&session, &run, cancel.clone()).await;
        let case = format!("{on_cancel:?} and {cancel:?}");
        assert_eq!((pulled.elapsed(), verdict(&outcome.receipt, "c")), (takes, expected), "{case}");
        assert_eq!(outcome.receipt.leaked, Vec::<String>::new(), "{case}");
        assert_eq!(log.running(), usize::from(on_cancel == OnCancel::Detach), "{case}: nothing else outlives its run");
        assert_usable(&session).await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_turn_lets_every_tool_finish_whatever_it_declares() {
    for on_cancel in ALL {
        let log = ToolLog::new();
        let session = one_tool(tools::slow("tool", secs(60), &log).grace(secs(1)).on_cancel(on_cancel));
        let run = at_work(&session).await;
        let pulled = Instant::now();
        let outcome = stop(&session, &run, Cancel::after_turn()).await;
        assert_eq!((pulled.elapsed(), verdict(&outcome.receipt, "c")), (secs(60), Verdict::Finished), "{on_cancel:?}");
        assert_eq!(status(&session, "c").await, ResultStatus::Ok, "{on_cancel:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_harder_pull_ends_what_a_softer_one_had_granted() {
    let cases = [
        (OnCancel::Cooperate, Verdict::Unknown),
        (OnCancel::Drop, Verdict::Unknown),
        (FINISH, Verdict::Unknown),
        (OnCancel::Detach, Verdict::Detached),
    ];
    for (on_cancel, expected) in cases {
        for first in [Cancel::after_turn(), Cancel::graceful().grace(secs(20))] {
            let log = ToolLog::new();
            let session = one_tool(tools::slow("tool", secs(25), &log).on_cancel(on_cancel));
            let run = at_work(&session).await;
            run.cancel(first.clone());
            settle_down().await;
            let hardened = Instant::now();
            let outcome = stop(&session, &run, Cancel::now()).await;
            let case = format!("{on_cancel:?} after {first:?}");
            assert_eq!((hardened.elapsed(), verdict(&outcome.receipt, "c")), (secs(0), expected), "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_alone_is_stopped_as_its_tool_declares_and_the_run_goes_on() {
    let (unknown, finished) = (Verdict::Unknown, Verdict::Finished);
    let cases = [
        (OnCancel::Cooperate, Cancel::graceful(), secs(1), unknown),
        (OnCancel::Drop, Cancel::graceful(), secs(0), unknown),
        (FINISH, Cancel::graceful(), secs(10), finished),
        (FINISH, Cancel::now(), secs(0), unknown),
        // Only a cancel of this call alone stops it, and then it has its grace.
        (OnCancel::Detach, Cancel::graceful(), secs(1), unknown),
        (OnCancel::Detach, Cancel::now(), secs(0), unknown),
    ];
    for (on_cancel, cancel, takes, expected) in cases {
        let log = ToolLog::new();
        let session = one_tool(tools::slow("tool", secs(10), &log).grace(secs(1)).on_cancel(on_cancel));
        let run = at_work(&session).await;
        let pulled = Instant::now();
        assert_eq!(run.cancel_call(&id("c"), cancel.clone()).kind().as_str(), "accepted");
        let outcome = settled(&session, &run).await;
        let case = format!("{on_cancel:?} and {cancel:?}");
        assert_eq!(outcome.text_so_far(), "Well.", "{case}");
        assert_eq!((pulled.elapsed(), verdict(&outcome.receipt, "c")), (takes, expected), "{case}");
        assert_eq!(log.running(), 0, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_runs_own_deadline_stops_a_tool_as_a_graceful_pull_does() {
    let (unknown, finished) = (Verdict::Unknown, Verdict::Finished);
    let takes =
        [(OnCancel::Cooperate, secs(6), unknown), (OnCancel::Drop, secs(5), unknown), (FINISH, secs(10), finished)];
    for (on_cancel, takes, expected) in takes.into_iter().chain([(OnCancel::Detach, secs(5), Verdict::Detached)]) {
        let log = ToolLog::new();
        let tool = tools::slow("tool", secs(10), &log).grace(secs(1)).on_cancel(on_cancel);
        let limits = Limits::new().deadline(secs(5));
        let session = scripted([calls(&[("c", "tool")])]).tool(tool).limits(limits).open();
        let began = Instant::now();
        let run = session.start("Go.").unwrap();
        let outcome = cancelled_because(&session, &run, Reason::Deadline).await;
        assert_eq!((began.elapsed(), verdict(&outcome.receipt, "c")), (takes, expected), "{on_cancel:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_may_finish_and_looks_at_its_cord_has_finished_and_is_not_cut() {
    let log = ToolLog::new();
    let session = one_tool(tools::cooperative("tool", secs(60), &log).on_cancel(FINISH));
    let run = at_work(&session).await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(verdict(&outcome.receipt, "c"), Verdict::Finished);
    let expected = ToolResult::text(id("c"), ResultStatus::Ok, "part of the result");
    assert_eq!(result_of(&session.history().await.unwrap(), "c"), expected);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_may_finish_is_told_how_long_it_has() {
    let tool = FnTool::new("tool", "Watches the time.", json!({"type": "object"}), |call| async move {
        call.cord.pulled().await;
        Ok(format!("{:?}", call.cord.time_left()).into())
    });
    let session = one_tool(tool.on_cancel(FINISH));
    let run = at_work(&session).await;
    stop(&session, &run, Cancel::graceful().grace(secs(1))).await;
    assert_eq!(result_of(&session.history().await.unwrap(), "c").to_text(), "Some(30s)", "not the request's second");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_tools_time_to_finish_is_on_record() {
    let log = ToolLog::new();
    let session = one_tool(tools::slow("tool", secs(60), &log).on_cancel(FINISH));
    let run = at_work(&session).await;
    stop(&session, &run, Cancel::graceful()).await;
    assert!(events(&run).contains(&Event::GraceEnded { calls: [id("c")].into() }));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_outlives_its_run_is_said_to_in_words_and_its_late_result_is_an_addendum() {
    let log = ToolLog::new();
    let session = one_tool(tools::slow("tool", secs(60), &log).on_cancel(OnCancel::Detach));
    let run = at_work(&session).await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    let expected = ToolResult::text(id("c"), ResultStatus::Unknown, GOES_ON);
    assert_eq!(result_of(&session.history().await.unwrap(), "c"), expected);
    let of_call = |event: &Event| matches!(event, Event::ToolFinished { end: ToolEnd::Detached, .. });
    assert_eq!((count(&run, of_call), outcome.receipt.leaked.len(), log.running()), (1, 0, 1));
    assert_usable(&session).await;
    let (records, shown) = (run.records(), read_all(&run).await);

    session.agent().runtime().idle().await;
    for receipt in [run.receipt().unwrap(), told_later(&session, &run).await] {
        assert_eq!(late(&receipt), ["c: slow result"]);
        assert_eq!((verdict(&receipt, "c"), receipt.revision), (Verdict::Detached, 1), "it was declared to, and did");
    }
    assert_eq!((run.records(), read_all(&run).await), (records, shown), "nothing follows the terminal event");
    assert_eq!(result_of(&session.history().await.unwrap(), "c"), expected, "a late result is not used");
}

async fn read_all(run: &Run) -> Vec<andon_runtime::FeedItem> {
    andon_testkit::check::read_all(&mut run.feed()).await
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_outlives_its_run_and_fails_or_panics_later_says_so_in_an_addendum() {
    let later = |ends: fn() -> andon_runtime::Returned| {
        FnTool::new("tool", "Ends badly.", json!({"type": "object"}), move |_| async move {
            tokio::time::sleep(secs(5)).await;
            ends()
        })
    };
    let sad = later(|| Err(andon_runtime::ToolError::new("no such page")));
    let bomb = later(|| panic!("later, boom"));
    for (tool, said) in [(sad, "c: no such page"), (bomb, "c: later, boom")] {
        let session = one_tool(tool.on_cancel(OnCancel::Detach));
        let run = at_work(&session).await;
        stop(&session, &run, Cancel::graceful()).await;
        session.agent().runtime().idle().await;
        assert_eq!(late(&told_later(&session, &run).await), [said]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_outlives_its_run_is_not_told_of_the_pull_and_is_told_of_its_own_cancel() {
    let tool = FnTool::new("tool", "Looks.", json!({"type": "object"}), |call| async move {
        tokio::time::sleep(secs(5)).await;
        Ok(format!("{} {:?} {:?}", call.cord.is_pulled(), call.cord.time_left(), call.cord.request()).into())
    });
    let session = one_tool(tool.on_cancel(OnCancel::Detach));
    let run = at_work(&session).await;
    stop(&session, &run, Cancel::graceful()).await;
    session.agent().runtime().idle().await;
    assert_eq!(late(&run.receipt().unwrap()), ["c: false None None"]);

    let log = ToolLog::new();
    let session = one_tool(tools::cooperative("tool", secs(60), &log).on_cancel(OnCancel::Detach));
    let run = at_work(&session).await;
    run.cancel_call(&id("c"), Cancel::graceful());
    let outcome = settled(&session, &run).await;
    assert_eq!((outcome.text_so_far().as_str(), verdict(&outcome.receipt, "c")), ("Well.", Verdict::Cut));
}

#[tokio::test(start_paused = true)]
async fn a_run_settles_beside_a_tool_that_outlives_it_as_soon_as_the_others_have_stopped() {
    let log = ToolLog::new();
    let tools =
        [tools::slow("gone", secs(60), &log).on_cancel(OnCancel::Detach), tools::stubborn("mule", secs(60), &log)];
    let session = with_tools(scripted([calls(&[("d", "gone"), ("m", "mule")])]), tools);
    let run = at_work(&session).await;
    let pulled = Instant::now();
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(pulled.elapsed(), millis(500), "the mule's grace, and no more");
    assert_eq!((verdict(&outcome.receipt, "d"), verdict(&outcome.receipt, "m")), (Verdict::Detached, Verdict::Unknown));
}

#[tokio::test(start_paused = true)]
async fn the_late_result_of_a_detached_tool_is_kept_even_if_it_comes_before_its_run_has_settled() {
    let log = ToolLog::new();
    let tools =
        [tools::slow("gone", millis(100), &log).on_cancel(OnCancel::Detach), tools::stubborn("mule", secs(60), &log)];
    let session = with_tools(scripted([calls(&[("d", "gone"), ("m", "mule")])]), tools);
    let run = at_work(&session).await;
    stop(&session, &run, Cancel::graceful()).await;
    for receipt in [run.receipt().unwrap(), told_later(&session, &run).await] {
        assert_eq!((verdict(&receipt, "d"), late(&receipt)), (Verdict::Detached, vec!["d: slow result".to_owned()]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_detached_tool_that_was_on_its_way_out_is_stopped_by_a_harder_pull_of_its_run() {
    // Its own cancel granted it a minute; the run must stop now, or within a second.
    for (cancel, within) in [(Cancel::now(), secs(0)), (Cancel::graceful().grace(secs(1)), secs(1))] {
        let log = ToolLog::new();
        let session = one_tool(tools::slow("tool", secs(600), &log).on_cancel(OnCancel::Detach));
        let run = at_work(&session).await;
        run.cancel_call(&id("c"), Cancel::graceful().grace(secs(60)));
        settle_down().await;
        let pulled = Instant::now();
        let outcome = stop(&session, &run, cancel.clone()).await;
        assert_eq!((pulled.elapsed(), log.running()), (within, 0), "{cancel:?}");
        assert_eq!(verdict(&outcome.receipt, "c"), Verdict::Unknown);
    }
}

fn is_tool_start(entry: &Entry) -> bool {
    matches!(entry, Entry::Fact(record) if matches!(record.event, Event::ToolStarted { .. }))
}

#[tokio::test(start_paused = true)]
async fn a_detached_tool_that_has_not_begun_when_the_cord_is_pulled_never_begins() {
    // Its start is on its way to the disk when the pull comes.
    let (journal, log) = (HeldJournal::new(is_tool_start), ToolLog::new());
    let clock = Arc::new(TestClock::new());
    let runtime = Runtime::builder().journal(Arc::clone(&journal)).one_lane().clock(clock).build();
    let tool = tools::slow("tool", secs(10), &log).on_cancel(OnCancel::Detach);
    let model = ScriptedModel::new([calls(&[("c", "tool")])]);
    let session = Agent::builder().model(model).runtime(&runtime).tool(tool).open();
    let run = session.start("Go.").unwrap();
    journal.until_a_batch_is_held().await;
    run.cancel(Cancel::graceful());
    journal.release().await;
    let outcome = cancelled(&session, &run).await;
    assert_eq!((verdict(&outcome.receipt, "c"), log.started()), (Verdict::NeverStarted, 0));
}

#[tokio::test(start_paused = true)]
async fn a_detached_tool_that_had_finished_when_the_pull_came_keeps_its_result() {
    // The disk is slow, so the driver has not heard yet that the tool has ended.
    let journal = TestJournal::slow(None, millis(40));
    let log = ToolLog::new();
    let tool = tools::slow("tool", millis(100), &log).on_cancel(OnCancel::Detach);
    let other = tools::slow("other", millis(90), &log);
    let model = ScriptedModel::new([calls(&[("c", "tool"), ("o", "other")])]);
    let session = Agent::builder().model(model).runtime(&runtime_on(&journal)).tool(tool).tool(other).open();
    let run = at_work(&session).await;
    while log.running() > 0 {
        tokio::time::sleep(millis(1)).await;
    }
    assert_eq!(count(&run, |event| matches!(event, Event::ToolFinished { .. })), 0, "the test is about this moment");
    let outcome = stop(&session, &run, Cancel::now()).await;
    assert_eq!(verdict(&outcome.receipt, "c"), Verdict::Finished);
    let expected = ToolResult::text(id("c"), ResultStatus::Ok, "slow result");
    assert_eq!(result_of(&session.history().await.unwrap(), "c"), expected);
    assert_eq!(run.receipt().unwrap().addenda, []);
}

/// Panics once, at this seam.
struct PanicAt(&'static str, std::sync::atomic::AtomicBool);

impl Probe for PanicAt {
    fn hit(&self, seam: &'static str) {
        if seam == self.0 && self.1.swap(false, std::sync::atomic::Ordering::SeqCst) {
            panic!("on purpose, at {seam}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_detached_tool_outlives_the_panic_of_its_driver_and_every_other_tool_is_stopped() {
    let (journal, log) = (memory(), ToolLog::new());
    let probe = Arc::new(PanicAt("driver: poll", false.into()));
    let builder = Runtime::builder().journal(Arc::new(journal.clone())).one_lane().clock(Arc::new(TestClock::new()));
    let runtime = builder.seed(1).probe(Arc::clone(&probe) as Arc<dyn Probe>).build();
    let model = ScriptedModel::new([calls(&[("d", "gone"), ("o", "other"), ("f", "last")])]);
    let session = Agent::builder()
        .model(model)
        .runtime(&runtime)
        .tool(tools::slow("gone", secs(10), &log).on_cancel(OnCancel::Detach))
        .tool(tools::slow("other", secs(10), &log))
        .tool(tools::slow("last", secs(10), &log).on_cancel(FINISH))
        .open();
    let run = at_work(&session).await;
    probe.1.store(true, std::sync::atomic::Ordering::SeqCst);
    // Something that wakes the driver.
    run.cancel_call(&id("o"), Cancel::graceful());

    let outcome = settled(&session, &run).await;
    assert!(matches!(&*outcome.ending, Ending::Failed(_)), "{:?}", outcome.ending);
    let verdicts = ["d", "o", "f"].map(|call| verdict(&outcome.receipt, call));
    assert_eq!(verdicts, [Verdict::Detached, Verdict::Unknown, Verdict::Unknown]);
    assert_eq!(log.running(), 1, "the one that is declared to outlive its run");
    runtime.idle().await;
    assert_eq!(late(&told_later(&session, &run).await), ["d: slow result"]);
}

#[tokio::test(start_paused = true)]
async fn a_detached_thread_is_let_go_at_once_and_its_late_result_is_kept() {
    let log = ToolLog::new();
    let session = one_tool(tools::on_thread("tool", secs(10), false, &log).on_cancel(OnCancel::Detach));
    let run = at_work(&session).await;
    let pulled = Instant::now();
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!((pulled.elapsed(), verdict(&outcome.receipt, "c")), (secs(0), Verdict::Detached));
    assert_eq!(outcome.receipt.leaked, Vec::<String>::new(), "it is meant to go on");
    assert_usable(&session).await;
    session.agent().runtime().idle().await;
    let receipt = told_later(&session, &run).await;
    assert_eq!(
        (verdict(&receipt, "c"), late(&receipt)),
        (Verdict::Detached, vec!["c: the thread's result".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn a_batch_with_one_tool_of_each_kind_keeps_the_models_order_and_closes_each_as_declared() {
    let log = ToolLog::new();
    let ids = [("a", "kind"), ("b", "dropped"), ("c", "finishing"), ("d", "detached"), ("e", "quick"), ("f", "thread")];
    let tools = [
        tools::cooperative("kind", secs(60), &log),
        tools::slow("dropped", secs(60), &log).on_cancel(OnCancel::Drop).effect(Effect::ReadOnly),
        tools::slow("finishing", secs(20), &log).on_cancel(FINISH),
        tools::slow("detached", secs(60), &log).on_cancel(OnCancel::Detach),
        tools::quick("quick", &log),
        tools::on_thread("thread", secs(60), false, &log),
    ];
    let session = with_tools(scripted([calls(&ids), says("Next.")]), tools);
    let run = at_work(&session).await;
    until(&run, |event| matches!(event, Event::ToolFinished { call, .. } if *call == id("e"))).await;
    let pulled = Instant::now();
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(pulled.elapsed(), secs(20), "the one that may finish");
    let history = session.history().await.unwrap();
    let results: Vec<_> = history.last().unwrap().results().map(|r| (r.call.as_str(), r.status)).collect();
    let (cut, ok, unknown) = (ResultStatus::Cut, ResultStatus::Ok, ResultStatus::Unknown);
    assert_eq!(results, [("a", cut), ("b", cut), ("c", ok), ("d", unknown), ("e", ok), ("f", unknown)]);
    let verdicts = ["a", "b", "c", "d", "e", "f"].map(|call| verdict(&outcome.receipt, call));
    let (cut, finished) = (Verdict::Cut, Verdict::Finished);
    assert_eq!(verdicts, [cut, cut, finished, Verdict::Detached, finished, Verdict::Leaked]);
    assert_eq!(outcome.receipt.leaked, ["thread (f)"]);
    assert_usable(&session).await;
    session.agent().runtime().idle().await;
    assert_eq!(late(&run.receipt().unwrap()).len(), 2, "the thread's and the detached one's");
}

#[tokio::test(start_paused = true)]
async fn the_next_request_tells_the_model_that_the_detached_call_goes_on() {
    let log = ToolLog::new();
    let model = ScriptedModel::new([calls(&[("c", "tool")]), says("I know.")]);
    let session = agent(&model).tool(tools::slow("tool", secs(60), &log).on_cancel(OnCancel::Detach)).open();
    let run = at_work(&session).await;
    stop(&session, &run, Cancel::now()).await;
    assert_usable(&session).await;
    let asked = format!("{:?}", model.requests().last().unwrap().prompt());
    assert!(asked.contains("keeps running in the background"), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn a_detached_tool_can_change_its_session_after_its_run_has_settled() {
    let tool = FnTool::new("tool", "Writes it down.", json!({"type": "object"}), |call| async move {
        tokio::time::sleep(secs(5)).await;
        call.state.set("mail", "sent").await?;
        Ok("sent".into())
    });
    let session = one_tool(tool.on_cancel(OnCancel::Detach));
    let run = at_work(&session).await;
    stop(&session, &run, Cancel::graceful()).await;
    session.agent().runtime().idle().await;
    assert_eq!(session.state().await.unwrap().get("mail"), Some(&json!("sent")));
    assert_eq!(late(&run.receipt().unwrap()), ["c: sent"]);
}

#[tokio::test(start_paused = true)]
async fn a_pull_wins_against_a_finishing_tool_of_which_the_future_is_never_woken() {
    let spec = ToolSpec::new("tool", "Is never woken.", json!({"type": "object"}));
    let tool = FnTool::from_spec(spec, |_| Work::task(std::future::pending()));
    let session = one_tool(tool.on_cancel(OnCancel::Finish { within: secs(3) }));
    let run = at_work(&session).await;
    let pulled = Instant::now();
    stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(pulled.elapsed(), secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_was_let_go_costs_the_model_no_further_call() {
    let log = ToolLog::new();
    let model = ScriptedModel::new([calls(&[("c", "tool")]), vec![Act::text("Never."), Act::end()]]);
    let session = agent(&model).tool(tools::slow("tool", secs(5), &log).on_cancel(OnCancel::Detach)).open();
    let run = at_work(&session).await;
    stop(&session, &run, Cancel::graceful()).await;
    session.agent().runtime().idle().await;
    assert_eq!((model.calls(), model.open()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_detached_tool_that_waits_for_a_thread_when_the_cord_is_pulled_never_begins() {
    let log = ToolLog::new();
    let clock = Arc::new(TestClock::new());
    let runtime = Runtime::builder().one_lane().clock(clock).seed(1).blocking_tools(1, 8).build();
    let tool = tools::on_thread("tool", secs(10), false, &log).on_cancel(OnCancel::Detach);
    let model = ScriptedModel::new([calls(&[("a", "tool"), ("b", "tool")])]);
    let session = Agent::builder().model(model).runtime(&runtime).tool(tool).open();
    let run = at_work(&session).await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(
        (verdict(&outcome.receipt, "a"), verdict(&outcome.receipt, "b")),
        (Verdict::Detached, Verdict::NeverStarted)
    );
    runtime.idle().await;
    assert_eq!(log.started(), 1, "its place came, and nobody took it");
    assert_eq!(late(&run.receipt().unwrap()), ["a: the thread's result"]);
}

#[tokio::test(start_paused = true)]
async fn a_detached_tool_that_had_finished_when_its_driver_panicked_keeps_its_result() {
    // The disk is slow, so the driver has not heard yet that the tool has ended.
    let (journal, log) = (TestJournal::slow(None, secs(1)), ToolLog::new());
    let probe = Arc::new(PanicAt("driver: durable", false.into()));
    let builder = Runtime::builder().journal(Arc::new(journal)).one_lane().clock(Arc::new(TestClock::new()));
    let runtime = builder.seed(1).probe(Arc::clone(&probe) as Arc<dyn Probe>).build();
    let model = ScriptedModel::new([calls(&[("q", "quick"), ("d", "gone")])]);
    let session = Agent::builder()
        .model(model)
        .runtime(&runtime)
        .tool(tools::quick("quick", &log))
        .tool(tools::slow("gone", millis(500), &log).on_cancel(OnCancel::Detach))
        .open();
    let run = at_work(&session).await;
    // The end of the quick one is on its way to the disk, and then the driver panics.
    probe.1.store(true, std::sync::atomic::Ordering::SeqCst);
    let outcome = settled(&session, &run).await;
    assert!(matches!(&*outcome.ending, Ending::Failed(_)), "{:?}", outcome.ending);
    assert_eq!(verdict(&outcome.receipt, "d"), Verdict::Finished);
    assert_eq!(result_of(&session.history().await.unwrap(), "d").to_text(), "slow result");
    assert_eq!(run.receipt().unwrap().addenda, []);
}
