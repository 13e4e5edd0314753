//! `:cancel`: C01 to C09, C13 to C16.

use andon_runtime::Effect;
use andon_testkit::tools;

use super::shape::assert_shape;
use super::*;
use crate::inside::answered;

const ABORTED: &str = "Invocation was aborted by client.";

/// Checks the event that closes a stopped run.
fn assert_seal(event: &Value) {
    assert_shape(event);
    assert_eq!((&event["errorCode"], &event["errorMessage"]), (&json!("INVOCATION_ABORTED"), &json!(ABORTED)));
    assert_eq!((&event["author"], &event["nodeInfo"]), (&json!("shop"), &json!({"path": ""})));
    let told = &event["customMetadata"]["andon"];
    assert_eq!(
        (&told["reason"], &told["by"], &told["force"]),
        (&json!("requested"), &json!("local"), &json!("graceful"))
    );
    assert_eq!(told["runId"], event["invocationId"]);
}

/// How many of these events close a run that was stopped.
fn seals(events: &[Value]) -> usize {
    events.iter().filter(|event| event["errorCode"] == "INVOCATION_ABORTED").count()
}

/// C01, C05, C06, C09.
#[tokio::test(start_paused = true)]
async fn a_stop_in_mid_text_ends_the_stream_with_a_seal_and_the_session_shows_the_same() {
    let acts = vec![Act::text("Once "), Act::Pause(Duration::from_millis(10)), Act::text("upon"), Act::Silence];
    let inside = dialect(agent([acts, says(&["Well."])])).await;
    let mut events = Stream::open(&inside, stream("s", "tell me")).await;
    let mut seen = vec![events.until("Once").await, events.until("upon").await];
    let (status, told) = cancel(&inside, "s").await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert_eq!(told["status"], "cancelled");
    assert_eq!((&told["appName"], &told["userId"], &told["sessionId"]), (&json!("shop"), &json!(USER), &json!("s")));
    assert_eq!((&told["cancelled"][0]["reply"], told["cancelled"].as_array().unwrap().len()), (&json!("accepted"), 1));
    seen.extend(events.rest().await);
    assert_eq!(told["cancelled"][0]["invocationId"], seen[0]["invocationId"]);
    let [.., cut, seal] = seen.as_slice() else { panic!("{seen:?}") };
    assert_seal(seal);
    assert_eq!((text(cut), pieces(&seen)), ("Once upon".to_owned(), "Once upon".to_owned()));
    assert_eq!(
        (&cut["interrupted"], &cut["finishReason"], &cut["usageMetadata"]),
        (&json!(true), &Value::Null, &Value::Null)
    );
    let output = &cut["customMetadata"]["andon"]["usage"]["delivered"]["output"];
    assert_eq!((&output["value"], &output["provenance"]), (&Value::Null, &json!("unknown")), "unknown is never 0");
    assert_eq!(stored(&inside, "s").await[1..], whole(&seen));
    let (status, _) = inside.post("/run", ask("s", "go on")).await;
    assert_eq!(status, StatusCode::OK);
    is_valid(&stored(&inside, "s").await);
}

#[tokio::test(start_paused = true)]
async fn a_stop_before_the_first_word_closes_the_turn_and_puts_no_words_into_the_models_mouth() {
    let inside = dialect(agent([vec![Act::Silence], says(&["Well."])])).await;
    let running = Stream::open(&inside, stream("s", "tell me")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cancel(&inside, "s").await.0, StatusCode::OK);
    let events = running.rest().await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_seal(&events[0]);
    assert_eq!(events[0]["content"], json!({"parts": [{"text": ""}], "role": "model"}));
    let usage = &events[0]["customMetadata"]["andon"]["usage"]["billed"]["input"];
    assert_eq!(usage["value"], Value::Null, "what the call used is told, and unknown is never 0: {usage}");
    inside.post("/run", ask("s", "go on")).await;
    is_valid(&stored(&inside, "s").await);
}

