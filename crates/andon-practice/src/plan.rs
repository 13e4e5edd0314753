//! Decides what to answer from words in the prompt, before the first word is streamed.

use std::sync::Arc;

use andon_core::message::{ResultStatus, ToolResult};
use serde_json::{Map, Value};

use super::arguments::PromptValues;
use super::{arguments, conversation, story, words};
use andon_runtime::ModelRequest;
use andon_runtime::ToolSpec;

/// A whole answer.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    /// Whether it is silent for a while first.
    pub(super) is_silent: bool,
    pub(super) thought: Option<String>,
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
}

/// A tool that the answer asks for.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// Everyday words for tools that may have another word in their name.
const OTHER_WORDS: [(&str, &[&str]); 5] = [
    ("time", &["clock", "time"]),
    ("dice", &["dice", "roll"]),
    ("roll", &["dice", "roll"]),
    ("count", &["count"]),
    ("note", &["note"]),
];

pub(super) fn plan(request: &ModelRequest, chance: &mut fastrand::Rng) -> Plan {
    let results = conversation::results_since_prompt(&request.history);
    if !results.is_empty() {
        return Plan { is_silent: false, thought: None, text: comment(&results), calls: Vec::new() };
    }
    let prompt = conversation::last_prompt(&request.history).unwrap_or_default();
    let says = |wanted: &[&str]| words::plain(&prompt).any(|word| wanted.contains(&word.as_str()));
    let is_long = says(&["long", "longer", "story", "stories"]);
    let wants_two = says(&["both", "parallel"]);
    let calls = calls(&prompt, &request.tools, is_long, wants_two);
    let mut text = String::new();
    if let Some(stopped) = conversation::stopped_before(&request.history) {
        text = format!("{stopped} Everything that you saw of it is kept, and I continue from here.\n\n");
    }
    text.push_str(&match calls.as_slice() {
        [] if is_long => story::tell(chance),
        [] if wants_two => words::without_tools(&prompt, chance),
        [] => words::answer(&prompt, chance),
        calls => {
            let tools: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
            words::announce(&tools, chance)
        }
    });
    let thinks = says(&["think", "thinking", "thought", "ponder"]);
    Plan {
        is_silent: says(&["silent", "silence", "silently", "wait", "quiet"]),
        thought: thinks.then(|| words::thought(&prompt, chance)),
        text,
        calls,
    }
}

/// The calls that a prompt asks for, in the order of its words.
fn calls(prompt: &str, tools: &[Arc<ToolSpec>], is_long: bool, wants_two: bool) -> Vec<Call> {
    if let Some(call) = tools.iter().find_map(|tool| spelled_out(prompt, tool)) {
        return vec![call];
    }
    let said: Vec<String> = words::plain(prompt).collect();
    let mut wanted: Vec<(usize, &ToolSpec)> =
        tools.iter().filter_map(|tool| mention(&said, &tool.name, is_long).map(|place| (place, &**tool))).collect();
    wanted.sort_by_key(|(place, _)| *place);
    let mut wanted: Vec<&ToolSpec> = wanted.into_iter().map(|(_, tool)| tool).collect();
    if wants_two {
        // The first ones will do, but not one that needs approval.
        let others: Vec<&ToolSpec> = tools.iter().map(|tool| &**tool).filter(|tool| !tool.needs_approval).collect();
        for tool in others {
            if wanted.len() < 2 && !wanted.iter().any(|other| other.name == tool.name) {
                wanted.push(tool);
            }
        }
    }
    let mut offer = PromptValues::new(prompt);
    wanted.into_iter().map(|tool| Call { name: tool.name.clone(), arguments: offer.arguments(&tool.schema) }).collect()
}

/// A call that the prompt spells out: `shell: ls -l` or `dice {"sides": 8}`, and nothing else.
fn spelled_out(prompt: &str, tool: &ToolSpec) -> Option<Call> {
    let rest = prompt.trim().strip_prefix(&tool.name)?.trim_start();
    let arguments = match rest.strip_prefix(':') {
        Some(text) => arguments::spelled_out(&tool.schema, text.trim())?,
        None => serde_json::from_str::<Map<String, Value>>(rest).ok().map(Value::Object)?,
    };
    Some(Call { name: tool.name.clone(), arguments })
}

