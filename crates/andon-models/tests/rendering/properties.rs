//! What holds for every history, every model and every setting.

use std::sync::Arc;

use andon_models::render::Ask;
use andon_models::settings::{Settings, Thinking};
use andon_runtime::core::message::{Message, Role};
use andon_runtime::core::prompt::prompt;
use andon_runtime::{ToolSpec, core::message::Part};
use andon_testkit::wire::Provider;
use andon_testkit::wire::histories::histories;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// Models of each provider, one of every generation with different settings.
fn models(provider: Provider) -> &'static [&'static str] {
    match provider {
        Provider::Anthropic => &[
            "claude-sonnet-5",
            "claude-opus-5-5",
            "claude-sonnet-5-5",
            "claude-opus-4-6",
            "claude-haiku-4-5-20251001",
            "claude-3-haiku-20240307",
        ],
        Provider::OpenAiChat => &["gpt-5.2", "o3", "gpt-4.1", "qwen3-32b"],
        Provider::OpenAiResponses => &["gpt-5.2", "gpt-4.1"],
        // The generation before the third needs no signatures; its validator is used elsewhere.
        Provider::Gemini => &["gemini-3-pro-preview", "gemini-flash-latest"],
        Provider::Bedrock => {
            &["anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic.claude-sonnet-5", "amazon.nova-pro-v1:0"]
        }
        Provider::Ollama => &["qwen3"],
        Provider::Mistral => &["mistral-large-latest", "devstral-medium-2512"],
        Provider::DeepSeek => &["deepseek-reasoner", "deepseek-v4-pro"],
    }
}

fn thinking() -> impl Strategy<Value = Option<Thinking>> {
    let words = select(vec![Thinking::Off, Thinking::Low, Thinking::Medium, Thinking::High]);
    option::of(prop_oneof![words, (0..40_000_u32).prop_map(Thinking::Tokens)])
}

fn settings() -> impl Strategy<Value = Settings> {
    let max = option::of(1..64_000_u32);
    let stop = vec("[a-z]{1,4}", 0..3);
    (max, option::of(0.0..2.0_f32), thinking(), stop, any::<bool>()).prop_map(
        |(max_output, temperature, thinking, stop, cache)| {
            Settings::default()
                .max_output(max_output)
                .temperature(temperature)
                .thinking(thinking)
                .stop(stop)
                .cache(cache)
        },
    )
}

fn tools() -> impl Strategy<Value = Vec<Arc<ToolSpec>>> {
    let spec = |name: &str| Arc::new(ToolSpec::new(name, "Does it.", json!({"type": "object", "properties": {}})));
    select(vec![vec![], vec![spec("look")], vec![spec("look"), spec("1st tool")]])
}

/// The history as it is when the next request is made.
fn asked(mut history: Vec<Message>) -> Vec<Message> {
    if history.last().is_none_or(|last| last.role == Role::Assistant) {
        history.push(Message::user("Go on."));
    }
    history
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_body_is_taken_and_is_the_same_each_time(history in histories(), settings in settings(), tools in tools()) {
        let prompt = prompt(&asked(history));
        for provider in Provider::ALL {
            for model in models(provider) {
                let ask = provider.ask(&prompt, &tools, &settings).model(model).instructions("Be brief.");
                let body = provider.render(&ask);
                prop_assert_eq!(provider.validate(&body), Ok(()), "{} of {:?}: {:#}", model, provider, &body);
                prop_assert_eq!(body.to_string(), provider.render(&ask).to_string());
            }
        }
    }

    #[test]
    fn to_openai_chat_two_user_messages_never_stand_in_a_row(history in histories()) {
        let prompt = prompt(&asked(history));
        for provider in [Provider::OpenAiChat, Provider::Ollama] {
            let settings = Settings::default();
            let ask = provider.ask(&prompt, &[], &settings).model("m");
            let body = provider.render(&ask);
            let roles: Vec<&str> = body["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
            prop_assert!(roles.windows(2).all(|pair| pair != ["user", "user"]), "{:?}", roles);
        }
    }

    #[test]
    fn what_is_appended_changes_nothing_before_it(history in histories()) {
        let history = asked(history);
        for provider in Provider::ALL {
            let whole = atoms(provider, &history);
            let ends_a_request = |at: &usize| history[*at - 1].role != Role::Assistant;
            for at in (1..history.len()).filter(ends_a_request) {
                let before = atoms(provider, &history[..at]);
                prop_assert!(whole.starts_with(&before), "{:?} at {}: {:#?} and {:#?}", provider, at, before, whole);
            }
        }
    }

    #[test]
    fn a_thought_that_somebody_else_signed_is_nowhere_in_a_body(history in histories()) {
        let prompt = prompt(&asked(history));
        for provider in Provider::ALL {
            let settings = Settings::default();
            let model = provider.strictest_model();
            let body = provider.render(&provider.ask(&prompt, &[], &settings).model(model));
            let own = format!("signature-of-{}", provider.name().replace('_', "-"));
            let others = body.to_string().replace(&own, "");
            prop_assert!(!others.contains("signature-of-"), "{:?}: {:#}", provider, body);
        }
    }
}

/// What a request says, item by item, each with its role. Texts that a format joins are separated; images that a format keeps
/// apart from the text are left out.
fn atoms(provider: Provider, history: &[Message]) -> Vec<(String, Value)> {
    let prompt = prompt(history);
    let settings = Settings::default();
    let body = provider.render(&provider.ask(&prompt, &[], &settings));
    let list = ["messages", "contents", "input"].iter().find_map(|field| body.get(field)).unwrap();
    let mut atoms = Vec::new();
    for message in list.as_array().unwrap() {
        let who = message["role"].as_str().unwrap_or("item").to_owned();
        let said = message.get("content").or(message.get("parts"));
        match said {
            Some(Value::Array(blocks)) => atoms.extend(blocks.iter().map(|block| (who.clone(), plain(block)))),
            Some(Value::String(text)) => {
                atoms.extend(text.split("\n\n").filter(|text| !text.is_empty()).map(|text| (who.clone(), json!(text))));
            }
            _ => {}
        }
        let calls = message.get("tool_calls").cloned();
        atoms.extend(calls.into_iter().map(|calls| (who.clone(), calls)));
        if said.is_none() {
            atoms.push((who, message.clone()));
        }
    }
    atoms
}

/// A block that is only text counts as that text.
fn plain(block: &Value) -> Value {
    match (block["type"].as_str(), block.get("text")) {
        (Some("text"), Some(text)) => text.clone(),
        _ => block.clone(),
    }
}

#[test]
fn without_signatures_the_second_generation_of_gemini_gets_no_stand_in() {
    let call = serde_json::from_value(json!({"id": "c", "name": "look", "arguments": "{}"})).unwrap();
    let said = Message::new(Role::Assistant, vec![Part::ToolCall(call)]);
    let prompt = [Message::user("Look."), said];
    let settings = Settings::default();
    let ask = |model| Ask::new("gemini", model, &prompt, &settings);
    let part = |model| Provider::Gemini.render(&ask(model))["contents"][1]["parts"][0].clone();
    assert_eq!(part("gemini-2.5-pro"), json!({"functionCall": {"name": "look", "args": {}}}));
    assert_eq!(part("gemini-3-pro-preview")["thoughtSignature"], "skip_thought_signature_validator");
}
