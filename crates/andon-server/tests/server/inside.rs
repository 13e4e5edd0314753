//! A server without sockets, for tests in which time is paused: requests go straight to its router.

use std::sync::Arc;
use std::time::Duration;

use andon_adk::Adk;
use andon_runtime::{AgentBuilder, Journal, MemoryJournal, Run, RunId, Runtime, TestClock};
use andon_server::{Board, Options, Principal, Server};
use axum::body::{Body, Bytes};
use axum::http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::house::{Answered, Event, parse};

/// A server without sockets.
pub(crate) struct Inside {
    pub(crate) runtime: Runtime,
    pub(crate) server: Server,
    router: axum::Router,
}

impl Inside {
    pub(crate) async fn new(shop: AgentBuilder) -> Self {
        Self::build(Arc::new(MemoryJournal::new()), Options::default(), shop).await
    }

    pub(crate) async fn build(journal: Arc<dyn Journal>, options: Options, shop: AgentBuilder) -> Self {
        Self::with_app(journal, options, "shop", shop).await
    }

    /// A server whose app has this name.
    pub(crate) async fn with_app(journal: Arc<dyn Journal>, options: Options, name: &str, app: AgentBuilder) -> Self {
        Self::of(journal, options, Adk::default(), name, app).await
    }

    /// The same, with these settings of ADK's dialect.
    pub(crate) async fn of(
        journal: Arc<dyn Journal>,
        options: Options,
        adk: Adk,
        name: &str,
        app: AgentBuilder,
    ) -> Self {
        // Everything is on the test's own thread and clock: time stands still while any task has work.
        let runtime = Runtime::builder()
            .journal(journal)
            .observer(Board::new())
            .one_lane()
            .clock(Arc::new(TestClock::new()))
            .build();
        let server = Server::with_dialects(&runtime, options, vec![Arc::new(adk)]).await.unwrap();
        server.apps().put(app.name(name).runtime(&runtime).build().unwrap(), None);
        runtime.recover().await.unwrap();
        let router = server.mount("/", |_| Some(Principal::local())).router().unwrap();
        Self { runtime, server, router }
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        accept: Option<&str>,
        body: Option<Value>,
    ) -> Response<Body> {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = accept.iter().fold(request, |request, accept| request.header("accept", *accept));
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_string().into()),
            None => request.body(Body::empty()),
        };
        self.router.clone().oneshot(request.unwrap()).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answered {
        answered(self.send(Method::GET, path, None, None).await).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answered {
        answered(self.send(Method::POST, path, None, Some(body)).await).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answered {
        answered(self.send(Method::PUT, path, None, Some(body)).await).await
    }

    /// Starts a run of `shop`.
    pub(crate) async fn start(&self, more: Value) -> Run {
        let (status, run) = self.post("/v1/runs", order(more)).await;
        assert_eq!(status, StatusCode::CREATED, "{run}");
        self.run(run["run_id"].as_str().unwrap()).await
    }

    pub(crate) async fn run(&self, id: &str) -> Run {
        self.runtime.find(&RunId::new(id).unwrap()).await.unwrap().unwrap()
    }

    /// Opens a run's feed after a cursor.
    pub(crate) async fn feed(&self, run: &str, after: Option<&str>) -> Frames {
        self.feed_with(run, &after.map(|after| format!("?after={after}")).unwrap_or_default()).await
    }

    /// Opens a run's feed with a query.
    pub(crate) async fn feed_with(&self, run: &str, query: &str) -> Frames {
        let response = self.send(Method::GET, &format!("/v1/runs/{run}/events{query}"), None, None).await;
        assert_eq!(response.status(), StatusCode::OK);
        Frames { body: response.into_body() }
    }
}

/// A request for a run of `shop`.
pub(crate) fn order(more: Value) -> Value {
    let mut body = json!({"app": "shop", "input": "hello"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Waits until a run has settled, and returns why it was cancelled; `none` if it was not.
pub(crate) async fn reason(run: &Run) -> String {
    tokio::time::timeout(Duration::from_secs(3600 * 24), run.outcome()).await.expect("the run does not settle");
    let receipt = serde_json::to_value(run.receipt().unwrap()).unwrap();
    receipt["reason"].as_str().unwrap_or("none").to_owned()
}

pub(crate) async fn answered(response: Response<Body>) -> Answered {
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
    (status, body)
}

/// A feed that is read write by write.
pub(crate) struct Frames {
    pub(crate) body: Body,
}

impl Frames {
    /// The server's next write; `None` at the end.
    pub(crate) async fn frame(&mut self) -> Option<Bytes> {
        let frame = self.body.frame().await?;
        Some(frame.unwrap().into_data().unwrap())
    }

    /// Reads until an event of this type has come.
    pub(crate) async fn until_type(&mut self, kind: &str) {
        while !events(&self.frame().await.expect("the feed ended too early"))
            .iter()
            .any(|event| event.json["type"] == kind)
        {}
    }

    /// The remaining events.
    pub(crate) async fn rest(mut self) -> Vec<Event> {
        let mut all = Vec::new();
        while let Some(frame) = self.frame().await {
            all.extend(events(&frame));
        }
        all
    }
}

/// The complete events in a frame.
pub(crate) fn events(frame: &[u8]) -> Vec<Event> {
    let text = std::str::from_utf8(frame).unwrap();
    assert!(text.ends_with("\n\n"), "an event is written as a whole");
    text.split_inclusive("\n\n").filter_map(parse).collect()
}
