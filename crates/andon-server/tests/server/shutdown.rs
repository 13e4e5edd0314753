//! Shutting down a server.

use andon_server::ShutDown;
use andon_testkit::tools;

use crate::common::*;
use crate::raw::{PATIENCE, Raw};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3_600);
const SHORT: Duration = Duration::from_millis(100);

fn options(drain: Duration, settle: Duration) -> Options {
    Options::new().drain(drain).settle(settle)
}

async fn silent(options: Options) -> House {
    let answers = std::iter::repeat_with(endless).take(10);
    House::build(Arc::new(MemoryJournal::new()), options, agent(answers)).await
}

/// A house whose app calls this tool.
async fn with_tool(options: Options, tool: andon_runtime::FnTool) -> House {
    let calls = std::iter::repeat_with(|| {
        let mut acts = Act::call(0, "c1", "tool", "{}");
        acts.push(Act::end());
        acts
    });
    let model = ScriptedModel::new(calls.take(10));
    let shop = Agent::builder().model(model).tool(tool);
    House::build(Arc::new(MemoryJournal::new()), options, shop).await
}

async fn end(house: &House) -> ShutDown {
    timeout(PATIENCE, house.serving.shut_down()).await.expect("it does not end")
}

fn cancel_of(receipt: &Value) -> [&str; 3] {
    ["reason", "by", "force"].map(|field| receipt[field].as_str().unwrap_or("?"))
}

