//! A disk that is full or read-only.

use andon_runtime::core::message::ResultStatus;
use andon_runtime::core::outcome::FailureKind;
use andon_runtime::{Effect, Event, FnTool, Outcome, RunFilter, RunId, SessionFilter};
use andon_testkit::check::check_stored;
use andon_testkit::wire::check_history;
use serde_json::json;

use super::*;
use crate::disk::Disk;

/// A tool that fills the disk while it runs.
fn filling(disk: &Disk) -> FnTool {
    let fill = disk.filling();
    let input = json!({"type": "object"});
    FnTool::new("download", "Fills the disk.", input, move |_| {
        let fill = fill.clone();
        async move {
            fill();
            Ok("it is all there".into())
        }
    })
    .effect(Effect::Effect)
}

/// An agent that fills the disk at its second prompt.
fn fetcher(disk: &Disk, runtime: &Runtime) -> Session {
    let calls = [vec![Act::text("I fetch it.")], Act::call(0, "c1", "download", "{}"), vec![Act::tool_use()]].concat();
    let model = ScriptedModel::new([vec![Act::text("Hello."), Act::end()], calls]);
    let agent = Agent::builder().name("fetcher").model(model).runtime(runtime).tool(filling(disk));
    agent.build().unwrap().session("ada", "s").unwrap()
}

/// The run's work is over but there is no room for its end: it says so, and has not settled.
async fn assert_stalled_because_the_disk_is_full(run: &Run) {
    let error = run.settled().await.unwrap_err();
    assert!(error.to_string().contains("the disk is full: make room"), "{error}");
    assert_eq!(run.try_outcome(), None);
}

