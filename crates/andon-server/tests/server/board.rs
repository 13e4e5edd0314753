//! The board: every run that the caller may see, live.

use andon_testkit::tools::{cooperative, stubborn};

use crate::board_reader::{Reader, calls, settled, shop};
use crate::common::*;
use crate::inside::answered;

#[tokio::test(start_paused = true)]
async fn a_row_follows_its_run_from_its_beginning_to_its_end() {
    let inside = shop([endless()]).await;
    let mut reader = Reader::ready(&inside).await;
    let run = inside.start(json!({"session": "s", "user": "ada"})).await;
    let row = reader.until_state("running", "model").await;
    let accepted = run.records()[0].at.wall.to_string();
    // The call is open: nothing is known about it, which is not 0.
    let open = json!({"value": null, "provenance": "unknown", "low": null, "high": null});
    let expected = json!({
        "n": row["n"], "run_id": run.id(), "app": "shop", "user": "ada", "session": "s", "state": "running",
        "phase": "model", "accepted_at": accepted, "title": "hello", "model": row["model"], "pieces": 0, "open": true,
        "tokens": {"input": open, "output": open},
    });
    assert_eq!(row, expected);
    assert!(row["model"].is_string());
    let second = reader.until("second").await;
    assert_eq!((&second["live"], &second["begun"], &second["settled"]), (&json!(1), &json!(1), &json!(0)));
    assert_eq!(second["pieces"], json!([[row["n"], 1]]));

    inside.post(&format!("/v1/runs/{}/cancel", run.id()), json!({})).await;
    settled(&run).await;
    let row = reader.until_row(|row| row["state"] == "settled").await;
    let receipt = serde_json::to_value(run.receipt().unwrap()).unwrap();
    assert_eq!(row["outcome"], json!({"kind": "cancelled", "reason": "requested"}));
    assert_eq!((&row["phase"], &row["open"]), (&Value::Null, &Value::Null));
    assert_eq!((&row["settled_at"], &row["pieces"]), (&receipt["settled_at"], &json!(1)));
    assert_eq!(row["took_us"], receipt["took"]["settled_us"]);
    assert_eq!(row["tokens"]["output"], receipt["usage"]["billed"]["output"]);
    let cancel =
        json!({"requested_at": receipt["requested_at"], "by": "local", "reason": "requested", "force": "graceful"});
    assert_eq!(row["cancel"], cancel);
    let second = reader.until("second").await;
    assert_eq!((&second["live"], &second["settled"], &second["cancelled"]), (&json!(0), &json!(1), &json!(1)));
    assert_eq!((&second["median_us"], &second["slowest_us"]), (&row["took_us"], &row["took_us"]));
}

#[tokio::test(start_paused = true)]
async fn a_row_shows_the_tools_that_run_and_a_stop_while_they_have_their_grace() {
    let log = ToolLog::new();
    let answer = calls(&[("c1", "dig"), ("c2", "fly"), ("c3", "rest")]);
    let shop = agent([answer])
        .tool(cooperative("dig", Duration::from_secs(60), &log))
        .tool(stubborn("fly", Duration::from_secs(600), &log))
        .tool(quick("rest", &log));
    let inside = Inside::new(shop).await;
    let mut reader = Reader::ready(&inside).await;
    let run = inside.start(json!({})).await;
    let row = reader.until_row(|row| row["phase"] == "tools" && row["tools"] == json!(["dig", "fly"])).await;
    assert_eq!((&row["state"], &row["tokens"]["output"]["value"]), (&json!("running"), &json!(5)));
    inside.post(&format!("/v1/runs/{}/cancel", run.id()), json!({"note": "enough"})).await;
    let row = reader.until_row(|row| row["state"] == "cancelling").await;
    assert_eq!((&row["cancel"]["by"], &row["cancel"]["force"]), (&json!("local"), &json!("graceful")));
    assert_eq!((&row["cancel"]["reason"], &row["took_us"]), (&json!("requested"), &Value::Null));
    assert!(row["phase"] == "tools", "it is cut in the middle of tools: {row}");
    let row = reader.until_row(|row| row["state"] == "settled").await;
    let receipt = serde_json::to_value(run.receipt().unwrap()).unwrap();
    assert_eq!((&row["took_us"], &row["tools"]), (&receipt["took"]["settled_us"], &Value::Null), "{receipt}");
    assert_eq!(row["took_us"], 500_000, "the stubborn one had its grace");
}

