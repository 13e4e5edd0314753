//! A `#[tool]` function is a tool like any other: its options reach the model and the runtime, and a stop reaches its
//! body.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "../../andon-runtime/tests/runtime/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use andon::core::message::{ResultStatus, ToolResult};
use andon::model::Kind;
use andon::run::Undo;
use andon::tool::{
    AsJson, Effect, EffectId, Invocation, OnCancel, Progress, Returned, SessionState, Tool, ToolOutput, ToolSpec,
};
use andon::{Cancel, Cord, Event, FeedItem, SessionKey, ToolError, Verdict, tool};
use andon_testkit::{Act, ScriptedModel};
use serde_json::{Value, json};

use common::*;

/// The model calls this tool once, with these arguments, and then ends.
fn asks(tool: &str, arguments: &Value) -> ScriptedModel {
    let call = Act::call(0, "c", tool, &arguments.to_string());
    ScriptedModel::new([answer([call, vec![Act::usage(10, 2), Act::tool_use()]]), says("Well.")])
}

/// What the model is told of one call.
async fn returned(tool: impl Tool, arguments: Value) -> ToolResult {
    let model = asks(&tool.spec().name, &arguments);
    let session = agent(&model).tool(tool).open();
    let run = session.start("Go.").unwrap();
    let outcome = settled(&session, &run).await;
    assert_eq!(outcome.stop_reason(), "end_turn");
    result_of(&session.history().await.unwrap(), "c")
}

fn ok(text: &str) -> ToolResult {
    ToolResult::text(id("c"), ResultStatus::Ok, text)
}

// ---- its options ----

/// Fetches a page as text.
///
/// Follows redirects.
#[tool]
async fn plain(url: String) -> String {
    url
}

#[tool(
    name = "wire-money",
    description = "Sends money.",
    effect = "idempotent",
    grace = "1m30s",
    on_cancel = "finish",
    finish_within = "5s",
    timeout = "2m",
    needs_approval,
    max_output = 65_536,
    compensation = take_back,
    compensation_within = "20s"
)]
/// This is not what the model is told.
async fn wire(amount: u32) -> String {
    format!("sent {amount}")
}

async fn take_back(undo: Undo) -> Returned {
    Ok(format!("took back {}", undo.input["amount"]).into())
}

#[test]
fn a_tool_without_options_is_as_careful_as_any_other() {
    let schema = json!({
        "type": "object",
        "properties": { "url": { "type": "string" } },
        "required": ["url"],
        "additionalProperties": false,
    });
    let expected = ToolSpec::new("plain", "Fetches a page as text.\n\nFollows redirects.", schema);
    assert_eq!(**plain.spec(), expected);
}

#[test]
fn every_option_of_a_tool_reaches_its_spec() {
    let spec = wire.spec();
    assert_eq!((spec.name.as_str(), spec.description.as_str()), ("wire-money", "Sends money."));
    assert_eq!((spec.effect, spec.grace), (Effect::Idempotent, secs(90)));
    assert_eq!((spec.on_cancel, spec.timeout), (OnCancel::Finish { within: secs(5) }, Some(secs(120))));
    assert_eq!((spec.needs_approval, spec.max_output, spec.compensation), (true, 65_536, Some(secs(20))));
}

#[tool(on_cancel = "finish", compensation = take_back)]
/// Says the least.
async fn least() {}

#[tool(on_cancel = "drop", effect = "read_only", grace = "0s")]
/// Is dropped.
async fn dropped() {}

#[tool(on_cancel = "detach", effect = "effect")]
/// Lives on.
async fn detached() {}

#[test]
fn each_way_to_be_cancelled_and_each_kind_of_effect_reaches_the_spec() {
    let said = |tool: &dyn Tool| (tool.spec().on_cancel, tool.spec().effect, tool.spec().compensation);
    assert_eq!(said(&least), (OnCancel::Finish { within: secs(30) }, Effect::Effect, Some(secs(10))));
    assert_eq!(said(&dropped), (OnCancel::Drop, Effect::ReadOnly, None));
    assert_eq!(said(&detached), (OnCancel::Detach, Effect::Effect, None));
    assert_eq!(dropped.spec().grace, Duration::ZERO);
}

