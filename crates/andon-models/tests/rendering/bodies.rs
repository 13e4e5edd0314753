//! What the settings become for each provider.

use std::sync::Arc;

use andon_models::render::{Ask, anthropic};
use andon_models::settings::{Settings, Thinking};
use andon_runtime::core::message::{Content, Image, Message, Part, ResultStatus, Role, Signature, ToolResult};
use andon_runtime::{ToolChoice, ToolSpec};
use andon_testkit::wire::Provider;
use serde_json::{Value, json};

fn body(provider: Provider, model: &str, prompt: &[Message], settings: &Settings) -> Value {
    let tools = [Arc::new(ToolSpec::new("look", "Looks.", json!({"type": "object"})))];
    let ask = provider.ask(prompt, &tools, settings).model(model).instructions("Be brief.");
    let body = provider.render(&ask);
    assert_eq!(provider.validate(&body), Ok(()));
    body
}

fn set() -> Settings {
    Settings::default()
        .max_output(9_000)
        .temperature(0.7)
        .stop(vec!["STOP".into()])
        .cache(true)
        .extra(json!({"top_k": 5}).as_object().unwrap().clone())
}

#[test]
fn anthropic_is_asked_in_its_words() {
    let expected = json!({
        "model": "claude-sonnet-4-5",
        "stream": true,
        "max_tokens": 9_000,
        "temperature": 0.7,
        "stop_sequences": ["STOP"],
        "top_k": 5,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{
            "name": "look", "description": "Looks.", "input_schema": {"type": "object"},
            "cache_control": {"type": "ephemeral"},
        }],
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "Hi.", "cache_control": {"type": "ephemeral"}},
        ]}],
    });
    assert_eq!(body(Provider::Anthropic, "claude-sonnet-4-5", &[Message::user("Hi.")], &set()), expected);
    let plain = body(Provider::Anthropic, "claude-sonnet-5", &[Message::user("Hi.")], &Settings::default());
    assert_eq!(plain["max_tokens"], anthropic::DEFAULT_MAX_OUTPUT);
    assert!(!plain.to_string().contains("cache_control"));
}

#[test]
fn openai_chat_is_asked_in_its_words() {
    let settings = set().thinking(Thinking::Low);
    let expected = json!({
        "model": "gpt-5.2",
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_completion_tokens": 9_000,
        "reasoning_effort": "none",
        "stop": ["STOP"],
        "top_k": 5,
        "tools": [{"type": "function", "function": {
            "name": "look", "description": "Looks.", "parameters": {"type": "object"},
        }}],
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}],
    });
    assert_eq!(body(Provider::OpenAiChat, "gpt-5.2", &[Message::user("Hi.")], &settings), expected);
}

#[test]
fn openai_responses_is_asked_in_its_words_and_keeps_nothing() {
    let settings = set().thinking(Thinking::High);
    let expected = json!({
        "model": "gpt-5.2",
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 9_000,
        "reasoning": {"effort": "high", "summary": "auto"},
        "top_k": 5,
        "instructions": "Be brief.",
        "tools": [{
            "type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object"}, "strict": false,
        }],
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]}],
    });
    assert_eq!(body(Provider::OpenAiResponses, "gpt-5.2", &[Message::user("Hi.")], &settings), expected);
}

#[test]
fn gemini_is_asked_in_its_words() {
    let settings = set().thinking(Thinking::High);
    let expected = json!({
        "contents": [{"role": "user", "parts": [{"text": "Hi."}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [{
            "name": "look", "description": "Looks.", "parametersJsonSchema": {"type": "object"},
        }]}],
        "generationConfig": {
            "maxOutputTokens": 9_000, "temperature": 0.7, "stopSequences": ["STOP"],
            "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "high"},
        },
        "top_k": 5,
    });
    assert_eq!(body(Provider::Gemini, "gemini-3-pro-preview", &[Message::user("Hi.")], &settings), expected);
    let older = body(Provider::Gemini, "gemini-2.5-pro", &[Message::user("Hi.")], &settings);
    assert_eq!(older["generationConfig"]["thinkingConfig"]["thinkingBudget"], 24_576);
}

#[test]
fn bedrock_is_asked_in_its_words() {
    let settings = set().thinking(Thinking::Low);
    let model = "anthropic.claude-sonnet-4-5-20250929-v1:0";
    let expected = json!({
        "inferenceConfig": {"maxTokens": 9_000, "stopSequences": ["STOP"]},
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2_048}},
        "top_k": 5,
        "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
        "toolConfig": {"tools": [
            {"toolSpec": {"name": "look", "description": "Looks.", "inputSchema": {"json": {"type": "object"}}}},
            {"cachePoint": {"type": "default"}},
        ]},
        "messages": [{"role": "user", "content": [{"text": "Hi."}, {"cachePoint": {"type": "default"}}]}],
    });
    assert_eq!(body(Provider::Bedrock, model, &[Message::user("Hi.")], &settings), expected);
}

#[test]
fn calls_to_tools_that_are_no_longer_there_still_get_a_configuration_at_bedrock() {
    let settings = Settings::default();
    let prompt = looked(vec![], vec![Content::Text { text: "Seen.".into() }]);
    let ask = Ask::new("bedrock", "m", &prompt, &settings);
    let body = Provider::Bedrock.render(&ask);
    assert_eq!(body["toolConfig"]["tools"][0]["toolSpec"]["name"], "look");
}