fn assert_failed_because_the_disk_is_full(outcome: &Outcome) {
    let Ending::Failed(failure) = &*outcome.ending else { panic!("{:?}", outcome.ending) };
    assert_eq!(failure.error, FailureKind::Journal);
    assert!(failure.message.contains("the disk is full: make room"), "{}", failure.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_fails_runs_and_their_records_are_completed_once_there_is_room() {
    let Some(disk) = Disk::mount("size=3m") else { return };
    let runtime = runtime_on(open(disk.path()));
    let session = fetcher(&disk, &runtime);
    session.run("Before").await.unwrap();
    let hangs = ScriptedModel::new([vec![Act::text("So far"), Act::Silence]]);
    let silent = session_on(&runtime, &hangs, &ToolLog::new()).start("Wait for it").unwrap();
    until_shown(&silent, "So far").await;

    let run = session.start("Fetch it all").unwrap();
    assert_stalled_because_the_disk_is_full(&run).await;
    let reply = silent.cancel(Cancel::graceful());
    let recorded = reply.recorded().await.unwrap_err();
    assert!(recorded.to_string().contains("the disk is full"), "{recorded}");
    assert_stalled_because_the_disk_is_full(&silent).await;
    // Reading is not affected.
    assert_eq!(runtime.list_runs(RunFilter::default()).await.unwrap().len(), 3);
    assert_eq!(runtime.list_sessions(SessionFilter::default()).await.unwrap().len(), 2);
    assert_sound(&disk.path());

    disk.make_room();
    assert_failed_because_the_disk_is_full(&*run.outcome().await);
    assert_eq!(silent.outcome().await.stop_reason(), "cancelled", "the request is on record now");
    session.run("After").await.unwrap();
    let history = session.history().await.unwrap();
    assert_eq!(check_history(&history), Vec::<String>::new());
    let texts: Vec<String> = history.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["Before", "Hello.", "Fetch it all", "I fetch it.", "", "After", "Well."]);
    let results: Vec<_> = history.iter().flat_map(|message| message.results()).map(|result| result.status).collect();
    assert_eq!(results, [ResultStatus::Ok], "what the tool returned is kept");
    runtime.idle().await;
    drop((runtime, session, silent, run));
    assert_record_is_whole(&disk).await;
}

/// Checks as another process that every run on the disk has settled and its record folds.
async fn assert_record_is_whole(disk: &Disk) {
    assert_sound(&disk.path());
    let journal = SqliteJournal::open_to_read(disk.path()).unwrap();
    let runtime = runtime_on(Arc::new(journal));
    let runs = runtime.list_runs(RunFilter::default()).await.unwrap();
    assert!(!runs.is_empty());
    let journal = SqliteJournal::open_to_read(disk.path()).unwrap();
    for info in runs {
        let stored = journal.read(&info.run).await.unwrap().unwrap();
        assert_eq!(check_stored(&stored), Vec::<String>::new(), "run {}", info.run);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_full_disk_a_session_continues_from_what_is_on_record() {
    let Some(disk) = Disk::mount("size=3m") else { return };
    let journal = open(disk.path());
    let runtime = runtime_on(Arc::clone(&journal));
    let session = fetcher(&disk, &runtime);
    session.run("Before").await.unwrap();
    assert_stalled_because_the_disk_is_full(&session.start("Fetch it all").unwrap()).await;
    disk.make_room();
    session.run("After").await.unwrap();
    let on_record = journal.history(session.key()).await.unwrap();
    assert_eq!(session.history().await.unwrap(), on_record, "the model is told what is on record, and nothing else");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_left_open_on_a_full_disk_are_completed_by_the_next_process() {
    let Some(disk) = Disk::mount("size=3m") else { return };
    let runtime = runtime_on(open(disk.path()));
    let hangs = ScriptedModel::new([vec![Act::text("So far"), Act::Silence]]);
    let session = session_on(&runtime, &hangs, &ToolLog::new());
    let run = session.start("Wait for it").unwrap();
    until_shown(&run, "So far").await;
    andon_testkit::until(&run, |event| matches!(event, Event::ModelStarted { .. })).await;
    disk.fill();
    run.cancel(Cancel::graceful());
    assert_stalled_because_the_disk_is_full(&run).await;
    runtime.shutdown(Duration::from_secs(5)).await.unwrap();
    drop((runtime, session, run));

    // The disk is enlarged instead of cleared: the next process finds the file as it was left.
    disk.remount("size=6m");
    let runtime = runtime_on(open(disk.path()));
    let session = session_on(&runtime, &ScriptedModel::new([]), &ToolLog::new());
    let recovered = runtime.recover().await.unwrap();
    assert_eq!(recovered.len(), 1);
    session.run("After").await.unwrap();
    assert_eq!(check_history(&session.history().await.unwrap()), Vec::<String>::new());
    runtime.idle().await;
    drop((runtime, session));
    assert_record_is_whole(&disk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_could_not_begin_on_a_full_disk_can_begin_once_there_is_room() {
    let Some(disk) = Disk::mount("size=3m") else { return };
    let runtime = runtime_on(open(disk.path()));
    let session = session_on(&runtime, &ScriptedModel::new([]), &ToolLog::new());
    let id = RunId::new("job-7").unwrap();
    disk.fill();
    let run = session.prompt("Do it").run_id(id.clone()).start().unwrap();
    assert_failed_because_the_disk_is_full(&*run.outcome().await);
    disk.make_room();
    let again = session.prompt("Do it").run_id(id).start().unwrap();
    let outcome = again.outcome().await;
    assert_eq!(
        outcome.stop_reason(),
        "end_turn",
        "nothing of it is on record, so its id is free: {:?}",
        outcome.ending
    );
}

#[test]
fn a_database_that_does_not_fit_on_its_disk_is_refused_with_advice() {
    for room in ["size=4k", "size=64k"] {
        let Some(disk) = Disk::mount(room) else { return };
        if room == "size=4k" {
            disk.fill();
        }
        let error = SqliteJournal::open(disk.path()).unwrap_err();
        assert!(matches!(error, OpenError::Full { .. }), "{room}: {error}");
        assert!(error.to_string().contains("free some space"), "{error}");
    }
}

#[test]
fn a_folder_that_is_not_writable_is_refused_with_advice() {
    let Some(disk) = Disk::mount("ro") else { return };
    let error = SqliteJournal::open(disk.path()).unwrap_err();
    assert!(matches!(error, OpenError::NotWritable { .. }), "{error}");
    assert!(error.to_string().contains("choose a file in a folder that you can write to"), "{error}");
}

#[tokio::test]
async fn a_database_on_a_disk_that_became_read_only_can_be_read() {
    let Some(disk) = Disk::mount("size=3m") else { return };
    let runtime = runtime_on(open(disk.path()));
    let session = session_on(&runtime, &ScriptedModel::new([]), &ToolLog::new());
    session.run("Before").await.unwrap();
    runtime.idle().await;
    let key = session.key().clone();
    drop((runtime, session));
    // The last connection to close removes the files beside the database; our readers may close a little later.
    while disk.path().with_extension("db-wal").exists() {
        assert_sound(&disk.path());
        tokio::task::yield_now().await;
    }
    disk.remount("ro");
    let error = SqliteJournal::open(disk.path()).unwrap_err();
    assert!(matches!(error, OpenError::NotWritable { .. }), "{error}");
    let looks = SqliteJournal::open_to_read(disk.path()).expect("reading needs no write access");
    assert_eq!(runtime_on(Arc::new(looks)).history(&key).await.unwrap().len(), 2);
}

/// Checks P10: the write-ahead log is checkpointed before it takes all the room.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_disk_is_not_filled_by_the_write_ahead_log() {
    let Some(disk) = Disk::mount("size=3m") else { return };
    let runtime = runtime_on(open(disk.path()));
    let said = "a story ".repeat(2_500);
    for number in 0..40 {
        let model = ScriptedModel::new([vec![Act::text(&said), Act::end()]]);
        let session =
            session_on(&runtime, &model, &ToolLog::new()).agent().session("ada", format!("s{number}")).unwrap();
        let outcome = session.run("Tell me.").await.unwrap();
        assert_eq!(outcome.stop_reason(), "end_turn", "run {number}: {:?}", outcome.ending);
    }
    assert_eq!(runtime.journal_trouble(), None);
}

/// Checks P7: a write to a file that nobody will find is not acknowledged as durable.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_moved_away_is_noticed_and_can_be_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let (path, away) = (folder.path().join("a.db"), folder.path().join("away.db"));
    let runtime = runtime_on(open(path.clone()));
    let hangs = ScriptedModel::new([vec![Act::text("So far"), Act::Silence]]);
    let session = session_on(&runtime, &hangs, &ToolLog::new());
    let run = session.start("Wait for it").unwrap();
    until_shown(&run, "So far").await;
    std::fs::rename(&path, &away).unwrap();
    let recorded = run.cancel(Cancel::graceful()).recorded().await.unwrap_err();
    assert!(recorded.to_string().contains("was moved or removed"), "{recorded}");
    assert!(run.settled().await.is_err());
    assert!(runtime.journal_trouble().is_some());
    std::fs::rename(&away, &path).unwrap();
    assert_eq!(run.outcome().await.stop_reason(), "cancelled");
    assert_eq!((run.stalled(), runtime.journal_trouble()), (None, None));
}
