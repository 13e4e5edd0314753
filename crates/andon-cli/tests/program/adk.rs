//! ADK's dialect in the real program: killed, shut down, and stopped by another process.

use reqwest::Response;

use crate::child::*;
use crate::server::Served;

pub(crate) const SESSION: &str = "/apps/practice/users/ada/sessions/s";

pub(crate) fn ask(text: &str) -> Value {
    let message = json!({"role": "user", "parts": [{"text": text}]});
    json!({"appName": "practice", "userId": "ada", "sessionId": "s", "newMessage": message, "streaming": true})
}

/// A stream of `/run_sse` and what it has sent.
struct Stream {
    response: Response,
    rest: String,
    events: Vec<Value>,
}

impl Stream {
    /// Creates the session, and starts a run in it.
    fn begin(served: &Served, text: &str) -> Self {
        let (status, told) = served.post(SESSION, &json!({}));
        assert_eq!(status, 200, "{told}");
        let response = served.open("/run_sse", &ask(text));
        assert_eq!(response.status().as_u16(), 200);
        Self { response, rest: String::new(), events: Vec::new() }
    }

    /// Reads more. Returns whether anything came.
    fn more(&mut self, served: &Served) -> bool {
        let Some(more) = served.more(&mut self.response) else { return false };
        self.rest.push_str(&more);
        while let Some((event, rest)) = self.rest.split_once("\n\n") {
            // Heartbeats are not events.
            if let Some(data) = event.strip_prefix("data: ") {
                self.events.push(serde_json::from_str(data).unwrap());
            }
            self.rest = rest.to_owned();
        }
        true
    }

    /// Reads until the wanted event has come.
    fn until(&mut self, served: &Served, is_it: impl Fn(&Self) -> bool) {
        while !is_it(self) {
            assert!(self.more(served), "it ended too early: {:?}", self.events);
        }
    }

    /// Reads everything, however it ends.
    fn rest(mut self, served: &Served) -> Vec<Value> {
        while self.more(served) {}
        self.events
    }

    /// The text that was shown.
    fn shown(&self) -> String {
        shown(&self.events)
    }

    /// The run.
    fn run(&self) -> String {
        self.events[0]["invocationId"].as_str().unwrap().to_owned()
    }
}

fn shown(events: &[Value]) -> String {
    events.iter().filter(|event| event["partial"] == true).map(text).collect()
}

fn text(event: &Value) -> String {
    let parts = event["content"]["parts"].as_array().cloned().unwrap_or_default();
    parts.iter().filter_map(|part| part["text"].as_str()).collect()
}

/// The session's record. Checks that no two turns of the user are adjacent, and that each call has its response.
fn stored(served: &Served) -> Vec<Value> {
    let (status, session) = served.get(SESSION);
    assert_eq!(status, 200, "{session}");
    let events = session["events"].as_array().unwrap().clone();
    let turns: Vec<&str> = events.iter().filter_map(|event| event["content"]["role"].as_str()).collect();
    assert!(!turns.windows(2).any(|two| two == ["user", "user"]), "{turns:?}");
    let parts = || events.iter().flat_map(|event| event["content"]["parts"].as_array().cloned().unwrap_or_default());
    let ids = |of| parts().filter_map(|part| Some(part[of]["id"].as_str()?.to_owned())).collect::<Vec<_>>();
    assert_eq!(ids("functionCall"), ids("functionResponse"));
    events
}

fn ends(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["errorCode"].as_str()).collect()
}

/// Checks that the next turn is accepted and answered.
fn goes_on(served: &Served) {
    let (status, told) = served.post("/run", &ask("what time is it"));
    assert_eq!(status, 200, "{told}");
    let told = told.as_array().unwrap();
    assert!(!text(told.last().unwrap()).is_empty() && ends(told).is_empty(), "{told:?}");
    stored(served);
}

