//! Amazon Bedrock through its AWS SDK. The SDK does signatures, credentials and the event stream's framing; we write the request
//! and read the answer.
//!
//! # Invariants
//!
//! 1. What is sent is what [`render::bedrock`] made, byte for byte: the SDK's own request type is never filled in.
//! 2. The SDK retries nothing: the run does that, and a run can be stopped.
//! 3. Closing the connection does not stop the bill here. A cut answer is read to its end in the background, under
//!    caps, and shown to nobody.

mod answer;
mod plain;

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::{Answer, FailedAnswer, Message, Meter, Model, ModelError, ModelRequest, Rendering};
use aws_sdk_bedrockruntime::Client;
use aws_sdk_bedrockruntime::config::{BehaviorVersion, Builder, StalledStreamProtectionConfig};
use aws_smithy_types::retry::RetryConfig;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::cut::Drain;
use crate::gauge::{Gauge, book};
use crate::names::{Closing, TooLong};
use crate::render::{self, Ask};
use crate::settings::Settings;

/// The caps for draining a cut answer.
const DRAIN: Drain = Drain { max_bytes: 1 << 20, max_tokens: None, max_time: Duration::from_secs(60), max_at_once: 8 };

/// A model at Amazon Bedrock.
pub struct Bedrock {
    name: String,
    model: Arc<str>,
    settings: Settings,
    access: Arc<Access>,
    meter: Arc<Gauge>,
}

/// The client, made when it is first needed: finding credentials may need the network.
#[derive(Default)]
struct Access(OnceCell<Client>);

impl Access {
    async fn client(&self) -> &Client {
        self.0
            .get_or_init(|| async {
                let shared = aws_config::defaults(BehaviorVersion::latest()).load().await;
                Client::from_conf(ours(Builder::from(&shared)).build())
            })
            .await
    }
}

/// The configuration, without what would break the invariants.
fn ours(config: Builder) -> Builder {
    config
        .retry_config(RetryConfig::disabled())
        // A model that thinks may be silent for a long time. The run's limits say how long.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
}

impl Bedrock {
    /// A model by its Bedrock id, inference profile or ARN. Region and credentials are found as the AWS tools find them:
    /// `AWS_REGION`, `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, `AWS_PROFILE`, `AWS_BEARER_TOKEN_BEDROCK`, or the
    /// machine's role.
    pub fn new(model: impl Into<Arc<str>>, settings: Settings) -> Self {
        let model = model.into();
        let max_output = settings.max_output.or_else(|| render::bedrock::default_max_output(&model));
        let (book, most) = (Arc::clone(book()), max_output.map(u64::from));
        let meter = Gauge::new(book, "bedrock", &model, Closing::StopsNothing, TooLong::Refused, most);
        Self { name: format!("bedrock/{model}"), model, settings, access: Arc::default(), meter }
    }

    /// What a call's body is made from.
    fn ask<'a>(&'a self, request: &'a ModelRequest, prompt: &'a [Message], settings: &'a Settings) -> Ask<'a> {
        Ask {
            provider: "bedrock",
            model: &self.model,
            instructions: request.instructions.as_deref(),
            prompt,
            tools: &request.tools,
            tool_choice: &request.tool_choice,
            settings,
        }
    }

    /// The body of a call.
    fn body(&self, request: &ModelRequest) -> Value {
        render::bedrock::body(&self.ask(request, &request.prompt(), &self.settings.with(&request.settings)))
    }

    fn check(&self, request: &ModelRequest) -> Result<(), String> {
        render::choice::check_bedrock(&self.ask(request, &[], &self.settings.with(&request.settings)))
    }

    /// The same model with this configuration of the SDK. Its retries and its stall protection are switched off.
    #[must_use]
    pub fn with_config(self, config: Builder) -> Self {
        let client = Client::from_conf(ours(config).build());
        Self { access: Arc::new(Access(OnceCell::new_with(Some(client)))), ..self }
    }
}

impl Model for Bedrock {
    fn name(&self) -> &str {
        &self.name
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        if let Err(why) = self.check(&request) {
            return Box::new(FailedAnswer::new(ModelError::fatal(why)));
        }
        let body = self.body(&request).to_string();
        Box::new(answer::BedrockAnswer::new(Arc::clone(&self.access), Arc::clone(&self.model), body, DRAIN))
    }

    fn meter(&self) -> Option<Arc<dyn Meter>> {
        Some(Arc::clone(&self.meter) as Arc<dyn Meter>)
    }

    fn rendering(&self, request: &ModelRequest) -> Option<Rendering> {
        Some(Rendering::new("bedrock", self.body(request)))
    }
}
