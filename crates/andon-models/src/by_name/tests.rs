use andon_runtime::Model;

use super::*;
use crate::cut::{CutPolicy, Drain};
use crate::names::ALL;
use crate::provider::HttpModel;

/// Builds by name, in an environment of these variables only.
fn build(name: &str, variables: &[(&str, &str)]) -> Result<HttpModel, SetupError> {
    let look = |wanted: &str| variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned());
    builder(name).and_then(|builder| builder.build_in(&look))
}

fn url(name: &str, variables: &[(&str, &str)]) -> String {
    build(name, variables).unwrap().url().to_string()
}

#[test]
fn every_provider_is_found_by_its_name_and_its_other_names() {
    for facts in ALL {
        for name in facts.aliases.iter().chain([&facts.name]) {
            assert!(builder(&format!("{name}/some-model")).is_ok(), "{name}");
            assert!(builder(&format!("{}/some-model", name.to_uppercase())).is_ok(), "{name}");
        }
    }
    let model = build("google/gemini-2.5-pro", &[("GOOGLE_API_KEY", "k")]).unwrap();
    assert_eq!(model.name(), "gemini/gemini-2.5-pro");
}

#[test]
fn names_are_not_given_twice() {
    let mut names: Vec<&str> =
        ALL.iter().flat_map(|facts| facts.aliases.iter().chain([&facts.name])).copied().collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn answers_come_from_where_each_provider_has_them() {
    let cases = [
        ("openai/gpt-5", "OPENAI_API_KEY", "https://api.openai.com/v1/chat/completions"),
        ("openai-responses/gpt-5", "OPENAI_API_KEY", "https://api.openai.com/v1/responses"),
        ("anthropic/claude-sonnet-5", "ANTHROPIC_API_KEY", "https://api.anthropic.com/v1/messages"),
        (
            "gemini/models/g",
            "GEMINI_API_KEY",
            "https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse",
        ),
        ("ollama/qwen3:8b", "", "http://127.0.0.1:11434/api/chat"),
        ("openrouter/openai/gpt-5", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1/chat/completions"),
        ("deepseek/deepseek-chat", "DEEPSEEK_API_KEY", "https://api.deepseek.com/chat/completions"),
        ("groq/llama", "GROQ_API_KEY", "https://api.groq.com/openai/v1/chat/completions"),
        ("mistral/mistral-large-latest", "MISTRAL_API_KEY", "https://api.mistral.ai/v1/chat/completions"),
        ("xai/grok-4", "XAI_API_KEY", "https://api.x.ai/v1/chat/completions"),
        ("vllm/m", "", "http://localhost:8000/v1/chat/completions"),
        ("sglang/m", "", "http://localhost:30000/v1/chat/completions"),
        ("llamacpp/m", "", "http://localhost:8080/v1/chat/completions"),
    ];
    for (name, key, expected) in cases {
        assert_eq!(url(name, &[(key, "sk-1")]), expected, "{name}");
    }
}

#[test]
fn a_missing_key_names_the_variable_to_set() {
    for (name, variable) in
        [("openai/m", "OPENAI_API_KEY"), ("gemini/m", "GEMINI_API_KEY"), ("azure/m", "AZURE_OPENAI_API_KEY")]
    {
        let error = build(name, &[("AZURE_OPENAI_ENDPOINT", "https://x.example")]).unwrap_err();
        assert!(error.to_string().contains(&format!("set {variable}")), "{error}");
        let blank = build(name, &[("AZURE_OPENAI_ENDPOINT", "https://x.example"), (variable, "  ")]).unwrap_err();
        assert_eq!(blank, error, "a blank key counts as no key");
    }
    // A user's own server may need none.
    assert!(build("openai/m", &[("OPENAI_BASE_URL", "http://localhost:1/v1")]).is_ok());
}

#[test]
fn an_unknown_provider_lists_the_known_ones_and_the_nearest() {
    let error = build("antropic/claude", &[]).unwrap_err().to_string();
    assert!(error.contains("did you mean \"anthropic\"?") && error.contains("openrouter"), "{error}");
    let error = build("zzz/claude", &[]).unwrap_err().to_string();
    assert!(!error.contains("did you mean") && error.contains("known: openai,"), "{error}");
    let error = build("claude-sonnet-5", &[]).unwrap_err().to_string();
    assert!(error.contains("provider/model"), "{error}");
    let error = build("openai/ ", &[]).unwrap_err().to_string();
    assert!(error.contains("model's name is missing"), "{error}");
}

#[test]
fn a_bad_base_address_says_what_is_wrong() {
    let wrong = |address: &str| {
        build("openai/m", &[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", address)]).unwrap_err().to_string()
    };
    assert!(wrong("api.openai.com/v1").contains("must begin with https://"));
    assert!(wrong("ftp://x").contains("not ftp:"));
    assert!(wrong("http://").contains("host"));
    assert!(wrong("https://x:99999").contains("port"));
    assert!(wrong("https://x/#y").contains('#'));
    assert!(
        build("azure/m", &[("AZURE_OPENAI_API_KEY", "k")]).unwrap_err().to_string().contains("AZURE_OPENAI_ENDPOINT")
    );
}

#[test]
fn base_addresses_may_be_written_as_people_write_them() {
    let anthropic = |address| url("anthropic/m", &[("ANTHROPIC_BASE_URL", address)]);
    for address in
        ["https://p.example/a", "https://p.example/a/", "https://p.example/a/v1", " https://p.example/a/v1/ "]
    {
        assert_eq!(anthropic(address), "https://p.example/a/v1/messages", "{address}");
    }
    let ollama = |address| url("ollama/m", &[("OLLAMA_HOST", address)]);
    for address in ["127.0.0.1", "127.0.0.1:11434", "http://127.0.0.1:11434/", "0.0.0.0", ":11434", "0.0.0.0:11434"] {
        assert_eq!(ollama(address), "http://127.0.0.1:11434/api/chat", "{address}");
    }
    assert_eq!(ollama("https://ollama.example"), "https://ollama.example/api/chat");
    assert_eq!(ollama("[::1]"), "http://[::1]:11434/api/chat");
    assert_eq!(ollama("box:80"), "http://box/api/chat");
    assert_eq!(
        url("gemini/m", &[("GEMINI_BASE_URL", "https://p.example")]),
        "https://p.example/v1beta/models/m:streamGenerateContent?alt=sse"
    );
    let base = ("AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com/");
    let key = ("AZURE_OPENAI_API_KEY", "k");
    assert_eq!(url("azure/d", &[base, key]), "https://r.openai.azure.com/openai/v1/chat/completions");
    assert_eq!(
        url("azure/d 1", &[base, key, ("OPENAI_API_VERSION", "2024-10-21")]),
        "https://r.openai.azure.com/openai/deployments/d%201/chat/completions?api-version=2024-10-21"
    );
}

#[test]
fn bedrock_says_how_to_turn_it_on() {
    let error = build("bedrock/m", &[]).unwrap_err().to_string();
    assert!(error.contains("--features bedrock"), "{error}");
}

#[test]
fn where_closing_does_not_stop_the_bill_the_answer_is_drained() {
    for facts in ALL {
        let expected = match facts.name {
            "groq" | "mistral" => CutPolicy::Drain(Drain::default()),
            "openrouter" => CutPolicy::CutAndLookUp,
            _ => CutPolicy::Cut,
        };
        assert_eq!(facts.cut(), expected, "{}", facts.name);
    }
}
