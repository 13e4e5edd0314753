//! A model behind an HTTP API: built once, called often.
//!
//! # Invariants
//!
//! 1. Whatever can be wrong before the first call (a key, an address, a header) is found when the model is built.
//! 2. A key is sent in a header, never in an address, and only to the address that was set up.

mod address;
mod after_cut;
mod answer;
mod build;
mod login;
mod setup;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use andon_runtime::{Answer, Message, Meter, Model, ModelError, ModelRequest, Rendering, ToolChoice};
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_blocking;
use url::Url;

pub use build::Builder;
pub use setup::SetupError;

use self::after_cut::AfterCut;
use self::answer::{HttpAnswer, Phase};
use crate::cut::CutPolicy;
use crate::dialect::Dialect;
use crate::http::{Protocol, Sending, Target};
use crate::names::{self, Facts};
use crate::render::Ask;
use crate::settings::Settings;

/// A request with this many messages, or more than this many bytes, is written on a blocking thread: it takes a millisecond or more, and
/// other runs would wait.
const LONG: usize = 1_000;
const LARGE: usize = 256 << 10;

/// How many requests are written on blocking threads at a time.
static WRITERS: Semaphore = Semaphore::const_new(2);

/// A model behind an HTTP API. Cheap to clone.
#[derive(Clone)]
pub struct HttpModel {
    inner: Arc<Inner>,
    meter: Arc<dyn Meter>,
}

/// What all calls need.
pub(crate) struct Inner {
    pub(crate) facts: &'static Facts,
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) base: Url,
    /// The endpoint for answers.
    url: Url,
    headers: HeaderMap,
    settings: Settings,
    protocol: Protocol,
    pub(crate) cut: CutPolicy,
    /// Whether a call that was cut may be counted or looked up at this address.
    pub(crate) may_ask: bool,
}

impl Inner {
    /// What a request's body is made from.
    pub(crate) fn ask<'a>(
        &'a self,
        request: &'a ModelRequest,
        prompt: &'a [Message],
        settings: &'a Settings,
    ) -> Ask<'a> {
        Ask {
            provider: self.facts.name,
            model: &self.target.model,
            instructions: request.instructions.as_deref(),
            prompt,
            tools: &request.tools,
            tool_choice: &request.tool_choice,
            settings,
        }
    }

    /// The settings of one call.
    pub(crate) fn settings<'a>(&'a self, request: &'a ModelRequest) -> Cow<'a, Settings> {
        self.settings.with(&request.settings)
    }

    /// Whether its answers are made in the background, so that closing a connection stops nothing.
    pub(crate) fn is_background(&self) -> bool {
        self.facts.dialect == Dialect::OpenAiResponses
            && self.settings.extra.get("background") == Some(&Value::Bool(true))
    }

    /// How many tokens an answer may have, as every request says it: by default, by a setting, or by a field of the user's.
    fn max_output(&self) -> Option<u64> {
        let (provider, model, settings) = (self.facts.name, &*self.target.model, &self.settings);
        let tool_choice = &ToolChoice::Auto;
        let ask = Ask { provider, model, instructions: None, prompt: &[], tools: &[], tool_choice, settings };
        self.facts.dialect.max_output(&self.facts.dialect.rendering(&ask).body)
    }

    /// The body of a call, and the name of its format.
    fn rendering(&self, request: &ModelRequest) -> Rendering {
        self.facts.dialect.rendering(&self.ask(request, &request.prompt(), &self.settings(request)))
    }

    /// The request for an answer.
    fn sending(&self, request: &ModelRequest) -> Result<Sending, ModelError> {
        let (prompt, settings) = (request.prompt(), self.settings(request));
        let ask = self.ask(request, &prompt, &settings);
        self.facts.dialect.check_choice(&ask).map_err(ModelError::fatal)?;
        let mut sending = self.post(self.url.clone(), &self.facts.dialect.rendering(&ask).body)?;
        let accept = HeaderValue::from_static(self.facts.dialect.accept());
        sending.request.headers_mut().insert(ACCEPT, accept);
        Ok(sending)
    }

    /// A request with a JSON body.
    pub(crate) fn post(&self, url: Url, body: &Value) -> Result<Sending, ModelError> {
        let mut request = self.request(Method::POST, url);
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = serde_json::to_vec(body).map_err(|error| ModelError::fatal(error.to_string()))?;
        *request.body_mut() = Some(body.into());
        Ok(Sending { protocol: self.protocol, request })
    }

    /// A request without a body.
    pub(crate) fn get(&self, url: Url) -> Result<Sending, ModelError> {
        Ok(Sending { protocol: self.protocol, request: self.request(Method::GET, url) })
    }

    fn request(&self, method: Method, url: Url) -> reqwest::Request {
        let mut request = reqwest::Request::new(method, url);
        *request.headers_mut() = self.headers.clone();
        request
    }
}

