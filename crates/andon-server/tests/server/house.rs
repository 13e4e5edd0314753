//! A server for one test, and its client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use andon_adk::Adk;
use andon_runtime::{Agent, AgentBuilder, FeedItem, Journal, MemoryJournal, RunId, Runtime};
use andon_server::{Board, NewKey, Options, Server, Serving};
use andon_testkit::tools::ToolLog;
use andon_testkit::{Act, ScriptedModel};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// Nothing here takes this long unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(90);

/// A server for one test.
pub(crate) struct House {
    pub(crate) runtime: Runtime,
    pub(crate) server: Server,
    pub(crate) serving: Serving,
    pub(crate) client: reqwest::Client,
}

/// A status and a body.
pub(crate) type Answered = (StatusCode, Value);

impl House {
    /// A house whose app `shop` gives these answers, and plain ones after them.
    pub(crate) async fn with(answers: impl IntoIterator<Item = Vec<Act>>) -> Self {
        Self::build(Arc::new(MemoryJournal::new()), Options::default(), agent(answers)).await
    }

    /// A house whose app `shop` says something and is then silent forever.
    pub(crate) async fn silent() -> Self {
        Self::with(std::iter::repeat_with(endless).take(100)).await
    }

    /// The same, and a run of it.
    pub(crate) async fn running() -> (Self, String) {
        let house = Self::silent().await;
        let run = house.start(json!({})).await;
        (house, run)
    }

    pub(crate) async fn build(journal: Arc<dyn Journal>, options: Options, shop: AgentBuilder) -> Self {
        let runtime = Runtime::builder().journal(journal).observer(Board::new()).build();
        let server = Server::with_dialects(&runtime, options, vec![Arc::new(Adk::default())]).await.unwrap();
        server.apps().put(shop.name("shop").runtime(&runtime).build().unwrap(), None);
        runtime.recover().await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let serving = server.serve(listener).unwrap();
        Self { runtime, server, serving, client: reqwest::Client::builder().no_proxy().build().unwrap() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.serving.address()
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address())).timeout(PATIENCE)
    }

    pub(crate) async fn get(&self, path: &str) -> Answered {
        answered(self.request(Method::GET, path).send().await.unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answered {
        answered(self.request(Method::POST, path).json(&body).send().await.unwrap()).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answered {
        answered(self.request(Method::PUT, path).json(&body).send().await.unwrap()).await
    }

    /// Starts a run of `shop` and returns its id.
    pub(crate) async fn start(&self, more: Value) -> String {
        let mut body = json!({"app": "shop", "input": "hello"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, run) = self.post("/v1/runs", body).await;
        assert_eq!(status, StatusCode::CREATED, "{run}");
        run["run_id"].as_str().unwrap().to_owned()
    }

    /// The state of a run.
    pub(crate) async fn state(&self, run: &str) -> Value {
        self.get(&format!("/v1/runs/{run}")).await.1["state"].clone()
    }

    /// Makes a key; its id and the key itself.
    pub(crate) async fn key(&self, new: NewKey) -> (String, String) {
        let made = self.server.keys().create(new, self.runtime.now().wall, self.runtime.shelf()).unwrap();
        made.recorded.await.unwrap();
        (made.info.id, made.key.show().to_owned())
    }

    /// A run's feed, read until an event of this type.
    pub(crate) async fn feed_until(&self, run: &str, kind: &str) -> Events {
        let mut feed = self.feed(run, None).await;
        feed.until_type(kind).await;
        feed
    }

    /// A run's feed, requested with a query.
    pub(crate) async fn feed_with(&self, run: &str, query: &str) -> Events {
        let response = self.request(Method::GET, &format!("/v1/runs/{run}/events{query}")).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Events::of(response)
    }

    /// A run's feed, from a cursor on.
    pub(crate) async fn feed(&self, run: &str, from: Option<&str>) -> Events {
        let request = self.request(Method::GET, &format!("/v1/runs/{run}/events"));
        let request = match from {
            Some(id) => request.header("last-event-id", id),
            None => request,
        };
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events::of(response)
    }

    /// Waits until a run has settled, and returns its receipt.
    pub(crate) async fn settled(&self, run: &str) -> Value {
        let id = RunId::new(run).unwrap();
        let run = self.runtime.find(&id).await.unwrap().unwrap();
        timeout(PATIENCE, run.outcome()).await.expect("the run does not settle");
        serde_json::to_value(run.receipt().unwrap()).unwrap()
    }
}

/// An agent with a scripted model.
pub(crate) fn agent(answers: impl IntoIterator<Item = Vec<Act>>) -> AgentBuilder {
    Agent::builder().model(ScriptedModel::new(answers))
}

/// Waits until this many tools are running: a start is recorded before the tool runs.
pub(crate) async fn until_running(log: &ToolLog, tools: usize) {
    let begun = async {
        while log.running() < tools {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, begun).await.expect("no tool begins");
}

/// An answer that begins and does not end.
pub(crate) fn endless() -> Vec<Act> {
    vec![Act::text("Once upon a time"), Act::Silence]
}

pub(crate) async fn answered(response: Response) -> Answered {
    let status = response.status();
    let text = response.text().await.unwrap();
    let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or(Value::String(text)) };
    (status, body)
}

/// A feed that is being read.
pub(crate) struct Events {
    response: Response,
    buffer: Vec<u8>,
    /// The length of the buffer's prefix in which no event ends.
    seen: usize,
}

/// One event of a feed: its id and its content.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) item: FeedItem,
    pub(crate) json: Value,
}

impl Events {
    /// The feed in a response.
    pub(crate) fn of(response: Response) -> Self {
        Self { response, buffer: Vec::new(), seen: 0 }
    }

    /// The next event; `None` when the feed has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.buffer[self.seen..].windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = self.buffer.drain(..self.seen + end + 2).collect();
                self.seen = 0;
                match parse(&String::from_utf8(block).unwrap()) {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            self.seen = self.buffer.len().saturating_sub(1);
            let chunk = timeout(PATIENCE, self.response.chunk()).await.expect("the feed is silent").unwrap();
            self.buffer.extend_from_slice(&chunk?);
        }
    }

    /// The next event that matches.
    pub(crate) async fn until(&mut self, is_it: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.next().await.expect("the feed ended too early");
            if is_it(&event) {
                return event;
            }
        }
    }

    /// The next event of a type.
    pub(crate) async fn until_type(&mut self, kind: &str) -> Event {
        self.until(|event| event.json["type"] == kind).await
    }

    /// The remaining events.
    pub(crate) async fn rest(mut self) -> Vec<Event> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

/// Parses one block; `None` if it is a comment.
pub(crate) fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
    let data = field("data: ")?;
    let id = field("id: ").unwrap_or_default().to_owned();
    Some(Event { id, item: serde_json::from_str(data).unwrap(), json: serde_json::from_str(data).unwrap() })
}
