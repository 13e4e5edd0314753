//! Google's Gemini API, `streamGenerateContent`.
//!
//! A thought's words are not sent; its signature travels on the part that follows it. The third generation refuses a call of the
//! current turn without a signature; for another model's calls the server accepts a fixed word instead.

use std::collections::HashMap;

use andon_runtime::core::message::{Content, Image, Message, Part, Role, ToolResult};
use serde_json::{Value, json};

use super::image::{Source, in_words, source};
use super::names::wire_name;
use super::prepare::{Thoughts, contents_in_words, prepare, push_turn};
use super::{Ask, Body, choice};
use crate::settings::{Thinking, ThinkingForm as _};

/// The name in the signatures of these thoughts.
pub const NAME: &str = "gemini";

/// Takes the place of the signature on another model's call.
pub const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The body of a request to `POST /models/MODEL:streamGenerateContent`. The model is in the address.
pub fn body(ask: &Ask<'_>) -> Value {
    let mut body = Body::new();
    body.set("contents", contents(ask));
    body.set_some("systemInstruction", ask.said_instructions().map(|text| json!({"parts": [{"text": text}]})));
    if !ask.tools.is_empty() {
        let declarations: Value = ask.tools.iter().map(|tool| declaration(tool)).collect();
        body.set("tools", json!([{"functionDeclarations": declarations}]));
        body.set_some("toolConfig", choice::gemini(ask, gemini_name));
    }
    let mut config = Body::new();
    config.set_some("maxOutputTokens", ask.settings.max_output);
    config.set_some("temperature", ask.settings.temperature.and_then(super::number));
    config.set_list("stopSequences", ask.settings.stop.iter().map(|stop| json!(stop)));
    config.set_some("thinkingConfig", ask.settings.thinking.and_then(|thinking| thinking_config(ask.model, thinking)));
    body.set_object("generationConfig", config);
    body.finish(ask.settings)
}

/// The third generation has levels, 2.5 has a budget, and earlier ones do not think and refuse this field.
fn thinking_config(model: &str, thinking: Thinking) -> Option<Value> {
    let number = generation(model).filter(|number| *number >= (2, 5))?;
    // Models for images or speech share another model's number, but do not think.
    if ["-image", "-tts", "-audio"].iter().any(|kind| model.contains(kind)) {
        return None;
    }
    match thinking.word().filter(|_| number >= (3, 0)) {
        Some(level) => Some(json!({"includeThoughts": true, "thinkingLevel": level})),
        // Levels have no "off".
        None if thinking == Thinking::Off && number >= (3, 0) => None,
        None => Some(budget(model, thinking.tokens())),
    }
}

/// A budget within what the model takes. Pro cannot be told not to think, only to think less.
fn budget(model: &str, tokens: u32) -> Value {
    let tokens = match tokens {
        tokens if model.contains("2.5-pro") => tokens.clamp(128, 32_768),
        0 => return json!({"thinkingBudget": 0}),
        tokens if model.contains("lite") => tokens.clamp(512, 24_576),
        tokens => tokens.min(24_576),
    };
    json!({"includeThoughts": true, "thinkingBudget": tokens})
}

/// A model's generation, if it is one of Gemini's. `gemini-flash-latest` and the like count as the newest.
fn generation(model: &str) -> Option<(u32, u32)> {
    let name = model.rsplit('/').next().unwrap_or(model).strip_prefix("gemini-")?;
    let mut numbers = name.split('-').next().unwrap_or(name).split('.').map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), minor) => Some((major, minor.unwrap_or(0))),
        (None, _) => Some((u32::MAX, 0)),
    }
}

/// Whether the model is of the third generation or later, which wants its signatures back.
fn is_third(model: &str) -> bool {
    generation(model).is_some_and(|number| number >= (3, 0))
}

fn contents(ask: &Ask<'_>) -> Vec<Value> {
    let third = is_third(ask.model);
    let mut contents = Vec::new();
    // A response carries its function's name, because calls need not have ids.
    let mut names: HashMap<String, String> = HashMap::new();
    for message in prepare(ask.prompt, Thoughts::Bound(NAME)) {
        names.extend(message.calls().map(|call| (call.id.to_string(), gemini_name(&call.name))));
        let role = match message.role {
            Role::User | Role::Tool => "user",
            Role::Assistant => "model",
        };
        let mut parts = parts(&message, &names, third);
        if third {
            sign_first_call(&mut parts);
        }
        push_turn(&mut contents, role, "parts", parts.into_iter());
    }
    contents
}

