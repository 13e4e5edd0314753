//! What a call did can be undone when somebody asks: on record before it begins, once, within its own time limit, and
//! its result is in the receipt (P7, P10).

use std::sync::Mutex;

use andon_runtime::core::event::ToolEnd;
use andon_runtime::core::receipt::{Compensation, Receipt};
use andon_runtime::{CompensateError, Compensated, Tool, Undo};

use crate::common::*;

type Undone = Arc<Mutex<Vec<Undo>>>;

/// A tool `pay` whose compensation remembers what it was called with and then ends as the test says.
fn pay(undone: &Undone, end: fn() -> Returned) -> FnTool {
    let undone = Arc::clone(undone);
    let tool = FnTool::new("pay", "Pays.", json!({"type": "object"}), |_| async { Ok("paid".into()) });
    tool.compensation(secs(5), move |undo| {
        undone.lock().unwrap().push(undo);
        async move {
            tokio::time::sleep(secs(1)).await;
            end()
        }
    })
}

fn paid_back() -> Returned {
    Ok("paid back".into())
}

/// An agent in this runtime, whose model makes one call `c` of the tool `pay`.
fn session_on(runtime: &Runtime, tool: FnTool) -> Session {
    let model = ScriptedModel::new([calls(&[("c", "pay")]), says("Well.")]);
    Agent::builder().model(model).runtime(runtime).tool(tool).build().unwrap().session(LOCAL, "s").unwrap()
}

async fn run_of(session: &Session) -> Run {
    let run = session.start("Pay.").unwrap();
    settled(session, &run).await;
    run
}

async fn stored_receipt(journal: &TestJournal, run: &Run) -> Receipt {
    let stored = journal.read(run.id()).await.unwrap().unwrap();
    stored.receipt().unwrap()
}

fn compensation(receipt: &Receipt) -> Option<Compensation> {
    receipt.calls.iter().find(|account| account.call == id("c")).unwrap().compensation
}

