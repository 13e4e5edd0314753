//! What losing its readers does to a run that was waiting when its process died: they were lost with the process (P7,
//! P10).

use andon_runtime::{Fate, OnDisconnect, Prompt, Recovered, SessionFilter};
use tokio::time::{sleep, timeout};

use crate::common::*;

const DONE: Ending = Ending::Completed { stop: ModelStop::EndTurn };
const LEFT: Ending = Ending::Cancelled { reason: Reason::ClientDisconnected };
const RESTARTED: &str = "the server restarted, and its reader was disconnected";
const AFTER: OnDisconnect = OnDisconnect::CancelAfterMs(1000);

/// A process with an agent whose tool needs approval.
struct Process {
    journal: TestJournal,
    runtime: Runtime,
    model: ScriptedModel,
    session: Option<Session>,
    recovered: Vec<Recovered>,
}

impl Process {
    async fn on(memory: MemoryJournal, answers: impl IntoIterator<Item = Vec<Act>>, has_agent: bool) -> Self {
        let journal = TestJournal::new(memory, None);
        let runtime = next_runtime_on(&journal);
        Self::with(journal, runtime, answers, has_agent).await
    }

    async fn with(
        journal: TestJournal,
        runtime: Runtime,
        answers: impl IntoIterator<Item = Vec<Act>>,
        has_agent: bool,
    ) -> Self {
        let mut process =
            Self { journal, runtime, model: ScriptedModel::new(answers), session: None, recovered: Vec::new() };
        if has_agent {
            process.build_agent();
        }
        process.recovered = process.runtime.recover().await.unwrap();
        process
    }

    fn build_agent(&mut self) {
        let builder = Agent::builder().model(self.model.clone()).runtime(&self.runtime);
        let session = builder.tool(tools::quick("danger", &ToolLog::new()).needs_approval()).open();
        self.session = Some(session.agent().session(LOCAL, "s").unwrap());
    }

    async fn first(answers: impl IntoIterator<Item = Vec<Act>>) -> Self {
        let journal = memory();
        let runtime = runtime_on(&journal);
        Self::with(journal, runtime, answers, true).await
    }

    /// The process dies, and another one takes up what is durable.
    async fn restarted(&self, answers: impl IntoIterator<Item = Vec<Act>>) -> Self {
        self.journal.crash();
        Self::on(self.journal.durable(), answers, true).await
    }

    fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }

    fn prompt(&self, policy: OnDisconnect) -> Prompt {
        self.session().prompt("Do it.").on_disconnect(policy)
    }

    /// A run that waits for a person.
    async fn ask(&self, prompt: Prompt) -> Run {
        let run = prompt.start().unwrap();
        until(&run, |event| matches!(event, Event::ApprovalRequested { .. })).await;
        settle_down().await;
        run
    }

    async fn find(&self, run: &Run) -> Run {
        self.runtime.find(run.id()).await.unwrap().unwrap()
    }

    /// How this process's recovery settled a run; `None` if it did not.
    fn settled(&self, run: &Run) -> Option<Ending> {
        let found = self.recovered.iter().find(|recovered| recovered.run == *run.id());
        Some((**found.unwrap().fate.ending()?).clone())
    }

    async fn receipt(&self, run: &Run) -> Receipt {
        self.find(run).await.receipt().unwrap()
    }
}

fn asks() -> Vec<Act> {
    calls(&[("g", "danger")])
}

/// How a run ends.
async fn ending(run: &Run) -> Ending {
    let outcome = timeout(secs(60), run.outcome()).await.expect("the run does not end");
    (*outcome.ending).clone()
}

