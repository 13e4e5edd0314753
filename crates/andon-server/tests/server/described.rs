//! The API matches its description: every described call exists, and every response has the described schema.

use std::collections::BTreeSet;

use andon_runtime::FnTool;
use reqwest::Response;

use crate::common::*;

/// The description, and which of its calls have been answered successfully.
struct Description {
    spec: Value,
    answered: BTreeSet<String>,
}

impl Description {
    async fn of(house: &House) -> Self {
        let (_, spec) = house.get("/openapi.json").await;
        Self { spec, answered: BTreeSet::new() }
    }

    /// All calls, such as `GET /v1/runs`.
    fn calls(&self) -> BTreeSet<String> {
        let paths = self.spec["paths"].as_object().unwrap().iter();
        paths
            .flat_map(|(path, methods)| {
                methods.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
            })
            .collect()
    }

    /// The schema of a response; `None` if it has no body.
    fn form(&self, call: &str, status: u16, kind: Option<&str>) -> Option<Value> {
        let (method, path) = call.split_once(' ').unwrap();
        let answers = &self.spec["paths"][path][method.to_lowercase()]["responses"];
        assert!(answers.is_object(), "{call} is not described");
        let exact = &answers[status.to_string()];
        let answer = if exact.is_null() { &answers[format!("{}XX", status / 100)] } else { exact };
        assert!(answer.is_object(), "{call}: the status {status} is not described");
        match (answer.get("content"), kind) {
            (None, None) => None,
            (Some(forms), Some(kind)) => {
                assert!(forms.get(kind).is_some(), "{call}: {status} with {kind} is not described");
                Some(forms[kind]["schema"].clone())
            }
            other => panic!("{call}: {status} has a body or is told to have one, and not both: {other:?}"),
        }
    }

    fn is_valid(&self, form: &Value, value: &Value) -> bool {
        let schema = json!({"allOf": [form], "components": self.spec["components"]});
        jsonschema::draft202012::new(&schema).unwrap().is_valid(value)
    }

    fn assert_valid(&self, call: &str, form: &Value, value: &Value) {
        let schema = json!({"allOf": [form], "components": self.spec["components"]});
        let schema = jsonschema::draft202012::new(&schema).unwrap();
        let wrong: Vec<String> =
            schema.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(wrong.is_empty(), "{call}: {value} is not as it is described: {wrong:#?}");
    }

    /// Checks a response against its schema, and returns its body.
    async fn check(&mut self, call: &str, response: Response) -> Value {
        let status = response.status();
        let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
        let kind = kind.as_deref().map(|kind| kind.split(';').next().unwrap().trim());
        let form = self.form(call, status.as_u16(), kind);
        let text = response.text().await.unwrap();
        if status.is_success() {
            self.answered.insert(call.to_owned());
        }
        let Some(form) = form else {
            assert_eq!(text, "", "{call}: it has no body");
            return Value::Null;
        };
        let body = match kind {
            Some("text/event-stream") => {
                let events: Vec<Value> = text.split_terminator("\n\n").filter_map(event).collect();
                events.iter().for_each(|event| self.assert_valid(call, &form, event));
                return Value::Array(events);
            }
            Some("text/plain") => Value::String(text),
            _ => serde_json::from_str(&text).unwrap(),
        };
        self.assert_valid(call, &form, &body);
        body
    }
}

/// One event of a feed, as described; `None` if it is a comment.
fn event(block: &str) -> Option<Value> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    Some(json!({"id": field("id: ")?, "data": field("data: ")?}))
}

/// A house whose responses are checked.
struct Checked {
    house: House,
    description: Description,
}

