//! Servers that speak the same API, each with its own rules: what each known server is sent.

use std::future::poll_fn;
use std::sync::Arc;

use andon_models::{Builder, Thinking};
use andon_runtime::core::id::CallId;
use andon_runtime::core::message::{Content, Message, Part, ResultStatus, Role, Signature, ToolCall, ToolResult};
use andon_runtime::{Model, ModelRequest, RunId, ToolSpec};
use andon_testkit::provider::{BadProvider, Protocol, Script};
use serde_json::{Value, json};

/// A history in which a tool was used, as a thinking model leaves it. The run was stopped before the model spoke again.
fn stopped_after_a_result() -> Vec<Arc<Message>> {
    let id = CallId::new("toolu_01A9").unwrap();
    let thought = Part::Thinking { text: "I need the weather.".into(), signature: None };
    let asked = Part::ToolCall(ToolCall::new(id.clone(), "weather", "{}"));
    let content = vec![Content::Text { text: "Rain".into() }];
    let told = Part::ToolResult(ToolResult::new(id, ResultStatus::Ok, content));
    let message = |role, parts| Arc::new(Message::new(role, parts));
    vec![
        Arc::new(Message::user("Weather?")),
        message(Role::Assistant, vec![thought, asked]),
        message(Role::Tool, vec![told]),
        Arc::new(Message::user("And tomorrow?")),
    ]
}

/// The body that a model of this name is sent, as it is set up.
async fn sent(name: &str, history: Vec<Arc<Message>>, tools: &[&str], set: impl Fn(Builder) -> Builder) -> Value {
    let provider = BadProvider::start(Protocol::Http1).await;
    provider.answer(Script::json(400, &json!({"error": {"message": "no"}})));
    let builder = andon_models::by_name::builder(name).unwrap().base_url(provider.base_url()).key("sk-1");
    let model = set(builder).build().unwrap();
    let tools = tools.iter().map(|name| Arc::new(ToolSpec::new(*name, "Does it.", json!({"type": "object"}))));
    let request = ModelRequest::new(RunId::new("run-1").unwrap(), 1, history).tools(tools.collect());
    let mut answer = model.call(request);
    while poll_fn(|cx| answer.poll_piece(cx)).await.is_some_and(|piece| piece.is_ok()) {}
    provider.all_seen()[0].json()
}

async fn body(name: &str, history: Vec<Arc<Message>>) -> Value {
    sent(name, history, &[], |builder| builder).await
}

fn messages(body: &Value) -> &[Value] {
    body["messages"].as_array().unwrap()
}

/// A thought that Claude signed.
fn signed(signature: &str) -> Part {
    Part::Thinking { text: String::new(), signature: Some(Signature::new("anthropic", signature)) }
}

fn call(id: &str) -> Part {
    Part::ToolCall(ToolCall::new(CallId::new(id).unwrap(), "weather", "{}"))
}

fn result(id: &str) -> Part {
    Part::ToolResult(ToolResult::text(CallId::new(id).unwrap(), ResultStatus::Ok, "Rain"))
}