#[tokio::test(start_paused = true)]
async fn a_row_shows_what_waits_for_a_person_and_what_waits_for_its_session() {
    let log = ToolLog::new();
    let shop = agent([calls(&[("c1", "pay")])]).tool(quick("pay", &log).needs_approval());
    let inside = Inside::new(shop).await;
    let mut reader = Reader::ready(&inside).await;
    let run = inside.start(json!({"session": "s"})).await;
    let row = reader.until_state("waiting", "waiting").await;
    let (_, view) = inside.get(&format!("/v1/runs/{}", run.id())).await;
    assert_eq!(row["waiting"], json!([{"call": "c1", "tool": "pay", "digest": view["approvals"][0]["digest"]}]));
    let next = inside.start(json!({"session": "s", "when_busy": "queue"})).await;
    let row = reader.until_state("queued", "queued").await;
    assert_eq!(row["run_id"], json!(next.id()));
    let second = reader.until("second").await;
    assert_eq!(second["live"], 2);
    run.decide(&andon_runtime::CallId::new("c1").unwrap()).approve().send().unwrap();
    settled(&next).await;
    for run in [&run, &next] {
        let row = reader.until_row(|row| row["run_id"] == json!(run.id()) && row["state"] == "settled").await;
        assert_eq!((&row["waiting"], &row["outcome"]["kind"]), (&Value::Null, &json!("completed")));
    }
}

