//! What a runtime does with sessions: their state, their lists, and moving them to another machine.

use andon_runtime::{Fate, ImportError, RunFilter, SessionFilter, StartError};

use crate::common::*;

/// A conversation with a tool call, and a run in the middle of its answer.
async fn talked() -> (Runtime, Session, andon_runtime::Run) {
    let journal = memory();
    let runtime = runtime_on(&journal);
    let answers = [calls(&[("a", "look")]), says("Seen."), says_and_hangs("Half an ans")];
    let model = ScriptedModel::new(answers);
    let builder = Agent::builder().name("guide").model(model).runtime(&runtime);
    let session = builder.tool(tools::quick("look", &ToolLog::new())).build().unwrap().session(LOCAL, "s").unwrap();
    session.run("Look around.").await.unwrap();
    session
        .change_state([("mood".to_owned(), Some(json!("good"))), ("user:name".to_owned(), Some(json!("Ada")))].into())
        .await
        .unwrap();
    let run = start_until_shown(&session, "And now?", "Half an ans").await;
    tokio::time::sleep(millis(50)).await;
    (runtime, session, run)
}

fn elsewhere() -> (Runtime, Session, ScriptedModel) {
    let runtime = next_runtime_on(&memory());
    let model = ScriptedModel::new([]);
    let session = Agent::builder().name("guide").model(model.clone()).runtime(&runtime).open();
    (runtime, session.agent().session(LOCAL, "s").unwrap(), model)
}

#[tokio::test(start_paused = true)]
async fn a_session_can_be_moved_to_another_machine_and_goes_on_there() {
    let (runtime, agent, run) = talked().await;
    let lines = runtime.export(agent.key()).await.unwrap().unwrap();
    assert!(lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));

    let (there, other, model) = elsewhere();
    let imported = there.import(&lines).await.unwrap();
    assert_eq!(imported.session, *agent.key());
    assert_eq!(imported.recovered.unwrap().len(), 1);
    assert_eq!(other.state().await.unwrap(), agent.state().await.unwrap());
    let said = texts(&other.history().await.unwrap());
    assert_eq!(said.last().unwrap(), "Half an ans [cut]", "a run in progress is recovered as after a crash: {said:?}");
    let found = there.find(run.id()).await.unwrap().unwrap();
    assert_eq!(*found.outcome().await.ending, Ending::Lost);
    assert_nothing_lost(&found, &other.history().await.unwrap()).await;
    assert_usable(&other).await;
    assert_eq!(model.calls(), 1);
    assert_eq!(run.state(), RunState::Running, "where it came from nothing has changed");

    let again = there.import(&lines).await.unwrap_err();
    assert!(again.to_string().contains("there is already a session guide/local/s"), "{again}");
    let before = there.export(agent.key()).await.unwrap().unwrap();
    assert!(there.import(&lines).await.is_err());
    assert_eq!(there.export(agent.key()).await.unwrap().unwrap(), before);
}

#[tokio::test(start_paused = true)]
async fn what_was_exported_can_be_exported_again_byte_for_byte() {
    let (runtime, session, run) = talked().await;
    run.cancel(andon_runtime::Cancel::now());
    run.outcome().await;
    let lines = runtime.export(session.key()).await.unwrap().unwrap();
    let (there, _, _) = elsewhere();
    there.import(&lines).await.unwrap();
    assert_eq!(there.export(session.key()).await.unwrap().unwrap(), lines);
}

#[tokio::test(start_paused = true)]
async fn an_export_that_is_incomplete_or_not_valid_is_refused_with_its_line_and_nothing_is_imported() {
    let (runtime, session, _run) = talked().await;
    let lines = runtime.export(session.key()).await.unwrap().unwrap();
    let all: Vec<&str> = lines.lines().collect();
    let (there, _, _) = elsewhere();
    let mut refused = Vec::new();
    // Every beginning of it, and each line left out, repeated, or not JSON.
    for place in 0..all.len() {
        refused.push(all[..place].join("\n"));
        refused.push([&all[..place], &all[place + 1..]].concat().join("\n"));
        refused.push([&all[..=place], &all[place..]].concat().join("\n"));
        refused.push([&all[..place], &["{\"line\":\"what\"}"], &all[place + 1..]].concat().join("\n"));
    }
    for lines in &refused {
        assert!(there.import(lines).await.is_err(), "{lines}");
    }
    assert_eq!(there.list_sessions(SessionFilter::default()).await.unwrap(), []);
    assert_eq!(there.list_runs(RunFilter::default()).await.unwrap(), []);
    assert_eq!(there.import("").await.unwrap_err(), ImportError::NotWhole("it is empty".to_owned()));
    let bad = [&all[..4], &["nonsense"], &all[5..]].concat().join("\n");
    assert!(matches!(there.import(&bad).await.unwrap_err(), ImportError::BadLine { line: 5, .. }));
    let newer = lines.replacen("\"v\":2", "\"v\":3", 1);
    assert!(there.import(&newer).await.unwrap_err().to_string().contains("version 3 is not supported"));
    let other = lines.replacen("\"session\":\"s\"", "\"session\":\"t\"", 1);
    assert!(matches!(there.import(&other).await.unwrap_err(), ImportError::BadRun { .. }));
}

