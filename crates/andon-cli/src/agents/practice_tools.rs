//! The practice agent's tools: harmless, and each one shows another kind of stop.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use andon_runtime::{Effect, FnTool, Invocation, ToolError, ToolOutput};
use serde_json::{Value, json};
use tokio::time::sleep;

/// Counts, one second per number. It stops when its cord is pulled, unless it was asked to be stubborn.
pub(crate) fn slow_count() -> FnTool {
    let schema = json!({
        "type": "object",
        "properties": {
            "to": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 10 },
            "stubborn": { "type": "boolean", "description": "Keep counting when told to stop, until the grace is over." },
        },
        "required": ["to"],
        "additionalProperties": false,
    });
    let tool = FnTool::new("slow_count", "Counts to a number, one second per number.", schema, |call| async move {
        let to = number(&call.input, "to").unwrap_or(10);
        let is_stubborn = call.input.get("stubborn").and_then(Value::as_bool).unwrap_or(false);
        if is_stubborn { count_stubbornly(to).await } else { count(&call, to).await }
    });
    tool.effect(Effect::ReadOnly).grace(Duration::from_secs(2))
}

async fn count(call: &Invocation, to: u64) -> Result<ToolOutput, ToolError> {
    for number in 1..=to {
        tokio::select! {
            biased;
            () = call.cord.pulled() => return Ok(format!("Counted to {} of {to} before it was stopped.", number - 1).into()),
            () = sleep(Duration::from_secs(1)) => {}
        }
    }
    Ok(format!("counted to {to}").into())
}

async fn count_stubbornly(to: u64) -> Result<ToolOutput, ToolError> {
    for _ in 1..=to {
        sleep(Duration::from_secs(1)).await;
    }
    Ok(format!("counted to {to}, ignoring any stop").into())
}

/// Rolls dice. The same seed gives the same rolls.
pub(crate) fn dice(seed: u64) -> FnTool {
    let schema = json!({
        "type": "object",
        "properties": {
            "dice": { "type": "integer", "minimum": 1, "maximum": 20 },
            "sides": { "type": "integer", "minimum": 2, "maximum": 1000 },
        },
        "additionalProperties": false,
    });
    let chance = Mutex::new(fastrand::Rng::with_seed(seed));
    let tool = FnTool::new("dice", "Rolls dice. Default: two dice with six sides.", schema, move |call| {
        let (dice, sides) = (number(&call.input, "dice").unwrap_or(2), number(&call.input, "sides").unwrap_or(6));
        let mut chance = chance.lock().unwrap_or_else(PoisonError::into_inner);
        let rolled: Vec<u64> = (0..dice).map(|_| chance.u64(1..=sides.max(1))).collect();
        std::future::ready(Ok(roll_text(&rolled).into()))
    });
    tool.effect(Effect::ReadOnly)
}

fn roll_text(rolled: &[u64]) -> String {
    let each: Vec<String> = rolled.iter().map(u64::to_string).collect();
    match rolled {
        [one] => one.to_string(),
        many => format!("{} (total {})", each.join(" + "), many.iter().sum::<u64>()),
    }
}

/// Tells the time.
pub(crate) fn clock() -> FnTool {
    let schema = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let tool = FnTool::new("clock", "Tells the time.", schema, |_| async {
        Ok(humantime::format_rfc3339_seconds(SystemTime::now()).to_string().into())
    });
    tool.effect(Effect::ReadOnly)
}

/// Keeps a note in memory. It needs approval.
pub(crate) fn write_note() -> FnTool {
    let schema = json!({
        "type": "object",
        "properties": { "text": { "type": "string", "maxLength": 200 } },
        "required": ["text"],
        "additionalProperties": false,
    });
    let notes: Mutex<Vec<String>> = Mutex::default();
    let tool = FnTool::new("write_note", "Keeps a note until the program ends.", schema, move |call| {
        let text = call.input.get("text").and_then(Value::as_str).unwrap_or_default();
        let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(text.to_owned());
        std::future::ready(Ok(format!("kept as note {}: {text}", notes.len()).into()))
    });
    tool.needs_approval()
}

fn number(input: &Value, name: &str) -> Option<u64> {
    input.get(name).and_then(Value::as_u64)
}