/// Whether a request takes long to write.
fn is_long(request: &ModelRequest) -> bool {
    let mut bytes = request.history.iter().scan(0, |bytes, message| {
        *bytes += message.weight();
        Some(*bytes)
    });
    request.history.len() >= LONG || bytes.any(|bytes| bytes > LARGE)
}

/// Writes a request on a blocking thread. A run that is stopped meanwhile does not wait for it; the permit is held until the thread is
/// done.
async fn write_aside(inner: Arc<Inner>, request: Arc<ModelRequest>) -> Result<Sending, ModelError> {
    let (written, receiver) = oneshot::channel();
    // The semaphore is never closed.
    let permit = WRITERS.acquire().await;
    drop(spawn_blocking(move || {
        let _permit = permit;
        if !written.is_closed() {
            let _ = written.send(inner.sending(&request));
        }
    }));
    receiver.await.unwrap_or_else(|_| Err(ModelError::fatal("the request could not be written: its writer panicked")))
}

impl HttpModel {
    /// The endpoint for answers.
    #[cfg(test)]
    pub(crate) fn url(&self) -> &Url {
        &self.inner.url
    }
}

impl Model for HttpModel {
    fn name(&self) -> &str {
        &self.inner.name
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        let after = AfterCut { inner: Arc::clone(&self.inner), request: Arc::new(request) };
        let phase = match is_long(&after.request) {
            false => after.inner.sending(&after.request).into(),
            true => Phase::Writing(Box::pin(write_aside(Arc::clone(&after.inner), Arc::clone(&after.request)))),
        };
        Box::new(HttpAnswer::new(phase, after))
    }

    fn meter(&self) -> Option<Arc<dyn Meter>> {
        Some(Arc::clone(&self.meter))
    }

    fn rendering(&self, request: &ModelRequest) -> Option<Rendering> {
        Some(self.inner.rendering(request))
    }
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { name, target, headers, settings, cut, .. } = &*self.inner;
        // Not the addresses: a user may have put a password into one.
        f.debug_struct("HttpModel")
            .field("name", name)
            .field("target", target)
            .field("headers", headers)
            .field("settings", settings)
            .field("cut", cut)
            .finish_non_exhaustive()
    }
}

macro_rules! provider {
    ($(#[$doc:meta])* $name:ident, $facts:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl $name {
            /// The model of this name, with its key and address from the environment.
            pub fn from_env(model: &str) -> Result<HttpModel, SetupError> {
                Self::builder(model).build()
            }

            /// A builder for the model of this name. What is not set is taken from the environment.
            pub fn builder(model: &str) -> Builder {
                Builder::new(&$facts, model)
            }
        }
    };
}

provider! {
    /// OpenAI's Chat Completions API: `OPENAI_API_KEY`, `OPENAI_BASE_URL`.
    OpenAi, names::OPENAI
}

provider! {
    /// OpenAI's Responses API: `OPENAI_API_KEY`, `OPENAI_BASE_URL`.
    OpenAiResponses, names::OPENAI_RESPONSES
}

provider! {
    /// Anthropic's Messages API: `ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL`.
    Anthropic, names::ANTHROPIC
}

provider! {
    /// Google's Gemini API: `GEMINI_API_KEY` or `GOOGLE_API_KEY`.
    Gemini, names::GEMINI
}

provider! {
    /// Ollama, on this machine or where `OLLAMA_HOST` says.
    Ollama, names::OLLAMA
}

/// Any server that speaks OpenAI's Chat Completions API.
#[derive(Debug, Clone, Copy)]
pub struct Compatible;

impl Compatible {
    /// A builder for a model of the server at this address, such as `http://localhost:8000/v1`.
    pub fn builder(base_url: &str, model: &str) -> Builder {
        Builder::new(&names::COMPATIBLE, model).base_url(base_url)
    }
}
