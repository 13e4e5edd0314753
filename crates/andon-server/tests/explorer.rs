//! The explorer, over HTTP: runs that a server starts, watches and stops are also stopped at every point.
//!
//! Requests go through the server's router without a socket, so that everything is on one thread under a paused clock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use andon_adk::Adk;
use andon_runtime::{Ending, FeedItem, Observer, Run, RunId};
use andon_server::{Board, Options, Principal, Server};
use andon_testkit::Act;
use andon_testkit::explore::{World, explore};
use andon_testkit::tools;
use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

/// A tool's grace, and the moment in which it is dropped.
const GRACE: Duration = Duration::from_millis(2_100);

/// A server in the explorer's world, with the script's agent as its app.
struct Stage {
    world: World,
    router: Router,
}

impl Stage {
    async fn new(world: World, answers: Vec<Vec<Act>>) -> Option<Self> {
        let model = world.model(answers);
        let tool = tools::cooperative("slow", Duration::from_secs(5), &world.tools);
        let session = world.open(world.agent(&model).tool(tool));
        // A crash may come before the server has started.
        let server =
            Server::with_dialects(world.runtime(), Options::default(), vec![Arc::new(Adk::default())]).await.ok()?;
        server.apps().put(session.agent().clone(), None);
        Some(Self { router: server.mount("/", |_| Some(Principal::local())).router().unwrap(), world })
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> (StatusCode, Body) {
        let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        let request = request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_string()));
        let (head, body) = self.router.clone().oneshot(request.unwrap()).await.unwrap().into_parts();
        (head.status, body)
    }

    async fn ask(&self, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
        let (status, body) = self.send(method, path, body).await;
        let bytes = body.collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Starts a run that the explorer may stop.
    async fn start(&self, id: &str, more: Value) -> Option<Arc<Run>> {
        let mut body = json!({"app": "script", "session": "s", "input": "Go.", "run_id": id});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, _) = self.ask(Method::POST, "/v1/runs", body).await;
        if status != StatusCode::CREATED {
            return None;
        }
        let run = self.world.runtime().find(&RunId::new(id).unwrap()).await.ok()??;
        Some(self.world.adopt(run))
    }

    /// Follows a run that cannot complete.
    async fn follow_cancelled(&self, run: &Run) {
        self.world.follow(run).await;
        if run.try_outcome().is_some_and(|outcome| matches!(*outcome.ending, Ending::Completed { .. })) {
            self.world.broken("P9: the run completed, and was to be cancelled");
        }
    }

    /// Reads a run's feed over HTTP until an item matches, or to its end, and then disconnects.
    async fn watch(&self, run: &Run, is_it: impl Fn(&FeedItem) -> bool) {
        let (_, mut body) = self.send(Method::GET, &format!("/v1/runs/{}/events", run.id()), json!({})).await;
        while let Some(frame) = body.frame().await {
            let bytes = frame.unwrap().into_data().unwrap();
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            for data in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
                let item: FeedItem = serde_json::from_str(data).unwrap();
                let found = is_it(&item);
                self.world.saw(run, item);
                if found {
                    return;
                }
            }
        }
    }
}

/// The board, read over HTTP.
impl Stage {
    /// Reads the board until a run's row matches and returns the row. `None` if there is no board.
    async fn on_the_board(&self, run: &Run, is_it: impl Fn(&Value) -> bool) -> Option<Value> {
        let (status, mut body) = self.send(Method::GET, "/v1/board", json!({})).await;
        if status != StatusCode::OK {
            return None;
        }
        // Bounded, because a failed journal removes its runs from the board.
        for _ in 0..200 {
            let bytes = body.frame().await?.unwrap().into_data().unwrap();
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            let messages = text.lines().filter_map(|line| line.strip_prefix("data: "));
            let messages: Vec<Value> = messages.map(|data| serde_json::from_str(data).unwrap()).collect();
            let rows = messages.iter().filter_map(|message| message["runs"].as_array()).flatten();
            let found = rows.filter(|row| row["run_id"] == run.id().as_str()).find(|row| is_it(row));
            if let Some(row) = found {
                return Some(row.clone());
            }
        }
        None
    }
}

const SESSION: &str = "/apps/script/users/local/sessions/s";