#[tokio::test(start_paused = true)]
async fn seconds_say_what_happened_in_them_and_late_readers_get_past_ones() {
    let inside = shop(std::iter::repeat_with(endless).take(3)).await;
    let mut reader = Reader::ready(&inside).await;
    let began = inside.runtime.now().wall.0;
    let mut runs = Vec::new();
    for n in 0..3_u64 {
        runs.push(inside.start(json!({"session": format!("s{n}")})).await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    inside.post("/v1/cancel", json!({"all": true, "wait": true})).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut told = Vec::new();
    while told.len() < 5 {
        let mut second = reader.until("second").await;
        assert_eq!(second["at"], json!(andon_runtime::core::time::Wall(began + told.len() as u64 * 1_000_000)));
        let second = second.as_object_mut().unwrap();
        second.remove("type");
        second.remove("pieces");
        told.push(Value::Object(second.clone()));
    }
    let counts = |key: &str| told.iter().map(|second| second[key].as_u64()).collect::<Vec<_>>();
    assert_eq!(counts("live"), [1, 2, 3, 0, 0].map(Some));
    assert_eq!(counts("begun"), [1, 1, 1, 0, 0].map(Some));
    assert_eq!(counts("settled"), [0, 0, 0, 3, 0].map(Some));
    assert_eq!(counts("cancelled"), [0, 0, 0, 3, 0].map(Some));
    let took = runs.iter().map(|run| run.receipt().unwrap().took.settled_us.unwrap()).max();
    assert_eq!(counts("slowest_us"), [None, None, None, took, None]);
    assert!(counts("median_us")[3] <= took && counts("median_us")[3].is_some());
    let board = Reader::open(&inside).await.until("board").await;
    assert_eq!(board["past"].as_array().unwrap()[..5], told[..], "as they were told");
    assert_eq!((&board["live"], &board["settled"]), (&json!(0), &json!(3)));
    tokio::time::sleep(Duration::from_secs(400)).await;
    let board = Reader::open(&inside).await.until("board").await;
    assert_eq!(board["past"].as_array().unwrap().len(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_slow_gets_each_row_once_as_it_is_when_it_reads_on() {
    let inside = shop([]).await;
    let mut reader = Reader::ready(&inside).await;
    for n in 0..20 {
        let run = inside.start(json!({"session": format!("s{n}")})).await;
        settled(&run).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let said = reader.next().await.unwrap();
    assert_eq!(said["type"], "runs");
    let rows = said["runs"].as_array().unwrap();
    assert_eq!((rows.len(), reader.rows.len()), (20, 20), "each run once");
    assert!(rows.iter().all(|row| row["state"] == "settled"), "and at its end");
    let said = reader.next().await.unwrap();
    assert_eq!(said["type"], "second", "{said}");
}

#[tokio::test(start_paused = true)]
async fn what_has_settled_is_kept_for_a_while_and_no_more_than_a_thousand() {
    let inside = shop([]).await;
    let mut reader = Reader::ready(&inside).await;
    for n in 0..1_020 {
        let run = inside.start(json!({"session": format!("s{}", n % 7)})).await;
        settled(&run).await;
        if n % 300 == 0 {
            reader.until("second").await;
        }
    }
    reader.until("second").await;
    assert_eq!(reader.rows.len(), 1_000, "those that are gone are told");
    let mut later = Reader::ready(&inside).await;
    assert_eq!(later.rows, reader.rows, "whoever comes later sees the same");
    tokio::time::sleep(Duration::from_secs(500)).await;
    let run = inside.start(json!({"session": "last"})).await;
    settled(&run).await;
    tokio::time::sleep(Duration::from_secs(150)).await;
    for reader in [&mut reader, &mut later] {
        while reader.rows.len() != 1 {
            reader.next().await.unwrap();
        }
        assert!(reader.rows.values().all(|row| row["run_id"] == json!(run.id())));
    }
}

#[tokio::test(start_paused = true)]
async fn five_thousand_live_runs_are_told_the_newest_first_in_pages() {
    let inside = shop([]).await;
    let silent = Agent::builder().name("silent").model(ScriptedModel::new((0..5_000).map(|_| endless())));
    let silent = silent.runtime(&inside.runtime).build().unwrap();
    let mut newest = Vec::new();
    for n in 0..5_000 {
        let run = silent.session("ada", format!("s{n}")).unwrap().prompt("Go.").start().unwrap();
        run.accepted().await.unwrap();
        newest.insert(0, run.id().to_string());
    }
    let done = inside.start(json!({})).await;
    settled(&done).await;
    newest.push(done.id().to_string());
    let mut reader = Reader::open(&inside).await;
    let board = reader.until("board").await;
    assert_eq!((&board["live"], &board["settled"]), (&json!(5_000), &json!(1)));
    let mut told = Vec::new();
    loop {
        let said = reader.next().await.unwrap();
        match said["type"].as_str() {
            Some("runs") => {
                let rows = said["runs"].as_array().unwrap();
                told.extend(rows.iter().map(|row| row["run_id"].as_str().unwrap().to_owned()));
            }
            Some("ready") => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, newest);
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_told_when_it_is_made_and_when_it_is_opened() {
    let inside = shop([]).await;
    let mut reader = Reader::open(&inside).await;
    let board = reader.until("board").await;
    let (_, line) = inside.get("/v1/line").await;
    assert_eq!(board["line"], line);
    reader.until("ready").await;
    for state in ["held", "open"] {
        inside.put("/v1/line", json!({"state": state})).await;
        let (_, line) = inside.get("/v1/line").await;
        assert_eq!(reader.until("line").await["line"], line, "{state}");
        assert_eq!(line["state"], state);
    }
}

#[tokio::test(start_paused = true)]
async fn runs_of_a_session_that_is_deleted_leave_the_board() {
    let inside = shop([endless()]).await;
    let mut reader = Reader::ready(&inside).await;
    inside.start(json!({"session": "s", "user": "ada"})).await;
    reader.until_row(|row| row["phase"] == "model").await;
    let gone = inside.send(Method::DELETE, "/v1/sessions/shop/ada/s", None, None).await;
    assert_eq!(gone.status(), StatusCode::NO_CONTENT);
    while !reader.rows.is_empty() {
        reader.next().await.unwrap();
    }
    let board = Reader::open(&inside).await.until("board").await;
    assert_eq!((&board["live"], &board["settled"]), (&json!(0), &json!(0)));
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_end_the_journal_does_not_take_stays_on_the_board_and_says_why() {
    let journal = TestJournal::new(MemoryJournal::new(), None);
    let inside = Inside::build(Arc::new(journal.clone()), Options::default(), agent([endless()])).await;
    let mut reader = Reader::ready(&inside).await;
    let run = inside.start(json!({})).await;
    reader.until_row(|row| row["phase"] == "model").await;
    journal.fail(JournalError::Storage("the disk is gone".to_owned()));
    run.cancel(andon_runtime::Cancel::graceful());
    let row = reader.until_row(|row| row["stalled"].is_string()).await;
    assert_eq!(row["stalled"], "the journal could not be written: the disk is gone");
    assert_eq!(Reader::open(&inside).await.until("board").await["live"], 1);
    journal.heal();
    let row = reader.until_row(|row| row["state"] == "settled").await;
    assert_eq!((&row["outcome"]["kind"], &row["stalled"]), (&json!("cancelled"), &json!(null)));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_an_earlier_process_left_waiting_is_on_the_board() {
    let journal = TestJournal::new(MemoryJournal::new(), None);
    let log = ToolLog::new();
    let paying = |answers: Vec<Vec<Act>>| agent(answers).tool(quick("pay", &log).needs_approval());
    let run = {
        let shop = paying(vec![calls(&[("c1", "pay")])]);
        let before = Inside::build(Arc::new(journal.clone()), Options::default(), shop).await;
        let mut reader = Reader::ready(&before).await;
        let run = before.start(json!({"session": "s"})).await.id().to_string();
        reader.until_state("waiting", "waiting").await;
        journal.crash();
        run
    };
    let inside = Inside::build(Arc::new(journal.durable()), Options::default(), paying(vec![])).await;
    let mut reader = Reader::ready(&inside).await;
    let row = reader.until_state("waiting", "waiting").await;
    assert_eq!((&row["run_id"], &row["waiting"][0]["call"]), (&json!(run), &json!("c1")));
    let second = reader.until("second").await;
    assert_eq!((&second["live"], &second["begun"]), (&json!(1), &json!(0)));
    let (status, _) = inside.post(&format!("/v1/runs/{run}/approvals/c1"), json!({"decision": "approve"})).await;
    assert_eq!(status, StatusCode::OK);
    let row = reader.until_row(|row| row["state"] == "settled").await;
    assert_eq!(row["outcome"]["kind"], "completed");
    assert_eq!(row.get("pieces"), None, "what the earlier process accepted nobody knows");
}

#[tokio::test(start_paused = true)]
async fn the_board_ends_when_the_server_does() {
    let inside = shop([]).await;
    let mut reader = Reader::ready(&inside).await;
    inside.server.shut_down().await;
    while reader.next().await.is_some() {}
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_board_says_what_to_do() {
    let runtime = andon_runtime::Runtime::builder().one_lane().build();
    let server = andon_server::Server::new(&runtime, Options::default()).await.unwrap();
    let request = axum::http::Request::get("/v1/board").header("host", "localhost");
    let request = request.body(axum::body::Body::empty()).unwrap();
    let response = tower::ServiceExt::oneshot(
        server.mount("/", |_| Some(andon_server::Principal::local())).router().unwrap(),
        request,
    )
    .await
    .unwrap();
    let (status, told) = answered(response).await;
    assert_eq!((status, &told["type"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("urn:andon:no-board")));
    assert!(told["detail"].as_str().unwrap().contains("Board::new()"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn the_head_of_the_board_is_all_of_it() {
    let inside = shop([]).await;
    let response = inside.send(Method::HEAD, "/v1/board", None, None).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(answered(response).await, (StatusCode::OK, Value::Null));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_its_agent_is_on_the_board_until_it_is_stopped() {
    let journal = TestJournal::new(MemoryJournal::new(), None);
    let run = {
        let shop = agent([calls(&[("c1", "pay")])]).tool(quick("pay", &ToolLog::new()).needs_approval());
        let before = Inside::build(Arc::new(journal.clone()), Options::default(), shop).await;
        let mut reader = Reader::ready(&before).await;
        let run = before.start(json!({"session": "s"})).await.id().to_string();
        reader.until_state("waiting", "waiting").await;
        journal.crash();
        run
    };
    let inside = Inside::with_app(Arc::new(journal.durable()), Options::default(), "other", agent([])).await;
    let mut reader = Reader::ready(&inside).await;
    let row = reader.until_state("waiting", "waiting").await;
    assert_eq!((&row["run_id"], &row["app"]), (&json!(run), &json!("shop")));
    inside.post(&format!("/v1/runs/{run}/cancel"), json!({})).await;
    let row = reader.until_row(|row| row["state"] == "settled").await;
    assert_eq!(row["outcome"]["kind"], "cancelled");
    assert_eq!(reader.until("second").await["live"], 0);
}
