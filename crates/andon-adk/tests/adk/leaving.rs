//! Clients that disconnect: C17 to C19, on real sockets.

use andon_runtime::OnDisconnect;
use andon_runtime::Run;
use tokio::time::timeout;

use super::*;
use crate::inside::reason;
use crate::raw::PATIENCE;

const LONG: Duration = Duration::from_secs(3600);

async fn house(options: Options, answers: impl IntoIterator<Item = Vec<Act>>) -> House {
    let house = House::build(Arc::new(MemoryJournal::new()), options, agent(answers)).await;
    let (status, _) = house.post(&format!("/apps/shop/users/{USER}/sessions"), json!({"sessionId": "s"})).await;
    assert_eq!(status, StatusCode::OK);
    house
}

/// The only run, once it exists.
async fn the_run(house: &House) -> Run {
    let found = async {
        loop {
            if let Some(run) = house.runtime.in_progress().pop() {
                return run;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, found).await.expect("no run begins")
}

async fn reason_of(run: &Run) -> Value {
    timeout(PATIENCE, run.outcome()).await.expect("the run does not settle");
    json!(run.receipt().unwrap().reason)
}

fn request(path: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// C17: the page's Stop button.
#[tokio::test]
async fn a_client_that_closes_its_stream_stops_the_run_and_the_session_has_the_seal() {
    let house = house(Options::default(), [endless()]).await;
    let mut response = house.request(Method::POST, "/run_sse").json(&stream("s", "go")).send().await.unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("Once upon a time"));
    let run = the_run(&house).await;
    drop(response);
    assert_eq!(reason_of(&run).await, "client_disconnected");
    let (_, session) = house.get(&path("s")).await;
    let events = session["events"].as_array().unwrap();
    assert_eq!(events.iter().map(text).collect::<Vec<_>>(), ["go", "Once upon a time", ""]);
    assert_eq!(events[2]["errorMessage"], "Invocation was aborted by client.");
    assert_eq!(events[2]["customMetadata"]["andon"]["reason"], "client_disconnected");
    is_valid(events);
}

/// C17.
#[tokio::test]
async fn a_client_that_does_not_wait_for_run_stops_it() {
    let house = house(Options::default(), [endless()]).await;
    let raw = house.sent(request("/run", &ask("s", "go"))).await;
    let run = the_run(&house).await;
    drop(raw);
    assert_eq!(reason_of(&run).await, "client_disconnected");
}

/// The request is counted, although nobody reads the response.
#[tokio::test(start_paused = true)]
async fn a_request_whose_client_leaves_before_the_answer_is_counted() {
    let inside = dialect(agent([endless()])).await;
    let asked = inside.send(Method::POST, "/run", None, Some(ask("s", "go")));
    // Time stands still while any task has work, so the run is in mid-text when this times out.
    assert!(timeout(Duration::from_secs(1), asked).await.is_err());
    let metrics = inside.send(Method::GET, "/metrics", None, None).await;
    let text = metrics.into_body().collect().await.unwrap().to_bytes();
    let counted = r#"andon_http_requests_total{method="POST",route="/run",status="4xx"} 1"#;
    let text = String::from_utf8_lossy(&text);
    assert!(text.lines().any(|line| line == counted), "{text}");
}

/// C17.
#[tokio::test(start_paused = true)]
async fn a_run_outlives_its_client_as_its_policy_says() {
    for (policy, expected) in [(OnDisconnect::Continue, None), (OnDisconnect::CancelAfterMs(30_000), Some(30))] {
        let adk = Adk { on_disconnect: policy, ..Adk::default() };
        let inside = speaking(adk, agent([endless()])).await;
        begin(&inside, "s").await;
        let mut running = Stream::open(&inside, stream("s", "go")).await;
        running.until("Once").await;
        let run = inside.runtime.in_progress().remove(0);
        drop(running);
        let left = tokio::time::Instant::now();
        let settled = timeout(LONG, reason(&run)).await.ok();
        assert_eq!(settled.as_deref(), expected.map(|_| "client_disconnected"));
        assert_eq!(expected, settled.map(|_| left.elapsed().as_secs()));
    }
}

/// A client that disconnects while its run is queued leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_before_its_turn_leaves_nothing_in_the_session() {
    let inside = dialect(agent([endless()])).await;
    let mut first = Stream::open(&inside, stream("s", "one")).await;
    first.until("Once").await;
    drop(Stream::open(&inside, stream("s", "two")).await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(inside.runtime.in_progress().len(), 1);
    cancel(&inside, "s").await;
    first.rest().await;
    let events = stored(&inside, "s").await;
    assert_eq!(events.iter().map(text).collect::<Vec<_>>(), ["one", "Once upon a time", ""]);
}

/// The chunks of a body as they were written.
fn chunks(mut rest: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return all;
        }
        all.push(String::from_utf8(rest[end + 2..end + 2 + size].to_vec()).unwrap());
        rest = &rest[end + 4 + size..];
    }
}

/// C18, C19.
#[tokio::test]
async fn each_event_is_one_chunk_and_between_them_there_are_signs_of_life() {
    let words: Vec<String> = (0..200).map(|number| format!("word{number} ")).collect();
    let mut acts: Vec<Act> = words.iter().flat_map(|word| [Act::text(word), Act::Yield]).collect();
    acts.extend([
        Act::Pause(Duration::from_millis(300)),
        Act::text(&"long ".repeat(10_000)),
        Act::usage(1, 2),
        Act::end(),
    ]);
    let options = Options::new().heartbeat(Duration::from_millis(50));
    let house = house(options, [acts, calls(&[]), vec![Act::text("a"), Act::Break]]).await;
    for _ in 0..3 {
        let raw = house
            .sent(request("/run_sse", &stream("s", "go")).replace("\r\n\r\n{", "\r\nconnection: close\r\n\r\n{"))
            .await;
        let answer = raw.closed().await;
        let head = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        assert!(String::from_utf8_lossy(&answer[..head]).contains("transfer-encoding: chunked"));
        let chunks = chunks(&answer[head..]);
        for chunk in &chunks {
            let one = chunk.strip_prefix("data: ").and_then(|chunk| chunk.strip_suffix("\n\n"));
            let is_event =
                one.is_some_and(|one| serde_json::from_str::<Value>(one).is_ok_and(|value| value.is_object()));
            assert!(is_event || chunk == ": \n\n", "{chunk:?}");
        }
        assert!(!chunks.is_empty());
    }
}
