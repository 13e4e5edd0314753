//! The providers by name, and all that is known about each, in one table.
//!
//! The columns follow the providers' documentation. Where a provider says nothing, the worse is assumed.

use crate::cut::{CountEndpoint, CutPolicy, Drain};
use crate::dialect::Dialect;

/// How a key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Auth {
    /// `authorization: Bearer …`
    Bearer,
    /// Bare, in a header of this name.
    Header(&'static str),
}

/// What a request asks for so that usage is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsageAsked {
    /// Nothing: usage comes anyway, and some of these providers refuse the question.
    Nothing,
    /// `stream_options.include_usage`: at the end.
    AtTheEnd,
    /// `stream_options.continuous_usage_stats` as well: in every chunk.
    Continuously,
    /// `timings_per_token`: llama.cpp's own figures in every chunk.
    Timings,
}

/// Whether closing the connection stops the bill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// It does.
    StopsTheBill,
    /// The whole answer is charged.
    StopsNothing,
    /// Nobody says, or some servers stop and some do not.
    Unknown,
}

/// What is known about a provider.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) dialect: Dialect,
    /// Its own address; `None` if every user has a different one.
    pub(crate) base: Option<&'static str>,
    /// The variables in which its users set another address.
    pub(crate) base_variables: &'static [&'static str],
    /// The variables in which its users keep the key.
    pub(crate) key_variables: &'static [&'static str],
    /// Whether its own address needs a key.
    pub(crate) needs_key: bool,
    pub(crate) auth: Auth,
    pub(crate) usage: UsageAsked,
    pub(crate) closing: Closing,
    /// The endpoint that counts what was sent, if there is one.
    pub(crate) count: Option<CountEndpoint>,
    /// Whether an answer can be looked up.
    pub(crate) look_up: bool,
}

impl Facts {
    /// What is done about a cut by default.
    pub(crate) fn cut(&self) -> CutPolicy {
        match self.closing {
            _ if self.look_up => CutPolicy::CutAndLookUp,
            Closing::StopsNothing => CutPolicy::Drain(Drain::default()),
            // Where closing stops the bill, draining would add to it.
            Closing::StopsTheBill | Closing::Unknown => CutPolicy::Cut,
        }
    }
}

/// A server that speaks Chat Completions, about which nothing else is known. The others say how they differ.
const CHAT: Facts = Facts {
    name: "compatible",
    aliases: &[],
    dialect: Dialect::OpenAiChat,
    base: None,
    base_variables: &["COMPATIBLE_BASE_URL"],
    key_variables: &["COMPATIBLE_API_KEY"],
    needs_key: false,
    auth: Auth::Bearer,
    usage: UsageAsked::AtTheEnd,
    closing: Closing::Unknown,
    count: None,
    look_up: false,
};

pub(crate) const COMPATIBLE: Facts = Facts { aliases: &["openai-compatible"], ..CHAT };

pub(crate) const OPENAI: Facts = Facts {
    name: "openai",
    base: Some("https://api.openai.com/v1"),
    base_variables: &["OPENAI_BASE_URL"],
    key_variables: &["OPENAI_API_KEY"],
    needs_key: true,
    closing: Closing::StopsTheBill,
    count: Some(CountEndpoint::OpenAi),
    ..CHAT
};

pub(crate) const OPENAI_RESPONSES: Facts =
    Facts { name: "openai-responses", dialect: Dialect::OpenAiResponses, usage: UsageAsked::Nothing, ..OPENAI };

pub(crate) const ANTHROPIC: Facts = Facts {
    name: "anthropic",
    aliases: &["claude"],
    dialect: Dialect::Anthropic,
    base: Some("https://api.anthropic.com"),
    base_variables: &["ANTHROPIC_BASE_URL"],
    key_variables: &["ANTHROPIC_API_KEY"],
    needs_key: true,
    auth: Auth::Header("x-api-key"),
    usage: UsageAsked::Nothing,
    closing: Closing::StopsTheBill,
    count: Some(CountEndpoint::Anthropic),
    ..CHAT
};