/// The same server in ADK's dialect.
impl Stage {
    /// Creates the session, starts a run in it and returns its stream. The explorer may stop the run from then on.
    async fn stream(&self) -> Option<(Arc<Run>, Body)> {
        self.ask(Method::POST, "/apps/script/users/local/sessions", json!({"sessionId": "s"})).await;
        let message = json!({"parts": [{"text": "Go."}]});
        let order =
            json!({"appName": "script", "userId": "local", "sessionId": "s", "newMessage": message, "streaming": true});
        let runs = || self.world.runtime().in_progress().into_iter();
        let before: Vec<RunId> = runs().map(|run| run.id().clone()).collect();
        let (status, body) = self.send(Method::POST, "/run_sse", order).await;
        // If its driver panicked at once, the run is over already. A run that was there before is a different one.
        let new = runs().find(|run| !before.contains(run.id()));
        let run = new.filter(|_| status == StatusCode::OK)?;
        Some((self.world.adopt(run), body))
    }

    /// Checks that the client was sent what its session shows, and that the next request is valid.
    async fn compare(&self, run: &Run, told: &[Value]) {
        let (status, session) = self.ask(Method::GET, SESSION, Value::Null).await;
        let Some(events) = session["events"].as_array().filter(|_| status == StatusCode::OK) else { return };
        let Some(outcome) = run.try_outcome() else { return };
        let stored: Vec<&Value> = events.iter().filter(|event| event["invocationId"] == run.id().as_str()).collect();
        // The object after an error's event is not an event.
        let events = told.iter().filter(|told| told["invocationId"].is_string());
        let whole = events.filter(|event| event["partial"] != true).map(without_partial);
        if !whole.clone().eq(stored.iter().skip(1).map(|event| (*event).clone())) && !stored.is_empty() {
            self.world.broken(&format!("P3: told {:?}, stored {stored:?}", whole.collect::<Vec<_>>()));
        }
        let shown: String = told.iter().filter(|event| event["partial"] == true).map(text).collect();
        let kept: String = told.iter().filter(|event| event["partial"] != true).map(text).collect();
        // Another process that takes a run over does not have what was shown last.
        let is_lost = *outcome.ending == Ending::Lost && shown.starts_with(&kept);
        if shown != kept && !is_lost {
            self.world.broken(&format!("P3: {shown:?} was shown and {kept:?} is kept"));
        }
        let roles: Vec<&Value> = stored.iter().map(|event| &event["content"]["role"]).collect();
        let is_cut = run.try_outcome().is_some_and(|outcome| !matches!(*outcome.ending, Ending::Completed { .. }));
        let seals = stored.iter().filter(|event| event["errorCode"].is_string()).count();
        if roles.windows(2).any(|two| *two == ["user", "user"]) || seals != usize::from(is_cut && !stored.is_empty()) {
            self.world.broken(&format!("P2: {stored:?}"));
        }
    }
}

fn without_partial(event: &Value) -> Value {
    let mut event = event.clone();
    event.as_object_mut().unwrap().remove("partial");
    event
}

fn text(event: &Value) -> String {
    let parts = event["content"]["parts"].as_array().cloned().unwrap_or_default();
    parts.iter().filter_map(|part| part["text"].as_str()).collect()
}

/// The next event of a stream; `None` at its end.
async fn next(body: &mut Body) -> Option<Value> {
    let bytes = body.frame().await?.unwrap().into_data().unwrap();
    let text = std::str::from_utf8(&bytes).unwrap();
    Some(serde_json::from_str(text.strip_prefix("data: ").unwrap()).unwrap())
}

fn story() -> Vec<Act> {
    let pause = || Act::Pause(Duration::from_millis(10));
    vec![Act::text("One "), Act::text("two "), pause(), Act::text("three."), pause(), Act::usage(9, 3), Act::end()]
}

fn calls_a_tool() -> Vec<Act> {
    let call = Act::call(0, "c1", "slow", "{}");
    [vec![Act::text("Look: ")], call, vec![Act::usage(9, 3), Act::tool_use()]].concat()
}

/// An answer that never completes.
fn endless() -> Vec<Act> {
    vec![Act::text("Once "), Act::Silence]
}

fn is_delta(item: &FeedItem) -> bool {
    matches!(item, FeedItem::Delta(_))
}

async fn read_to_the_end(world: World) {
    let Some(stage) = Stage::new(world, vec![story()]).await else { return };
    let Some(run) = stage.start("r1", json!({})).await else { return };
    stage.watch(&run, |_| false).await;
}