#[test]
fn ollama_is_asked_in_its_words() {
    let settings = set().thinking(Thinking::Off);
    let expected = json!({
        "model": "qwen3",
        "stream": true,
        "think": false,
        "options": {"num_predict": 9_000, "temperature": 0.7, "stop": ["STOP"]},
        "top_k": 5,
        "tools": [{"type": "function", "function": {
            "name": "look", "description": "Looks.", "parameters": {"type": "object"},
        }}],
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}],
    });
    assert_eq!(body(Provider::Ollama, "qwen3", &[Message::user("Hi.")], &settings), expected);
}

/// A question, a call with these thoughts before it, and what the call returned.
fn looked(thoughts: Vec<Part>, content: Vec<Content>) -> Vec<Message> {
    let call: andon_runtime::ToolCall =
        serde_json::from_value(json!({"id": "c", "name": "look", "arguments": "{}"})).unwrap();
    let result = ToolResult::new(call.id.clone(), ResultStatus::Ok, content);
    let parts = thoughts.into_iter().chain([Part::ToolCall(call)]).collect();
    vec![
        Message::user("Look."),
        Message::new(Role::Assistant, parts),
        Message::new(Role::Tool, vec![Part::ToolResult(result)]),
    ]
}

#[test]
fn a_model_is_asked_without_thinking_while_it_is_given_results_of_calls_that_it_did_not_think_about() {
    let settings = Settings::default().thinking(Thinking::Low);
    let seen = vec![Content::Text { text: "Seen.".into() }];
    let signed = |by: &str| Part::Thinking { text: "Hm.".into(), signature: Some(Signature::new(by, "c2VhbA==")) };
    let thinks = |model: &str, by: &str| {
        let prompt = looked(vec![signed(by)], seen.clone());
        body(Provider::Anthropic, model, &prompt, &settings).get("thinking").is_some()
    };
    assert!(thinks("claude-sonnet-4-5", "anthropic"));
    assert!(!thinks("claude-sonnet-4-5", "gemini"));
    assert!(thinks("claude-sonnet-5", "gemini"), "it may have called without a thought itself");
}

#[test]
fn images_in_a_result_go_where_they_are_accepted() {
    let image = Image::new("image/png", "data:image/png;base64,AAAA");
    let prompt = looked(vec![], vec![Content::Text { text: "Seen:".into() }, Content::Image(image)]);
    let body = |provider: Provider| body(provider, provider.strictest_model(), &prompt, &Settings::default());
    let source = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
    assert_eq!(body(Provider::Anthropic)["messages"][2]["content"][0]["content"][1]["source"], source);
    let output = json!([
        {"type": "input_text", "text": "Seen:"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
    ]);
    assert_eq!(body(Provider::OpenAiResponses)["input"][2]["output"], output);
    let parts = json!([{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]);
    assert_eq!(body(Provider::Gemini)["contents"][2]["parts"][0]["functionResponse"]["parts"], parts);
    let bytes = json!({"format": "png", "source": {"bytes": "AAAA"}});
    assert_eq!(body(Provider::Bedrock)["messages"][2]["content"][0]["toolResult"]["content"][1]["image"], bytes);
    assert_eq!(body(Provider::Ollama)["messages"][3]["images"], json!(["AAAA"]));
    assert_eq!(body(Provider::OpenAiChat)["messages"][3]["content"], "Seen:\n[image of type image/png]");
}

#[test]
fn a_tool_choice_is_said_in_each_providers_words_and_not_at_all_if_the_model_decides() {
    let tools = [Arc::new(ToolSpec::new("look", "Looks.", json!({"type": "object"})))];
    let prompt = [Message::user("Hi.")];
    let settings = Settings::default();
    let said = |provider: Provider, tool_choice: &ToolChoice, field: &str| {
        let body = provider.render(&provider.ask(&prompt, &tools, &settings).tool_choice(tool_choice));
        assert_eq!(provider.validate(&body), Ok(()));
        body.pointer(field).cloned()
    };
    let one = ToolChoice::tool("look");
    let gemini = |config: Value| Some(json!({"functionCallingConfig": config}));
    for (provider, field, none, required, tool) in [
        (
            Provider::OpenAiChat,
            "/tool_choice",
            Some(json!("none")),
            Some(json!("required")),
            Some(json!({"type": "function", "function": {"name": "look"}})),
        ),
        (
            Provider::OpenAiResponses,
            "/tool_choice",
            Some(json!("none")),
            Some(json!("required")),
            Some(json!({"type": "function", "name": "look"})),
        ),
        (
            Provider::Anthropic,
            "/tool_choice",
            Some(json!({"type": "none"})),
            Some(json!({"type": "any"})),
            Some(json!({"type": "tool", "name": "look"})),
        ),
        (
            Provider::Gemini,
            "/toolConfig",
            gemini(json!({"mode": "NONE"})),
            gemini(json!({"mode": "ANY"})),
            gemini(json!({"mode": "ANY", "allowedFunctionNames": ["look"]})),
        ),
        (
            Provider::Bedrock,
            "/toolConfig/toolChoice",
            None,
            Some(json!({"any": {}})),
            Some(json!({"tool": {"name": "look"}})),
        ),
    ] {
        assert_eq!(said(provider, &ToolChoice::Auto, field), None, "{provider:?}");
        assert_eq!(said(provider, &ToolChoice::None, field), none, "{provider:?}");
        assert_eq!(said(provider, &ToolChoice::Required, field), required, "{provider:?}");
        assert_eq!(said(provider, &one, field), tool, "{provider:?}");
    }
    assert_eq!(said(Provider::Ollama, &ToolChoice::None, "/tools"), None, "it is offered none");
}
