//! A database that somebody else has open: another Andon process, or another program.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use andon_runtime::JournalError;
use andon_store::Options;
use tokio::time::Instant;

use super::*;

/// Tells the child process which database to hold.
const HOLD: &str = "ANDON_TEST_HOLDS";

/// Another process that holds a database.
struct Holder(Child);

impl Holder {
    fn start(path: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "locked::what_the_other_process_does", "--ignored", "--nocapture"]).env(HOLD, path);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("it is held")), "the other process does not hold the database");
        Self(child)
    }

    fn kill(mut self) -> u32 {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        self.0.id()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "other tests start it in a separate process"]
fn what_the_other_process_does() {
    let path = PathBuf::from(std::env::var_os(HOLD).expect("other tests start it"));
    let journal = SqliteJournal::open_with(path, &Options::new().program("the other process")).unwrap();
    journal.set_address(Some("http://127.0.0.1:8000".to_owned())).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let runtime = runtime_on(Arc::new(journal));
        session_on(&runtime, &ScriptedModel::new([]), &ToolLog::new()).run("Hold on").await.unwrap();
        println!("it is held");
        // Until it is killed, or its parent is gone.
        let _ = std::io::stdin().read(&mut [0]);
    });
}

#[tokio::test]
async fn a_database_in_use_names_its_owner_and_is_free_once_that_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let link = folder.path().join("link.db");
    let holder = Holder::start(&path);
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for name in [&path, &link] {
        let error = SqliteJournal::open(name).unwrap_err();
        let OpenError::InUse { owner: Some(owner), .. } = &error else { panic!("{error}") };
        assert_eq!((owner.pid, owner.program.as_str()), (holder.0.id(), "the other process"));
        let (said, pid) = (error.to_string(), format!("process {}", holder.0.id()));
        for part in [pid.as_str(), "the other process", "http://127.0.0.1:8000", "stop that first", "another file"] {
            assert!(said.contains(part), "{part:?} is not in {said:?}");
        }
    }
    assert_eq!(SqliteJournal::owner(&path).unwrap().pid, holder.0.id());
    // Reading is allowed.
    let looks = runtime_on(Arc::new(SqliteJournal::open_to_read(&path).unwrap()));
    assert_eq!(looks.list_sessions(andon_runtime::SessionFilter::default()).await.unwrap().len(), 1);
    let killed = holder.kill();
    assert_eq!(SqliteJournal::owner(&path), None, "process {killed} is dead");
    let runtime = runtime_on(open(&path));
    let session = session_on(&runtime, &ScriptedModel::new([]), &ToolLog::new());
    assert_eq!(session.history().await.unwrap().len(), 2, "what the other process wrote is there");
    session.run("Thanks").await.unwrap();
    assert_sound(&path);
}

#[test]
fn a_process_can_open_a_database_for_writing_only_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let journal = open(&path);
    let error = SqliteJournal::open(&path).unwrap_err();
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    drop(journal);
    drop(open(&path));
}

#[test]
fn opening_waits_a_limited_time_for_a_program_that_has_locked_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let theirs = Connection::open(&path).unwrap();
    theirs.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let began = Instant::now();
    let error = SqliteJournal::open(&path).unwrap_err();
    let waited = began.elapsed();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("close that program"), "{error}");
    assert!(waited >= Duration::from_secs(4), "it waited {waited:?}");
    theirs.execute_batch("ROLLBACK").unwrap();
    drop(theirs);
    drop(open(&path));
}

/// Waits until a journal reports trouble, and returns it.
async fn until_in_trouble(journal: &SqliteJournal) -> JournalError {
    loop {
        match journal.trouble() {
            Some(trouble) => return trouble,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

#[tokio::test]
async fn a_program_that_locks_the_file_stalls_the_run_and_does_not_fail_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let journal = open(&path);
    let runtime = runtime_on(Arc::clone(&journal));
    let session = session_on(&runtime, &ScriptedModel::new([]), &ToolLog::new());
    session.run("Before").await.unwrap();
    let theirs = Connection::open(&path).unwrap();
    theirs.execute_batch("BEGIN IMMEDIATE").unwrap();
    let run = session.start("During").unwrap();
    let trouble = until_in_trouble(&journal).await;
    assert!(trouble.to_string().contains("close that program"), "{trouble}");
    assert_eq!(runtime.journal_trouble(), Some(trouble));
    assert_eq!((run.try_outcome(), run.stalled()), (None, None));
    theirs.execute_batch("ROLLBACK").unwrap();
    assert_eq!(run.outcome().await.stop_reason(), "end_turn");
    assert_eq!(journal.trouble(), None);
    let said: Vec<String> = session.history().await.unwrap().iter().map(|message| message.text()).collect();
    assert_eq!(said, ["Before", "Well.", "During", "Well."]);
    assert_sound(&path);
}

#[tokio::test]
async fn a_run_cancelled_while_another_program_has_locked_the_file_is_quiet_at_once_and_settles_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let journal = open(&path);
    let runtime = runtime_on(Arc::clone(&journal));
    let model = ScriptedModel::new([vec![Act::text("So far"), Act::Silence]]);
    let session = session_on(&runtime, &model, &ToolLog::new());
    let run = session.start("Go").unwrap();
    crate::until_shown(&run, "So far").await;
    let theirs = Connection::open(&path).unwrap();
    theirs.execute_batch("BEGIN IMMEDIATE").unwrap();
    let reply = run.cancel(Cancel::graceful());
    assert_eq!(reply.kind().as_str(), "accepted");
    until_in_trouble(&journal).await;
    assert_eq!((model.open(), run.try_outcome()), (0, None), "the stream is closed, and the run has not settled");
    theirs.execute_batch("ROLLBACK").unwrap();
    reply.recorded().await.unwrap();
    assert_eq!(run.outcome().await.stop_reason(), "cancelled");
    assert_eq!(run.outcome().await.text_so_far(), "So far");
}

#[tokio::test]
async fn a_journal_closed_while_another_program_has_locked_the_file_stops_waiting_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let journal = open(&path);
    let theirs = Connection::open(&path).unwrap();
    theirs.execute_batch("BEGIN IMMEDIATE").unwrap();
    let kept = journal.shelf().keep("kind", "name", serde_json::json!(1));
    until_in_trouble(&journal).await;
    tokio::task::spawn_blocking(move || drop(journal)).await.unwrap();
    let error = kept.await.unwrap_err();
    assert!(error.to_string().contains("close that program"), "{error}");
}
