//! Deleted data is gone from the disk.

use andon_runtime::{Effect, FnTool, Reason, SessionKey, StateChange, WhenBusy};
use serde_json::json;

use super::*;

/// A word that does not occur by chance.
const SECRET: &str = "quagga-7f3a9c";

/// The files that contain the secret.
fn holding_the_secret(folder: &Path) -> Vec<String> {
    let holds = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    files(folder).into_iter().filter(|(_, bytes)| holds(bytes)).map(|(name, _)| name).collect()
}

/// A session with the secret everywhere: in the prompt, the answer, a call and its result, the state and a request, and
/// long enough to fill many pages.
async fn tell(runtime: &Runtime) -> SessionKey {
    let input = json!({"type": "object"});
    let echo = FnTool::new("echo", "Says it again.", input, |_| async { Ok(SECRET.repeat(3_000).into()) });
    let call = Act::call(0, "c1", "echo", &json!({"say": SECRET}).to_string());
    let long = SECRET.repeat(5_000);
    let model = ScriptedModel::new([
        [vec![Act::thinking(SECRET)], call, vec![Act::tool_use()]].concat(),
        vec![Act::text(&long), Act::end()],
        vec![Act::text(SECRET), Act::Silence],
    ]);
    let agent =
        andon_runtime::Agent::builder().name("told").model(model).runtime(runtime).tool(echo.effect(Effect::ReadOnly));
    let session = agent.build().unwrap().session("ada", "s").unwrap();
    session.run(format!("Tell me of the {SECRET}")).await.unwrap();
    let run = session.start("Once more").unwrap();
    until_shown(&run, SECRET).await;
    run.cancel(Cancel::graceful().note(SECRET)).recorded().await.unwrap();
    run.outcome().await;
    let key = session.key().clone();
    runtime.change_state(&key, StateChange::from([("own".to_owned(), Some(json!(SECRET)))])).await.unwrap();
    key
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_leaves_no_byte_in_any_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let runtime = runtime_on(open(&path));
    let neighbour = session_on(&runtime, &ScriptedModel::new([]), &ToolLog::new());
    neighbour.run("I stay").await.unwrap();
    let key = tell(&runtime).await;
    neighbour.run("I stay, too").await.unwrap();
    assert!(!holding_the_secret(folder.path()).is_empty(), "it was written");
    assert!(runtime.delete_session(&key, Cancel::now()).await.unwrap());
    // The answer comes when the deletion is durable, and the writer erases next: a job queued behind it has seen that done.
    neighbour.run("Still here").await.unwrap();
    assert_eq!(holding_the_secret(folder.path()), Vec::<String>::new());
    assert_eq!(neighbour.history().await.unwrap().len(), 6);
    assert_sound(&path);
}

#[tokio::test(flavor = "multi_thread")]
async fn once_a_deletion_is_acknowledged_no_byte_is_left_in_any_file() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime_on(open(folder.path().join("andon.db")));
    let key = tell(&runtime).await;
    assert!(runtime.delete_session(&key, Cancel::now()).await.unwrap());
    assert_eq!(holding_the_secret(folder.path()), Vec::<String>::new(), "the deletion was acknowledged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_in_the_way_delays_erasing_but_does_not_prevent_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let runtime = runtime_on(open(&path));
    let key = tell(&runtime).await;
    // Somebody reads the file during the deletion.
    let looks = Connection::open(&path).unwrap();
    looks.execute_batch("BEGIN").unwrap();
    let _: i64 = looks.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap();
    assert!(runtime.delete_session(&key, Cancel::now()).await.unwrap());
    let neighbour = session_on(&runtime, &ScriptedModel::new([]), &ToolLog::new());
    // It is queued behind the erasing, which cannot be done while somebody reads.
    neighbour.run("I stay").await.unwrap();
    looks.execute_batch("COMMIT").unwrap();
    drop(looks);
    neighbour.run("I stay, too").await.unwrap();
    neighbour.run("And I").await.unwrap();
    assert_eq!(holding_the_secret(folder.path()), Vec::<String>::new(), "the reader is gone");
}

async fn assert_cancelled(run: &Run) {
    assert_eq!(*run.outcome().await.ending, Ending::Cancelled { reason: Reason::Requested });
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_session_first_settles_its_run_and_those_in_its_queue() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime_on(open(folder.path().join("andon.db")));
    let model = ScriptedModel::new([vec![Act::text(SECRET), Act::Silence]]);
    let session = session_on(&runtime, &model, &ToolLog::new());
    let run = session.start("Talk").unwrap();
    until_shown(&run, SECRET).await;
    let queued = session.prompt(SECRET).when_busy(WhenBusy::Queue).start().unwrap();
    assert!(runtime.delete_session(session.key(), Cancel::graceful()).await.unwrap());
    for run in [&run, &queued] {
        assert!(run.try_outcome().is_some(), "it settled before it was deleted");
        assert_cancelled(run).await;
        assert!(runtime.find(run.id()).await.unwrap().is_none(), "nothing of it is left");
    }
    assert_eq!((model.calls(), model.open()), (1, 0), "the queued one never ran, and the other one's stream is closed");
    assert_eq!(runtime.list_sessions(andon_runtime::SessionFilter::default()).await.unwrap(), []);
    assert_eq!(runtime.state(session.key()).await.unwrap(), None);
    session.run("Anew").await.unwrap();
    assert_eq!(session.history().await.unwrap().len(), 2, "it begins anew");
    assert_eq!(model.requests().last().unwrap().history.len(), 1, "the model is not told what was deleted");
    assert_eq!(holding_the_secret(folder.path()), Vec::<String>::new());
}
