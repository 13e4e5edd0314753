//! A conversation as its model will see it.

use andon_runtime::{Cancel, Rendering};

use crate::common::*;

const NEXT: &str = "<the next prompt>";

fn answer(text: &str) -> Vec<Act> {
    vec![Act::text(text), Act::end()]
}

/// An answer that calls tools.
fn asks(tools: &[&str]) -> Vec<Act> {
    let calls = tools.iter().enumerate().flat_map(|(index, tool)| Act::call(index, &format!("c-{tool}"), tool, "{}"));
    [Act::text("Let me see.")].into_iter().chain(calls).chain([Act::tool_use()]).collect()
}

/// A server whose app has tools and a model that remembers its requests.
async fn world(answers: impl IntoIterator<Item = Vec<Act>>) -> (Inside, ScriptedModel) {
    let model = ScriptedModel::new(answers);
    let log = ToolLog::new();
    let tools = [quick("look", &log), slow("search", Duration::from_secs(3600), &log)];
    let shop = Agent::builder().model(model.clone()).instructions("Be brief.").tools(tools);
    (Inside::new(shop).await, model)
}

async fn shown(inside: &Inside, run: &str) -> Value {
    let (status, shown) = inside.get(&format!("/v1/runs/{run}/conversation")).await;
    assert_eq!(status, StatusCode::OK, "{shown}");
    shown
}

/// The last request that the model really got.
fn asked(model: &ScriptedModel) -> Value {
    Rendering::plain(model.requests().last().unwrap()).body
}

/// The texts of the stored messages.
fn texts(shown: &Value) -> Vec<String> {
    let messages = shown["messages"].as_array().unwrap().iter();
    messages.map(|message| message["parts"][0]["text"].as_str().unwrap_or("-").to_owned()).collect()
}

async fn begun(inside: &Inside, id: &str, more: Value) -> Run {
    let mut order = json!({"run_id": id, "session": "s"});
    order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let run = inside.start(order).await;
    let mut feed = inside.feed(id, None).await;
    feed.until_type("delta").await;
    run
}

