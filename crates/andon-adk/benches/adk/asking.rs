//! What clients of both servers ask, in ADK's words.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::client::{Connection, with_body};

/// How often a session is asked for before it is given up.
const TRIES: usize = 50;

/// A new session of an app; its id.
pub(crate) async fn session(at: SocketAddr, app: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let id = format!("s{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let what = format!("POST /apps/{app}/users/ada/sessions");
    let request = with_body(&what, "application/json", &format!(r#"{{"sessionId":"{id}"}}"#));
    let mut tries = 0;
    loop {
        let (status, _) = Connection::open(at).await.whole(&request).await;
        if status == 200 {
            return id;
        }
        // ADK's own answers 500 now and then, when its database is busy with what was broken off.
        tries += 1;
        assert!(status == 500 && tries < TRIES, "the session is created: {status}");
        eprintln!("{at} answered {status} when a session was to be created; trying again");
        sleep(Duration::from_millis(200)).await;
    }
}

/// New sessions of an app.
pub(crate) async fn sessions(at: SocketAddr, app: &str, number: usize) -> Vec<String> {
    let mut ids = Vec::with_capacity(number);
    for _ in 0..number {
        ids.push(session(at, app).await);
    }
    ids
}

/// `POST /run_sse`, with pieces.
pub(crate) fn run_sse(app: &str, session: &str, text: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"appName":"{app}","userId":"ada","sessionId":"{session}","streaming":true,"newMessage":{{"role":"user","parts":[{{"text":"{text}"}}]}}}}"#
    );
    with_body("POST /run_sse", "text/event-stream", &body)
}

/// The results of all of them.
pub(crate) async fn all<T: 'static>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut results = Vec::with_capacity(tasks.len());
    for task in tasks {
        results.push(task.await.expect("a client that finishes"));
    }
    results
}