/// C01, for a client that gets all events at once.
#[tokio::test(start_paused = true)]
async fn run_returns_the_events_so_far_and_the_end_when_stopped() {
    let inside = dialect(agent([calls(&[("c", "slow", r#"{"ms": 5}"#)]), endless()]).tool(sleeper("slow"))).await;
    let asking = inside.post("/run", ask("s", "tell me"));
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel(&inside, "s").await
    };
    let ((status, events), (cancelled, _)) = tokio::join!(asking, stopping);
    assert_eq!((status, cancelled), (StatusCode::OK, StatusCode::OK));
    let events = events.as_array().unwrap();
    assert_eq!(events.len(), 4, "{events:?}");
    assert_eq!(text(&events[2]), "Once upon a time");
    assert_seal(&events[3]);
    assert_eq!(stored(&inside, "s").await[1..], events[..]);
}

/// C02, C03.
#[tokio::test(start_paused = true)]
async fn a_cancel_where_nothing_runs_is_404_and_creates_nothing() {
    let inside = dialect(agent([])).await;
    for session in ["s", "nope"] {
        for suffix in [":cancel", "%3Acancel", "%3acancel", ":%63ancel"] {
            let path = format!("{}{suffix}", path(session));
            let told = answered(inside.send(Method::POST, &path, None, None).await).await;
            let detail = format!("Nothing that you may stop is running in session: {session}");
            assert_eq!(told, (StatusCode::NOT_FOUND, json!({"detail": detail})), "{path}");
        }
    }
    let (_, sessions) = inside.get(&format!("/apps/shop/users/{USER}/sessions")).await;
    assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions}");
}

#[tokio::test(start_paused = true)]
async fn no_session_can_be_given_a_name_that_is_a_cancel() {
    let inside = dialect(agent([])).await;
    let path = format!("/apps/shop/users/{USER}/sessions");
    let (status, _) = inside.post(&path, json!({"sessionId": "x:cancel"})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let native = json!({"app": "shop", "user": USER, "session": "x:cancel", "input": "go"});
    let (status, told) = inside.post("/v1/runs", native).await;
    assert_eq!((status, told["type"].as_str()), (StatusCode::BAD_REQUEST, Some("urn:andon:bad-id")));
    // With something after the word it is a session like any other, and creating a session by its name still works.
    let (status, session) = inside.post(&super::path("x:cancelled"), json!({"k": 1})).await;
    assert_eq!((status, &session["id"], &session["state"]), (StatusCode::OK, &json!("x:cancelled"), &json!({"k": 1})));
}

/// C04.
#[tokio::test(start_paused = true)]
async fn a_second_cancel_changes_nothing_and_there_is_one_seal() {
    let log = ToolLog::new();
    let inside =
        dialect(agent([calls(&[("c", "stuck", "{}")])]).tool(tools::stubborn("stuck", Duration::from_secs(60), &log)))
            .await;
    let running = Stream::open(&inside, stream("s", "go")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let replies = [cancel(&inside, "s").await, cancel(&inside, "s").await];
    let told = replies.map(|(status, told)| (status, told["cancelled"][0]["reply"].as_str().unwrap().to_owned()));
    let expected = [(StatusCode::OK, "accepted".to_owned()), (StatusCode::OK, "already_cancelling".to_owned())];
    assert_eq!(told, expected);
    let events = running.rest().await;
    assert_eq!(seals(&events), 1);
    assert_eq!(cancel(&inside, "s").await.0, StatusCode::NOT_FOUND, "it is over");
    let stored = stored(&inside, "s").await;
    assert_eq!((seals(&stored), &stored[1..]), (1, &events[..]));
}

/// C07.
#[tokio::test(start_paused = true)]
async fn what_had_finished_beside_a_call_that_was_cut_is_kept_with_its_state() {
    let both = calls(&[("a", "quick", r#"{"ms": 10}"#), ("b", "slow", r#"{"ms": 60000}"#)]);
    let shop = agent([both, says(&["Well."])]).tool(sleeper("quick")).tool(sleeper("slow"));
    let inside = dialect(shop).await;
    let running = Stream::open(&inside, stream("s", "go")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cancel(&inside, "s").await.0, StatusCode::OK);
    let events = running.rest().await;
    let [_, responses, seal] = events.as_slice() else { panic!("{events:?}") };
    let response = |index: usize| &responses["content"]["parts"][index]["functionResponse"];
    assert_eq!(response(0)["response"], json!({"slept": 10, "how": "async"}));
    assert_eq!(response(1)["id"], "b");
    assert!(response(1)["response"]["error"].as_str().unwrap().contains("stopped before it finished"), "{responses}");
    assert_eq!(responses["actions"]["stateDelta"], json!({"last_tool": "quick"}));
    assert_seal(seal);
    let (_, session) = inside.get(&path("s")).await;
    assert_eq!(session["state"]["last_tool"], "quick");
    assert_eq!(stored(&inside, "s").await[1..], events);
    inside.post("/run", ask("s", "go on")).await;
    is_valid(&stored(&inside, "s").await);
}

/// C08.
#[tokio::test]
async fn a_tool_that_blocks_its_thread_holds_nobody_up_and_its_late_result_is_on_record() {
    let (free, held) = std::sync::mpsc::channel::<()>();
    let (start, mut started) = tokio::sync::mpsc::unbounded_channel();
    let held = Arc::new(std::sync::Mutex::new(held));
    let tool = FnTool::blocking("block", "Blocks.", json!({"type": "object"}), move |_| {
        start.send(()).unwrap();
        held.lock().unwrap().recv().unwrap();
        Ok("late".into())
    });
    let inside = dialect(
        agent([calls(&[("c", "block", "{}")])]).tool(tool.grace(Duration::from_millis(10)).effect(Effect::Effect)),
    )
    .await;
    let mut running = Stream::open(&inside, stream("s", "go")).await;
    let first = running.until("functionCall").await;
    started.recv().await.unwrap();
    // The tool blocks until it is released below: a request that waited for it would wait forever.
    assert_eq!(inside.get("/healthz").await.0, StatusCode::OK);
    let (status, told) =
        answered(inside.send(Method::POST, &format!("{}:cancel", path("s")), None, Some(json!({"wait": true}))).await)
            .await;
    assert_eq!((status, &told["settled"]), (StatusCode::OK, &json!(true)), "{told}");
    assert_eq!(told["cancelled"][0]["leaked"].as_array().map(Vec::len), Some(1), "{told}");
    let events = running.rest().await;
    assert_eq!(seals(&events), 1);
    free.send(()).unwrap();
    let late = async {
        loop {
            // Looked up each time, because looking up a settled run returns a snapshot.
            let receipt = inside.run(first["invocationId"].as_str().unwrap()).await.receipt().unwrap();
            if receipt.revision > 0 {
                return receipt;
            }
            tokio::task::yield_now().await;
        }
    };
    let receipt = tokio::time::timeout(Duration::from_secs(90), late).await.expect("the late result is on no record");
    assert!(json!(receipt)["addenda"].to_string().contains("late"), "{receipt:?}");
}

/// C14.
#[tokio::test(start_paused = true)]
async fn a_second_run_waits_for_its_turn_and_a_cancel_stops_both() {
    let inside = dialect(agent([endless(), says(&["Second."]), says(&["Third."])])).await;
    let mut first = Stream::open(&inside, stream("s", "one")).await;
    first.until("Once").await;
    let second = Stream::open(&inside, stream("s", "two")).await;
    let (status, told) = cancel(&inside, "s").await;
    assert_eq!((status, told["cancelled"].as_array().unwrap().len()), (StatusCode::OK, 2), "{told}");
    let (first, second) = (first.rest().await, second.rest().await);
    assert_eq!((seals(&first), seals(&second), second.len()), (1, 1, 1));
    assert_eq!(second[0]["content"], Value::Null, "it never began");
    let events = stored(&inside, "s").await;
    assert_eq!(events.iter().map(text).collect::<Vec<_>>(), ["one", "Once upon a time", ""]);
    let (_, third) = inside.post("/run", ask("s", "three")).await;
    assert_eq!(text(&third[0]), "Second.", "the model was never asked for the run that was stopped in the queue");
    is_valid(&stored(&inside, "s").await);
}

#[tokio::test(start_paused = true)]
async fn runs_of_one_session_never_mix() {
    let inside = dialect(agent([says(&["a ", "b "]), says(&["c ", "d "])])).await;
    let (first, second) = tokio::join!(inside.post("/run", ask("s", "one")), inside.post("/run", ask("s", "two")));
    assert_eq!((first.0, second.0), (StatusCode::OK, StatusCode::OK));
    let events = stored(&inside, "s").await;
    assert_eq!(turns(&events), ["user", "model", "user", "model"]);
    assert_eq!(events[0]["invocationId"], events[1]["invocationId"]);
    assert_eq!(events[2]["invocationId"], events[3]["invocationId"]);
}

#[tokio::test(start_paused = true)]
async fn an_old_run_that_ends_late_never_touches_the_newer_run_of_its_session() {
    let log = ToolLog::new();
    let answers = [calls(&[("c", "stuck", "{}")]), says(&["New ", "words."])];
    let stuck = tools::stubborn("stuck", Duration::from_secs(60), &log).grace(Duration::from_secs(30));
    let inside = dialect(agent(answers).tool(stuck)).await;
    let old = Stream::open(&inside, stream("s", "old")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (_, told) = cancel(&inside, "s").await;
    assert_eq!(told["settled"], false, "its tool has its grace");
    // The newer run waits until the old one has settled, and the earlier cancel does not reach it.
    let new = streamed(&inside, stream("s", "new")).await;
    assert_eq!((seals(&new), text(new.last().unwrap())), (0, "New words.".to_owned()));
    let old = old.rest().await;
    assert_eq!(seals(&old), 1);
    let events = stored(&inside, "s").await;
    let of = |run: &Value| -> Vec<&Value> { events.iter().filter(|event| event["invocationId"] == *run).collect() };
    assert_eq!(of(&old[0]["invocationId"]).len() + of(&new[0]["invocationId"]).len(), events.len());
    let last_of_old = events.iter().rposition(|event| event["invocationId"] == old[0]["invocationId"]).unwrap();
    let first_of_new = events.iter().position(|event| event["invocationId"] == new[0]["invocationId"]).unwrap();
    assert!(last_of_old < first_of_new, "{events:?}");
    is_valid(&events);
}

/// C13.
#[tokio::test(start_paused = true)]
async fn a_stalled_reader_does_not_delay_its_run() {
    let inside = dialect(agent([says(&["a ", "b ", "c "])])).await;
    let stalled = Stream::open(&inside, stream("s", "go")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let events = stored(&inside, "s").await;
    assert_eq!(events.iter().map(text).collect::<Vec<_>>(), ["go", "a b c "]);
    // When it reads on, it gets what it missed in one piece.
    assert_eq!(stalled.rest().await.iter().map(text).collect::<Vec<_>>(), ["a b c ", "a b c "]);
}

/// C15.
#[tokio::test(start_paused = true)]
async fn shutting_down_seals_what_does_not_end_in_time() {
    let options = Options::new().drain(Duration::from_secs(1)).settle(Duration::from_secs(1));
    let inside = Inside::build(Arc::new(MemoryJournal::new()), options, agent([endless(), endless()])).await;
    begin(&inside, "s").await;
    begin(&inside, "t").await;
    let mut running = Stream::open(&inside, stream("s", "go")).await;
    running.until("Once").await;
    let waiting = inside.post("/run", ask("t", "go"));
    let ending = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        inside.server.shut_down().await
    };
    let (_, events, (status, told)) = tokio::join!(ending, running.rest(), waiting);
    for seal in [events.last().unwrap(), told.as_array().unwrap().last().unwrap()] {
        assert_eq!(
            (&seal["errorCode"], &seal["errorMessage"]),
            (&json!("INVOCATION_ABORTED"), &json!("Invocation was aborted: shutdown."))
        );
    }
    assert_eq!(status, StatusCode::OK);
}

/// C16: a client on another connection, in either dialect.
#[tokio::test(start_paused = true)]
async fn a_cancel_from_the_native_side_is_the_same_cancel() {
    let inside = dialect(agent([endless()])).await;
    let mut running = Stream::open(&inside, stream("s", "go")).await;
    let run = running.until("Once").await["invocationId"].as_str().unwrap().to_owned();
    let (status, _) = inside.post(&format!("/v1/runs/{run}/cancel"), json!({"note": "enough"})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_seal(running.rest().await.last().unwrap());
}

#[tokio::test(start_paused = true)]
async fn force_and_grace_can_be_given_and_invalid_ones_are_refused() {
    let inside = dialect(agent([endless()])).await;
    let mut running = Stream::open(&inside, stream("s", "go")).await;
    running.until("Once").await;
    let path = format!("{}:cancel", path("s"));
    let wrong = [
        (json!({"force": "gently"}), "literal_error", json!(["body", "force"])),
        (json!({"force": 5}), "literal_error", json!(["body", "force"])),
        (json!({"graceMs": -1}), "int_type", json!(["body", "graceMs"])),
        (json!({"wait": "x"}), "bool_parsing", json!(["body", "wait"])),
        (json!({"note": "x".repeat(2_001)}), "string_too_long", json!(["body", "note"])),
        (json!([]), "model_attributes_type", json!(["body"])),
    ];
    for (body, kind, place) in wrong {
        let (status, told) = inside.post(&path, body.clone()).await;
        let item = &told["detail"][0];
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body} {told}");
        assert_eq!((&item["type"], &item["loc"]), (&json!(kind), &place), "{told}");
    }
    assert_eq!(inside.runtime.in_progress().len(), 1);
    let (status, _) = inside.post(&path, json!({"force": "now", "grace_ms": 5, "note": "enough"})).await;
    assert_eq!(status, StatusCode::OK);
    let events = running.rest().await;
    assert_eq!(events.last().unwrap()["customMetadata"]["andon"]["force"], "now");
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_not_refused_for_a_body_that_says_nothing() {
    let inside = dialect(agent([endless(), endless(), endless()])).await;
    for body in [Value::Null, json!({}), json!({"whatElse": 1, "force": null})] {
        let mut running = Stream::open(&inside, stream("s", "go")).await;
        running.until("Once").await;
        let (status, told) = inside.post(&format!("{}:cancel", path("s")), body.clone()).await;
        assert_eq!(status, StatusCode::OK, "{body} {told}");
        assert_seal(running.rest().await.last().unwrap());
    }
}
