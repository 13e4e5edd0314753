//! A tool reads and changes its session's state, durably and within the scope of each key, until its call is closed
//! (P5, P10).

use std::future::Future;
use std::sync::Mutex;

use andon_runtime::{SessionState, StateChange, StateError};

use crate::common::*;

fn tool<R: Future<Output = Returned> + Send + 'static>(does: fn(Invocation) -> R) -> FnTool {
    FnTool::new("tool", "Keeps something.", json!({"type": "object"}), does)
}

fn session_in(runtime: &Runtime, tool: FnTool) -> Session {
    let model = ScriptedModel::new([calls(&[("c", "tool")]), calls(&[("d", "tool")]), says("Well.")]);
    Agent::builder().model(model).runtime(runtime).tool(tool).open()
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_sets_the_next_call_gets_and_so_does_a_later_process() {
    let journal = memory();
    let counts = tool(|call| async move {
        let before = call.state.get("count").await?.and_then(|count| count.as_u64()).unwrap_or_default();
        call.state.set("count", before + 1).await?;
        Ok(format!("{before}").into())
    });
    let session = session_in(&runtime_on(&journal), counts).agent().session("ada", "s").unwrap();
    assert_eq!(session.run("Go.").await.unwrap().completed().unwrap().text(), "Well.");
    let history = session.history().await.unwrap();
    let told = ["c", "d"].map(|call| result_of(&history, call).to_text());
    assert_eq!(told, ["0", "1"]);
    let later = next_runtime_on(&journal).state(session.key()).await.unwrap().unwrap();
    assert_eq!(later.get("count"), Some(&json!(2)));
}

#[tokio::test(start_paused = true)]
async fn a_keys_prefix_is_its_scope() {
    let runtime = runtime();
    let writes = tool(|call| async move {
        let change = [("app:a", 1), ("user:u", 2), ("temp:t", 3), ("own", 4)];
        call.state.change(change.map(|(key, value)| (key.to_owned(), Some(json!(value)))).into()).await?;
        Ok(format!("{:?}", call.state.all().await?.keys().collect::<Vec<_>>()).into())
    });
    let agent = session_in(&runtime, writes);
    let ada = agent.agent().session("ada", "one").unwrap();
    assert_eq!(ada.run("Go.").await.unwrap().completed().unwrap().text(), "Well.");
    let told = result_of(&ada.history().await.unwrap(), "c").to_text();
    assert_eq!(told, "[\"app:a\", \"own\", \"user:u\"]");
    for (user, session, keys) in [("ada", "two", &["app:a", "user:u"][..]), ("bob", "one", &["app:a"])] {
        let other = agent.agent().session(user, session).unwrap();
        assert_eq!(other.run("And here?").await.unwrap().stop_reason(), "end_turn");
        assert_eq!(other.state().await.unwrap().keys().collect::<Vec<_>>(), keys, "{user} {session}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_without_a_value_is_removed() {
    let session = session_in(
        &runtime(),
        tool(|call| async move {
            call.state
                .change(StateChange::from([("old".to_owned(), None), ("new".to_owned(), Some(json!(1)))]))
                .await?;
            Ok(format!("{:?}", call.state.get("old").await?).into())
        }),
    );
    session.change_state(StateChange::from([("old".to_owned(), Some(json!("here")))])).await.unwrap();
    session.run("Go.").await.unwrap();
    assert_eq!(session.state().await.unwrap().into_iter().collect::<Vec<_>>(), [("new".to_owned(), json!(1))]);
}

/// A tool that hands out its state and then goes on as the test says.
fn leaks(kept: &Arc<Mutex<Vec<SessionState>>>, goes_on: bool) -> FnTool {
    let kept = Arc::clone(kept);
    FnTool::new("tool", "Leaks its state.", json!({"type": "object"}), move |call| {
        kept.lock().unwrap().push(call.state.clone());
        async move {
            if goes_on {
                std::future::pending::<()>().await;
            }
            Ok("done".into())
        }
    })
    .grace(secs(1))
}

async fn assert_refused(state: &SessionState) {
    let refused = state.set("late", true).await;
    assert!(matches!(refused, Err(StateError::CallIsOver)), "{refused:?}");
    assert!(state.get("late").await.unwrap().is_none(), "reading harms nobody");
}

#[tokio::test(start_paused = true)]
async fn once_a_call_is_closed_it_can_no_longer_change_its_session() {
    for cancel in [None, Some(Cancel::graceful()), Some(Cancel::now())] {
        let kept = Arc::default();
        let session = session_in(&runtime(), leaks(&kept, cancel.is_some()));
        let run = start_until(&session, "Go.", |event| matches!(event, Event::ToolStarted { .. })).await;
        settle_down().await;
        if let Some(cancel) = cancel {
            run.cancel(cancel);
        }
        settled(&session, &run).await;
        let state = kept.lock().unwrap()[0].clone();
        assert_refused(&state).await;
        assert!(session.state().await.unwrap().get("late").is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_can_still_save_state_during_its_grace() {
    let session = session_in(
        &runtime(),
        tool(|call| async move {
            call.cord.pulled().await;
            call.state.set("so far", 7).await?;
            Ok("half".into())
        }),
    );
    let run = start_until(&session, "Go.", |event| matches!(event, Event::ToolStarted { .. })).await;
    settle_down().await;
    stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(session.state().await.unwrap().get("so far"), Some(&json!(7)));
    // It changes the world, so it is unknown whether all of it was done; what it returned is kept as well.
    let told = result_of(&session.history().await.unwrap(), "c");
    assert_eq!(told.status, ResultStatus::Unknown);
    assert!(
        told.to_text().contains("may have had its effect") && told.to_text().ends_with("half"),
        "{}",
        told.to_text()
    );
}

#[tokio::test(start_paused = true)]
async fn a_thread_that_was_abandoned_can_no_longer_change_its_session() {
    let mut spec = andon_runtime::ToolSpec::new("tool", "Blocks.", json!({"type": "object"}));
    spec.grace = secs(1);
    let tool = FnTool::from_spec(spec, |call| {
        andon_runtime::Work::simulated_thread(async move {
            tokio::time::sleep(secs(60)).await;
            match call.state.set("late", true).await {
                Err(StateError::CallIsOver) => Ok("refused".into()),
                other => Ok(format!("{other:?}").into()),
            }
        })
    });
    let session = session_in(&runtime(), tool);
    let run = start_until(&session, "Go.", |event| matches!(event, Event::ToolStarted { .. })).await;
    settle_down().await;
    stop(&session, &run, Cancel::graceful()).await;
    session.agent().runtime().idle().await;
    assert!(session.state().await.unwrap().get("late").is_none());
    let receipt = run.receipt().unwrap();
    assert!(format!("{:?}", receipt.addenda[0].what).contains("refused"), "{:?}", receipt.addenda);
}

/// Checks P3: what a call changed is on record with its result, even if its sibling was cut.
#[tokio::test(start_paused = true)]
async fn what_a_call_has_changed_is_on_record_with_its_end() {
    let sets = tool(|call| async move {
        call.state.set("a", 1).await?;
        let change = [("a", Some(json!(2))), ("gone", None), ("temp:t", Some(json!(3)))];
        call.state.change(change.map(|(key, value)| (key.to_owned(), value)).into()).await?;
        if call.call.as_str() == "d" {
            std::future::pending::<()>().await;
        }
        Ok("set".into())
    });
    let session = session_in(&runtime(), sets);
    let run = session.start("Go.").unwrap();
    let mut feed = run.feed();
    while let Some(item) = feed.next().await {
        let is_second = |record: &andon_runtime::Record| matches!(&record.event, Event::ToolStarted { call, .. } if call.as_str() == "d");
        if matches!(&item, andon_runtime::FeedItem::Fact(record) if is_second(record)) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            run.cancel(Cancel::now());
        }
    }
    let changed: Vec<_> = run
        .records()
        .iter()
        .filter_map(|record| match &record.event {
            Event::ToolFinished { call, state, .. } => {
                Some((call.to_string(), state.as_deref().map(|state| json!(state))))
            }
            _ => None,
        })
        .collect();
    let expected = Some(json!({"a": 2, "gone": null}));
    assert_eq!(changed, [("c".to_owned(), expected.clone()), ("d".to_owned(), expected)]);
}

/// Checks P3: state that comes with a prompt is set before the model is called.
#[tokio::test(start_paused = true)]
async fn what_comes_with_a_prompt_is_there_for_the_first_tool() {
    let reads = tool(|call| async move { Ok(format!("{:?}", call.state.get("from client").await?).into()) });
    let session = session_in(&runtime(), reads);
    let state = json!({"from client": 7}).as_object().unwrap().clone();
    session.prompt("Go.").state(state).run().await.unwrap();
    assert_eq!(result_of(&session.history().await.unwrap(), "c").to_text(), "Some(Number(7))");
}
