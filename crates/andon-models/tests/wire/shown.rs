//! The rendering that people are shown is what the model is sent.

use std::sync::Arc;

use andon_models::Settings;
use andon_runtime::core::cancel::Reason;
use andon_runtime::core::message::{Cut, ResultStatus};
use andon_runtime::{CallId, Message, Model, ModelRequest, Part, Role, ToolCall, ToolChoice, ToolResult, ToolSpec};

use crate::common::*;

/// A conversation with a tool, a thought and an answer that was stopped.
fn asked() -> ModelRequest {
    let id = CallId::new("call_1").unwrap();
    let thought = Part::Thinking { text: "The weather, then.".into(), signature: None };
    let call = Part::ToolCall(ToolCall::new(id.clone(), "weather", "{\"city\":\"Lund\"}"));
    let result = Part::ToolResult(ToolResult::text(id, ResultStatus::Ok, "Rain"));
    let message = |role, parts, cut| Arc::new(Message::new(role, parts).cut(cut));
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    request()
        .history(vec![
            Arc::new(Message::user("Weather?")),
            message(Role::Assistant, vec![thought, call], None),
            message(Role::Tool, vec![result], None),
            message(Role::Assistant, vec![Part::text("It rai")], Some(Cut::Cancelled(Reason::Requested))),
            Arc::new(Message::user("Go on.")),
        ])
        .tools(Arc::from([Arc::new(ToolSpec::new("weather", "Looks out of the window.", schema))]))
}

#[tokio::test]
async fn what_is_shown_is_what_is_sent_in_every_format_and_has_no_key_in_it() {
    let forms = ["anthropic", "openai_chat", "openai_responses", "gemini", "ollama"];
    for (dialect, form) in Dialect::ALL.into_iter().zip(forms) {
        let provider = BadProvider::start(Protocol::Http1).await;
        provider.answer(Script::json(400, &json!({"error": {"message": "no"}})));
        let extra = json!({"seed": 7}).as_object().unwrap().clone();
        let settings = Settings::default().max_output(99).extra(extra);
        let model = Arc::new(model_of(&provider, Protocol::Http1, builder(dialect).settings(settings)));
        // A shared model is shown as the model that it is.
        let shown = Model::rendering(&model, &asked()).unwrap();
        all(&mut model.call(asked())).await;
        let sent = provider.all_seen()[0].json();
        assert_eq!((&*shown.form, &shown.body), (form, &sent));
        let text = shown.body.to_string();
        for part in
            ["Be brief.", "Lund", "Rain", "It rai", "was stopped by the user", "Looks out", "Go on.", "\"seed\":7"]
        {
            assert!(text.contains(part), "{form} lacks {part}: {text}");
        }
        assert!(!text.contains(CANARY), "{form} shows the key");
    }
}

#[tokio::test]
async fn nothing_is_sent_for_what_is_only_shown() {
    let provider = BadProvider::start(Protocol::Http1).await;
    for dialect in Dialect::ALL {
        let model = model_of(&provider, Protocol::Http1, builder(dialect));
        model.rendering(&asked()).unwrap();
    }
    tokio::task::yield_now().await;
    assert_eq!(provider.connections(), 0);
}

#[tokio::test]
async fn what_is_set_for_one_call_is_sent_with_it_and_overrides_the_models_own() {
    for dialect in Dialect::ALL {
        let provider = BadProvider::start(Protocol::Http1).await;
        provider.answer(Script::json(400, &json!({"error": {"message": "no"}})));
        let own = Settings::default().max_output(99);
        let model = model_of(&provider, Protocol::Http1, builder(dialect).settings(own));
        let mut asked = asked();
        asked.settings.max_output = Some(77);
        asked.settings.stop = vec!["HALT".to_owned()];
        all(&mut model.call(asked)).await;
        let sent = provider.all_seen()[0].json().to_string();
        assert!(sent.contains("77") && !sent.contains("99"), "{dialect:?}: {sent}");
    }
}

#[tokio::test]
async fn a_tool_choice_that_a_provider_cannot_be_told_fails_the_call_before_anything_is_sent() {
    let thinks = Settings::default().thinking(andon_models::Thinking::Low);
    for (builder, settings, why) in [
        (builder(Dialect::Ollama), Settings::default(), "Ollama cannot make a model call a tool"),
        (Dialect::Anthropic.adapter("claude-sonnet-5"), thinks, "cannot be made to call a tool while it thinks"),
    ] {
        let provider = BadProvider::start(Protocol::Http1).await;
        let model = model_of(&provider, Protocol::Http1, builder.settings(settings));
        let mut answer = model.call(asked().tool_choice(ToolChoice::Required));
        let error = next(&mut answer).await.unwrap().unwrap_err();
        assert!(error.message.contains(why), "{}", error.message);
        assert_eq!(provider.all_seen().len(), 0);
    }
}
