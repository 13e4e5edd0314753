//! Methods with `#[tool]` in an impl block with `#[tools]` are tools that share their value, and need no crate but `andon`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

// A program that depends on `andon` alone has neither of these: here the names stand for something else.
extern crate core as schemars;
extern crate core as serde;

#[path = "../../andon-runtime/tests/runtime/common/mod.rs"]
mod common;

use std::sync::Mutex;

use andon::run::{Remains, Undo};
use andon::tool::{AsJson, Progress, Tool, ToolSpec};
use andon::{Cord, tool, tools};

use common::*;

/// How to write it down.
#[derive(andon::serde::Deserialize, andon::schemars::JsonSchema)]
#[serde(crate = "andon::serde", rename_all = "snake_case")]
#[schemars(crate = "andon::schemars")]
enum Script {
    Plain,
    Loud,
}

#[derive(Default)]
struct Notes {
    lines: Mutex<Vec<String>>,
}

#[tools]
impl Notes {
    /// Is no tool.
    fn all(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Writes a line down.
    #[tool(effect = "idempotent", grace = "1s", compensation = Self::take_back)]
    pub(crate) async fn note(
        &self,
        /// What to write.
        line: String,
        #[tool(default = Script::Plain)] script: Script,
    ) -> Result<String, ToolError> {
        let line = match script {
            Script::Plain => line,
            Script::Loud => line.to_uppercase(),
        };
        if line.is_empty() {
            return Err("there is nothing to write".into());
        }
        let mut lines = self.lines.lock().map_err(|_| "the notes are gone")?;
        lines.push(line);
        Ok(format!("line {}", lines.len()))
    }

    async fn take_back(&self, undo: Undo) -> Returned {
        self.lines.lock().unwrap().retain(|line| *line != undo.input["line"]);
        Ok("taken back".into())
    }

    #[tool(name = "count-notes", blocking, effect = "read_only")]
    /// Counts what was written.
    fn count(&self, cord: Cord) -> AsJson<usize> {
        AsJson(if cord.is_pulled() { 0 } else { self.all().len() })
    }

    /// Waits for a line.
    #[tool(effect = "read_only", cleanup = Self::unwatch, cleanup_within = "5s")]
    async fn watch(self: Arc<Self>, cord: Cord, progress: Progress) -> String {
        progress.show("watching\n");
        cord.pulled().await;
        format!("there were {} lines", self.all().len())
    }

    async fn unwatch(&self, call: Invocation) -> Remains {
        self.lines.lock().unwrap().push(format!("{} was unwatched", call.call));
        Remains::NONE
    }

    /// Needs nothing of them.
    #[andon::tool(effect = "read_only")]
    async fn version() -> &'static str {
        "1"
    }

    /// Is not there.
    #[tool]
    #[cfg(any())]
    async fn absent(&self, nothing: NoSuchType) {}
}

/// A value of a type with parameters.
struct Cell<T> {
    value: T,
}

mod renamed {
    pub(crate) use andon as engine;

    #[engine::tools(crate = self::engine)]
    impl<T> super::Cell<T>
    where
        T: Clone + ToString + Send + Sync + 'static,
    {
        /// Says it.
        #[tool]
        async fn say(&self, times: usize) -> String {
            self.value.to_string().repeat(times)
        }
    }
}

/// A model that calls these, by tool and arguments, and then ends.
fn asks(calls: &[(&str, &str)]) -> ScriptedModel {
    let calls = calls
        .iter()
        .enumerate()
        .flat_map(|(index, (tool, arguments))| Act::call(index, &format!("c{index}"), tool, arguments));
    ScriptedModel::new([calls.chain([Act::tool_use()]).collect(), says("Well.")])
}

/// What the model is told, call by call.
async fn told(tools: Vec<FnTool>, calls: &[(&str, &str)]) -> Vec<String> {
    let session = agent(&asks(calls)).sequential_tools().tools(tools).open();
    let (run, outcome) = run_to_end(&session, "Go.").await;
    assert_eq!(outcome.stop_reason(), "end_turn");
    let told = events(&run).into_iter().filter_map(|event| match event {
        Event::ToolFinished { result, .. } => Some(result.to_text()),
        _ => None,
    });
    told.collect()
}