pub(crate) const GEMINI: Facts = Facts {
    name: "gemini",
    aliases: &["google"],
    dialect: Dialect::Gemini,
    base: Some("https://generativelanguage.googleapis.com/v1beta"),
    base_variables: &["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
    key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    needs_key: true,
    auth: Auth::Header("x-goog-api-key"),
    usage: UsageAsked::Nothing,
    closing: Closing::Unknown,
    count: Some(CountEndpoint::Gemini),
    ..CHAT
};

pub(crate) const OLLAMA: Facts = Facts {
    name: "ollama",
    dialect: Dialect::Ollama,
    base: Some("http://127.0.0.1:11434"),
    base_variables: &["OLLAMA_HOST"],
    key_variables: &["OLLAMA_API_KEY"],
    usage: UsageAsked::Nothing,
    closing: Closing::StopsTheBill,
    ..CHAT
};

const DEEPSEEK: Facts = Facts {
    name: "deepseek",
    base: Some("https://api.deepseek.com"),
    base_variables: &["DEEPSEEK_BASE_URL"],
    key_variables: &["DEEPSEEK_API_KEY"],
    needs_key: true,
    closing: Closing::StopsTheBill,
    ..CHAT
};

const GROQ: Facts = Facts {
    name: "groq",
    base: Some("https://api.groq.com/openai/v1"),
    base_variables: &["GROQ_BASE_URL"],
    key_variables: &["GROQ_API_KEY"],
    needs_key: true,
    closing: Closing::StopsNothing,
    ..CHAT
};

const MISTRAL: Facts = Facts {
    name: "mistral",
    aliases: &["mistralai"],
    base: Some("https://api.mistral.ai/v1"),
    base_variables: &["MISTRAL_BASE_URL"],
    key_variables: &["MISTRAL_API_KEY"],
    needs_key: true,
    usage: UsageAsked::Nothing,
    closing: Closing::StopsNothing,
    ..CHAT
};

const XAI: Facts = Facts {
    name: "xai",
    aliases: &["grok"],
    base: Some("https://api.x.ai/v1"),
    base_variables: &["XAI_BASE_URL"],
    key_variables: &["XAI_API_KEY"],
    needs_key: true,
    closing: Closing::StopsTheBill,
    ..CHAT
};

const OPENROUTER: Facts = Facts {
    name: "openrouter",
    base: Some("https://openrouter.ai/api/v1"),
    base_variables: &["OPENROUTER_BASE_URL"],
    key_variables: &["OPENROUTER_API_KEY"],
    needs_key: true,
    look_up: true,
    ..CHAT
};

const AZURE: Facts = Facts {
    name: "azure",
    aliases: &["azure-openai"],
    dialect: Dialect::Azure,
    base_variables: &["AZURE_OPENAI_ENDPOINT"],
    key_variables: &["AZURE_OPENAI_API_KEY"],
    needs_key: true,
    auth: Auth::Header("api-key"),
    closing: Closing::StopsTheBill,
    ..CHAT
};

const VLLM: Facts = Facts {
    name: "vllm",
    base: Some("http://localhost:8000/v1"),
    base_variables: &["VLLM_BASE_URL"],
    key_variables: &["VLLM_API_KEY"],
    usage: UsageAsked::Continuously,
    closing: Closing::StopsTheBill,
    ..CHAT
};

const SGLANG: Facts = Facts {
    name: "sglang",
    base: Some("http://localhost:30000/v1"),
    base_variables: &["SGLANG_BASE_URL"],
    key_variables: &["SGLANG_API_KEY"],
    usage: UsageAsked::Continuously,
    closing: Closing::StopsTheBill,
    ..CHAT
};

const LLAMACPP: Facts = Facts {
    name: "llamacpp",
    aliases: &["llama.cpp", "llama-cpp"],
    base: Some("http://localhost:8080/v1"),
    base_variables: &["LLAMACPP_BASE_URL"],
    key_variables: &["LLAMACPP_API_KEY"],
    usage: UsageAsked::Timings,
    closing: Closing::StopsTheBill,
    ..CHAT
};

/// Every provider.
pub(crate) static ALL: [&Facts; 15] = [
    &OPENAI,
    &OPENAI_RESPONSES,
    &ANTHROPIC,
    &GEMINI,
    &OLLAMA,
    &OPENROUTER,
    &DEEPSEEK,
    &GROQ,
    &MISTRAL,
    &XAI,
    &AZURE,
    &VLLM,
    &LLAMACPP,
    &SGLANG,
    &COMPATIBLE,
];

/// The names of all providers, as in `provider/model`.
pub fn known() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|facts| facts.name)
}

/// The provider whose name is nearest to a mistyped one.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let far = |other: &&str| strsim::osa_distance(&name, other);
    known().min_by_key(far).filter(|other| strsim::osa_distance(&name, other) <= other.len().min(name.len()) / 2)
}