#[tokio::test]
async fn while_runs_finish_nothing_is_let_in_and_everything_else_is_served() {
    let house = silent(options(LONG, LONG)).await;
    let run = house.start(json!({})).await;
    let feed = house.feed(&run, None).await;
    let cancelled_meanwhile = async {
        // New connections are still accepted: each raw request is one.
        while house.raw("GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap().status != 503 {}
        let (status, problem) = house.post("/v1/runs", json!({"app": "shop", "input": "late"})).await;
        assert_eq!(
            (status, problem["type"].as_str()),
            (StatusCode::SERVICE_UNAVAILABLE, Some("urn:andon:shutting-down"))
        );
        assert_eq!(house.get(&format!("/v1/runs/{run}")).await.0, StatusCode::OK);
        assert_eq!(house.get("/healthz").await.0, StatusCode::OK);
        let (status, reply) = house.post(&format!("/v1/runs/{run}/cancel"), json!({})).await;
        assert_eq!((status, reply["reply"].as_str()), (StatusCode::ACCEPTED, Some("accepted")));
        feed.rest().await
    };
    let (ended, events) = tokio::join!(end(&house), cancelled_meanwhile);
    assert_eq!(events.last().unwrap().json["outcome"], json!({"kind": "cancelled", "reason": "requested"}));
    let ShutDown { finished, cancelled, unsettled, left, hardened, .. } = ended;
    assert_eq!((finished, cancelled, unsettled, left, hardened), (1, 0, 0, 0, false));
    assert!(tokio::net::TcpStream::connect(house.address()).await.is_err(), "it still listens");
}

#[tokio::test]
async fn runs_that_take_too_long_are_cancelled_with_reason_shutdown_and_their_feeds_tell_it() {
    let log = ToolLog::new();
    let approval = tools::quick("tool", &log).needs_approval();
    let house = with_tool(options(SHORT, LONG), approval).await;
    let waits = house.start(json!({"session": "s"})).await;
    let feed = house.feed_until(&waits, "approval_requested").await;
    let queued = house.start(json!({"session": "s", "when_busy": "queue"})).await;
    let queued_feed = house.feed_until(&queued, "run_accepted").await;
    let (ended, events, queued_events) = tokio::join!(end(&house), feed.rest(), queued_feed.rest());
    for events in [events, queued_events] {
        let last = &events.last().unwrap().json;
        assert_eq!(last["outcome"], json!({"kind": "cancelled", "reason": "shutdown"}), "{last}");
    }
    assert_eq!((ended.finished, ended.cancelled, ended.unsettled), (0, 2, 0));
    for run in [waits, queued] {
        assert_eq!(cancel_of(&house.settled(&run).await), ["shutdown", "server", "graceful"]);
    }
}

#[tokio::test]
async fn a_second_signal_ends_the_drain_at_once_and_stops_without_grace() {
    let log = ToolLog::new();
    let house = with_tool(options(LONG, LONG), tools::stubborn("tool", LONG, &log).grace(LONG)).await;
    let run = house.start(json!({})).await;
    house.feed(&run, None).await.until_type("tool_started").await;
    let again = async {
        while house.get("/readyz").await.0 != StatusCode::SERVICE_UNAVAILABLE {}
        house.serving.harden();
    };
    let (ended, ()) = tokio::join!(end(&house), again);
    assert_eq!((ended.cancelled, ended.unsettled, ended.hardened), (1, 0, true));
    assert_eq!(cancel_of(&house.settled(&run).await), ["shutdown", "server", "now"]);
}

#[tokio::test]
async fn a_second_signal_hardens_while_runs_settle_too() {
    let log = ToolLog::new();
    let house = with_tool(options(SHORT, LONG), tools::stubborn("tool", LONG, &log).grace(LONG)).await;
    let run = house.start(json!({})).await;
    let mut feed = house.feed(&run, None).await;
    let again = async {
        feed.until_type("cancel_requested").await;
        house.serving.harden();
    };
    let (ended, ()) = tokio::join!(end(&house), again);
    assert_eq!((ended.cancelled, ended.unsettled, ended.hardened), (1, 0, true));
    assert_eq!(cancel_of(&house.settled(&run).await), ["shutdown", "server", "now"]);
}

#[tokio::test]
async fn a_long_grace_does_not_cost_a_run_its_end_on_record() {
    let log = ToolLog::new();
    let settle = Duration::from_secs(2);
    let house = with_tool(options(SHORT, settle), tools::stubborn("tool", LONG, &log).grace(LONG)).await;
    let run = house.start(json!({})).await;
    house.feed(&run, None).await.until_type("tool_started").await;
    let ended = end(&house).await;
    assert_eq!((ended.cancelled, ended.unsettled, ended.hardened), (1, 0, false));
    assert_eq!(cancel_of(&house.settled(&run).await), ["shutdown", "server", "now"]);
}

#[tokio::test]
async fn a_thread_that_never_ends_is_left_behind_and_its_run_has_settled() {
    let log = ToolLog::new();
    let house = with_tool(options(SHORT, Duration::from_secs(2)), tools::on_thread("tool", LONG, false, &log)).await;
    house.start(json!({})).await;
    until_running(&log, 1).await;
    let ended = end(&house).await;
    assert_eq!((ended.cancelled, ended.unsettled), (1, 0));
    assert_eq!(log.running(), 1, "it ended after all");
}

#[tokio::test]
async fn what_a_settled_run_left_behind_is_not_waited_for_as_a_run() {
    let log = ToolLog::new();
    let house = with_tool(options(LONG, SHORT), tools::on_thread("tool", LONG, false, &log)).await;
    let run = house.start(json!({})).await;
    until_running(&log, 1).await;
    let (status, _) = house.post(&format!("/v1/runs/{run}/cancel"), json!({"wait": true})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(log.running(), 1, "nothing was left behind");
    let ended = end(&house).await;
    assert_eq!((ended.finished, ended.cancelled, ended.unsettled), (0, 0, 0));
}

#[tokio::test]
async fn a_disk_that_takes_nothing_does_not_hold_the_server_up() {
    let journal: Arc<dyn Journal> = Arc::new(TestJournal::slow(None, LONG));
    let house = House::build(journal, options(SHORT, Duration::from_millis(300)), agent([endless()])).await;
    let mut asked = Raw::open(house.address()).await;
    let body = r#"{"app": "shop", "input": "hello"}"#;
    let head = "POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
    asked.send(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
    house.until_figure("andon_runs_in_progress", |runs| runs == 1).await;
    let ended = end(&house).await;
    assert_eq!((ended.cancelled, ended.unsettled), (0, 1));
}

#[tokio::test]
async fn a_third_signal_waits_for_nothing() {
    let journal: Arc<dyn Journal> = Arc::new(TestJournal::slow(None, LONG));
    let house = House::build(journal, options(LONG, LONG), agent([endless()])).await;
    let mut asked = Raw::open(house.address()).await;
    let body = r#"{"app": "shop", "input": "hello"}"#;
    let head = "POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
    asked.send(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
    house.until_figure("andon_runs_in_progress", |runs| runs == 1).await;
    let again = async {
        while house.get("/readyz").await.0 != StatusCode::SERVICE_UNAVAILABLE {}
        house.serving.harden();
        house.serving.harden();
    };
    let (ended, ()) = tokio::join!(end(&house), again);
    assert_eq!((ended.unsettled, ended.hardened), (1, true));
    assert!(ended.left > 0, "{ended:?}");
}

#[tokio::test]
async fn clients_that_hang_do_not_hold_the_server_up() {
    const PIECE: &str = "a piece of an answer that is not very short, so that buffers are full soon";
    let flood = vec![Act::Flood(PIECE, 50_000), Act::Silence];
    let house = House::build(Arc::new(MemoryJournal::new()), options(SHORT, LONG), agent([flood])).await;
    let idle = Raw::open(house.address()).await;
    let half = house.sent("GET /v1/runs HTTP/1.1\r\nhost: loc").await;
    let mut body = Raw::open(house.address()).await;
    body.send(
        "POST /v1/cancel HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
    )
    .await;
    let run = house.start(json!({})).await;
    let mut deaf = Raw::narrow(house.address()).await;
    deaf.send(format!("GET /v1/runs/{run}/events HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
    house.until_figure("andon_feeds_open", |feeds| feeds == 1).await;
    let ended = end(&house).await;
    assert_eq!((ended.cancelled, ended.unsettled), (1, 0));
    for hanging in [idle, half, body] {
        assert_eq!(hanging.closed().await, b"");
    }
    drop(deaf);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_mounted_shuts_down_as_one_that_serves() {
    let inside = Inside::build(
        Arc::new(MemoryJournal::new()),
        options(LONG, LONG),
        agent([vec![Act::Pause(SHORT), Act::text("Yes."), Act::end()], endless()]),
    )
    .await;
    let (quick, endless) = (inside.start(json!({})).await, inside.start(json!({})).await);
    let feed = inside.feed(endless.id().as_str(), None).await;
    let told = inside.server.shut_down().await;
    assert_eq!((told.finished, told.cancelled, told.unsettled), (1, 1, 0));
    assert_eq!((reason(&quick).await.as_str(), reason(&endless).await.as_str()), ("none", "shutdown"));
    assert_eq!(feed.rest().await.last().unwrap().json["type"], "run_settled");
    assert_eq!(inside.post("/v1/runs", order(json!({}))).await.0, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_mounted_can_be_hurried() {
    let inside = Inside::build(Arc::new(MemoryJournal::new()), options(LONG, LONG), agent([endless()])).await;
    let run = inside.start(json!({})).await;
    let begun = Instant::now();
    let (told, ()) = tokio::join!(inside.server.shut_down(), async { inside.server.harden() });
    assert_eq!((told.cancelled, told.hardened, reason(&run).await.as_str()), (1, true, "shutdown"));
    assert!(begun.elapsed() < LONG);
}