async fn approve(run: &Run) -> Ending {
    run.decide(&id("g")).approve().send().unwrap();
    ending(run).await
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_a_person_is_stopped_at_the_restart_if_a_reader_had_come() {
    for came_with_it in [true, false] {
        let first = Process::first([asks()]).await;
        let prompt = first.prompt(OnDisconnect::Cancel);
        let run = first.ask(if came_with_it { prompt.with_reader() } else { prompt }).await;
        let _reader = run.watch();
        settle_down().await;
        assert_eq!(run.state(), RunState::Waiting);

        let next = first.restarted([says("Well.")]).await;
        assert_eq!(next.settled(&run), Some(LEFT));
        let receipt = next.receipt(&run).await;
        assert_eq!((receipt.reason, receipt.by.as_deref()), (Some(Reason::ClientDisconnected), Some("server")));
        assert_eq!(receipt.note.as_deref(), Some(RESTARTED));
        // Its session is free, and a third process finds nothing more to do.
        assert_usable(next.session()).await;
        assert_eq!(next.restarted([]).await.recovered, []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_queued_run_whose_reader_was_lost_does_not_begin_and_the_next_one_does() {
    let first = Process::first([says_and_hangs("Once")]).await;
    let seated = first.session().start("Go.").unwrap();
    until_shown(&seated, "Once").await;
    let queue = |policy| first.prompt(policy).when_busy(WhenBusy::Queue);
    let left = queue(OnDisconnect::Cancel).with_reader().start().unwrap();
    let _reader = left.watch();
    let waits = queue(OnDisconnect::Continue).start().unwrap();
    settle_down().await;

    let next = first.restarted([says("Done.")]).await;
    assert_eq!((next.settled(&seated), next.settled(&left)), (Some(Ending::Lost), Some(LEFT)));
    assert_eq!(ending(&next.find(&waits).await).await, DONE);
    assert_eq!(next.model.calls(), 1, "the one that was left never began");
    let left = next.find(&left).await;
    assert_eq!(count(&left, |event| matches!(event, Event::RunStarted)), 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_at_the_restart_if_its_policy_is_to_go_on_or_no_reader_had_come() {
    for (policy, is_read) in [(OnDisconnect::Continue, true), (OnDisconnect::Cancel, false), (AFTER, false)] {
        let first = Process::first([asks()]).await;
        let run = first.ask(first.prompt(policy)).await;
        let _reader = is_read.then(|| run.watch());
        settle_down().await;
        let next = first.restarted([says("Done.")]).await;
        assert_eq!(next.settled(&run), None, "{policy:?}");
        let run = next.find(&run).await;
        sleep(millis(100_000)).await;
        assert_eq!(approve(&run).await, DONE, "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_disconnected_on_purpose_was_not_lost_and_one_that_comes_after_the_restart_is_missed() {
    let first = Process::first([asks()]).await;
    let run = first.ask(first.prompt(OnDisconnect::Cancel).with_reader()).await;
    let reader = run.watch();
    reader.leave_without_disconnect();
    drop(reader);
    settle_down().await;
    assert_eq!(run.state(), RunState::Waiting);

    let next = first.restarted([]).await;
    assert_eq!(next.settled(&run), None);
    let run = next.find(&run).await;
    let reader = run.watch();
    settle_down().await;
    drop(reader);
    assert_eq!(ending(&run).await, LEFT);
    assert_eq!(run.receipt().unwrap().note.as_deref(), Some("the last reader of its feed went away"));
}

#[tokio::test(start_paused = true)]
async fn a_patient_run_waits_for_its_reader_from_the_restart_on() {
    let first = Process::first([asks()]).await;
    let run = first.ask(first.prompt(AFTER).with_reader()).await;
    drop(run.watch());
    // Most of its time had passed before the process died, which does not count.
    sleep(millis(900)).await;

    let next = first.restarted([]).await;
    let restarted = Instant::now();
    assert_eq!(next.settled(&run), None);
    let run = next.find(&run).await;
    assert_eq!(ending(&run).await, LEFT);
    assert_eq!(restarted.elapsed().as_millis() / 10, 100);
    let note = format!("{RESTARTED}; nobody reconnected within 1s");
    assert_eq!(run.receipt().unwrap().note.as_deref(), Some(note.as_str()));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_back_in_time_keeps_a_patient_run_and_the_time_starts_again() {
    let first = Process::first([asks()]).await;
    let run = first.ask(first.prompt(AFTER)).await;
    let _lost = run.watch();
    settle_down().await;

    let next = first.restarted([]).await;
    let run = next.find(&run).await;
    sleep(millis(900)).await;
    let reader = run.watch();
    sleep(millis(100_000)).await;
    assert_eq!(run.state(), RunState::Waiting);
    let left = Instant::now();
    drop(reader);
    assert_eq!(ending(&run).await, LEFT);
    assert_eq!(left.elapsed().as_millis() / 10, 100);
    let note = "the last reader of its feed went away, and nobody reconnected within 1s";
    assert_eq!(run.receipt().unwrap().note.as_deref(), Some(note));
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_agent_is_not_there_is_stopped_all_the_same_and_a_patient_one_waits_for_it() {
    let first = Process::first([asks()]).await;
    let run = first.ask(first.prompt(OnDisconnect::Cancel).with_reader()).await;
    first.journal.crash();
    let next = Process::on(first.journal.durable(), [], false).await;
    assert_eq!(next.settled(&run), Some(LEFT));

    for comes_back in [true, false] {
        let first = Process::first([asks()]).await;
        let run = first.ask(first.prompt(AFTER).with_reader()).await;
        first.journal.crash();
        let mut next = Process::on(first.journal.durable(), [says("Done.")], false).await;
        assert!(matches!(next.recovered[0].fate, Fate::Parked { .. }), "{:?}", next.recovered);
        sleep(millis(100_000)).await;
        let reader = match comes_back {
            true => Some(next.find(&run).await.watch()),
            false => None,
        };
        next.build_agent();
        next.runtime.recover().await.unwrap();
        let run = next.find(&run).await;
        match comes_back {
            true => {
                sleep(millis(100_000)).await;
                assert_eq!(approve(&run).await, DONE, "a reader of a parked run is still there when it goes on");
            }
            false => assert_eq!(ending(&run).await, LEFT),
        }
        drop(reader);
    }
}

/// P10: the clients of a living process are not lost, whatever becomes of a run's driver.
#[test]
fn a_run_that_is_recovered_in_the_process_that_drove_it_has_lost_nobody() {
    for is_there_still in [true, false] {
        let tokio = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let runtime = Runtime::builder().build();
        let builder = Agent::builder().model(ScriptedModel::new([asks(), says("Done.")])).runtime(&runtime);
        let session = builder.tool(tools::quick("danger", &ToolLog::new()).needs_approval()).open();
        let first = tokio();
        let (run, reader) = first.block_on(async {
            let run = session.prompt("Do it.").on_disconnect(OnDisconnect::Cancel).with_reader().start().unwrap();
            let reader = run.watch();
            until(&run, |event| matches!(event, Event::ApprovalRequested { .. })).await;
            (run, reader)
        });
        // Its driver is dropped, and the run is left waiting.
        drop(first);
        tokio().block_on(async {
            assert!(matches!(ending(&run).await, Ending::Failed(_)));
            let reader = is_there_still.then_some(reader);
            let recovered = runtime.recover().await.unwrap();
            assert!(matches!(recovered[0].fate, Fate::LivesOn { .. }), "{recovered:?}");
            let run = runtime.find(run.id()).await.unwrap().unwrap();
            match reader {
                Some(reader) => {
                    drop(reader);
                    assert_eq!(ending(&run).await, LEFT);
                }
                None => assert_eq!(approve(&run).await, DONE),
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn an_export_tells_that_a_reader_had_come_and_the_run_does_not_go_on_elsewhere_without_it() {
    for (policy, came_with_it) in [(OnDisconnect::Cancel, true), (OnDisconnect::Cancel, false), (AFTER, false)] {
        let here = Process::first([asks()]).await;
        let prompt = here.prompt(policy);
        let run = here.ask(if came_with_it { prompt.with_reader() } else { prompt }).await;
        let _reader = run.watch();
        settle_down().await;
        let export = here.runtime.export(here.session().key()).await.unwrap().unwrap();

        let there = Process::first([]).await;
        there.runtime.import(&export).await.unwrap();
        let moved = there.find(&run).await;
        assert_eq!(ending(&moved).await, LEFT);
        let note = moved.receipt().unwrap().note.unwrap();
        assert!(note.starts_with("its session was imported, so it lost its reader"), "{note}");
        assert_eq!(run.state(), RunState::Waiting, "where it came from it goes on");
    }
}

#[tokio::test(start_paused = true)]
async fn being_read_does_not_count_as_a_use_of_a_session() {
    let process = Process::first([asks()]).await;
    let run = process.ask(process.prompt(OnDisconnect::Cancel)).await;
    let listed = || async { process.runtime.list_sessions(SessionFilter::default()).await.unwrap() };
    let before = listed().await;
    sleep(millis(1000)).await;
    let _reader = run.watch();
    settle_down().await;
    assert_eq!(listed().await, before);
}

#[tokio::test(start_paused = true)]
async fn a_callers_own_signal_also_stops_a_run_that_must_not_go_on_without_readers() {
    let process = Process::first([says_and_hangs("Once")]).await;
    let run = process.prompt(AFTER).cancel_when(sleep(millis(500))).start().unwrap();
    let _reader = run.watch();
    assert_eq!(ending(&run).await, Ending::Cancelled { reason: Reason::Requested });
}
