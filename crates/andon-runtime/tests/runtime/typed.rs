//! A closure with typed arguments is a tool: its schema comes from the type, and whatever goes wrong with that is said, to whoever builds
//! the agent or to the model.

use std::borrow::Cow;

use andon_runtime::{AgentBuilder, AsJson, Effect, OnCancel, Remains, Tool, ToolSpec, Undo, schemars, serde, tool};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::common::*;

/// Is not what the model is told.
#[derive(serde::Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: i32,
    b: i32,
    /// How many times.
    #[serde(default)]
    times: Option<u64>,
}

fn add() -> FnTool {
    tool("add", "Adds two numbers.").run(|add: Add| async move {
        let sum = add.a.checked_add(add.b).ok_or("the sum is too large")?;
        let times = i32::try_from(add.times.unwrap_or(1))?;
        Ok((sum * times).to_string())
    })
}

/// What the model is told of one call with these arguments.
async fn told(tool: FnTool, arguments: &str) -> ToolResult {
    let name = tool.spec().name.clone();
    let call = Act::call(0, "c", &name, arguments);
    let agent = with_tools(scripted([answer([call, vec![Act::tool_use()]]), says("Well.")]), [tool]);
    let (run, outcome) = run_to_end(&agent, "Go.").await;
    assert_eq!(outcome.stop_reason(), "end_turn");
    let results = events(&run).into_iter().filter_map(|event| match event {
        Event::ToolFinished { result, .. } | Event::ToolRefused { result, .. } => Some(Arc::unwrap_or_clone(result)),
        _ => None,
    });
    results.last().unwrap()
}

fn ok(text: &str) -> ToolResult {
    ToolResult::text(id("c"), ResultStatus::Ok, text)
}

fn error(text: &str) -> ToolResult {
    ToolResult::text(id("c"), ResultStatus::Error, text)
}

#[test]
fn the_schema_is_made_from_the_type_and_the_options_reach_the_spec() {
    let made = tool("add", "Adds two numbers.")
        .effect(Effect::ReadOnly)
        .grace(secs(1))
        .on_cancel(OnCancel::Drop)
        .timeout(secs(9))
        .needs_approval()
        .max_output(80)
        .compensation(secs(3), |_: Undo| async { Ok("undone".into()) })
        .run(|_: Add| async { Ok(()) });
    let schema = json!({
        "type": "object",
        "description": "Is not what the model is told.",
        "properties": {
            "a": { "type": "integer", "description": "The first number." },
            "b": { "type": "integer" },
            "times": { "type": ["integer", "null"], "minimum": 0, "description": "How many times.", "default": null },
        },
        "required": ["a", "b"],
        "additionalProperties": false,
    });
    let mut expected = ToolSpec::new("add", "Adds two numbers.", schema);
    (expected.effect, expected.grace, expected.on_cancel) = (Effect::ReadOnly, secs(1), OnCancel::Drop);
    (expected.timeout, expected.needs_approval, expected.max_output) = (Some(secs(9)), true, 80);
    expected.compensation = Some(secs(3));
    assert_eq!(**made.spec(), expected);
}

