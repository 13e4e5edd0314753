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

/// What becomes of a request that is longer than the model can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TooLong {
    /// It is refused.
    Refused,
    /// Nobody says, or some servers drop the beginning and answer.
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
    pub(crate) too_long: TooLong,
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
    too_long: TooLong::Unknown,
    count: None,
    look_up: false,
};

/// A server on this machine at its usual address, with the variables in which its users set another address and a key.
const fn local(
    name: &'static str,
    base: &'static str,
    base_variables: &'static [&'static str],
    key_variables: &'static [&'static str],
) -> Facts {
    Facts { name, base: Some(base), base_variables, key_variables, ..CHAT }
}

/// The same for a server on the web: its own address needs a key.
const fn hosted(
    name: &'static str,
    base: &'static str,
    base_variables: &'static [&'static str],
    key_variables: &'static [&'static str],
) -> Facts {
    Facts { needs_key: true, ..local(name, base, base_variables, key_variables) }
}

pub(crate) const COMPATIBLE: Facts = Facts { aliases: &["openai-compatible"], ..CHAT };

pub(crate) const OPENAI: Facts = Facts {
    closing: Closing::StopsTheBill,
    too_long: TooLong::Refused,
    count: Some(CountEndpoint::OpenAi),
    ..hosted("openai", "https://api.openai.com/v1", &["OPENAI_BASE_URL"], &["OPENAI_API_KEY"])
};

pub(crate) const OPENAI_RESPONSES: Facts =
    Facts { name: "openai-responses", dialect: Dialect::OpenAiResponses, usage: UsageAsked::Nothing, ..OPENAI };

pub(crate) const ANTHROPIC: Facts = Facts {
    aliases: &["claude"],
    dialect: Dialect::Anthropic,
    auth: Auth::Header("x-api-key"),
    usage: UsageAsked::Nothing,
    closing: Closing::StopsTheBill,
    too_long: TooLong::Refused,
    count: Some(CountEndpoint::Anthropic),
    ..hosted("anthropic", "https://api.anthropic.com", &["ANTHROPIC_BASE_URL"], &["ANTHROPIC_API_KEY"])
};

pub(crate) const GEMINI: Facts = Facts {
    aliases: &["google"],
    dialect: Dialect::Gemini,
    auth: Auth::Header("x-goog-api-key"),
    usage: UsageAsked::Nothing,
    closing: Closing::Unknown,
    too_long: TooLong::Refused,
    count: Some(CountEndpoint::Gemini),
    ..hosted(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        &["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
        &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    )
};

pub(crate) const OLLAMA: Facts = Facts {
    dialect: Dialect::Ollama,
    usage: UsageAsked::Nothing,
    closing: Closing::StopsTheBill,
    ..local("ollama", "http://127.0.0.1:11434", &["OLLAMA_HOST"], &["OLLAMA_API_KEY"])
};

const DEEPSEEK: Facts = Facts {
    closing: Closing::StopsTheBill,
    too_long: TooLong::Refused,
    ..hosted("deepseek", "https://api.deepseek.com", &["DEEPSEEK_BASE_URL"], &["DEEPSEEK_API_KEY"])
};

const GROQ: Facts = Facts {
    closing: Closing::StopsNothing,
    too_long: TooLong::Refused,
    ..hosted("groq", "https://api.groq.com/openai/v1", &["GROQ_BASE_URL"], &["GROQ_API_KEY"])
};

const MISTRAL: Facts = Facts {
    aliases: &["mistralai"],
    usage: UsageAsked::Nothing,
    closing: Closing::StopsNothing,
    too_long: TooLong::Refused,
    ..hosted("mistral", "https://api.mistral.ai/v1", &["MISTRAL_BASE_URL"], &["MISTRAL_API_KEY"])
};

const XAI: Facts = Facts {
    aliases: &["grok"],
    closing: Closing::StopsTheBill,
    too_long: TooLong::Refused,
    ..hosted("xai", "https://api.x.ai/v1", &["XAI_BASE_URL"], &["XAI_API_KEY"])
};

const OPENROUTER: Facts = Facts {
    look_up: true,
    ..hosted("openrouter", "https://openrouter.ai/api/v1", &["OPENROUTER_BASE_URL"], &["OPENROUTER_API_KEY"])
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
    too_long: TooLong::Refused,
    ..CHAT
};

const VLLM: Facts = Facts {
    usage: UsageAsked::Continuously,
    closing: Closing::StopsTheBill,
    ..local("vllm", "http://localhost:8000/v1", &["VLLM_BASE_URL"], &["VLLM_API_KEY"])
};

const SGLANG: Facts = Facts {
    usage: UsageAsked::Continuously,
    closing: Closing::StopsTheBill,
    ..local("sglang", "http://localhost:30000/v1", &["SGLANG_BASE_URL"], &["SGLANG_API_KEY"])
};

const LLAMACPP: Facts = Facts {
    aliases: &["llama.cpp", "llama-cpp"],
    usage: UsageAsked::Timings,
    closing: Closing::StopsTheBill,
    ..local("llamacpp", "http://localhost:8080/v1", &["LLAMACPP_BASE_URL"], &["LLAMACPP_API_KEY"])
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

/// The provider of this name, in any case.
pub(crate) fn find(name: &str) -> Option<&'static Facts> {
    let is_it = |known: &&str| known.eq_ignore_ascii_case(name);
    ALL.iter().find(|facts| is_it(&facts.name) || facts.aliases.iter().any(is_it)).copied()
}

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
