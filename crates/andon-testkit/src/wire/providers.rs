//! The providers: what each is sent, and what the strictest server of its API accepts.

use std::sync::Arc;

use andon_core::message::{Message, Signature};
use andon_models::render::{self, Ask};
use andon_models::settings::{Settings, Thinking};
use andon_runtime::ToolSpec;
use serde_json::{Value, json};

use super::violation::{Violation, Violations, violations_of};
use super::{anthropic, bedrock, deepseek, gemini, mistral, ollama, openai_chat, openai_responses};

/// A request format, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API, and the many servers that speak it.
    OpenAiChat,
    /// OpenAI's Responses API, without state on the server.
    OpenAiResponses,
    /// Google's Gemini API.
    Gemini,
    /// Amazon Bedrock's Converse API.
    Bedrock,
    /// Ollama's own API.
    Ollama,
    /// Mistral's own servers, which speak OpenAI's Chat Completions API more strictly than others.
    Mistral,
    /// DeepSeek's own servers, which want back the thoughts that led to a call.
    DeepSeek,
}

impl Provider {
    /// Every provider.
    pub const ALL: [Self; 8] = [
        Self::Anthropic,
        Self::OpenAiChat,
        Self::OpenAiResponses,
        Self::Gemini,
        Self::Bedrock,
        Self::Ollama,
        Self::Mistral,
        Self::DeepSeek,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiChat => "openai_chat",
            Self::OpenAiResponses => "openai_responses",
            Self::Gemini => "gemini",
            Self::Bedrock => "bedrock",
            Self::Ollama => "ollama",
            Self::Mistral => "mistral",
            Self::DeepSeek => "deepseek",
        }
    }

    /// The name of a provider with this format in [`andon_models::names`].
    pub fn adapter(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic | Self::Gemini | Self::Bedrock | Self::Ollama | Self::Mistral | Self::DeepSeek => {
                self.name()
            }
        }
    }

    /// Its strictest model.
    pub fn strictest_model(self) -> &'static str {
        match self {
            Self::Anthropic => "claude-sonnet-5",
            Self::OpenAiChat | Self::OpenAiResponses => "gpt-5.2",
            Self::Gemini => "gemini-3-pro-preview",
            Self::Bedrock => "anthropic.claude-sonnet-4-5-20250929-v1:0",
            Self::Ollama => "qwen3",
            Self::Mistral => "mistral-large-latest",
            Self::DeepSeek => "deepseek-reasoner",
        }
    }

    /// A request to its strictest model, without instructions.
    pub fn ask<'a>(self, prompt: &'a [Message], tools: &'a [Arc<ToolSpec>], settings: &'a Settings) -> Ask<'a> {
        Ask::new(self.adapter(), self.strictest_model(), prompt, settings).tools(tools)
    }

    /// The body of the next request, as the provider's adapter makes it.
    pub fn render(self, ask: &Ask<'_>) -> Value {
        match self {
            Self::Anthropic => render::anthropic::body(ask),
            Self::OpenAiChat | Self::Mistral | Self::DeepSeek => render::openai_chat::body(ask),
            Self::OpenAiResponses => render::openai_responses::body(ask),
            Self::Gemini => render::gemini::body(ask),
            Self::Bedrock => render::bedrock::body(ask),
            Self::Ollama => render::ollama::body(ask),
        }
    }

    /// Checks the body of a request against the rules of the strictest known server. `Err` has every broken rule.
    pub fn validate(self, body: &Value) -> Result<(), Vec<Violation>> {
        let mut violations = Violations::default();
        match self {
            Self::Anthropic => anthropic::check(body, &mut violations),
            Self::OpenAiChat => openai_chat::check(body, &mut violations),
            Self::OpenAiResponses => openai_responses::check(body, &mut violations),
            Self::Gemini => gemini::check(body, &mut violations),
            Self::Bedrock => bedrock::check(body, &mut violations),
            Self::Ollama => ollama::check(body, &mut violations),
            Self::Mistral => mistral::check(body, &mut violations),
            Self::DeepSeek => deepseek::check(body, &mut violations),
        }
        violations.into_result()
    }
}

/// The beginning of a signature that [`signature_of`] made.
pub(super) const SIGNATURE_OF: &str = "signature-of-";

/// A signature that names its provider, in that provider's format. Only its provider can read a real one, so every validator refuses
/// one that names another.
pub fn signature_of(by: &str) -> Signature {
    let value = format!("{SIGNATURE_OF}{by}");
    if by == render::openai_responses::NAME {
        return render::openai_responses::seal("rs_1", &value);
    }
    Signature::new(by, value)
}

/// What each provider would refuse in a prompt, with tools, thinking and caching, and without.
pub(super) fn refused(prompt: &[Message]) -> Vec<String> {
    let tool = ToolSpec::new("look", "Looks.", json!({"type": "object", "properties": {}}));
    let tools = [Arc::new(tool)];
    let plain = Settings::default();
    let rich = Settings::default().thinking(Thinking::High).cache(true);
    let mut found = Vec::new();
    for provider in Provider::ALL {
        for (tools, settings) in [(&[][..], &plain), (&tools[..], &rich)] {
            let ask = provider.ask(prompt, tools, settings).instructions("Be brief.");
            let body = provider.render(&ask);
            // Most violations occur both ways.
            for line in violations_of(provider.name(), provider.validate(&body)) {
                if !found.contains(&line) {
                    found.push(line);
                }
            }
        }
    }
    found
}