impl Checked {
    /// The first run calls a tool that needs approval, the second is silent, the third says something.
    async fn new() -> Self {
        let call = |id: &str| [Act::call(0, id, "launch", "{}"), vec![Act::usage(9, 3), Act::tool_use()]].concat();
        let done = || vec![Act::text("Launched."), Act::usage(12, 2), Act::end()];
        let silent = || vec![Act::text("Well"), Act::Silence];
        let model = ScriptedModel::new([call("c1"), done(), call("c2"), silent(), silent(), silent(), done()]);
        let schema = json!({"type": "object"});
        let launch =
            FnTool::new("launch", "Launches it.", schema, |_| async { Ok("launched".into()) }).needs_approval();
        let shop = Agent::builder().model(model).tool(launch);
        let house = House::build(Arc::new(MemoryJournal::new()), Options::default(), shop).await;
        house.server.apps().refuse("broken", "it has no model: name one");
        let description = Description::of(&house).await;
        Self { house, description }
    }

    async fn get(&mut self, path: &str, told: &str) -> Value {
        let response = self.house.request(Method::GET, path).send().await.unwrap();
        self.description.check(&format!("GET {told}"), response).await
    }

    async fn send(&mut self, method: Method, path: &str, told: &str, body: Value) -> Value {
        let response = self.house.request(method.clone(), path).json(&body).send().await.unwrap();
        self.description.check(&format!("{method} {told}"), response).await
    }

    async fn start(&mut self, run: &str) -> Value {
        let body = json!({"app": "shop", "input": "Go.", "run_id": run, "session": run});
        self.send(Method::POST, "/v1/runs", "/v1/runs", body).await
    }

    /// Waits until a run waits for a person.
    async fn awaits(&self, run: &str) {
        self.house.feed(run, None).await.until_type("approval_requested").await;
    }

    /// Requests everything about a run, whatever its state.
    async fn look(&mut self, run: &str) {
        self.get(&format!("/v1/runs/{run}"), "/v1/runs/{run_id}").await;
        self.get(&format!("/v1/runs/{run}/receipt"), "/v1/runs/{run_id}/receipt").await;
        self.get(&format!("/v1/runs/{run}/conversation"), "/v1/runs/{run_id}/conversation").await;
    }

    async fn approvals(&mut self) {
        let (approve, told) = ("/v1/runs/r1/approvals/c1", "/v1/runs/{run_id}/approvals/{call}");
        self.start("r1").await;
        self.awaits("r1").await;
        self.look("r1").await;
        let waiting = self.get("/v1/runs?state=waiting", "/v1/runs").await;
        assert_eq!(waiting["runs"][0]["run_id"], "r1");
        self.send(Method::POST, approve, told, json!({"decision": "perhaps"})).await;
        self.send(Method::POST, approve, told, json!({"decision": "approve"})).await;
        self.house.settled("r1").await;
        self.send(Method::POST, approve, told, json!({"decision": "approve"})).await;
        self.look("r1").await;
    }

    async fn stops(&mut self) {
        let (one, all) = ("/v1/runs/{run_id}/cancel", "/v1/cancel");
        let call = "/v1/runs/{run_id}/calls/{call}/cancel";
        self.start("r2").await;
        self.awaits("r2").await;
        self.send(Method::POST, "/v1/runs/r2/calls/none/cancel", call, json!({})).await;
        self.send(Method::POST, "/v1/runs/r2/calls/c2/cancel", call, json!({"note": "not that"})).await;
        self.house.feed("r2", None).await.until_type("delta").await;
        self.look("r2").await;
        self.send(Method::POST, "/v1/runs/r2/cancel", one, json!({"wait": true, "note": "enough"})).await;
        self.send(Method::POST, "/v1/runs/r2/cancel", one, json!({})).await;
        self.send(Method::POST, "/v1/runs/none/cancel", one, json!({"force": "now"})).await;
        self.look("r2").await;
        self.start("r3").await;
        let stopped = self.send(Method::POST, all, all, json!({"session": "r3", "reason": "operator"})).await;
        assert_eq!(stopped["cancelled"], 1, "{stopped}");
        self.send(Method::POST, all, all, json!({})).await;
        self.house.settled("r3").await;
    }