/// Where a prompt mentions a tool: by its whole name, by all its parts, or by an everyday word for it.
fn mention(said: &[String], tool: &str, is_long: bool) -> Option<usize> {
    let name = tool.to_lowercase();
    if let Some(place) = said.iter().position(|word| *word == name) {
        return Some(place);
    }
    let parts: Vec<&str> = name.split(['_', '-']).filter(|part| !part.is_empty()).collect();
    let place_of = |part: &&str| said.iter().position(|word| word.starts_with(part));
    let places: Option<Vec<usize>> = parts.iter().map(place_of).collect();
    if let Some(first) = places.and_then(|places| places.into_iter().min()) {
        return Some(first);
    }
    if is_long {
        // "A long story about time" asks for a story.
        return None;
    }
    said.iter().position(|word| {
        let mut tables = OTHER_WORDS.iter().filter(|(everyday, _)| everyday == word);
        tables.any(|(_, names)| parts.iter().any(|part| names.contains(part)))
    })
}

/// What to say about the results. It never calls another tool, so that it does not go in circles.
fn comment(results: &[(String, &ToolResult)]) -> String {
    let mut text = String::new();
    for (tool, result) in results {
        let said: Vec<String> = result.content.iter().map(words::content).collect();
        let said = said.join(" ");
        let said = if said.is_empty() { "nothing" } else { said.trim() };
        text.push_str(&match result.status {
            ResultStatus::Ok => format!("`{tool}` answered: {said}\n\n"),
            ResultStatus::Error => format!("`{tool}` failed and said: {said}\n\n"),
            ResultStatus::Refused => format!("`{tool}` was not run. I was told: {said}\n\n"),
            ResultStatus::Cut => format!("`{tool}` was stopped. I was told: {said}\n\n"),
            ResultStatus::Unknown => format!("`{tool}` was stopped, and nobody knows how far it got: {said}\n\n"),
            #[cfg(not(andon_whole))]
            _ => format!("`{tool}` ended in a way that I do not know: {said}\n\n"),
        });
    }
    text.push_str("As a practice model, I leave it at that.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use andon_core::event::Effect;
    use serde_json::json;
    use std::time::Duration;

    fn tool(name: &str) -> Arc<ToolSpec> {
        let mut spec = ToolSpec::new(name, "", json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
        spec.effect = Effect::ReadOnly;
        spec.grace = Duration::ZERO;
        spec.needs_approval = name == "write_note";
        Arc::new(spec)
    }

    fn names(prompt: &str, is_long: bool, wants_two: bool) -> Vec<String> {
        let tools = ["write_note", "slow_count", "dice", "clock"].map(tool);
        calls(prompt, &tools, is_long, wants_two).into_iter().map(|call| call.name).collect()
    }

    #[test]
    fn tools_are_mentioned_by_name_by_its_parts_or_by_everyday_words() {
        assert_eq!(names("use slow_count", false, false), ["slow_count"]);
        assert_eq!(names("count slowly to 20", false, false), ["slow_count"]);
        assert_eq!(names("What time is it?", false, false), ["clock"]);
        assert_eq!(names("Roll three dice, then write a note", false, false), ["dice", "write_note"]);
        assert_eq!(names("a long story about time", true, false), [""; 0]);
        assert_eq!(names("hello", false, false), [""; 0]);
    }

    #[test]
    fn a_call_that_is_spelled_out_is_made_as_written() {
        let schema = json!({
            "type": "object",
            "properties": { "limit": { "type": "integer" }, "command": { "type": "string" } },
            "required": ["command"],
        });
        let shell = Arc::new(ToolSpec::new("shell", "", schema));
        let tools = [tool("clock"), shell];
        let shell = |arguments| vec![Call { name: "shell".into(), arguments }];
        let text = "shell: echo \"what time: is it\"; sleep 5";
        let command = "echo \"what time: is it\"; sleep 5";
        assert_eq!(calls(text, &tools, false, false), shell(json!({ "command": command })));
        let text = " shell {\"command\": \"ls\", \"limit\": 3}";
        assert_eq!(calls(text, &tools, false, false), shell(json!({ "command": "ls", "limit": 3 })));
        let of_a_tool_without_text = calls("clock: now", &tools, false, false);
        assert_eq!(of_a_tool_without_text, [Call { name: "clock".into(), arguments: json!({}) }]);
    }

    #[test]
    fn both_means_two_tools_that_need_no_approval() {
        assert_eq!(names("both", false, true), ["slow_count", "dice"]);
        assert_eq!(names("both, and the clock", false, true), ["clock", "slow_count"]);
    }

    #[test]
    fn numbers_go_to_the_tools_in_the_order_of_the_prompt() {
        let calls = calls("roll 2 dice and count to 10", &["slow_count", "dice"].map(tool), false, false);
        let expected =
            [("dice", 2), ("slow_count", 10)].map(|(name, n)| Call { name: name.into(), arguments: json!({ "n": n }) });
        assert_eq!(calls, expected);
    }
}