fn addenda(receipt: &Receipt) -> Vec<AddendumKind> {
    receipt.addenda.iter().map(|addendum| addendum.what.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_compensation_is_on_record_before_it_begins_and_so_is_its_result() {
    let (journal, seen) = (memory(), Arc::new(Mutex::new(Vec::new())));
    let (at_start, looked) = (journal.clone(), Arc::clone(&seen));
    let tool = FnTool::new("pay", "Pays.", json!({"type": "object"}), |_| async { Ok("paid".into()) });
    let tool = tool.compensation(secs(5), move |undo| {
        let (journal, looked) = (at_start.clone(), Arc::clone(&looked));
        async move {
            let stored = journal.read(&undo.run).await?.unwrap();
            looked.lock().unwrap().extend(stored.addenda.into_iter().map(|addendum| addendum.what));
            paid_back()
        }
    });
    let session = session_on(&runtime_on(&journal), tool);
    let run = run_of(&session).await;
    let records = run.records();
    let done = session.agent().compensate(&run, &id("c"), Some("ada")).await.unwrap();

    let result = Arc::new(ToolResult::text(id("c"), ResultStatus::Ok, "paid back"));
    assert!(done.is_done());
    assert_eq!(done, Compensated::new(ToolEnd::Finished, Arc::clone(&result)));
    let started = AddendumKind::CompensationStarted { call: id("c"), by: Some("ada".into()) };
    assert_eq!(*seen.lock().unwrap(), std::slice::from_ref(&started));
    let finished = AddendumKind::CompensationFinished { call: id("c"), end: ToolEnd::Finished, result };
    for receipt in [run.receipt().unwrap(), stored_receipt(&journal, &run).await] {
        assert_eq!(addenda(&receipt), [started.clone(), finished.clone()]);
        assert_eq!((compensation(&receipt), receipt.revision), (Some(Compensation::Done), 2));
    }
    assert_eq!(run.records(), records, "nothing of the run itself changes");
    assert_eq!(result_of(&session.history().await.unwrap(), "c").to_text(), "paid", "nor of what the model was told");
}

#[tokio::test(start_paused = true)]
async fn it_is_told_what_to_undo_with_the_key_that_the_call_itself_was_given() {
    let undone = Undone::default();
    let key = Arc::new(Mutex::new(None));
    let given = Arc::clone(&key);
    let seen = Arc::clone(&undone);
    let schema = json!({"type": "object", "properties": {"sum": {"type": "integer"}}});
    let tool = FnTool::new("pay", "Pays.", schema, move |call| {
        *given.lock().unwrap() = Some(call.effect_id().to_string());
        async { Ok("paid".into()) }
    });
    let tool = tool.compensation(secs(5), move |undo| {
        seen.lock().unwrap().push(undo);
        async { paid_back() }
    });
    let asks = [andon_testkit::Act::call(0, "c", "pay", "{\"sum\": 3}"), vec![andon_testkit::Act::tool_use()]];
    let session = scripted([answer(asks)]).tool(tool).open();
    let run = run_of(&session).await;
    session.agent().compensate(&run, &id("c"), None).await.unwrap();

    let undo = undone.lock().unwrap()[0].clone();
    assert_eq!((undo.tool.as_str(), &undo.call, &undo.run, &undo.session), ("pay", &id("c"), run.id(), run.session()));
    assert_eq!(
        (undo.input.clone(), undo.verdict, undo.result.to_text()),
        (json!({"sum": 3}), Verdict::Finished, "paid".into())
    );
    let on_record = run.receipt().unwrap().calls[0].effect_id.clone().unwrap();
    assert_eq!(undo.effect_id().as_str(), &*on_record);
    assert_eq!(key.lock().unwrap().as_deref(), Some(&*on_record), "one key, whoever asks for it");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_effect_is_unknown_is_undone_as_such() {
    let undone = Undone::default();
    let seen = Arc::clone(&undone);
    let tool = tools::slow("pay", secs(60), &ToolLog::new()).compensation(secs(5), move |undo| {
        seen.lock().unwrap().push(undo);
        async { Ok("there was nothing to undo".into()) }
    });
    let session = session_on(&runtime(), tool);
    let run = start_until_tool(&session, "Pay.", "c").await;
    settle_down().await;
    stop(&session, &run, Cancel::now()).await;
    assert!(session.agent().compensate(&run, &id("c"), None).await.unwrap().is_done());
    let undo = undone.lock().unwrap()[0].clone();
    assert_eq!((undo.verdict, undo.result.status), (Verdict::Unknown, ResultStatus::Unknown));
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_later_process_undoes_a_call_of_an_earlier_one_once() {
    let (journal, undone) = (memory(), Undone::default());
    let first = session_on(&runtime_on(&journal), pay(&undone, paid_back));
    let run = run_of(&first).await;

    let next = next_runtime_on(&journal);
    let session = session_on(&next, pay(&undone, paid_back));
    let found = next.find(run.id()).await.unwrap().unwrap();
    assert!(session.agent().compensate(&found, &id("c"), None).await.unwrap().is_done());
    assert_eq!(compensation(&next.find(run.id()).await.unwrap().unwrap().receipt().unwrap()), Some(Compensation::Done));
    let third = next_runtime_on(&journal);
    let session = session_on(&third, pay(&undone, paid_back));
    let found = third.find(run.id()).await.unwrap().unwrap();
    assert_eq!(session.agent().compensate(&found, &id("c"), None).await, Err(CompensateError::Done(id("c"))));
    assert_eq!(undone.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_compensation_that_a_dead_process_began_may_be_asked_for_again() {
    let (journal, undone) = (memory(), Undone::default());
    let first = session_on(&runtime_on(&journal), pay(&undone, paid_back));
    let run = run_of(&first).await;
    let began = AddendumKind::CompensationStarted { call: id("c"), by: None };
    journal
        .append_addendum(run.id(), andon_runtime::Clock::now(&andon_runtime::TestClock::new()), began)
        .await
        .unwrap();

    let next = next_runtime_on(&journal);
    let session = session_on(&next, pay(&undone, paid_back));
    let found = next.find(run.id()).await.unwrap().unwrap();
    assert_eq!(compensation(&found.receipt().unwrap()), Some(Compensation::Started));
    assert!(session.agent().compensate(&found, &id("c"), None).await.unwrap().is_done());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_undone_through_one_handle_is_not_undone_again_through_another() {
    let (journal, undone) = (memory(), Undone::default());
    let runtime = runtime_on(&journal);
    let session = session_on(&runtime, pay(&undone, paid_back));
    let run = run_of(&session).await;
    let found = runtime.find(run.id()).await.unwrap().unwrap();
    assert!(session.agent().compensate(&found, &id("c"), None).await.unwrap().is_done());
    assert_eq!(
        session.agent().compensate(&run, &id("c"), None).await,
        Err(CompensateError::Done(id("c"))),
        "paid back twice"
    );
    assert_eq!(undone.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_compensation_says_why_and_may_be_asked_for_again() {
    let undone = Undone::default();
    let session = session_on(&runtime(), pay(&undone, || Err(ToolError::new("the bank is closed"))));
    let run = run_of(&session).await;
    for times in 1..=2 {
        let failed = session.agent().compensate(&run, &id("c"), None).await.unwrap();
        assert!(!failed.is_done());
        assert_eq!((failed.end, failed.result.to_text()), (ToolEnd::Finished, "the bank is closed".to_owned()));
        assert_eq!(compensation(&run.receipt().unwrap()), Some(Compensation::Failed));
        assert_eq!(undone.lock().unwrap().len(), times);
    }
}

#[tokio::test(start_paused = true)]
async fn a_compensation_that_panics_has_failed_and_is_on_record() {
    let journal = memory();
    let session = session_on(&runtime_on(&journal), pay(&Undone::default(), || panic!("no way back")));
    let run = run_of(&session).await;
    let failed = session.agent().compensate(&run, &id("c"), None).await.unwrap();
    assert_eq!((failed.end, failed.is_done()), (ToolEnd::Panicked, false));
    assert_eq!(failed.result.to_text(), "It crashed: no way back");
    assert_eq!(compensation(&stored_receipt(&journal, &run).await), Some(Compensation::Failed));
    assert_eq!(
        session.agent().compensate(&run, &id("c"), None).await.unwrap().end,
        ToolEnd::Panicked,
        "and may be asked again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_compensation_that_panics_before_it_begins_has_failed_too() {
    struct Rash(Arc<andon_runtime::ToolSpec>);
    impl Tool for Rash {
        fn spec(&self) -> &Arc<andon_runtime::ToolSpec> {
            &self.0
        }
        fn call(&self, _: andon_runtime::Invocation) -> Work {
            Work::task(async { Ok("paid".into()) })
        }
        fn compensate(&self, _: Undo) -> andon_runtime::BoxFuture<Returned> {
            panic!("not even begun")
        }
    }
    let mut spec = andon_runtime::ToolSpec::new("pay", "Pays.", json!({"type": "object"}));
    spec.compensation = Some(secs(1));
    let session = scripted([calls(&[("c", "pay")])]).tool(Rash(Arc::new(spec))).open();
    let run = run_of(&session).await;
    assert_eq!(session.agent().compensate(&run, &id("c"), None).await.unwrap().end, ToolEnd::Panicked);
}

#[tokio::test(start_paused = true)]
async fn a_compensation_over_its_time_is_dropped_its_end_is_unknown_and_it_may_be_asked_for_again() {
    let (journal, alive) = (memory(), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&alive);
    let tool = FnTool::new("pay", "Pays.", json!({"type": "object"}), |_| async { Ok("paid".into()) });
    let tool = tool.compensation(secs(5), move |_| {
        let (alive, times) = (Alive::new(&counter), counter.load(Ordering::SeqCst));
        async move {
            let _alive = alive;
            assert_eq!(times, 1, "one at a time");
            std::future::pending().await
        }
    });
    let session = session_on(&runtime_on(&journal), tool);
    let run = run_of(&session).await;
    for _ in 0..2 {
        let began = Instant::now();
        let unknown = session.agent().compensate(&run, &id("c"), None).await.unwrap();
        assert_eq!((began.elapsed(), unknown.end, alive.load(Ordering::SeqCst)), (secs(5), ToolEnd::Unknown, 0));
        assert_eq!(unknown.result.status, ResultStatus::Unknown);
        assert_eq!(compensation(&stored_receipt(&journal, &run).await), Some(Compensation::Unknown));
    }
}

/// Counts what is alive.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_compensation_goes_on_when_whoever_asked_goes_away_and_its_end_is_on_record() {
    let (journal, undone) = (memory(), Undone::default());
    let session = session_on(&runtime_on(&journal), pay(&undone, paid_back));
    let run = run_of(&session).await;
    let call = id("c");
    let asking = session.agent().compensate(&run, &call, None);
    assert!(tokio::time::timeout(millis(500), asking).await.is_err(), "it takes a second");
    assert_eq!(session.agent().compensate(&run, &id("c"), None).await, Err(CompensateError::InProgress(id("c"))));
    session.agent().runtime().idle().await;
    assert_eq!(compensation(&stored_receipt(&journal, &run).await), Some(Compensation::Done));
    assert_eq!(session.agent().compensate(&run, &id("c"), None).await, Err(CompensateError::Done(id("c"))));
    assert_eq!(undone.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn of_two_callers_at_once_one_is_told_that_it_is_in_progress() {
    let undone = Undone::default();
    let session = session_on(&runtime(), pay(&undone, paid_back));
    let run = run_of(&session).await;
    let other = session.agent().runtime().find(run.id()).await.unwrap().unwrap();
    let call = id("c");
    let both =
        tokio::join!(session.agent().compensate(&run, &call, None), session.agent().compensate(&other, &call, None));
    assert!(both.0.unwrap().is_done());
    assert_eq!(both.1, Err(CompensateError::InProgress(id("c"))));
    assert_eq!(undone.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_cannot_be_undone_and_a_call_that_it_did_not_make_neither() {
    let undone = Undone::default();
    let session = scripted([calls(&[("c", "pay")]), says_and_hangs("Hm")]).tool(pay(&undone, paid_back)).open();
    let run = start_until_shown(&session, "Pay.", "Hm").await;
    assert_eq!(session.agent().compensate(&run, &id("c"), None).await, Err(CompensateError::NotSettled));
    stop(&session, &run, Cancel::now()).await;
    assert_eq!(session.agent().compensate(&run, &id("x"), None).await, Err(CompensateError::NoSuchCall(id("x"))));
    assert!(
        session.agent().compensate(&run, &id("c"), None).await.unwrap().is_done(),
        "a cancelled run's calls can be undone"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_did_not_run_has_nothing_to_undo() {
    let undone = Undone::default();
    let session = session_on(&runtime(), pay(&undone, paid_back).needs_approval());
    let run = session.start("Pay.").unwrap();
    until(&run, |event| matches!(event, andon_runtime::Event::ApprovalRequested { .. })).await;
    run.decide(&id("c")).deny().send().unwrap();
    settled(&session, &run).await;
    assert_eq!(session.agent().compensate(&run, &id("c"), None).await, Err(CompensateError::NeverStarted(id("c"))));
    assert_eq!(run.receipt().unwrap().addenda, [], "nothing was begun, and nothing is on record");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_goes_on_is_undone_only_when_it_has_ended() {
    let log = ToolLog::new();
    let detached = tools::slow("pay", secs(60), &log).on_cancel(OnCancel::Detach);
    let thread = tools::on_thread("pay", secs(60), false, &log);
    for (tool, verdict) in [(detached, Verdict::Detached), (thread, Verdict::Late)] {
        let seen = Undone::default();
        let undone = Arc::clone(&seen);
        let session = session_on(
            &runtime(),
            tool.compensation(secs(5), move |undo| {
                undone.lock().unwrap().push(undo);
                async { paid_back() }
            }),
        );
        let run = start_until_tool(&session, "Pay.", "c").await;
        settle_down().await;
        stop(&session, &run, Cancel::graceful()).await;
        assert_eq!(session.agent().compensate(&run, &id("c"), None).await, Err(CompensateError::StillRunning(id("c"))));
        session.agent().runtime().idle().await;
        assert!(session.agent().compensate(&run, &id("c"), None).await.unwrap().is_done());
        assert_eq!(seen.lock().unwrap()[0].verdict, verdict);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_without_a_compensation_says_so() {
    let log = ToolLog::new();
    let session = session_on(&runtime(), tools::quick("pay", &log));
    let run = run_of(&session).await;
    let expected = Err(CompensateError::NoCompensation("pay".to_owned()));
    assert_eq!(session.agent().compensate(&run, &id("c"), None).await, expected);

    let other = Agent::builder()
        .model(ScriptedModel::new([]))
        .runtime(session.agent().runtime())
        .name("other")
        .build()
        .unwrap();
    assert_eq!(other.compensate(&run, &id("c"), None).await, expected, "an agent that has no such tool");
}

#[tokio::test(start_paused = true)]
async fn a_tool_with_a_budget_and_nothing_to_run_has_failed_in_words() {
    let mut spec = andon_runtime::ToolSpec::new("pay", "Pays.", json!({"type": "object"}));
    spec.compensation = Some(secs(1));
    let session = session_on(&runtime(), FnTool::from_spec(spec, |_| Work::task(async { Ok("paid".into()) })));
    let run = run_of(&session).await;
    let failed = session.agent().compensate(&run, &id("c"), None).await.unwrap();
    assert!(!failed.is_done());
    assert!(failed.result.to_text().contains("has no compensation"), "{}", failed.result.to_text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_threads_that_ask_at_once_only_one_undoes_the_call() {
    for _ in 0..50 {
        let times = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&times);
        let tool = FnTool::new("pay", "Pays.", json!({"type": "object"}), |_| async { Ok("paid".into()) });
        let tool = tool.compensation(secs(5), move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            async { paid_back() }
        });
        let model = ScriptedModel::new([calls(&[("c", "pay")])]);
        let session = Agent::builder().model(model).runtime(&Runtime::builder().build()).tool(tool).open();
        let run = Arc::new(session.start("Pay.").unwrap());
        run.outcome().await;
        let asked: Vec<_> = (0..8)
            .map(|_| {
                let (session, run) = (session.clone(), Arc::clone(&run));
                #[expect(clippy::disallowed_methods, reason = "the callers are not part of the runtime")]
                tokio::spawn(async move { session.agent().compensate(&run, &id("c"), None).await.is_ok() })
            })
            .collect();
        let mut done = 0;
        for asked in asked {
            done += usize::from(asked.await.unwrap());
        }
        assert_eq!((done, times.load(Ordering::SeqCst)), (1, 1));
    }
}

/// Panics when it is dropped.
struct Grudge;

impl Drop for Grudge {
    fn drop(&mut self) {
        panic!("a destructor that panics");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compensation_that_blocks_its_thread_or_panics_when_it_is_dropped_is_unknown_when_its_time_is_over() {
    let (release, released) = std::sync::mpsc::sync_channel::<()>(1);
    let released = Arc::new(Mutex::new(released));
    let schema = || json!({"type": "object"});
    let paid = || FnTool::new("pay", "Pays.", schema(), |_| async { Ok("paid".into()) as Returned });
    let blocks = paid().compensation(millis(50), move |_| {
        let released = Arc::clone(&released);
        async move {
            released.lock().unwrap().recv().unwrap();
            Ok("too late".into()) as Returned
        }
    });
    let panics = paid().compensation(millis(50), |_| async {
        let _grudge = Grudge;
        std::future::pending::<Returned>().await
    });
    for tool in [blocks, panics] {
        let runtime = Runtime::builder().build();
        let session = session_on(&runtime, tool);
        let run = run_of(&session).await;
        let asked = tokio::time::timeout(secs(20), session.agent().compensate(&run, &id("c"), None)).await;
        assert_eq!(asked.expect("nobody waits for it").unwrap().end, ToolEnd::Unknown);
        assert_eq!(compensation(&run.receipt().unwrap()), Some(Compensation::Unknown));
    }
    release.send(()).unwrap();
}
