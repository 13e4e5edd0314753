//! What a provider's API is like: its paths, its bodies, its streams.

use serde_json::Value;
use url::Url;

use super::join;
use crate::decode::Decode;
use crate::decode::openai_chat::OpenAiChat;
pub(crate) use crate::http::Framing;
use crate::render::{self, Ask};

/// An API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// OpenAI's Chat Completions.
    OpenAiChat,
    /// The same, where Azure has it.
    Azure,
}

impl Dialect {
    /// Where answers come from. `version` is Azure's.
    pub(crate) fn url(self, base: &Url, model: &str, version: Option<&str>) -> Url {
        match (self, version) {
            (Self::OpenAiChat, _) => join(base, ["chat", "completions"]),
            (Self::Azure, None) => join(base, ["openai", "v1", "chat", "completions"]),
            (Self::Azure, Some(version)) => {
                let mut url = join(base, ["openai", "deployments", model, "chat", "completions"]);
                url.query_pairs_mut().append_pair("api-version", version);
                url
            }
        }
    }

    /// The model's name as it stands in requests.
    pub(crate) fn model(self, name: &str) -> &str {
        match self {
            Self::OpenAiChat | Self::Azure => name,
        }
    }

    /// Headers of every request.
    pub(crate) fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::OpenAiChat | Self::Azure => &[],
        }
    }

    /// An address as its users write it, with what they leave out.
    pub(crate) fn spelt_out(self, address: &str) -> String {
        match self {
            Self::OpenAiChat | Self::Azure => address.to_owned(),
        }
    }

    /// The address below which its paths are.
    pub(crate) fn base(self, address: Url) -> Url {
        match self {
            Self::OpenAiChat | Self::Azure => address,
        }
    }

    pub(crate) fn body(self, ask: &Ask<'_>) -> Value {
        match self {
            Self::OpenAiChat | Self::Azure => render::openai_chat::body(ask),
        }
    }

    pub(crate) fn decoder(self) -> Box<dyn Decode> {
        match self {
            Self::OpenAiChat | Self::Azure => Box::new(OpenAiChat::new()),
        }
    }

    pub(crate) fn framing(self) -> Framing {
        match self {
            Self::OpenAiChat | Self::Azure => Framing::Sse,
        }
    }

    pub(crate) fn accept(self) -> &'static str {
        match self.framing() {
            Framing::Sse => "text/event-stream",
            Framing::Lines => "application/x-ndjson",
        }
    }
}