    async fn line(&mut self) {
        self.start("r4").await;
        let hold = json!({"state": "held", "reason": "a drill", "cancel": true, "wait": true});
        self.send(Method::PUT, "/v1/line", "/v1/line", hold).await;
        self.get("/v1/line", "/v1/line").await;
        let refused = self.start("r5").await;
        assert_eq!(refused["type"], "urn:andon:line-held");
        self.send(Method::PUT, "/v1/line", "/v1/line", json!({"state": "open", "wait": true})).await;
        self.send(Method::PUT, "/v1/line", "/v1/line", json!({"state": "open"})).await;
    }

    async fn sessions(&mut self) {
        let (one, history) = ("/v1/sessions/{app}/{user}/{session}", "/v1/sessions/{app}/{user}/{session}/history");
        self.get("/v1/sessions?limit=2", "/v1/sessions").await;
        self.get("/v1/sessions?limit=0", "/v1/sessions").await;
        for session in ["r1", "r2", "none"] {
            self.get(&format!("/v1/sessions/shop/local/{session}"), one).await;
            self.get(&format!("/v1/sessions/shop/local/{session}/history"), history).await;
        }
        for _ in 0..2 {
            self.send(Method::DELETE, "/v1/sessions/shop/local/r1", one, json!({})).await;
        }
    }

    async fn feeds(&mut self) {
        let told = "/v1/runs/{run_id}/events";
        let events = self.get("/v1/runs/r2/events", told).await;
        let last = events.as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned();
        self.get(&format!("/v1/runs/r2/events?after={last}"), told).await;
        self.get("/v1/runs/r2/events?after=soon", told).await;
        self.get("/v1/runs/none/events", told).await;
        self.start("r6").await;
        let request = self.house.request(Method::POST, "/v1/runs").header("accept", "text/event-stream");
        let body = json!({"app": "shop", "input": "Go."});
        let response = request.json(&body).send().await.unwrap();
        self.description.check("POST /v1/runs", response).await;
    }

    /// The board never ends, so its beginning and one second are checked.
    async fn board(&mut self) {
        let mut response = self.house.request(Method::GET, "/v1/board").send().await.unwrap();
        let form =
            self.description.form("GET /v1/board", response.status().as_u16(), Some("text/event-stream")).unwrap();
        let of_message = json!({"$ref": "#/components/schemas/BoardMessage"});
        let (mut text, mut told) = (String::new(), BTreeSet::new());
        while !text.contains(r#"{"type":"second""#) || !text.ends_with("\n\n") {
            text += std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap();
        }
        for block in text.split_terminator("\n\n") {
            let data = block.strip_prefix("data: ").unwrap();
            self.description.assert_valid("GET /v1/board", &form, &json!({ "data": data }));
            let message: Value = serde_json::from_str(data).unwrap();
            told.insert(message["type"].as_str().unwrap().to_owned());
            let mut wrong = message.clone();
            wrong["type"] = json!("another");
            assert!(!self.description.is_valid(&of_message, &wrong), "anything would be as it is described");
            self.description.assert_valid("GET /v1/board", &of_message, &message);
        }
        assert!(["board", "runs", "ready", "second"].iter().all(|kind| told.contains(*kind)), "{told:?}");
        self.description.answered.insert("GET /v1/board".to_owned());
        self.get("/v1/board?after=1", "/v1/board").await;
    }