#[tokio::test(start_paused = true)]
async fn an_export_of_the_version_before_is_imported() {
    let (runtime, agent, run) = talked().await;
    run.cancel(andon_runtime::Cancel::now());
    run.outcome().await;
    let older = runtime.export(agent.key()).await.unwrap().unwrap().replace("\"v\":2", "\"v\":1");
    let (there, _, _) = elsewhere();
    there.import(&older).await.unwrap();
    assert_eq!(there.history(agent.key()).await.unwrap(), agent.history().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_knows_has_nothing_to_export_and_no_state() {
    let (runtime, session, _model) = elsewhere();
    assert_eq!(runtime.export(session.key()).await, Ok(None));
    assert_eq!(runtime.state(session.key()).await, Ok(None));
    assert_eq!(session.state().await.unwrap(), andon_runtime::StateMap::new());
}

#[tokio::test(start_paused = true)]
async fn state_is_kept_beside_the_conversation_and_shared_as_far_as_its_key_says() {
    let (_, session, _) = elsewhere();
    let change = |pairs: &[(&str, Option<serde_json::Value>)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
    };
    session
        .change_state(change(&[("a", Some(json!(1))), ("app:b", Some(json!(2))), ("temp:c", Some(json!(3)))]))
        .await
        .unwrap();
    let others = session.agent().session("bob", "t").unwrap();
    others.change_state(change(&[("user:d", Some(json!(4)))])).await.unwrap();
    assert_eq!(json!(session.state().await.unwrap()), json!({"a": 1, "app:b": 2}));
    assert_eq!(json!(others.state().await.unwrap()), json!({"app:b": 2, "user:d": 4}));
    session.change_state(change(&[("a", None), ("app:b", Some(json!(null)))])).await.unwrap();
    assert_eq!(json!(session.state().await.unwrap()), json!({"app:b": null}));
}

#[tokio::test(start_paused = true)]
async fn lists_tell_what_runs_and_what_has_run() {
    let (runtime, session, run) = talked().await;
    let queued = session.prompt("Later.").when_busy(WhenBusy::Queue).start().unwrap();
    until(&queued, |event| matches!(event, Event::RunAccepted { .. })).await;
    let runs = runtime.list_runs(RunFilter::default()).await.unwrap();
    let told: Vec<_> = runs.iter().map(|info| (info.title.as_str(), info.state, info.ending.is_some())).collect();
    let expected = [
        ("Later.", RunState::Queued, false),
        ("And now?", RunState::Running, false),
        ("Look around.", RunState::Settled, true),
    ];
    assert_eq!(told, expected);
    let open = RunFilter::new().settled(false).limit(1);
    assert_eq!(runtime.list_runs(open).await.unwrap()[0].run, *queued.id());
    let sessions = runtime.list_sessions(SessionFilter::default()).await.unwrap();
    assert_eq!((sessions.len(), sessions[0].runs, sessions[0].title.as_deref()), (1, 3, Some("Look around.")));
    drop(run);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_not_valid_is_named_and_keeps_no_other_from_being_recovered() {
    let journal = memory();
    let session = scripted_on(&journal, [says_and_hangs("One"), says_and_hangs("Two")]).open();
    let broken = session.agent().session(LOCAL, "broken").unwrap().start("Go.").unwrap();
    let sound = session.agent().session(LOCAL, "sound").unwrap().start("Go.").unwrap();
    until_shown(&broken, "One").await;
    until_shown(&sound, "Two").await;
    let seq = broken.seq() + 1;
    let mut record = (*broken.records()[0]).clone();
    (record.seq, record.event) = (seq, Event::RunStarted);
    let entries = vec![andon_runtime::core::event::Entry::Fact(Arc::new(record))];
    journal.append(andon_runtime::Batch::new(broken.id().clone(), 1, entries)).await.unwrap();

    journal.crash();
    let next = next_runtime_on(&andon_testkit::TestJournal::new(journal.durable(), None));
    let recovered = next.recover().await.unwrap();
    assert!(
        matches!(&recovered[0].fate, Fate::Unreadable { why } if why.contains("a run starts once")),
        "{recovered:?}"
    );
    assert_eq!(recovered[1].fate.ending().map(|ending| (**ending).clone()), Some(Ending::Lost));
    assert!(matches!(next.find(broken.id()).await, Err(JournalError::Unreadable(_))));
}

#[tokio::test(start_paused = true)]
async fn the_limits_of_a_run_are_on_its_record() {
    let (_, session, _) = elsewhere();
    let limits = Limits::new().turns(3).deadline(secs(60));
    let run = session.prompt("Go.").limits(limits).start().unwrap();
    run.outcome().await;
    let Event::RunAccepted { accepted } = &run.records()[0].event else { panic!("that is the first event") };
    assert_eq!(accepted.limits, limits);
}

#[tokio::test(start_paused = true)]
async fn what_no_run_can_have_is_refused_in_an_export() {
    let (runtime, session, run) = talked().await;
    run.cancel(andon_runtime::Cancel::now());
    run.outcome().await;
    let lines = runtime.export(session.key()).await.unwrap().unwrap();
    let (there, _, _) = elsewhere();
    let refused = |lines: String| {
        let there = there.clone();
        async move { there.import(&lines).await.unwrap_err().to_string() }
    };
    let run_line = format!("\"run\":\"{}\",\"epoch\":1", run.id());
    assert!(lines.contains(&run_line));
    let told = refused(lines.replace(&run_line, &run_line.replace("\"epoch\":1", "\"epoch\":4294967295"))).await;
    assert!(told.contains("higher than any run can have"), "{told}");
    let told = refused(lines.replace(&run_line, &run_line.replace("\"epoch\":1", "\"epoch\":0"))).await;
    assert!(told.contains("has epoch 1"), "{told}");

    // One run twice, in an export whose count is right.
    let all: Vec<&str> = lines.lines().collect();
    let begins = all.iter().position(|line| line.contains(&run_line)).unwrap();
    let (body, end) = all.split_at(all.len() - 1);
    let count = body.len() + body.len() - begins;
    assert!(end[0].contains(&format!("\"lines\":{}", body.len())));
    let last = format!("{{\"line\":\"end\",\"lines\":{count}}}");
    let twice = [body, &body[begins..], &[last.as_str()]].concat().join("\n");
    let told = refused(twice).await;
    assert!(told.contains("the export contains it twice"), "{told}");

    for (name, bad) in [("user", ""), ("app", "a/b"), ("user", "a\\u001b[31m"), ("app", "")] {
        let is = if name == "app" { "guide" } else { "local" };
        let header = all[0].replace(&format!("\"{name}\":\"{is}\""), &format!("\"{name}\":\"{bad}\""));
        assert_ne!(header, all[0]);
        let told = refused([&[header.as_str()], &all[1..]].concat().join("\n")).await;
        assert!(told.starts_with("line 1 is not one that `export` writes: an id must not"), "{told}");
    }
    assert_eq!(there.list_sessions(SessionFilter::default()).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_session_with_a_record_that_is_not_valid_can_be_deleted() {
    let journal = memory();
    let runtime = runtime_on(&journal);
    let session = Agent::builder().model(ScriptedModel::new([says_and_hangs("One")])).runtime(&runtime).open();
    let broken = start_until_shown(&session, "Go.", "One").await;
    let mut record = (*broken.records()[0]).clone();
    (record.seq, record.event) = (broken.seq() + 1, Event::RunStarted);
    let entries = vec![andon_runtime::core::event::Entry::Fact(Arc::new(record))];
    journal.append(andon_runtime::Batch::new(broken.id().clone(), 1, entries)).await.unwrap();
    journal.crash();

    let journal = andon_testkit::TestJournal::new(journal.durable(), None);
    let next = next_runtime_on(&journal);
    next.recover().await.unwrap();
    assert_eq!(next.delete_session(broken.session(), andon_runtime::Cancel::now()).await, Ok(true));
    assert!(journal.durable().run_ids().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_receipt_of_a_run_that_is_open_says_that_its_usage_is_not_known() {
    let (runtime, _agent, run) = talked().await;
    for receipt in [run.receipt().unwrap(), runtime.find(run.id()).await.unwrap().unwrap().receipt().unwrap()] {
        assert_eq!((receipt.outcome, receipt.usage.delivered.output.value), (None, None));
    }
}

#[tokio::test(start_paused = true)]
async fn two_agents_of_one_name_in_one_session_take_turns_and_leave_a_valid_history() {
    let runtime = runtime();
    let in_session = |model: &ScriptedModel, tool: &str, log: &ToolLog| {
        let builder = Agent::builder().name("guide").model(model.clone()).runtime(&runtime);
        builder.tool(tools::quick(tool, log)).build().unwrap().session(LOCAL, "s").unwrap()
    };
    let log = ToolLog::new();
    let one = in_session(&ScriptedModel::new([calls(&[("a", "look")]), says_and_hangs("I see")]), "look", &log);
    // The other agent has no tool of that name, and its model calls it all the same.
    let model = ScriptedModel::new([calls(&[("a", "look"), ("b", "listen")]), says("Well.")]);
    let other = in_session(&model, "listen", &log);

    let run = start_until_shown(&one, "Look.", "I see").await;
    assert!(matches!(other.start("Listen."), Err(StartError::Busy { .. })), "one run at a time, whosever it is");
    stop(&one, &run, Cancel::graceful()).await;
    let (_, outcome) = run_to_end(&other, "Listen.").await;
    assert_eq!((outcome.stop_reason(), log.started()), ("end_turn", 2));
    assert_eq!(one.history().await.unwrap(), other.history().await.unwrap());
    assert_usable(&one).await;
}
