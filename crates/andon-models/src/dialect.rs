//! What a provider's API is like: its paths, its bodies, its streams.

use andon_runtime::Rendering;
use serde_json::Value;
use url::Url;

use crate::decode::Decode;
use crate::decode::anthropic::Anthropic;
use crate::decode::gemini::Gemini;
use crate::decode::ollama::Ollama;
use crate::decode::openai_chat::OpenAiChat;
use crate::decode::openai_responses::OpenAiResponses;
use crate::http::Framing;
use crate::render::{self, Ask};

/// An API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// OpenAI's Chat Completions.
    OpenAiChat,
    /// The same, at Azure's addresses.
    Azure,
    /// OpenAI's Responses.
    OpenAiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// Ollama's own.
    Ollama,
}

impl Dialect {
    /// The endpoint for answers. `version` is Azure's.
    pub(crate) fn url(self, base: &Url, model: &str, version: Option<&str>) -> Url {
        match (self, version) {
            (Self::OpenAiChat, _) => join(base, ["chat", "completions"]),
            (Self::OpenAiResponses, _) => join(base, ["responses"]),
            (Self::Anthropic, _) => join(base, ["v1", "messages"]),
            (Self::Ollama, _) => join(base, ["api", "chat"]),
            (Self::Gemini, _) => {
                let mut url = join(base, ["models", &format!("{model}:streamGenerateContent")]);
                url.query_pairs_mut().append_pair("alt", "sse");
                url
            }
            (Self::Azure, None) => join(base, ["openai", "v1", "chat", "completions"]),
            (Self::Azure, Some(version)) => {
                let mut url = join(base, ["openai", "deployments", model, "chat", "completions"]);
                url.query_pairs_mut().append_pair("api-version", version);
                url
            }
        }
    }

    /// The model's name, as requests carry it.
    pub(crate) fn model(self, name: &str) -> &str {
        match self {
            Self::Gemini => name.strip_prefix("models/").unwrap_or(name),
            Self::OpenAiChat | Self::Azure | Self::OpenAiResponses | Self::Anthropic | Self::Ollama => name,
        }
    }

    /// Headers of every request.
    pub(crate) fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Anthropic => &[("anthropic-version", "2023-06-01")],
            Self::OpenAiChat | Self::Azure | Self::OpenAiResponses | Self::Gemini | Self::Ollama => &[],
        }
    }

    /// An address as users write it, completed with what they leave out.
    pub(crate) fn completed(self, address: &str) -> String {
        match self {
            // OLLAMA_HOST is also what its server listens on: a bare port, no scheme, any address.
            Self::Ollama => {
                let address = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
                let address = address.replace("://:", "://127.0.0.1:").replace("://0.0.0.0", "://127.0.0.1");
                let rest = address.split_once("://").map_or("", |(_, rest)| rest);
                let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
                let is_bare = address.starts_with("http://") && !has_port && !rest.contains('/');
                if is_bare { format!("{address}:11434") } else { address }
            }
            Self::OpenAiChat | Self::Azure | Self::OpenAiResponses | Self::Anthropic | Self::Gemini => {
                address.to_owned()
            }
        }
    }

    /// The address that its paths are joined to: some users include the version in it, some do not.
    pub(crate) fn base(self, mut address: Url) -> Url {
        let path = address.path().trim_end_matches('/').to_owned();
        match self {
            Self::Anthropic => address.set_path(path.strip_suffix("/v1").unwrap_or(&path)),
            Self::Gemini if path.is_empty() => address.set_path("/v1beta"),
            Self::Azure => {
                address.set_path(path.strip_suffix("/openai/v1").or(path.strip_suffix("/openai")).unwrap_or(&path))
            }
            Self::Ollama => address.set_path(path.strip_suffix("/api").or(path.strip_suffix("/v1")).unwrap_or(&path)),
            Self::OpenAiChat | Self::OpenAiResponses | Self::Gemini => {}
        }
        address
    }

    /// The body of a request for an answer, and the name of its format.
    pub(crate) fn rendering(self, ask: &Ask<'_>) -> Rendering {
        match self {
            Self::OpenAiChat | Self::Azure => Rendering::new("openai_chat", render::openai_chat::body(ask)),
            Self::OpenAiResponses => Rendering::new("openai_responses", render::openai_responses::body(ask)),
            Self::Anthropic => Rendering::new("anthropic", render::anthropic::body(ask)),
            Self::Gemini => Rendering::new("gemini", render::gemini::body(ask)),
            Self::Ollama => Rendering::new("ollama", render::ollama::body(ask)),
        }
    }

    /// Why a tool choice cannot be asked for here, if it cannot.
    pub(crate) fn check_choice(self, ask: &Ask<'_>) -> Result<(), String> {
        render::choice::check_known(ask)?;
        match self {
            Self::OpenAiChat | Self::Azure | Self::OpenAiResponses | Self::Gemini => Ok(()),
            Self::Anthropic => render::choice::check_claude(ask),
            Self::Ollama => render::choice::check_ollama(ask),
        }
    }

    /// How many tokens an answer to this body may have, if it says so.
    pub(crate) fn max_output(self, body: &Value) -> Option<u64> {
        let fields: &[&str] = match self {
            Self::OpenAiChat | Self::Azure => &["/max_completion_tokens", "/max_tokens"],
            Self::OpenAiResponses => &["/max_output_tokens"],
            Self::Anthropic => &["/max_tokens"],
            Self::Gemini => &["/generationConfig/maxOutputTokens"],
            Self::Ollama => &["/options/num_predict"],
        };
        fields.iter().find_map(|field| body.pointer(field)?.as_u64())
    }

    pub(crate) fn decoder(self) -> Box<dyn Decode> {
        match self {
            Self::OpenAiChat | Self::Azure => Box::new(OpenAiChat::default()),
            Self::OpenAiResponses => Box::new(OpenAiResponses::default()),
            Self::Anthropic => Box::new(Anthropic::default()),
            Self::Gemini => Box::new(Gemini::default()),
            Self::Ollama => Box::new(Ollama::default()),
        }
    }

    pub(crate) fn framing(self) -> Framing {
        match self {
            Self::OpenAiChat | Self::Azure | Self::OpenAiResponses | Self::Anthropic | Self::Gemini => Framing::Sse,
            Self::Ollama => Framing::Lines,
        }
    }

    pub(crate) fn accept(self) -> &'static str {
        match self.framing() {
            Framing::Sse => "text/event-stream",
            Framing::Lines => "application/x-ndjson",
        }
    }
}

/// An address below another one. Its query stays.
pub(crate) fn join<'a>(base: &Url, path: impl IntoIterator<Item = &'a str>) -> Url {
    let mut url = base.clone();
    // A base that cannot have a path was refused when the model was built.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}