/// The first call of a step must have a signature, whoever made it.
fn sign_first_call(parts: &mut [Value]) {
    let first = parts.iter_mut().find(|part| part.get("functionCall").is_some());
    if let Some(call) = first.and_then(Value::as_object_mut) {
        call.entry("thoughtSignature").or_insert_with(|| json!(NO_SIGNATURE));
    }
}

fn declaration(tool: &andon_runtime::ToolSpec) -> Value {
    let name = gemini_name(&tool.name);
    json!({"name": name, "description": tool.description, "parametersJsonSchema": tool.schema})
}

/// Here a function's name must begin with a letter or `_`.
fn gemini_name(name: &str) -> String {
    let name = wire_name(name);
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins_well { name } else { wire_name(&format!("_{name}")) }
}

fn parts(message: &Message, names: &HashMap<String, String>, third: bool) -> Vec<Value> {
    let mut value: Option<&str> = None;
    let mut parts = Vec::new();
    for part in &message.parts {
        let mut rendered = match part {
            Part::Thinking { signature, .. } => {
                value = signature.as_ref().map(|signature| signature.value.as_str());
                continue;
            }
            Part::Text { text } => json!({"text": text}),
            Part::Image(image) => image_part(image),
            Part::ToolCall(call) => {
                json!({"functionCall": {"name": gemini_name(&call.name), "args": call.input().unwrap_or_default()}})
            }
            Part::ToolResult(result) => {
                response(result, names.get(result.call.as_str()).map_or("unnamed", String::as_str), third)
            }
            #[cfg(not(andon_whole))]
            _ => json!({"text": super::UNKNOWN}),
        };
        if let (Some(value), Some(part)) = (value.take(), rendered.as_object_mut()) {
            part.insert("thoughtSignature".to_owned(), json!(value));
        }
        parts.push(rendered);
    }
    parts
}

/// A function's response. Only the third generation takes images in it.
fn response(result: &ToolResult, name: &str, third: bool) -> Value {
    let said = if result.status.is_error() { "error" } else { "output" };
    let images = result.content.iter().filter_map(|content| match content {
        Content::Image(image) => inline(image),
        Content::Text { .. } => None,
        #[cfg(not(andon_whole))]
        _ => None,
    });
    let images: Vec<Value> = if third { images.collect() } else { Vec::new() };
    let response = json!({said: contents_in_words(result)});
    if images.is_empty() {
        json!({"functionResponse": {"name": name, "response": response}})
    } else {
        json!({"functionResponse": {"name": name, "response": response, "parts": images}})
    }
}

fn inline(image: &Image) -> Option<Value> {
    match source(image) {
        Source::Inline(base64) => Some(json!({"inlineData": {"mimeType": image.media_type, "data": base64}})),
        Source::Address(_) | Source::Elsewhere => None,
    }
}

fn image_part(image: &Image) -> Value {
    inline(image).unwrap_or_else(|| match source(image) {
        Source::Address(url) => json!({"fileData": {"mimeType": image.media_type, "fileUri": url}}),
        Source::Inline(_) | Source::Elsewhere => json!({"text": in_words(image)}),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_generation_is_read_from_its_name() {
        for model in ["gemini-3-pro-preview", "gemini-3.1-flash", "models/gemini-4-pro", "gemini-flash-latest"] {
            assert!(is_third(model), "{model}");
        }
        for model in ["gemini-2.5-pro", "gemini-1.5-flash-8b", "gemma-3-27b-it"] {
            assert!(!is_third(model), "{model}");
        }
    }
    #[test]
    fn a_model_is_told_of_thinking_only_what_it_takes() {
        let budget = |model, thinking| thinking_config(model, thinking).map(|config| config["thinkingBudget"].clone());
        assert_eq!(budget("gemini-2.5-flash", Thinking::Off), Some(json!(0)));
        assert_eq!(budget("gemini-2.5-pro", Thinking::Off), Some(json!(128)), "it thinks at least a little");
        assert_eq!(budget("gemini-2.5-pro", Thinking::Tokens(90_000)), Some(json!(32_768)));
        assert_eq!(budget("gemini-2.5-flash", Thinking::Tokens(90_000)), Some(json!(24_576)));
        assert_eq!(budget("gemini-2.5-flash-lite", Thinking::Tokens(1)), Some(json!(512)));
        for model in ["gemini-2.0-flash", "gemini-1.5-pro", "gemma-3-27b-it", "gemini-2.5-flash-image"] {
            for thinking in [Thinking::Off, Thinking::High, Thinking::Tokens(2_000)] {
                assert_eq!(thinking_config(model, thinking), None, "{model}");
            }
        }
    }
}
