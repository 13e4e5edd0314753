//! Setting up a model.

use std::fmt;
use std::sync::Arc;

use andon_runtime::Meter;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use url::Url;

use super::setup::SetupError;
use super::{HttpModel, Inner, login};
use crate::cut::CutPolicy;
use crate::dialect::Dialect;
use crate::gauge::{Gauge, book};
use crate::http::{Protocol, Target};
use crate::names::{Auth, Facts, TooLong, UsageAsked};
use crate::secret::{Scrub, Secret};
use crate::settings::{Settings, Thinking};

/// A model that is being set up. What is not set is taken from the environment.
#[must_use = "a builder does nothing before `build`"]
#[derive(Clone)]
pub struct Builder {
    facts: &'static Facts,
    model: String,
    base_url: Option<String>,
    key: Option<Secret>,
    headers: Vec<(String, Secret)>,
    settings: Settings,
    cut: Option<CutPolicy>,
    ask_anywhere: bool,
    protocol: Protocol,
    meter: Option<Arc<dyn Meter>>,
}

/// Looks up an environment variable.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Builder {
    pub(crate) fn new(facts: &'static Facts, model: &str) -> Self {
        Self {
            facts,
            model: model.trim().to_owned(),
            base_url: None,
            key: None,
            headers: Vec::new(),
            settings: Settings::default(),
            cut: None,
            ask_anywhere: false,
            protocol: Protocol::default(),
            meter: None,
        }
    }

    /// The API's base address. A user and a password in it are sent as Basic authorization.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// The key.
    pub fn key(mut self, key: impl Into<Secret>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// One more header for every request. Its value is treated as a secret.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// All settings at once.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// How many tokens an answer may have, thinking included.
    pub fn max_output(mut self, tokens: u32) -> Self {
        self.settings.max_output = Some(tokens);
        self
    }

    /// How random an answer is.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.settings.temperature = Some(temperature);
        self
    }

    /// How long the model may think before it speaks.
    pub fn thinking(mut self, thinking: Thinking) -> Self {
        self.settings.thinking = Some(thinking);
        self
    }

    /// A text at which the model stops.
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.settings.stop.push(text.into());
        self
    }

    /// Asks the provider to cache what does not change, where it must be asked.
    pub fn cache(mut self) -> Self {
        self.settings.cache = true;
        self
    }

    /// One more field for the request's body, as the provider names it. It overrides all others; `null` removes one.
    pub fn extra(mut self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.extra.insert(field.into(), value.into());
        self
    }

    /// Answers are made in the background, as the Responses API can: they survive a lost connection, and the provider keeps
    /// them. A stop tells the provider to stop.
    pub fn background(self) -> Self {
        self.extra("background", true).extra("store", true)
    }

    /// What is done about a call that is cut. Each provider has its own default.
    pub fn cut_policy(mut self, policy: CutPolicy) -> Self {
        self.cut = Some(policy);
        self
    }

    /// Allows a call that was cut to be counted or looked up at an address that is not the provider's own. To count it, the
    /// request is sent there once more.
    pub fn ask_anywhere(mut self) -> Self {
        self.ask_anywhere = true;
        self
    }

    /// Speaks HTTP/2 from the first byte, even without TLS, for servers that are known to speak it.
    pub fn http2_prior_knowledge(mut self) -> Self {
        self.protocol = Protocol::Http2;
        self
    }

    /// The meter for its calls, instead of the one that comes with the model.
    pub fn meter(mut self, meter: Arc<dyn Meter>) -> Self {
        self.meter = Some(meter);
        self
    }

    /// The model. An error says what is missing and where to set it.
    pub fn build(self) -> Result<HttpModel, SetupError> {
        self.build_in(&|name| std::env::var(name).ok())
    }

    pub(crate) fn build_in(self, environment: Environment<'_>) -> Result<HttpModel, SetupError> {
        let look = |name: &&str| environment(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let facts = self.facts;
        if self.model.is_empty() {
            return Err(SetupError::NoModel { provider: facts.name });
        }
        let base = self.base_url.clone().or_else(|| facts.base_variables.iter().find_map(look));
        let mut base = super::address::base(facts, base)?;
        let mut secrets = login::secrets(&base);
        let login = login::take(&mut base);
        let is_own = facts.base.and_then(|own| Url::parse(own).ok()).is_some_and(|own| own.host() == base.host());
        let (key, variable) = self.find_key(&look);
        if key.is_none() && login.is_none() && facts.needs_key && (is_own || facts.base.is_none()) {
            return Err(SetupError::MissingKey { provider: facts.name, variable });
        }
        let headers = self.headers(key.as_ref(), variable, login.as_ref())?;
        secrets.extend(key.into_iter().chain(login).chain(self.headers.iter().map(|(_, value)| value.clone())));
        let target = Target {
            provider: facts.name.into(),
            model: facts.dialect.model(&self.model).into(),
            host: host(&base).into(),
            key_variable: (!facts.key_variables.is_empty()).then_some(variable),
            scrub: Scrub::new(&secrets),
        };
        let version = environment("OPENAI_API_VERSION").filter(|version| !version.is_empty());
        // Another server under this provider's name may do otherwise, and so may the provider if the request asks for it.
        let is_anothers = facts.base.is_some() && !is_own;
        let too_long = match is_anothers || self.settings.extra.contains_key("truncation") {
            true => TooLong::Unknown,
            false => facts.too_long,
        };
        let inner = Inner {
            facts,
            name: format!("{}/{}", facts.name, self.model),
            url: facts.dialect.url(&base, &target.model, version.as_deref()),
            target,
            base,
            headers,
            settings: with_usage(self.settings, facts),
            protocol: self.protocol,
            cut: self.cut.unwrap_or_else(|| facts.cut()),
            may_ask: is_own || self.ask_anywhere,
        };
        let meter = self.meter.unwrap_or_else(|| {
            let max_output = inner.max_output();
            Gauge::new(Arc::clone(book()), facts.name, &inner.target.model, facts.closing, too_long, max_output)
        });
        Ok(HttpModel { inner: Arc::new(inner), meter })
    }

    /// The key, and the variable that holds it or should hold it.
    fn find_key(&self, look: &dyn Fn(&&str) -> Option<String>) -> (Option<Secret>, &'static str) {
        let first = self.facts.key_variables.first().copied().unwrap_or_default();
        if let Some(key) = &self.key {
            return (Some(Secret::from(key.expose().trim())), first);
        }
        let found = self.facts.key_variables.iter().find_map(|name| Some((look(name)?, *name)));
        found.map_or((None, first), |(key, name)| (Some(Secret::from(key)), name))
    }

    fn headers(
        &self,
        key: Option<&Secret>,
        variable: &'static str,
        login: Option<&Secret>,
    ) -> Result<HeaderMap, SetupError> {
        let mut headers = HeaderMap::new();
        for (name, value) in self.facts.dialect.headers() {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        if let Some(key) = key {
            let (name, text) = match self.facts.auth {
                Auth::Bearer => (AUTHORIZATION, format!("Bearer {}", key.expose())),
                Auth::Header(name) => (HeaderName::from_static(name), key.expose().to_owned()),
            };
            let value = secret_value(&text).ok_or(SetupError::BadKey { variable })?;
            headers.insert(name, value);
        }
        for (name, value) in &self.headers {
            let bad = || SetupError::BadHeader { name: name.clone() };
            let value = secret_value(value.expose()).ok_or_else(bad)?;
            headers.insert(HeaderName::try_from(name).map_err(|_| bad())?, value);
        }
        if let Some(value) = login.and_then(|login| secret_value(login.expose()))
            && headers.insert(AUTHORIZATION, value).is_some()
        {
            let wrong = "it has a user or a password, and there is also a key: only one of them can be sent".to_owned();
            return Err(SetupError::BadAddress { provider: self.facts.name, address: None, wrong });
        }
        Ok(headers)
    }
}

/// A header's value that no log shows.
fn secret_value(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Host and port of an address, and nothing else.
fn host(base: &Url) -> String {
    let host = base.host_str().unwrap_or_default();
    base.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The settings, with what makes this provider report usage. The user's own fields stay.
fn with_usage(mut settings: Settings, facts: &Facts) -> Settings {
    if !matches!(facts.dialect, Dialect::OpenAiChat | Dialect::Azure) {
        return settings;
    }
    let (field, value) = match facts.usage {
        UsageAsked::AtTheEnd => return settings,
        UsageAsked::Nothing => ("stream_options", Value::Null),
        UsageAsked::Continuously => ("stream_options", json!({"include_usage": true, "continuous_usage_stats": true})),
        UsageAsked::Timings => ("timings_per_token", json!(true)),
    };
    match settings.extra.entry(field) {
        serde_json::map::Entry::Vacant(place) => drop(place.insert(value)),
        serde_json::map::Entry::Occupied(mut place) => {
            if let (Value::Object(set), Value::Object(ours)) = (place.get_mut(), value) {
                let theirs: Map<String, Value> = std::mem::take(set);
                *set = ours.into_iter().chain(theirs).collect();
            }
        }
    }
    settings
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the address: a user may have put a password into it.
        f.debug_struct("Builder")
            .field("provider", &self.facts.name)
            .field("model", &self.model)
            .field("key", &self.key)
            .field("headers", &self.headers)
            .field("settings", &self.settings)
            .field("cut", &self.cut)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use andon_runtime::{History, Message, MeteredCall, Model, ModelRequest, Part, RunId, Usage};

    use super::*;
    use crate::names::ALL;

    fn extra(provider: &str, user: Value) -> Value {
        let facts = ALL.iter().find(|facts| facts.name == provider).unwrap();
        let settings = Settings { extra: user.as_object().unwrap().clone(), ..Settings::default() };
        Value::Object(with_usage(settings, facts).extra)
    }

    #[test]
    fn each_server_is_asked_for_usage_as_it_wants_to_be() {
        let continuous = json!({"stream_options": {"include_usage": true, "continuous_usage_stats": true}});
        assert_eq!(extra("vllm", json!({})), continuous);
        assert_eq!(extra("sglang", json!({})), continuous);
        assert_eq!(extra("llamacpp", json!({})), json!({"timings_per_token": true}));
        assert_eq!(extra("mistral", json!({})), json!({"stream_options": null}));
        for provider in ["openai", "groq", "azure", "anthropic", "gemini", "ollama", "openai-responses"] {
            assert_eq!(extra(provider, json!({})), json!({}), "{provider}");
        }
    }

    #[test]
    fn the_limit_of_an_answer_is_the_one_that_is_sent() {
        let limit = |name: &str, set: fn(Builder) -> Builder| {
            let facts = ALL.iter().find(|facts| facts.name == name).unwrap();
            let base = "http://127.0.0.1:1";
            let model =
                set(Builder::new(facts, "claude-sonnet-5").base_url(base).key("k")).build_in(&|_| None).unwrap();
            let request = ModelRequest::new(RunId::new("r").unwrap(), 1, History::default());
            let (first_piece, took) = (None, Duration::ZERO);
            let call = MeteredCall::new(&request, None, &[], false, first_piece, took);
            model.meter().unwrap().cut(&call, Usage::UNKNOWN).billed.output.high
        };
        assert_eq!(limit("anthropic", |model| model), Some(32_000), "its default, which is always sent");
        assert_eq!(limit("anthropic", |model| model.max_output(70)), Some(70));
        assert_eq!(limit("anthropic", |model| model.max_output(70).extra("max_tokens", 90)), Some(90));
        assert_eq!(limit("openai", |model| model), None);
        assert_eq!(limit("openai", |model| model.max_output(0)), None, "nobody asks for an answer of nothing");
        for name in ["openai", "mistral", "openai-responses", "gemini", "ollama"] {
            assert_eq!(limit(name, |model| model.max_output(70)), Some(70), "{name}");
        }
    }

    #[test]
    fn only_a_provider_that_refuses_what_is_too_long_is_taken_to_have_read_it_all() {
        let certain = |name: &str, set: fn(Builder) -> Builder| {
            let facts = ALL.iter().find(|facts| facts.name == name).unwrap();
            let model = set(Builder::new(facts, "llama3.2").key("k")).build_in(&|_| None).unwrap();
            let meter = model.meter().unwrap();
            let history: Vec<_> = (0..400).map(|_| Message::user("A few plain words. ".repeat(10)).into()).collect();
            let request = ModelRequest::new(RunId::new("r").unwrap(), 1, history);
            let (answer, first_piece) = ([Part::text("Yes.")], Some(Duration::ZERO));
            let call = MeteredCall::new(&request, None, &answer, false, first_piece, Duration::ZERO);
            meter.prepare(&call);
            meter.cut(&call, Usage::UNKNOWN).delivered.input.at_least()
        };
        let elsewhere = |model: Builder| model.base_url("http://127.0.0.1:1");
        for name in ["openai", "openai-responses", "anthropic", "gemini", "deepseek", "groq", "mistral", "xai"] {
            assert!(certain(name, |model| model) > 4_096, "{name}: {}", certain(name, |model| model));
            assert!(certain(name, elsewhere) <= 512, "another server as {name}");
        }
        for name in ["ollama", "openrouter", "vllm", "llamacpp", "sglang"] {
            assert!(certain(name, |model| model) <= 512, "{name}");
        }
        let slides = |model: Builder| model.extra("truncation", "auto");
        assert!(certain("openai-responses", slides) <= 512, "it was asked to shorten");
    }

    #[test]
    fn what_the_user_has_set_wins() {
        let user = json!({"stream_options": {"continuous_usage_stats": false, "more": 1}});
        let both = json!({"stream_options": {"include_usage": true, "continuous_usage_stats": false, "more": 1}});
        assert_eq!(extra("vllm", user), both);
        assert_eq!(extra("vllm", json!({"stream_options": null})), json!({"stream_options": null}));
        assert_eq!(extra("llamacpp", json!({"timings_per_token": false})), json!({"timings_per_token": false}));
    }
}