#[tokio::test]
async fn an_answer_of_claude_goes_back_in_the_order_in_which_it_came() {
    let message = |role, parts| Arc::new(Message::new(role, parts));
    // As the fifth generation thinks: between its calls, or after its first words.
    for (parts, came) in [
        (vec![signed("a"), call("1"), signed("b"), call("2")], ["thinking", "tool_use", "thinking", "tool_use"]),
        (
            vec![Part::text("Let me see."), signed("a"), call("1"), call("2")],
            ["text", "thinking", "tool_use", "tool_use"],
        ),
        (vec![signed("a"), call("1"), Part::text("And"), call("2")], ["thinking", "tool_use", "text", "tool_use"]),
    ] {
        let results = message(Role::Tool, vec![result("1"), result("2")]);
        let history = vec![Arc::new(Message::user("Weather?")), message(Role::Assistant, parts), results];
        let body = body("anthropic/claude-sonnet-5", history).await;
        let content = messages(&body)[1]["content"].as_array().unwrap();
        let kinds: Vec<&str> = content.iter().map(|block| block["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, came);
    }
}

const MISTRALS: [&str; 4] = [
    "mistral/mistral-large-latest",
    "mistral/ft:open-mixtral:org",
    "openrouter/mistralai/devstral-small",
    "vllm/mistralai/Ministral-8B",
];

#[tokio::test]
async fn mistral_gets_no_user_message_right_after_a_tool_message() {
    for model in MISTRALS {
        let body = body(model, stopped_after_a_result()).await;
        let roles: Vec<&str> = messages(&body).iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"], "{model}");
    }
    let others = body("groq/llama-3.3-70b", stopped_after_a_result()).await;
    assert_eq!(messages(&others).len(), 4);
}

#[tokio::test]
async fn mistral_gets_call_ids_of_nine_letters_and_digits() {
    for model in MISTRALS {
        let body = body(model, stopped_after_a_result()).await;
        let id = messages(&body)[1]["tool_calls"][0]["id"].as_str().unwrap();
        assert!(id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()), "{model}: {id}");
        assert_eq!(messages(&body)[2]["tool_call_id"], id, "{model}");
    }
}

#[tokio::test]
async fn deepseek_gets_the_thought_back_that_led_to_a_call() {
    let mut history = stopped_after_a_result();
    history.extend([Arc::new(Message::assistant("Sun.")), Arc::new(Message::user("Thanks."))]);
    let body = body("deepseek/deepseek-reasoner", history).await;
    assert_eq!(messages(&body)[1]["reasoning_content"], "I need the weather.");
    assert_eq!(messages(&body)[4].get("reasoning_content"), None, "that answer led to no call");
}

#[tokio::test]
async fn deepseek_gets_an_empty_thought_with_a_call_that_somebody_else_made() {
    let mut history = stopped_after_a_result();
    let parts = history[1].parts[1..].to_vec();
    history[1] = Arc::new(((*history[1]).clone()).parts(parts));
    let body = body("deepseek/deepseek-reasoner", history).await;
    assert_eq!(messages(&body)[1]["reasoning_content"], "");
}

#[tokio::test]
async fn nobody_but_deepseek_gets_a_thought_in_the_clear() {
    for model in ["groq/qwen3-32b", "openrouter/deepseek/deepseek-v4-pro", "mistral/magistral-medium-latest"] {
        let body = body(model, stopped_after_a_result()).await;
        assert!(!body.to_string().contains("I need the weather."), "{model}");
    }
}

#[tokio::test]
async fn deepseek_is_told_not_to_think_and_then_gets_no_thoughts() {
    let off = |builder: Builder| builder.thinking(Thinking::Off);
    let body = sent("deepseek/deepseek-v4-pro", stopped_after_a_result(), &[], off).await;
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
    assert_eq!(body.get("reasoning_effort"), None);
    assert_eq!(messages(&body)[1].get("reasoning_content"), None);
}

fn hello() -> Vec<Arc<Message>> {
    vec![Arc::new(Message::user("Hello"))]
}

#[tokio::test]
async fn a_model_that_does_not_reason_is_asked_for_no_encrypted_reasoning() {
    for model in ["openai-responses/gpt-4o", "openai-responses/gpt-4.1-mini"] {
        assert_eq!(body(model, hello()).await.get("include"), None, "{model}");
    }
    for model in ["openai-responses/o3", "openai-responses/gpt-5", "openai-responses/ft:o4-mini-2025-04-16:org::id"] {
        assert_eq!(body(model, hello()).await["include"], json!(["reasoning.encrypted_content"]), "{model}");
    }
}

#[tokio::test]
async fn openais_newest_models_are_told_not_to_reason_where_they_would_refuse_tools() {
    let high = |builder: Builder| builder.thinking(Thinking::High);
    for model in ["openai/gpt-5.2", "openai/gpt-5.6-terra", "azure/gpt-5.4"] {
        assert_eq!(sent(model, hello(), &["look"], high).await["reasoning_effort"], "none", "{model}");
        assert_eq!(sent(model, hello(), &["look"], |builder| builder).await["reasoning_effort"], "none", "{model}");
        assert_eq!(sent(model, hello(), &[], high).await["reasoning_effort"], "high", "{model}");
    }
    for model in ["openai/gpt-5.1", "openai/o3", "openrouter/openai/gpt-5.6-terra"] {
        assert_eq!(sent(model, hello(), &["look"], high).await["reasoning_effort"], "high", "{model}");
    }
}

#[tokio::test]
async fn what_an_openai_model_refuses_is_not_sent_to_it() {
    let set = |builder: Builder| builder.thinking(Thinking::High).temperature(0.5).max_output(100);
    let older = sent("openai/gpt-4o", hello(), &[], set).await;
    assert_eq!((older.get("reasoning_effort"), &older["temperature"]), (None, &json!(0.5)));
    let newer = sent("openai/ft:o4-mini-2025-04-16:org::id", hello(), &[], set).await;
    assert_eq!((newer.get("temperature"), &newer["reasoning_effort"]), (None, &json!("high")));
    let responses = sent("openai-responses/gpt-5", hello(), &[], set).await;
    assert_eq!((responses.get("temperature"), &responses["reasoning"]["effort"]), (None, &json!("high")));
}

#[tokio::test]
async fn the_limit_has_the_name_that_the_models_server_knows() {
    let limited = |builder: Builder| builder.max_output(100);
    let newer = ["openai/gpt-5.2", "openai/ft:o4-mini:org", "openai/gpt-4o", "azure/our-deployment"];
    for model in newer {
        assert_eq!(sent(model, hello(), &[], limited).await["max_completion_tokens"], 100, "{model}");
    }
    for model in ["deepseek/deepseek-v4-pro", "mistral/mistral-large-latest", "vllm/openai/gpt-oss-20b"] {
        assert_eq!(sent(model, hello(), &[], limited).await["max_tokens"], 100, "{model}");
    }
}

#[tokio::test]
async fn claude_is_told_not_to_think_where_it_thinks_by_default() {
    let off = |builder: Builder| builder.thinking(Thinking::Off);
    for model in ["anthropic/claude-sonnet-5", "anthropic/claude-opus-5"] {
        assert_eq!(sent(model, hello(), &[], off).await["thinking"], json!({"type": "disabled"}), "{model}");
    }
    let always = sent("anthropic/claude-opus-5-5", hello(), &[], off).await;
    assert_eq!((always.get("thinking"), &always["output_config"]), (None, &json!({"effort": "low"})));
    assert_eq!(sent("anthropic/claude-sonnet-4-5", hello(), &[], off).await.get("thinking"), None);
}

#[tokio::test]
async fn thoughts_are_requested_where_they_are_left_out_by_default() {
    let high = |builder: Builder| builder.thinking(Thinking::High);
    let newer = sent("anthropic/claude-opus-5", hello(), &[], high).await;
    assert_eq!(newer["thinking"], json!({"type": "adaptive", "display": "summarized"}));
    let older = sent("anthropic/claude-opus-4-6", hello(), &[], high).await;
    assert_eq!(older["thinking"], json!({"type": "adaptive"}));
}

#[tokio::test]
async fn the_third_generation_of_claude_is_asked_for_no_more_than_it_gives() {
    for (model, most) in
        [("claude-3-opus-20240229", 4_096), ("claude-3-5-haiku-20241022", 8_192), ("claude-sonnet-5", 32_000)]
    {
        assert_eq!(body(&format!("anthropic/{model}"), hello()).await["max_tokens"], most, "{model}");
    }
}