#[tokio::test(start_paused = true)]
async fn arguments_arrive_with_their_types_and_an_error_of_any_kind_is_told() {
    assert_eq!(told(add(), r#"{"a": 1, "b": 2}"#).await, ok("3"));
    assert_eq!(told(add(), r#"{"a": 1, "b": 2, "times": 4}"#).await, ok("12"));
    assert_eq!(told(add(), &format!(r#"{{"a": {}, "b": 1}}"#, i32::MAX)).await, error("the sum is too large"));
    let expected = error("out of range integral type conversion attempted");
    assert_eq!(told(add(), &format!(r#"{{"a": 1, "b": 1, "times": {}}}"#, u64::MAX)).await, expected);
}

#[tokio::test(start_paused = true)]
async fn arguments_that_do_not_parse_are_an_error_result_that_names_them() {
    // What the schema refuses, the runtime refuses before it calls the tool.
    let refused = told(add(), r#"{"a": "one", "b": 2}"#).await;
    assert_eq!(refused.status, ResultStatus::Refused, "{refused:?}");
    // What the schema cannot express, serde refuses.
    let expected = "The argument `b` is not valid: invalid value: integer `5000000000`, expected i32.";
    assert_eq!(told(add(), r#"{"a": 1, "b": 5000000000}"#).await, error(expected));

    #[derive(serde::Deserialize, JsonSchema)]
    struct Tasks {
        #[expect(dead_code, reason = "it is only read")]
        tasks: Vec<Task>,
    }
    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(extend("additionalProperties" = true))]
    struct Task {
        #[expect(dead_code, reason = "it is only read")]
        name: String,
    }
    let tasks = || tool("tasks", "Takes tasks.").run(|_: Tasks| async { Ok(()) });
    assert_eq!(told(tasks(), r#"{"tasks": [{"name": "a"}]}"#).await, ok("done"));
    let expected = "The argument `tasks` is not valid: unknown field `due`, expected `name`.";
    assert_eq!(told(tasks(), r#"{"tasks": [{"name": "a", "due": 1}]}"#).await, error(expected));
}

#[tokio::test(start_paused = true)]
async fn what_a_closure_captures_all_calls_share() {
    let calls_made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls_made);
    let next = tool("next", "Counts.").run_with(move |(): (), call| {
        let counted = Arc::clone(&counted);
        async move { Ok(AsJson((call.call.to_string(), counted.fetch_add(1, Ordering::SeqCst)))) }
    });
    let nothing = json!({"type": "object", "properties": {}, "additionalProperties": false});
    assert_eq!(next.spec().schema, nothing, "there are no arguments");
    let agent = with_tools(scripted([calls(&[("a", "next"), ("b", "next")]), says("Well.")]), [next]);
    let (run, _) = run_to_end(&agent, "Go.").await;
    let mut told: Vec<String> = events(&run)
        .into_iter()
        .filter_map(|event| match event {
            Event::ToolFinished { result, .. } => Some(result.to_text()),
            _ => None,
        })
        .collect();
    told.sort();
    assert_eq!((told, calls_made.load(Ordering::SeqCst)), (vec!["[\"a\",0]".to_owned(), "[\"b\",1]".to_owned()], 2));
}

#[tokio::test]
async fn a_blocking_closure_runs_on_a_separate_thread() {
    let own = std::thread::current().id();
    let elsewhere = tool("where", "Says where it runs.").run_blocking(move |(): (), call| {
        Ok(format!("{} {}", std::thread::current().id() == own, call.cord.is_pulled()))
    });
    assert_eq!(told(elsewhere, "{}").await, ok("false false"));
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_is_told_to_stop_returns_what_it_has() {
    let wait = tool("wait", "Waits.").effect(Effect::ReadOnly).run_with(|(): (), call| async move {
        call.cord.pulled().await;
        Ok("waited in vain")
    });
    let agent = with_tools(scripted([calls(&[("c", "wait")])]), [wait]);
    let run = at_work(&agent).await;
    let outcome = stop(&agent, &run, Cancel::graceful()).await;
    assert_eq!(outcome.receipt.calls[0].verdict, Verdict::Cut);
}

#[tokio::test(start_paused = true)]
async fn what_a_call_has_started_elsewhere_is_ended_however_the_call_ends_and_only_if_it_began() {
    let jobs = Arc::new(AtomicUsize::new(10));
    let (started, ended) = (Arc::clone(&jobs), Arc::clone(&jobs));
    let job = tool("add", "Starts a job elsewhere.")
        .effect(Effect::ReadOnly)
        .grace(millis(100))
        .cleanup(move |call| {
            let ended = Arc::clone(&ended);
            async move {
                ended.fetch_sub(1, Ordering::SeqCst);
                Remains::new().notes(vec![format!("job {} was ended", call.call)])
            }
        })
        .run(move |add: Add| {
            let started = Arc::clone(&started);
            async move {
                started.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(secs(add.a.unsigned_abs().into())).await;
                Ok("the job is done")
            }
        });
    let good = Act::call(0, "good", "add", r#"{"a": 600, "b": 1}"#);
    let bad = Act::call(1, "bad", "add", r#"{"a": 5000000000, "b": 1}"#);
    let agent = with_tools(scripted([answer([good, bad, vec![Act::tool_use()]])]), [job]);
    let run = agent.start("Go.").unwrap();
    until_tool_started(&run, "good").await;
    settle_down().await;
    assert_eq!(jobs.load(Ordering::SeqCst), 11);
    let outcome = stop(&agent, &run, Cancel::now()).await;
    assert_eq!(jobs.load(Ordering::SeqCst), 10);
    let notes: Vec<_> = outcome.receipt.calls.iter().map(|call| (call.verdict, call.notes.clone())).collect();
    let expected = [(Verdict::Finished, Vec::new()), (Verdict::Cut, vec!["job good was ended".to_owned()])];
    assert_eq!(notes, expected);
}

// ---- types that no schema can be made from ----

fn refusal<A: serde::de::DeserializeOwned + JsonSchema + 'static>() -> String {
    let bad = tool("bad", "Cannot be called.").run(|_: A| async { Ok(()) });
    let checked = bad.spec().check().unwrap_err();
    let built = Agent::builder().model(ScriptedModel::new([])).tool(bad);
    assert_eq!(AgentBuilder::build(built).unwrap_err(), checked, "what is checked beforehand is what an agent wants");
    checked.to_string()
}

/// Its schema cannot be made.
#[derive(serde::Deserialize)]
struct Cursed;

impl JsonSchema for Cursed {
    fn schema_name() -> Cow<'static, str> {
        "Cursed".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        panic!("nobody may know")
    }
}

#[derive(serde::Deserialize, JsonSchema)]
#[serde(tag = "do")]
enum Choice {
    #[expect(dead_code, reason = "it is only read")]
    Look {
        at: String,
    },
    Wait,
}

#[tokio::test]
async fn a_type_from_which_no_schema_of_an_object_can_be_made_is_an_error_when_the_agent_is_built() {
    let not_an_object = |name: &str| {
        format!(
            "the schema of tool \"bad\" cannot be used: {name} is not an object, and a model gives each argument by its name: use a \
             struct with a field for each argument"
        )
    };
    assert_eq!(refusal::<String>(), not_an_object("String"));
    assert_eq!(refusal::<Vec<u8>>(), not_an_object("Vec<u8>"));
    assert_eq!(refusal::<Choice>(), not_an_object("Choice"));
    assert_eq!(refusal::<serde_json::Value>(), not_an_object("Value"));
    let expected = "the schema of tool \"bad\" cannot be used: Cursed panicked while making it: nobody may know";
    assert_eq!(refusal::<Cursed>(), expected);
}

#[derive(serde::Deserialize, JsonSchema)]
struct Tree {
    name: String,
    #[serde(default)]
    below: Vec<Tree>,
}

#[tokio::test(start_paused = true)]
async fn a_type_that_contains_itself_can_be_an_argument() {
    fn count(tree: &Tree) -> usize {
        tree.name.len().min(1) + tree.below.iter().map(count).sum::<usize>()
    }
    let counting = tool("count", "Counts.").run(|tree: Tree| async move { Ok(count(&tree).to_string()) });
    assert_eq!(told(counting, r#"{"name": "a", "below": [{"name": "b", "below": [{"name": "c"}]}]}"#).await, ok("3"));
}

#[tokio::test(start_paused = true)]
async fn an_argument_that_the_type_does_not_have_is_refused_by_name_unless_the_type_takes_any() {
    let refused = told(add(), r#"{"a": 1, "b": 2, "tims": 3}"#).await;
    assert_eq!(refused.status, ResultStatus::Refused);
    assert!(refused.to_text().contains("tims"), "{}", refused.to_text());

    #[derive(serde::Deserialize, JsonSchema)]
    struct Labels {
        name: String,
        #[serde(flatten)]
        others: std::collections::BTreeMap<String, u32>,
    }
    let labels = tool("label", "Sets labels.").run(|labels: Labels| async move {
        let others: Vec<_> = labels.others.keys().map(String::as_str).collect();
        Ok(format!("{}: {}", labels.name, others.join(", ")))
    });
    assert_eq!(told(labels, r#"{"name": "ada", "red": 1, "blue": 2}"#).await, ok("ada: blue, red"));

    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(tag = "kind", rename_all = "lowercase")]
    enum Shape {
        Circle { radius: u32 },
        Square { side: u32 },
    }
    #[derive(serde::Deserialize, JsonSchema)]
    struct Draw {
        color: String,
        #[serde(flatten)]
        shape: Shape,
    }
    let draw = tool("draw", "Says what it draws.").run(|draw: Draw| async move {
        Ok(match draw.shape {
            Shape::Circle { radius } => format!("a {} circle of {radius}", draw.color),
            Shape::Square { side } => format!("a {} square of {side}", draw.color),
        })
    });
    let square = r#"{"color": "red", "kind": "square", "side": 2}"#;
    assert_eq!(told(draw, square).await, ok("a red square of 2"));
}