#[tokio::test]
async fn a_compensation_is_given_the_call_that_it_undoes() {
    let undo = Undo::new(
        "wire-money",
        id("c"),
        andon::RunId::new("r").unwrap(),
        SessionKey::new("app", "local", "s").unwrap(),
        json!({"amount": 7}),
        Verdict::Finished,
        Arc::new(ok("sent 7")),
    );
    assert_eq!(wire.compensate(undo).await, Ok("took back 7".into()));
}

/// How to sort.
#[derive(serde::Deserialize, schemars::JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
enum Order {
    Newest,
    Oldest,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Range {
    /// The first.
    from: u64,
    to: u64,
}

#[tool(effect = "read_only")]
/// Searches.
#[expect(clippy::too_many_arguments, reason = "an attribute of the function stays on the function")]
async fn search(
    /// What to look for.
    ///
    /// May be empty.
    query: String,
    /// How many at most.
    max: Option<u32>,
    #[tool(default = 20)] page_size: u8,
    #[tool(default)] tags: Vec<String>,
    order: Order,
    range: Range,
    #[serde(rename = "kind")]
    #[schemars(length(max = 8))]
    r#type: String,
    weights: BTreeMap<String, f64>,
    cord: Cord,
) -> String {
    let is_pulled = cord.is_pulled();
    format!("{query} {max:?} {page_size} {tags:?} {order:?} {}-{} {type} {weights:?} {is_pulled}", range.from, range.to)
}

#[test]
fn the_schema_describes_the_arguments_and_not_what_the_runtime_passes_in() {
    let expected = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "description": "What to look for.\n\nMay be empty." },
            "max": { "type": ["integer", "null"], "minimum": 0, "description": "How many at most." },
            "page_size": { "type": "integer", "minimum": 0, "maximum": 255, "default": 20 },
            "tags": { "type": "array", "items": { "type": "string" }, "default": [] },
            "order": { "type": "string", "enum": ["newest", "oldest"], "description": "How to sort." },
            "range": {
                "type": "object",
                "properties": {
                    "from": { "type": "integer", "minimum": 0, "description": "The first." },
                    "to": { "type": "integer", "minimum": 0 },
                },
                "required": ["from", "to"],
            },
            "kind": { "type": "string", "maxLength": 8 },
            "weights": { "type": "object", "additionalProperties": { "type": "number" } },
        },
        "required": ["query", "order", "range", "kind", "weights"],
        "additionalProperties": false,
    });
    assert_eq!(search.spec().schema, expected);
    let nothing = json!({"type": "object", "properties": {}, "additionalProperties": false});
    assert_eq!(least.spec().schema, nothing);
}

#[tokio::test(start_paused = true)]
async fn arguments_arrive_with_their_types_and_what_is_left_out_has_its_default() {
    let arguments = json!({
        "query": "cats", "order": "oldest", "range": {"from": 1, "to": 2}, "kind": "pic", "weights": {"a": 0.5},
    });
    let expected = r#"cats None 20 [] Oldest 1-2 pic {"a": 0.5} false"#;
    assert_eq!(returned(search, arguments).await, ok(expected));
    let arguments = json!({
        "query": "", "max": 3, "page_size": 5, "tags": ["x"], "order": "newest", "range": {"from": 1, "to": 2},
        "kind": "pic", "weights": {},
    });
    let expected = r#" Some(3) 5 ["x"] Newest 1-2 pic {} false"#;
    assert_eq!(returned(search, arguments).await, ok(expected));
}

#[tokio::test(start_paused = true)]
async fn arguments_that_do_not_fit_never_reach_the_function() {
    // What the schema refuses, the runtime refuses.
    for arguments in [json!({}), json!({"amount": "much"}), json!({"amount": 1, "to": "me"})] {
        let result = returned(small, arguments).await;
        assert_eq!(result.status, ResultStatus::Refused, "{result:?}");
    }
    // What the schema cannot express, serde refuses.
    let result = returned(small, json!({"amount": 5_000_000_000_u64})).await;
    let expected = "The argument `amount` is not valid: invalid value: integer `5000000000`, expected u32.";
    assert_eq!(result, ToolResult::text(id("c"), ResultStatus::Error, expected));
}

#[tool]
/// Takes a small number.
async fn small(amount: u32) -> String {
    amount.to_string()
}

// ---- what it may return ----

#[derive(serde::Serialize)]
struct Report {
    pages: u32,
}

