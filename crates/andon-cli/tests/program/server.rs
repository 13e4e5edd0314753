//! The program as a server, and a client of it.

use std::time::Duration;

use reqwest::{Method, Response};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::child::{Database, Ended, Program};

/// A wait that takes this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Served {
    pub(crate) program: Program,
    /// Its address.
    pub(crate) url: String,
    runtime: Runtime,
    http: reqwest::Client,
}

impl Served {
    /// Starts a server on a free port.
    pub(crate) fn start(db: &Database, args: &[&str]) -> Self {
        Self::of(db.start(&[&["serve", "--bind", "127.0.0.1:0"], args].concat()))
    }

    /// Waits until a program has printed its address.
    pub(crate) fn of(mut program: Program) -> Self {
        program.wait_for("Ctrl-C shuts the server down");
        let url = program.seen.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
        let url = url.trim_end_matches(',').to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { program, url, runtime, http: reqwest::Client::builder().no_proxy().build().unwrap() }
    }

    /// Tells it to shut down, and waits for its end.
    pub(crate) fn terminate(self) -> Ended {
        self.program.signal(Signal::TERM);
        self.program.end_without_closing()
    }

    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Response {
        let request = self.http.request(method, format!("{}{path}", self.url)).timeout(PATIENCE);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        self.runtime.block_on(async { request.send().await }).unwrap()
    }

    fn answer(&self, response: Response) -> (u16, Value) {
        let status = response.status().as_u16();
        (status, self.runtime.block_on(response.json()).unwrap())
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.answer(self.send(Method::GET, path, None))
    }

    fn send_with(&self, path: &str, headers: &[(&str, String)]) -> Response {
        let request = self.http.get(format!("{}{path}", self.url)).timeout(PATIENCE);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        self.runtime.block_on(async { request.send().await }).unwrap()
    }

    /// Like [`get`](Self::get), with these headers.
    pub(crate) fn get_with(&self, path: &str, headers: &[(&str, String)]) -> (u16, Value) {
        self.answer(self.send_with(path, headers))
    }

    /// Like [`text`](Self::text), with these headers.
    pub(crate) fn text_with(&self, path: &str, headers: &[(&str, String)]) -> String {
        self.runtime.block_on(self.send_with(path, headers).text()).unwrap()
    }

    /// The response's body as text.
    pub(crate) fn text(&self, path: &str) -> String {
        let response = self.send(Method::GET, path, None);
        self.runtime.block_on(response.text()).unwrap()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.answer(self.send(Method::POST, path, Some(body)))
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> (u16, Value) {
        self.answer(self.send(Method::PUT, path, Some(body)))
    }

    /// Sends a request with a streamed response.
    pub(crate) fn open(&self, path: &str, body: &Value) -> Response {
        self.send(Method::POST, path, Some(body))
    }

    /// Gets a streamed response.
    pub(crate) fn read(&self, path: &str) -> Response {
        self.send(Method::GET, path, None)
    }

    /// Starts a run, whose feed is the response.
    pub(crate) fn run_to_read(&self, order: &Value) -> Response {
        let request = self.http.post(format!("{}/v1/runs", self.url)).timeout(PATIENCE);
        let request = request.header("accept", "text/event-stream").json(order);
        self.runtime.block_on(async { request.send().await }).unwrap()
    }

    /// The next piece of a streamed response; `None` at its end, however it ended.
    pub(crate) fn more(&self, response: &mut Response) -> Option<String> {
        let chunk = self.runtime.block_on(response.chunk()).ok().flatten()?;
        Some(String::from_utf8(chunk.to_vec()).unwrap())
    }

    /// Starts a run of the practice agent, and returns its id.
    pub(crate) fn run(&self, input: &str) -> String {
        let (status, run) = self.post("/v1/runs", &json!({ "app": "practice", "input": input }));
        assert_eq!(status, 201, "{run}");
        run["run_id"].as_str().unwrap().to_owned()
    }

    /// Reads a run's feed until it contains this text, and returns what came.
    pub(crate) fn wait_for(&self, run: &str, text: &str) -> String {
        let mut feed = self.send(Method::GET, &format!("/v1/runs/{run}/events"), None);
        let mut seen = String::new();
        while !seen.contains(text) {
            match self.runtime.block_on(feed.chunk()).unwrap() {
                Some(chunk) => seen.push_str(&String::from_utf8_lossy(&chunk)),
                None => panic!("{text:?} did not come; there was:\n{seen}"),
            }
        }
        seen
    }
}
