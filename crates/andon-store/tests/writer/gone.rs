//! A writer whose thread panicked: every caller is told, and acknowledged data is there.

use std::sync::mpsc;

use andon_runtime::core::event::AddendumKind;
use andon_runtime::core::outcome::{Ending, FailureKind};
use andon_runtime::core::usage::Used;
use andon_runtime::{Agent, BoxFuture, Cancel, Runtime, Session, SessionFilter, StateChange, StateMap};
use andon_testkit::{Act, ScriptedModel};
use tempfile::TempDir;

use super::*;
use crate::told::{request, stamp};

const SEAMS: [&str; 3] = ["store: before commit", "store: after commit", "store: acknowledged"];

/// One of every kind of job in the writer's queue, and how it ends.
fn everything(journal: &SqliteJournal, told: &Told) -> Vec<(&'static str, BoxFuture<Option<JournalError>>)> {
    fn ending<T: 'static>(
        waits: impl Future<Output = Result<T, JournalError>> + Send + 'static,
    ) -> BoxFuture<Option<JournalError>> {
        Box::pin(async move { waits.await.err() })
    }
    let learned = AddendumKind::UsageCorrected { call: 1, used: Box::new(Used::UNKNOWN) };
    let (sessions, s) = (journal.sessions(), &told.session);
    let moved = andon_runtime::SessionCopy::new(key("moved"), Wall(1)).state(StateMap::new());
    vec![
        ("append", ending(told.give(journal, [told.clone().quieted()]))),
        ("a broken append", ending(told.give(journal, [told.clone().settled(), told.clone().settled()]))),
        ("append_addendum", ending(journal.append_addendum(&told.run, stamp(), learned))),
        ("claim", ending(journal.claim(&told.run, told.epoch))),
        ("request_cancel", ending(journal.request_cancel(&told.run, request()))),
        ("create", ending(sessions.create(&key("new"), Wall(1), StateMap::new()))),
        ("change_state", ending(sessions.change_state(s, Wall(1), StateChange::new()))),
        ("delete", ending(sessions.delete(&key("new")))),
        ("put", ending(sessions.put(moved))),
    ]
}

async fn assert_closed(waits: Vec<(&'static str, BoxFuture<Option<JournalError>>)>, when: &str) {
    for (what, waits) in waits {
        let ended = timeout(SOON, waits).await.unwrap_or_else(|_| panic!("{what} hangs, {when}"));
        assert_eq!(ended, Some(JournalError::Closed), "{what}, {when}");
    }
}

/// Drops a journal, which must not hang.
fn drop_soon(journal: impl Send + 'static) {
    let (sender, dropped) = mpsc::channel();
    // If it hangs, the thread is abandoned: the test has failed.
    std::thread::spawn(move || {
        drop(journal);
        let _ = sender.send(());
    });
    dropped.recv_timeout(SOON).expect("dropping the journal hangs");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_writer_panics_every_caller_is_told_and_acknowledged_data_is_there() {
    for seam in SEAMS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("andon.db");
        let (hold, let_go) = Hold::new();
        let journal = hold.open(&path);
        let mut told = Told::new("r", "s");
        let begun = told.begun();
        told.write(&journal, begun.clone()).await;
        hold.at(seam);
        let next = told.clone().quieted();
        let held = told.give(&journal, [next.clone()]);
        timeout(SOON, hold.held.notified()).await.expect("the writer is held");
        let waits = everything(&journal, &told);
        let_go.send(Then::Panics).unwrap();
        let held = timeout(SOON, held).await.expect("it ends");
        // At the last seam it was already acknowledged.
        let acknowledged = seam == "store: acknowledged";
        assert_eq!(held, if acknowledged { Ok(()) } else { Err(JournalError::Closed) }, "{seam}");
        assert_closed(waits, &format!("in line at {seam:?}")).await;
        assert_closed(everything(&journal, &told), &format!("after {seam:?}")).await;
        // Readers are still answered.
        let listed = timeout(SOON, journal.sessions().list(SessionFilter::default())).await.expect("it is answered");
        assert_eq!(listed.unwrap().len(), 1);
        drop_soon(journal);

        let journal = SqliteJournal::open(&path).unwrap();
        let stored = told.stored(&journal).await;
        let durable = seam != "store: before commit";
        assert_eq!(stored, [begun, if durable { vec![next] } else { Vec::new() }].concat(), "{seam}");
        told.epoch = journal.claim(&told.run, told.epoch).await.unwrap().unwrap();
        if durable {
            told.quieted();
        }
        let last = told.settled();
        told.write(&journal, [last]).await;
    }
}

fn agent(runtime: &Runtime, answers: impl IntoIterator<Item = Vec<Act>>) -> Session {
    let model = ScriptedModel::new(answers);
    Agent::builder().name("app").model(model).runtime(runtime).build().unwrap().session("ada", "s").unwrap()
}

/// A runtime on a journal whose writer can be held.
fn held_runtime(folder: &TempDir) -> (Arc<Hold>, mpsc::Sender<Then>, Runtime) {
    let (hold, let_go) = Hold::new();
    let journal = hold.open(&folder.path().join("andon.db"));
    (hold, let_go, Runtime::builder().journal(Arc::new(journal)).build())
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_writer_panics_a_run_in_progress_ends_and_the_next_process_completes_its_record() {
    for seam in SEAMS {
        let folder = tempfile::tempdir().unwrap();
        let (hold, let_go, runtime) = held_runtime(&folder);
        let speaks = vec![Act::text("So far"), Act::Silence];
        let session = self::agent(&runtime, [vec![Act::text("Hello."), Act::end()], speaks]);
        session.run("Before").await.unwrap();
        hold.at(seam);
        let run = session.start("During").unwrap();
        timeout(SOON, hold.held.notified()).await.expect("the writer is held");
        let_go.send(Then::Panics).unwrap();
        // It is told at its next write, and a pull is written.
        let reply = run.cancel(Cancel::graceful());
        let outcome = timeout(SOON, run.outcome()).await.unwrap_or_else(|_| panic!("the run hangs: {seam}"));
        let Ending::Failed(failure) = &*outcome.ending else { panic!("{seam}: {:?}", outcome.ending) };
        assert_eq!(failure.error, FailureKind::Journal, "{seam}");
        let recorded = timeout(SOON, reply.recorded()).await.expect("the reply ends");
        assert!(recorded.is_err(), "{seam}: the request was acknowledged");
        let next = timeout(SOON, session.start("After").unwrap().outcome()).await.expect("a later run ends");
        assert!(matches!(&*next.ending, Ending::Failed(_)), "{seam}: {:?}", next.ending);
        timeout(SOON, runtime.idle()).await.expect("the runtime comes to rest");
        drop_soon((reply, run, session, runtime));

        let journal = Arc::new(SqliteJournal::open(folder.path().join("andon.db")).unwrap());
        let runtime = Runtime::builder().journal(journal).build();
        let session = self::agent(&runtime, []);
        runtime.recover().await.unwrap();
        session.run("Again").await.unwrap();
        let said: Vec<String> = session.history().await.unwrap().iter().map(|message| message.text()).collect();
        assert_eq!((&said[..2], &said[said.len() - 2..]), (&s(["Before", "Hello."])[..], &s(["Again", "Well."])[..]));
        let unsettled = RunFilter::new().settled(false);
        assert_eq!(runtime.list_runs(unsettled).await, Ok(Vec::new()), "{seam}");
    }
}

fn s(words: [&str; 2]) -> [String; 2] {
    words.map(str::to_owned)
}