#[tool]
/// Returns text.
async fn text() -> &'static str {
    "text"
}
#[tool]
/// Returns a JSON value.
async fn value() -> Value {
    json!([1])
}
#[tool]
/// Returns what serde can write.
async fn report() -> AsJson<Report> {
    AsJson(Report { pages: 3 })
}
#[tool]
/// Returns what serde can write, or an error of text.
async fn maybe(fail: bool) -> Result<AsJson<Report>, String> {
    if fail { Err("no pages".to_owned()) } else { Ok(AsJson(Report { pages: 4 })) }
}
#[tool]
/// Returns whatever a tool can.
async fn output() -> Result<ToolOutput, ToolError> {
    Ok("output".into())
}
#[tool]
/// Fails as the standard library does.
async fn number(text: String) -> Result<String, std::num::ParseIntError> {
    Ok(text.parse::<i64>()?.to_string())
}
#[tool]
/// Fails in a box.
async fn boxed(text: String) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    text.parse::<i64>()?;
    Ok(())
}
#[tool]
/// Returns what cannot be written.
async fn unwritable() -> AsJson<BTreeMap<Vec<u8>, u8>> {
    AsJson([(vec![1], 1)].into())
}

#[tokio::test(start_paused = true)]
async fn the_model_is_told_what_the_function_returns() {
    assert_eq!(returned(text, json!({})).await, ok("text"));
    assert_eq!(returned(value, json!({})).await, ok("[1]"));
    assert_eq!(returned(report, json!({})).await, ok(r#"{"pages":3}"#));
    assert_eq!(returned(maybe, json!({"fail": false})).await, ok(r#"{"pages":4}"#));
    assert_eq!(returned(output, json!({})).await, ok("output"));
    assert_eq!(returned(boxed, json!({"text": "1"})).await, ok("done"));
    let error = |text: &str| ToolResult::text(id("c"), ResultStatus::Error, text);
    assert_eq!(returned(maybe, json!({"fail": true})).await, error("no pages"));
    assert_eq!(returned(number, json!({"text": "x"})).await, error("invalid digit found in string"));
    assert_eq!(returned(boxed, json!({"text": ""})).await, error("cannot parse integer from empty string"));
    let expected = error("the result cannot be written as JSON: key must be a string");
    assert_eq!(returned(unwritable, json!({})).await, expected);
}

// ---- what the runtime passes in ----

#[tool(effect = "read_only")]
/// Counts until it is told to stop.
async fn count(cord: Cord, progress: Progress) -> String {
    for number in 1.. {
        progress.step(f64::from(number), None, Some("counted"));
        tokio::select! {
            () = cord.pulled() => return format!("It had counted to {number}."),
            () = tokio::time::sleep(secs(1)) => {}
        }
    }
    String::new()
}

#[tokio::test(start_paused = true)]
async fn a_pulled_cord_reaches_the_body_and_what_it_had_done_is_kept() {
    let model = asks("count", &json!({}));
    let session = agent(&model).tool(count).open();
    let run = session.start("Count.").unwrap();
    until_shown(&run, "3 counted").await;
    run.cancel(Cancel::graceful());
    let outcome = cancelled(&session, &run).await;
    assert_eq!(outcome.receipt.calls[0].verdict, Verdict::Cut);
    let told = result_of(&session.history().await.unwrap(), "c").to_text();
    assert!(told.ends_with("It had counted to 3."), "{told}");
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_shows_is_in_the_feed_under_its_call() {
    let model = asks("count", &json!({}));
    let session = agent(&model).tool(count).open();
    let run = session.start("Count.").unwrap();
    let mut feed = run.feed();
    let delta = loop {
        match feed.next().await.expect("the tool shows something before the run ends") {
            FeedItem::Delta(delta) if matches!(delta.kind, Kind::ToolOutput(_)) => break delta,
            _ => {}
        }
    };
    assert_eq!(delta.kind, Kind::ToolOutput(id("c")));
    assert!(delta.text.starts_with("1 counted\n"), "{}", delta.text);
    run.cancel(Cancel::now());
    run.outcome().await;
}

#[tool]
/// Remembers a word, and says which one it knew.
async fn remember(word: String, state: SessionState) -> Result<String, ToolError> {
    let known = state.get("word").await?;
    state.set("word", word).await?;
    Ok(known.map_or_else(|| "none".to_owned(), |known| known.to_string()))
}

#[tokio::test(start_paused = true)]
async fn the_sessions_state_is_read_and_changed_by_the_body() {
    let ask = |id: &str, word: &str| {
        let call = Act::call(0, id, "remember", &json!({"word": word}).to_string());
        answer([call, vec![Act::usage(10, 2), Act::tool_use()]])
    };
    let model = ScriptedModel::new([ask("a", "first"), ask("b", "second"), says("Well.")]);
    let session = agent(&model).tool(remember).open();
    assert_eq!(session.run("Go.").await.unwrap().stop_reason(), "end_turn");
    let history = session.history().await.unwrap();
    assert_eq!(result_of(&history, "a").to_text(), "none");
    assert_eq!(result_of(&history, "b").to_text(), "\"first\"");
    assert_eq!(session.state().await.unwrap().get("word"), Some(&json!("second")));
}

#[tool]
/// Says its key.
async fn keyed(effect: EffectId, call: Invocation, again: andon::tool::EffectId) -> String {
    assert_eq!((effect.as_str(), again.as_str()), (call.effect_id().as_str(), call.effect_id().as_str()));
    format!("{effect} {} {}", call.call, call.input)
}

#[tokio::test(start_paused = true)]
async fn the_effect_id_that_is_passed_in_is_the_one_on_record() {
    let model = asks("keyed", &json!({}));
    let session = agent(&model).tool(keyed).open();
    let run = session.start("Go.").unwrap();
    settled(&session, &run).await;
    let on_record = events(&run).into_iter().find_map(|event| match event {
        Event::ToolStarted { effect_id, .. } => effect_id,
        _ => None,
    });
    let expected = format!("{} c {{}}", on_record.expect("an effect has a key on record"));
    assert_eq!(result_of(&session.history().await.unwrap(), "c"), ok(&expected));
}

#[tool(blocking, effect = "read_only")]
/// Works on a thread of its own.
fn heavy(number: u64) -> Result<String, String> {
    let thread = std::thread::current().id();
    if number == 0 { Err("zero".to_owned()) } else { Ok(format!("{thread:?}")) }
}

#[tokio::test]
async fn a_blocking_function_runs_on_a_separate_thread() {
    let result = returned(heavy, json!({"number": 1})).await;
    assert_eq!(result.status, ResultStatus::Ok);
    assert_ne!(result.to_text(), format!("{:?}", std::thread::current().id()));
    assert_eq!(returned(heavy, json!({"number": 0})).await, ToolResult::text(id("c"), ResultStatus::Error, "zero"));
}

// ---- a function among others ----

mod elsewhere {
    use andon::tool;

    /// Is used in another module.
    #[tool]
    pub(crate) async fn far(far: String, mut times: u32) -> String {
        times += 1;
        format!("{far} {times}")
    }

    #[tool]
    #[cfg(any())]
    /// Is not there.
    pub(crate) async fn absent(nothing: NoSuchType) {}

    macro_rules! made {
        ($name:ident, $argument:ident) => {
            #[tool]
            /// Was made by a macro.
            pub(crate) async fn $name($argument: String) -> String {
                $argument
            }
        };
    }
    made!(made, word);

    /// A crate that has andon under another name.
    pub(crate) mod renamed {
        pub(crate) use andon as engine;

        #[engine::tool(crate = self::engine)]
        /// Knows andon as the engine.
        pub(crate) async fn other(cord: engine::Cord) -> String {
            cord.run_id().to_string()
        }
    }
}

use elsewhere::far;

#[tokio::test(start_paused = true)]
async fn a_tool_is_a_value_that_can_be_handed_out_and_shadowed_like_any_function() {
    let shared: Arc<dyn Tool> = Arc::new(far);
    let agents = [agent(&ScriptedModel::new([])).tool(far), agent(&ScriptedModel::new([])).tool(shared)];
    for agent in agents {
        agent.build().unwrap();
    }
    // Tools of one kind go into one list.
    agent(&ScriptedModel::new([])).tools([far, count, elsewhere::made]).build().unwrap();
    assert_eq!(returned(elsewhere::made, json!({"word": "w"})).await, ok("w"));
    let name = returned(elsewhere::renamed::other, json!({})).await;
    assert_eq!(name.status, ResultStatus::Ok);
    let far = returned(far, json!({"far": "away", "times": 1})).await;
    assert_eq!(far, ok("away 2"));
}

#[tokio::test]
async fn the_function_itself_can_be_called_without_a_run() {
    assert_eq!(far::direct("away".into(), 1).await, "away 2");
    assert_eq!(heavy::direct(0), Err("zero".to_owned()));
}