async fn stopped(run: &Run) {
    run.cancel(Cancel::graceful());
    run.outcome().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_stopped_in_mid_answer_shows_what_the_model_is_told_next() {
    let (inside, model) = world([answer("Hello."), endless(), answer("Well.")]).await;
    begun(&inside, "one", json!({})).await.outcome().await;
    stopped(&begun(&inside, "two", json!({"input": "Tell me."})).await).await;
    let before = shown(&inside, "two").await;
    assert_eq!(texts(&before), ["hello", "Hello.", "Tell me.", "Once upon a time"]);
    assert_eq!(before["messages"][3]["cut"], json!({"by": "cancelled", "reason": "requested"}));
    assert_eq!(before["open"], json!([{"what": "prompt", "text": NEXT}]));
    assert!(before["request"].to_string().contains("stopped by the user"), "{before}");
    begun(&inside, "three", json!({"input": NEXT})).await.outcome().await;
    assert_eq!(before["request"], asked(&model), "what was shown is what came");
    assert_eq!((before["form"].as_str(), before["truncated"].as_bool()), (Some("andon"), Some(false)));
    assert_eq!(before["model"].as_str(), Some(andon_runtime::Model::name(&model)));
    assert_eq!(before["request"]["instructions"], "Be brief.");
    assert_eq!(shown(&inside, "two").await, before, "what later runs said is not in it");
    assert_eq!(texts(&shown(&inside, "one").await), ["hello", "Hello."]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_stopped_in_mid_tool_shows_what_the_model_is_told_next() {
    let (inside, model) = world([asks(&["look", "search"]), answer("Well.")]).await;
    let run = begun(&inside, "one", json!({})).await;
    inside.feed("one", None).await.until_type("tool_started").await;
    let running = shown(&inside, "one").await;
    assert_eq!(running["messages"].as_array().unwrap().len(), 2);
    let open = running["open"].as_array().unwrap();
    assert_eq!(open.last().unwrap(), &json!({"what": "result", "call": "c-search", "text": "<no result yet>"}));
    assert_eq!(running["request"]["messages"][2]["role"], "tool");
    stopped(&run).await;
    let before = shown(&inside, "one").await;
    assert_eq!(before["messages"].as_array().unwrap().len(), 3, "{before}");
    begun(&inside, "two", json!({"input": NEXT})).await.outcome().await;
    assert_eq!(before["request"], asked(&model));
    assert_eq!(shown(&inside, "one").await, before);
}

#[tokio::test(start_paused = true)]
async fn a_run_in_progress_shows_the_request_that_its_model_is_answering() {
    let (inside, model) = world([answer("Hello."), endless()]).await;
    begun(&inside, "one", json!({})).await.outcome().await;
    let run = begun(&inside, "two", json!({"input": "Tell me."})).await;
    let now = shown(&inside, "two").await;
    assert_eq!(now["request"], asked(&model));
    assert_eq!((texts(&now), now["open"].is_null()), (vec!["hello".into(), "Hello.".into(), "Tell me.".into()], true));
    stopped(&run).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_its_turn_shows_what_is_known_of_those_before_it_and_says_what_is_not() {
    let (inside, _) = world([answer("Hello."), asks(&["look", "search"])]).await;
    begun(&inside, "one", json!({})).await.outcome().await;
    let run = begun(&inside, "two", json!({"input": "Tell me."})).await;
    inside.feed("two", None).await.until_type("tool_started").await;
    for (id, input) in [("three", "And then?"), ("four", "And what then?")] {
        inside.start(json!({"run_id": id, "session": "s", "input": input, "when_busy": "queue"})).await;
    }
    let waiting = shown(&inside, "four").await;
    assert_eq!(texts(&waiting), ["hello", "Hello.", "Tell me.", "Let me see."], "what is stored");
    let open = waiting["open"].as_array().unwrap();
    let before: Vec<&Value> = open.iter().filter(|open| open["what"] == "run").map(|open| &open["run"]).collect();
    assert_eq!(before, ["two", "three"], "{open:?}");
    assert!(open.iter().any(|open| open["what"] == "result" && open["call"] == "c-search"), "{open:?}");
    let request = waiting["request"]["messages"].as_array().unwrap();
    let roles: Vec<&str> = request.iter().map(|message| message["role"].as_str().unwrap()).collect();
    let turn = ["user", "assistant"];
    let tools = ["user", "assistant", "tool", "assistant"];
    assert_eq!(roles, [&turn[..], &tools, &turn, &["user"]].concat());
    let stand_in = open.last().unwrap()["text"].as_str().unwrap();
    for (place, text) in [(5, stand_in), (6, "And then?"), (7, stand_in), (8, "And what then?")] {
        assert_eq!(request[place]["parts"][0]["text"], text, "{place}");
    }
    let of_three = shown(&inside, "three").await["open"].to_string();
    assert!(of_three.contains("two") && !of_three.contains("four"), "what comes after it is not in it: {of_three}");
    stopped(&run).await;
}

#[tokio::test(start_paused = true)]
async fn without_its_app_a_conversation_is_shown_as_it_is_stored() {
    let (inside, model) = world([answer("Hello.")]).await;
    begun(&inside, "one", json!({})).await.outcome().await;
    let served = shown(&inside, "one").await;
    for refused in [true, false] {
        match refused {
            true => inside.server.apps().refuse("shop", "it is broken"),
            false => inside.server.apps().remove("shop"),
        }
        let bare = shown(&inside, "one").await;
        assert_eq!((bare["form"].as_str(), &bare["messages"]), (Some("andon"), &served["messages"]));
        assert_eq!(bare["request"], json!({"messages": served["request"]["messages"]}));
        assert_eq!(bare["model"].as_str(), Some(andon_runtime::Model::name(&model)), "the one that was asked");
    }
}

#[tokio::test(start_paused = true)]
async fn a_very_long_conversation_shows_its_end_and_says_that_there_was_more() {
    let (inside, _) = world((0..10).map(|number| answer(&format!("Answer {number}.")))).await;
    for number in 0..10 {
        let input = format!("{number}: {}", "word ".repeat(200_000));
        begun(&inside, &format!("r-{number}"), json!({"input": input})).await.outcome().await;
    }
    let last = shown(&inside, "r-9").await;
    assert_eq!(last["truncated"], true);
    let request = last["request"]["messages"].as_array().unwrap();
    assert_eq!(request.len(), 9, "four runs, this one among them, and the next prompt");
    assert!(request[0]["parts"][0]["text"].as_str().unwrap().starts_with("6: word"));
    // Stored messages are not all sent a second time.
    let (said, left_out) = (texts(&last), last["messages_left_out"].as_u64().unwrap());
    assert_eq!((said.last().map(String::as_str), said.len() as u64 + left_out), (Some("Answer 9."), 8));
    assert!(said.len() >= 2 && last["messages"].to_string().len() <= 1 << 20, "{}", said.len());
    assert!(last.to_string().len() < 6 << 20);
    assert_eq!(shown(&inside, "r-1").await["truncated"], false);
}

#[tokio::test(start_paused = true)]
async fn of_a_very_long_run_the_prompt_and_the_last_turns_are_shown() {
    let long = |number: usize| {
        let call = Act::call(0, &format!("c-{number}"), "look", "{}");
        [Act::text(&format!("{number}: {}", "word ".repeat(200_000)))]
            .into_iter()
            .chain(call)
            .chain([Act::tool_use()])
            .collect()
    };
    let answers: Vec<Vec<Act>> =
        [answer("Before.")].into_iter().chain((0..6).map(long)).chain([answer("Done.")]).collect();
    let (inside, _) = world(answers).await;
    begun(&inside, "one", json!({})).await.outcome().await;
    begun(&inside, "two", json!({"input": "Tell me all."})).await.outcome().await;
    let shown = shown(&inside, "two").await;
    assert_eq!(shown["truncated"], true);
    let request = shown["request"]["messages"].as_array().unwrap();
    let first = |place: usize| request[place]["parts"][0]["text"].as_str().unwrap_or_default();
    assert_eq!((first(0), request[1]["role"].as_str()), ("Tell me all.", Some("assistant")));
    assert!(first(1).starts_with("2: word"), "{}", &first(1)[..9]);
    assert_eq!((request[2]["role"].as_str(), request.len()), (Some("tool"), 11));
    assert!(shown.to_string().len() < 6 << 20);
}

#[tokio::test(start_paused = true)]
async fn a_few_conversations_are_shown_at_one_time_and_each_until_it_has_been_read() {
    let options = Options::new().max_showing(2);
    let shop = Agent::builder().model(ScriptedModel::new([answer("Hello.")]));
    let inside = Inside::build(Arc::new(MemoryJournal::new()), options, shop).await;
    begun(&inside, "one", json!({})).await.outcome().await;
    let path = "/v1/runs/one/conversation";
    let ask = || inside.send(axum::http::Method::GET, path, None, None);
    let held = [ask().await, ask().await];
    let (status, problem) = inside.get(path).await;
    let told = (status, problem["type"].as_str());
    assert_eq!(told, (StatusCode::TOO_MANY_REQUESTS, Some("urn:andon:too-many-requests")));
    for response in held {
        assert_eq!(crate::inside::answered(response).await, (StatusCode::OK, shown(&inside, "one").await));
    }
    drop((ask().await, ask().await));
    shown(&inside, "one").await;
    assert_eq!(inside.get("/v1/runs/nobody/conversation").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn a_missing_run_has_no_conversation() {
    let (inside, _) = world([]).await;
    let (status, problem) = inside.get("/v1/runs/nobody/conversation").await;
    assert_eq!(
        (status, problem["type"].as_str()),
        (StatusCode::NOT_FOUND, inside.get("/v1/runs/nobody").await.1["type"].as_str())
    );
}

#[tokio::test]
async fn it_is_shown_in_the_form_of_the_models_provider() {
    use andon_testkit::provider::{BadProvider, Dialect, Protocol, Reply, Script};
    let provider = BadProvider::start(Protocol::Http1).await;
    let dialect = Dialect::Anthropic;
    provider.always(Script::reply(dialect, &Reply::text(["Once", " more."])));
    let model = dialect.adapter("claude-x").base_url(provider.base_url()).key("sk-canary").build().unwrap();
    let shop: AgentBuilder = Agent::builder().model(model).instructions("Be brief.");
    let inside = Inside::build(Arc::new(MemoryJournal::new()), Options::default(), shop).await;
    begun(&inside, "one", json!({})).await.outcome().await;
    let before = shown(&inside, "one").await;
    assert_eq!((before["form"].as_str(), before["model"].as_str()), (Some("anthropic"), Some("anthropic/claude-x")));
    begun(&inside, "two", json!({"input": NEXT})).await.outcome().await;
    assert_eq!(before["request"], provider.all_seen()[1].json());
    assert!(!before.to_string().contains("canary"));
}