async fn tool_over_http(world: World) {
    let Some(stage) = Stage::new(world, vec![calls_a_tool(), story()]).await else { return };
    let Some(run) = stage.start("r1", json!({})).await else { return };
    stage.watch(&run, |_| false).await;
}

async fn left_alone(world: World) {
    let Some(stage) = Stage::new(world, vec![endless()]).await else { return };
    let policy = json!({"on_disconnect": {"cancel_after_ms": 40}});
    let Some(run) = stage.start("r1", policy).await else { return };
    stage.watch(&run, is_delta).await;
    stage.follow_cancelled(&run).await;
}

async fn cancelled_with_wait(world: World) {
    let Some(stage) = Stage::new(world, vec![calls_a_tool(), endless()]).await else { return };
    let Some(run) = stage.start("r1", json!({})).await else { return };
    stage.watch(&run, is_delta).await;
    let (status, told) = stage.ask(Method::POST, "/v1/runs/r1/cancel", json!({"wait": true})).await;
    if status == StatusCode::OK && told["state"] != "settled" {
        stage.world.broken("P7: the cancel answered before the run had settled");
    }
    stage.follow_cancelled(&run).await;
}

/// A reader of the board sees a run begin and settle, with the recorded outcome.
async fn watched_on_the_board(world: World) {
    let Some(stage) = Stage::new(world, vec![calls_a_tool(), endless()]).await else { return };
    let Some(run) = stage.start("r1", json!({})).await else { return };
    stage.on_the_board(&run, |row| row["pieces"] != 0).await;
    stage.ask(Method::POST, "/v1/runs/r1/cancel", json!({})).await;
    let row = stage.on_the_board(&run, |row| row["state"] == "settled").await;
    stage.follow_cancelled(&run).await;
    let (Some(row), Some(outcome)) = (row, run.try_outcome()) else { return };
    if row["outcome"] != serde_json::to_value(&*outcome.ending).unwrap() {
        stage.world.broken(&format!("P6: the board says {}, and the run ended {:?}", row["outcome"], outcome.ending));
    }
    let took = run.receipt().and_then(|receipt| receipt.took.settled_us);
    if row["took_us"].as_u64() != took {
        stage.world.broken(&format!("P7: the board says that the stop took {}, the receipt {took:?}", row["took_us"]));
    }
}

fn board() -> Arc<dyn Observer> {
    Board::new()
}

async fn cancelled_before_it_came(world: World) {
    let Some(stage) = Stage::new(world, vec![story()]).await else { return };
    stage.ask(Method::POST, "/v1/runs/r1/cancel", json!({"note": "too early"})).await;
    let Some(run) = stage.start("r1", json!({})).await else { return };
    stage.follow_cancelled(&run).await;
}

async fn line_held_with_cancel(world: World) {
    let Some(stage) = Stage::new(world, vec![calls_a_tool(), endless()]).await else { return };
    let Some(run) = stage.start("r1", json!({})).await else { return };
    stage.watch(&run, is_delta).await;
    let (status, line) =
        stage.ask(Method::PUT, "/v1/line", json!({"state": "held", "cancel": true, "wait": true})).await;
    if status == StatusCode::OK && line["stopped"]["settled"] != true {
        stage.world.broken("P7: the line answered before all had settled");
    }
    stage.follow_cancelled(&run).await;
    if stage.start("r2", json!({})).await.is_some() {
        stage.world.broken("P9: a held line let a run in");
    }
}

async fn session_cancelled_with_its_queue(world: World) {
    let Some(stage) = Stage::new(world, vec![endless(), story()]).await else { return };
    let Some(first) = stage.start("r1", json!({})).await else { return };
    stage.watch(&first, is_delta).await;
    let second = stage.start("r2", json!({"when_busy": "queue"})).await;
    stage.ask(Method::POST, "/v1/cancel", json!({"session": "s"})).await;
    stage.follow_cancelled(&first).await;
    if let Some(second) = second {
        stage.follow_cancelled(&second).await;
    }
}

async fn adk_stream(world: World) {
    let Some(stage) = Stage::new(world, vec![calls_a_tool(), story()]).await else { return };
    let Some((run, mut body)) = stage.stream().await else { return };
    let mut told = Vec::new();
    while let Some(event) = next(&mut body).await {
        told.push(event);
    }
    stage.compare(&run, &told).await;
}