    async fn access(&mut self) {
        let (keys, one) = ("/v1/keys", "/v1/keys/{id}");
        let new = json!({"name": "ada", "scopes": ["run:read"], "expires_at": "2999-01-01T00:00:00Z"});
        let made = self.send(Method::POST, keys, keys, new).await;
        let id = made["id"].as_str().unwrap().to_owned();
        for wrong in [
            json!({"name": "ada", "scopes": []}),
            json!({"name": "a/b", "scopes": ["admin"]}),
            json!({"name": "ada", "scopes": ["fly"]}),
            json!({"name": "ada", "scopes": ["admin"], "expires_at": "2001-01-01T00:00:00Z"}),
        ] {
            let refused = self.send(Method::POST, keys, keys, wrong).await;
            assert!(refused["detail"].is_string(), "{refused}");
        }
        let path = format!("/v1/keys/{id}");
        for _ in 0..2 {
            self.send(Method::DELETE, &path, one, json!({})).await;
        }
        self.send(Method::DELETE, "/v1/keys/none", one, json!({})).await;
        let list = self.get(keys, keys).await;
        assert!(list["keys"][0]["revoked_at"].is_string() && list["keys"][0].get("key").is_none(), "{list}");
        self.send(Method::POST, "/v1/tickets", "/v1/tickets", json!({})).await;
    }

    async fn rest(&mut self) {
        for path in ["/v1/apps", "/v1/me", "/v1/usage", "/healthz", "/readyz", "/metrics"] {
            self.get(path, path).await;
        }
        for query in ["", "?limit=2", "?limit=2000", "?state=settled&app=shop", "?before=a%2Fb", "?colour=red"] {
            self.get(&format!("/v1/runs{query}"), "/v1/runs").await;
        }
        for app in ["none", "broken"] {
            self.send(Method::POST, "/v1/runs", "/v1/runs", json!({"app": app, "input": "Go."})).await;
        }
        for wrong in
            [json!([]), json!({"app": "shop", "input": ""}), json!({"app": "shop", "input": "Go.", "user": "a/b"})]
        {
            self.send(Method::POST, "/v1/runs", "/v1/runs", wrong).await;
        }
        self.get("/v1/runs/%FF", "/v1/runs/{run_id}").await;
    }
}

#[tokio::test]
async fn every_call_is_answered_in_the_form_that_is_described() {
    let mut checked = Checked::new().await;
    checked.approvals().await;
    checked.stops().await;
    checked.line().await;
    checked.feeds().await;
    checked.board().await;
    checked.sessions().await;
    checked.access().await;
    checked.rest().await;
    let Description { answered, .. } = &checked.description;
    assert_eq!(*answered, checked.description.calls(), "each call that is described was answered well at least once");
}

#[tokio::test]
async fn a_method_that_is_not_described_is_refused_at_every_path() {
    let house = House::silent().await;
    let description = Description::of(&house).await;
    for (path, methods) in description.spec["paths"].as_object().unwrap() {
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
            if methods.get(method.as_str().to_lowercase()).is_none() {
                let response = house.request(method.clone(), &path.replace(['{', '}'], "")).send().await.unwrap();
                assert_eq!(response.status(), 405, "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn routes_that_need_the_journal_document_503() {
    let house = House::silent().await;
    let (_, spec) = house.get("/openapi.json").await;
    for (path, methods) in spec["paths"].as_object().unwrap().iter().filter(|(path, _)| path.starts_with("/v1/")) {
        for (method, call) in methods.as_object().unwrap() {
            let is_known = ["/v1/line", "/v1/keys"].contains(&path.as_str()) && method == "get";
            let needs_none = ["/v1/apps", "/v1/me"].contains(&path.as_str()) || is_known;
            assert_eq!(call["responses"]["503"].is_object(), !needs_none, "{method} {path}");
        }
    }
    let create = &spec["paths"]["/v1/runs"]["post"]["responses"];
    assert!(create["204"].is_object(), "a repetition with a last event id gets nothing after the end");
}

#[test]
fn every_route_is_documented() {
    let source = include_str!("../../src/api/mod.rs");
    let routes: Vec<&str> = source.lines().filter(|line| line.contains(".route(")).map(str::trim).collect();
    let only = r#"routes.clone().route("/openapi.json", get(openapi)).with_state(Shared::clone(core))"#;
    assert_eq!(routes, [only], "use routes!, which describes what it adds");
}
