//! Whether a model may call tools, or must, in each provider's words.
//!
//! A choice that a provider cannot be told is an error of the call: a request that says less than was asked would be worse.

use andon_runtime::ToolChoice;
use serde_json::{Value, json};

use super::names::wire_name;
use super::{Ask, claude};

/// OpenAI's Chat Completions.
pub(super) fn openai_chat(ask: &Ask<'_>) -> Option<Value> {
    openai(ask, |name| json!({"type": "function", "function": {"name": name}}))
}

/// OpenAI's Responses.
pub(super) fn openai_responses(ask: &Ask<'_>) -> Option<Value> {
    openai(ask, |name| json!({"type": "function", "name": name}))
}

fn openai(ask: &Ask<'_>, tool: impl Fn(String) -> Value) -> Option<Value> {
    // A choice between no tools is refused.
    (!ask.tools.is_empty()).then_some(())?;
    match ask.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!("none")),
        ToolChoice::Required => Some(json!("required")),
        ToolChoice::Tool { name } => Some(tool(wire_name(name))),
        #[cfg(not(andon_whole))]
        _ => None,
    }
}

/// Anthropic's Messages.
pub(super) fn anthropic(ask: &Ask<'_>) -> Option<Value> {
    (!ask.tools.is_empty()).then_some(())?;
    match ask.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!({"type": "none"})),
        ToolChoice::Required => Some(json!({"type": "any"})),
        ToolChoice::Tool { name } => Some(json!({"type": "tool", "name": wire_name(name)})),
        #[cfg(not(andon_whole))]
        _ => None,
    }
}

/// Bedrock's Converse. `None` cannot be said.
pub(super) fn bedrock(ask: &Ask<'_>) -> Option<Value> {
    match ask.tool_choice {
        ToolChoice::Auto | ToolChoice::None => None,
        ToolChoice::Required => Some(json!({"any": {}})),
        ToolChoice::Tool { name } => Some(json!({"tool": {"name": wire_name(name)}})),
        #[cfg(not(andon_whole))]
        _ => None,
    }
}

/// Google's Gemini. `rename` is what it calls a tool.
pub(super) fn gemini(ask: &Ask<'_>, rename: impl Fn(&str) -> String) -> Option<Value> {
    (!ask.tools.is_empty()).then_some(())?;
    let config = match ask.tool_choice {
        ToolChoice::Auto => return None,
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::Tool { name } => json!({"mode": "ANY", "allowedFunctionNames": [rename(name)]}),
        #[cfg(not(andon_whole))]
        _ => return None,
    };
    Some(json!({"functionCallingConfig": config}))
}

/// Why no model can be asked for it: there are more choices than when this crate was made.
pub(crate) fn check_known(ask: &Ask<'_>) -> Result<(), String> {
    match ask.tool_choice {
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required | ToolChoice::Tool { .. } => Ok(()),
        #[cfg(not(andon_whole))]
        _ => {
            Err(format!("this version of andon-models does not know the tool choice {:?}: update it", ask.tool_choice))
        }
    }
}

fn is_forced(ask: &Ask<'_>) -> bool {
    matches!(ask.tool_choice, ToolChoice::Required | ToolChoice::Tool { .. })
}

/// Why a Claude model cannot be asked for it.
pub(crate) fn check_claude(ask: &Ask<'_>) -> Result<(), String> {
    let max_output = ask.settings.max_output.unwrap_or_else(|| claude::max_output(ask.model));
    let thinks = claude::thinking(ask.model, ask.settings, max_output).is_some_and(|fields| fields.is_asked());
    if is_forced(ask) && thinks {
        return Err(format!(
            "{} cannot be made to call a tool while it thinks: set thinking to off for this call, or let it choose",
            ask.model
        ));
    }
    Ok(())
}

/// Why a model at Bedrock cannot be asked for it.
#[cfg(feature = "bedrock")]
pub(crate) fn check_bedrock(ask: &Ask<'_>) -> Result<(), String> {
    check_known(ask)?;
    if *ask.tool_choice == ToolChoice::None && !ask.tools.is_empty() {
        let why = "Bedrock's Converse API cannot forbid tools that it is offered: leave the tools out of the request";
        return Err(why.to_owned());
    }
    if ask.model.contains("claude") { check_claude(ask) } else { Ok(()) }
}

/// Why a model of Ollama cannot be asked for it. To call none, it is offered none.
pub(crate) fn check_ollama(ask: &Ask<'_>) -> Result<(), String> {
    if is_forced(ask) {
        return Err(
            "Ollama cannot make a model call a tool: let the model choose, or ask for it in the prompt".to_owned()
        );
    }
    Ok(())
}
