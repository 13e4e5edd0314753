//! How much the server holds for clients that do not read.

use crate::common::*;
use crate::raw::Raw;

/// The size of the large session's only answer.
const LARGE: usize = 3 << 20;

/// A server with the sessions `large` and `small`, and room for two large answers.
async fn house() -> House {
    let options = Options::new().max_answers(7 << 20);
    let answers = [vec![Act::text(&"x".repeat(LARGE)), Act::end()], vec![Act::text("short"), Act::end()]];
    let house = House::build(Arc::new(MemoryJournal::new()), options, agent(answers)).await;
    for session in ["large", "small"] {
        let run = house.start(json!({"user": "ada", "session": session})).await;
        house.settled(&run).await;
    }
    house
}

fn history(session: &str) -> String {
    format!("/v1/sessions/shop/ada/{session}/history")
}

/// Sends a request and reads only the head of the response.
async fn asked(house: &House, path: &str) -> (Raw, String) {
    let mut raw = Raw::narrow(house.address()).await;
    raw.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
    let head = raw.head().await;
    (raw, head)
}

#[tokio::test]
async fn whole_sessions_that_nobody_reads_are_bounded_and_other_requests_are_told_to_retry() {
    let house = house().await;
    let adk = "/apps/shop/users/ada/sessions/large";
    let mut held = Vec::new();
    for path in [history("large"), adk.to_owned()] {
        let (raw, head) = asked(&house, &path).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        held.push(raw);
    }
    for path in [history("large"), adk.to_owned(), history("large")] {
        let (_, head) = asked(&house, &path).await;
        assert!(head.starts_with("HTTP/1.1 503") && head.contains("retry-after: 1"), "{head}");
    }
    let (_, problem) = house.get(&history("large")).await;
    assert_eq!(problem["type"], "urn:andon:too-many-answers", "{problem}");
    // Small responses are still served, and so are requests that change something.
    let (status, small) = house.get(&history("small")).await;
    assert_eq!((status, small["messages"].as_array().unwrap().len()), (StatusCode::OK, 2));
    let delta = json!({"stateDelta": {"seen": true}});
    let response = house.request(reqwest::Method::PATCH, adk).json(&delta).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK, "what was done is told, however large it is");
    drop(response);
    // A client that disconnects makes room, and the next response is complete.
    held.pop();
    loop {
        let (status, large) = house.get(&history("large")).await;
        if status == StatusCode::OK {
            let said = large["messages"][1]["parts"][0]["text"].as_str().unwrap();
            assert_eq!(said.len(), LARGE);
            break;
        }
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    }
}

#[tokio::test]
async fn a_session_that_is_larger_than_all_the_room_is_answered() {
    let options = Options::new().max_answers(1).max_reading(1);
    let answers = [vec![Act::text(&"x".repeat(LARGE)), Act::end()]];
    let house = House::build(Arc::new(MemoryJournal::new()), options, agent(answers)).await;
    let run = house.start(json!({"user": "ada", "session": "large"})).await;
    house.settled(&run).await;
    for _ in 0..3 {
        let (status, large) = house.get("/apps/shop/users/ada/sessions/large").await;
        assert_eq!(status, StatusCode::OK);
        assert!(large.to_string().len() > LARGE);
    }
}