/// C11.
#[test]
fn what_was_sent_before_a_kill_is_in_the_session_but_for_the_last_50_ms_and_the_run_is_closed() {
    let db = Database::new();
    let served = Served::start(&db, &[]);
    let mut stream = Stream::begin(&served, "tell me a long story");
    stream.until(&served, |stream| stream.shown().contains("## 1. "));
    served.program.signal(Signal::KILL);
    let shown = shown(&stream.rest(&served));
    served.program.end_without_closing();

    let served = Served::start(&db, &[]);
    let events = stored(&served);
    let [_, cut, end] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((&end["errorCode"], &cut["interrupted"]), (&json!("INVOCATION_INTERRUPTED"), &json!(true)));
    let kept = text(cut);
    // The journal may have been a word ahead of the client.
    let (long, short) = if shown.len() > kept.len() { (&shown, &kept) } else { (&kept, &shown) };
    let lost = long.strip_prefix(short.as_str()).expect("it is the same text").split_whitespace().count();
    // A word takes more than 25 ms. A slow disk may have held up a few more.
    assert!(lost <= 4, "{lost} words were lost of\n{shown}");
    goes_on(&served);
    assert_eq!(ends(&stored(&served)), ["INVOCATION_INTERRUPTED"], "it is closed once");
}

/// C10, C12.
#[test]
fn a_tool_that_was_running_when_the_server_was_killed_is_closed_and_not_run_again() {
    let db = Database::new();
    let served = Served::start(&db, &[]);
    let mut stream = Stream::begin(&served, "count slowly to 60");
    stream.until(&served, |stream| !stream.events.is_empty());
    let run = stream.run();
    served.wait_for(&run, "tool_started");
    served.program.kill();

    // The second start changes nothing, either.
    for _ in 0..2 {
        let served = Served::start(&db, &[]);
        let events = stored(&served);
        assert_eq!(ends(&events), ["INVOCATION_INTERRUPTED"], "{events:?}");
        let response = events.iter().find_map(|event| event["content"]["parts"][0].get("functionResponse")).unwrap();
        assert!(response["response"]["error"].is_string(), "{response}");
        let feed = served.text(&format!("/v1/runs/{run}/events"));
        assert_eq!(feed.matches("\"type\":\"tool_started\"").count(), 1, "{feed}");
        let resumed = served.post("/run", &{
            let mut order = ask("go on");
            order["invocationId"] = json!(run);
            order
        });
        assert_eq!(resumed.0, 400, "a run is not resumed: {}", resumed.1);
        goes_on(&served);
        served.program.kill();
    }
}

/// C15.
#[test]
fn a_server_that_shuts_down_during_a_run_settles_it_in_time() {
    let db = Database::new();
    let served = Served::start(&db, &["--drain", "50ms"]);
    let mut stream = Stream::begin(&served, "tell me a long story");
    stream.until(&served, |stream| !stream.shown().is_empty());
    served.program.signal(Signal::TERM);
    let told = stream.rest(&served);
    let ended = served.program.end_without_closing();
    assert!(ended.stdout.contains("Shut down: all runs have settled, and 1 run was stopped."), "{}", ended.stdout);
    assert_eq!(ends(&told), ["INVOCATION_ABORTED"], "{told:?}");

    let served = Served::start(&db, &[]);
    let events = stored(&served);
    let [_, cut, end] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((text(cut), &end["customMetadata"]["andon"]["reason"]), (shown(&told), &json!("shutdown")));
    assert_eq!(told.last(), Some(end), "what was told is what is kept");
    goes_on(&served);
}

/// C16.
#[test]
fn a_cancel_from_another_process_reaches_an_adk_run() {
    let db = Database::new();
    let served = Served::start(&db, &[]);
    let mut stream = Stream::begin(&served, "tell me a long story");
    stream.until(&served, |stream| !stream.shown().is_empty());
    let cancelled = db.run(&["cancel", &stream.run(), "--wait", "--json"]).json().remove(0);
    assert_eq!(cancelled["state"], "settled", "{cancelled}");
    let told = stream.rest(&served);
    assert_eq!(ends(&told), ["INVOCATION_ABORTED"]);
    let events = stored(&served);
    assert_eq!((text(&events[1]), told.last()), (shown(&told), events.last()));
    goes_on(&served);
}