#[test]
fn each_method_with_the_attribute_is_a_tool_in_its_place_and_its_options_reach_the_spec() {
    let tools = Arc::new(Notes::default()).tools();
    let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    assert_eq!(names, ["note", "count-notes", "watch", "version"]);
    let schema = json!({
        "type": "object",
        "properties": {
            "line": { "type": "string", "description": "What to write." },
            "script": { "type": "string", "enum": ["plain", "loud"], "description": "How to write it down." },
        },
        "required": ["line"],
        "additionalProperties": false,
    });
    let mut found = (**tools[0].spec()).clone();
    // A default that is not a JSON value by itself is left out of the schema, or is in it: either describes the argument.
    if let Some(script) = found.schema["properties"]["script"].as_object_mut() {
        script.remove("default");
    }
    let mut expected = ToolSpec::new("note", "Writes a line down.", schema);
    (expected.effect, expected.grace, expected.compensation) = (Effect::Idempotent, secs(1), Some(secs(10)));
    assert_eq!(found, expected);
    assert_eq!(tools[2].spec().cleanup, secs(5));
}

#[tokio::test]
async fn all_tools_of_a_value_share_it_and_the_methods_can_still_be_called() {
    let notes = Arc::new(Notes::default());
    assert_eq!(notes.note("first".into(), Script::Plain).await, Ok("line 1".to_owned()));
    let calls = [
        ("note", r#"{"line": "second"}"#),
        ("note", r#"{"line": "third", "script": "loud"}"#),
        ("note", r#"{"line": ""}"#),
        ("count-notes", "{}"),
        ("version", "{}"),
    ];
    assert_eq!(told(notes.tools(), &calls).await, ["line 2", "line 3", "there is nothing to write", "3", "1"]);
    assert_eq!(notes.all(), ["first", "second", "THIRD"]);
}

#[tokio::test(start_paused = true)]
async fn a_method_that_is_told_to_stop_returns_what_it_has() {
    let notes = Arc::new(Notes::default());
    let session = agent(&asks(&[("watch", "{}")])).tools(notes.tools()).open();
    let run = start_until_shown(&session, "Watch.", "watching").await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(outcome.receipt.calls[0].verdict, Verdict::Cut);
    assert_eq!(notes.all(), ["c0 was unwatched"], "its cleanup is a method, too");
    let told = events(&run).into_iter().find_map(|event| match event {
        Event::ToolFinished { result, .. } => Some(result.to_text()),
        _ => None,
    });
    assert!(told.as_deref().is_some_and(|told| told.ends_with("there were 0 lines")), "{told:?}");
}

#[tokio::test]
async fn a_compensation_that_is_a_method_undoes_in_the_same_value() {
    let notes = Arc::new(Notes::default());
    notes.note("wrong".into(), Script::Plain).await.unwrap();
    let undo = Undo::new(
        "note",
        id("c"),
        andon::RunId::new("r").unwrap(),
        SessionKey::new("app", "local", "s").unwrap(),
        json!({"line": "wrong"}),
        Verdict::Finished,
        Arc::new(ToolResult::text(id("c"), ResultStatus::Ok, "line 1")),
    );
    assert_eq!(notes.tools()[0].compensate(undo).await, Ok("taken back".into()));
    assert_eq!(notes.all(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_type_with_parameters_has_tools_too_under_another_name_of_the_crate() {
    let tools = Arc::new(Cell { value: 7 }).tools();
    assert_eq!(told(tools, &[("say", r#"{"times": 3}"#)]).await, ["777"]);
}

/// Repeats it.
#[tool]
async fn repeat(script: Script, times: Option<u8>) -> String {
    match (script, times) {
        (Script::Plain, None) => "plain".to_owned(),
        (_, times) => format!("{times:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_typed_closure_and_a_function_need_no_other_crate_either() {
    #[derive(andon::serde::Deserialize, andon::schemars::JsonSchema)]
    #[serde(crate = "andon::serde")]
    #[schemars(crate = "andon::schemars")]
    struct Say {
        what: String,
    }
    let say = tool("say", "Says it.").run(|say: Say| async move { Ok(andon::serde_json::json!({"said": say.what})) });
    assert_eq!(told(vec![say], &[("say", r#"{"what": "Hi"}"#)]).await, [r#"{"said":"Hi"}"#]);
    assert_eq!(repeat::direct(Script::Plain, None).await, "plain");
}