async fn adk_cancelled(world: World) {
    let Some(stage) = Stage::new(world, vec![calls_a_tool(), endless()]).await else { return };
    let Some((run, mut body)) = stage.stream().await else { return };
    let mut told: Vec<Value> = next(&mut body).await.into_iter().collect();
    let (status, answer) = stage.ask(Method::POST, &format!("{SESSION}:cancel"), json!({"wait": true})).await;
    if status == StatusCode::OK && answer["settled"] != true {
        stage.world.broken("P7: the cancel answered before the run had settled");
    }
    while let Some(event) = next(&mut body).await {
        told.push(event);
    }
    stage.follow_cancelled(&run).await;
    stage.compare(&run, &told).await;
}

async fn adk_left(world: World) {
    let Some(stage) = Stage::new(world, vec![calls_a_tool(), endless()]).await else { return };
    let Some((run, mut body)) = stage.stream().await else { return };
    next(&mut body).await;
    drop(body);
    stage.follow_cancelled(&run).await;
}

async fn adk_left_before_its_turn(world: World) {
    let Some(stage) = Stage::new(world, vec![endless(), story()]).await else { return };
    let Some((first, mut body)) = stage.stream().await else { return };
    next(&mut body).await;
    let Some((second, waiting)) = stage.stream().await else { return };
    drop(waiting);
    stage.follow_cancelled(&second).await;
    drop(body);
    stage.follow_cancelled(&first).await;
}

/// When the explorer drops a script in ADK's dialect, it also drops the script's stream: the client has disconnected, and the run
/// is cancelled although nobody pulled its cord.
fn is_meant(told: &str) -> bool {
    told.contains("ADK") && told.contains(", drop at point") && told.ends_with(LEFT)
}

const LEFT: &str = "P6: the reply was None, and the run ended Cancelled { reason: ClientDisconnected }";

macro_rules! explored {
    ($($test:ident: $play:ident, $name:literal, $within:expr, $disk:expr;)*) => {$(
        #[test]
        fn $test() {
            let script = explore($name).play($play).within($within).observer(board);
            let disk: Option<Duration> = $disk;
            let report = match disk {
                Some(delay) => script.disk(delay).run(),
                None => script.run(),
            };
            let violations = report.violations.iter().map(ToString::to_string);
            let violations: Vec<String> = violations.filter(|told| !is_meant(told)).collect();
            assert_eq!(violations, Vec::<String>::new());
            assert!(report.points > 100, "only {} points", report.points);
            println!("{}: {} points", $name, report.points);
        }
    )*};
}

const SLOW_DISK: Duration = Duration::from_millis(30);

explored! {
    a_run_over_http_is_stopped_at_every_point: read_to_the_end, "a run over HTTP", Duration::ZERO, None;
    a_tool_over_http_is_stopped_at_every_point: tool_over_http, "a tool over HTTP", GRACE, None;
    a_run_that_is_left_alone_is_stopped_at_every_point: left_alone, "a run that is left alone", Duration::ZERO, None;
    a_cancel_that_waits_is_stopped_at_every_point: cancelled_with_wait, "a cancel that waits", GRACE, None;
    a_cancel_that_waits_for_a_slow_disk_is_stopped_at_every_point:
        cancelled_with_wait, "a cancel that waits for a slow disk", GRACE + SLOW_DISK * 10, Some(SLOW_DISK);
    a_cancel_that_came_first_is_stopped_at_every_point: cancelled_before_it_came, "a cancel that came first", Duration::ZERO, None;
    a_run_on_the_board_is_stopped_at_every_point:
        watched_on_the_board, "a run on the board", GRACE, None;
    a_held_line_is_stopped_at_every_point: line_held_with_cancel, "a held line", GRACE, None;
    a_stream_in_adks_dialect_is_stopped_at_every_point: adk_stream, "a stream in ADK's dialect", GRACE, None;
    a_cancel_in_adks_dialect_is_stopped_at_every_point: adk_cancelled, "a cancel in ADK's dialect", GRACE, None;
    a_client_of_adks_that_leaves_is_stopped_at_every_point: adk_left, "a client of ADK's that leaves", GRACE, None;
    a_client_of_adks_that_leaves_before_its_turn_is_stopped_at_every_point:
        adk_left_before_its_turn, "a client of ADK's that leaves before its turn", Duration::ZERO, None;
    a_cancelled_session_is_stopped_at_every_point: session_cancelled_with_its_queue, "a cancelled session", Duration::ZERO, None;
}
