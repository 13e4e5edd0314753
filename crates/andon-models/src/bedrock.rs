//! Amazon Bedrock, by its AWS SDK: signatures, credentials and the event stream's framing are the SDK's; the request and
//! the reading of the answer are ours.
//!
//! # Invariants
//!
//! 1. What is sent is what [`render::bedrock`] made, byte for byte: the SDK's own form of a request is never filled in.
//! 2. The SDK tries nothing again: a run does that, and a run can be stopped.
//! 3. Closing the connection does not stop the bill here. A cut answer is read to its end in the background, under
//!    caps, and shown to nobody.

mod answer;
mod drain;
mod plain;

use std::sync::Arc;

use andon::{Answer, Meter, Model, Request};
use aws_sdk_bedrockruntime::Client;
use aws_sdk_bedrockruntime::config::{BehaviorVersion, Builder, StalledStreamProtectionConfig};
use aws_smithy_types::retry::RetryConfig;
use tokio::sync::OnceCell;

use crate::render::{self, Ask};
use crate::settings::Settings;

/// A model at Amazon Bedrock.
pub struct Bedrock {
    name: String,
    model: Arc<str>,
    settings: Settings,
    access: Arc<Access>,
    meter: Option<Arc<dyn Meter>>,
}

/// The way in, made when it is first needed: finding credentials may need the network.
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

/// A configuration with what must hold here.
fn ours(config: Builder) -> Builder {
    config
        .retry_config(RetryConfig::disabled())
        // A model that thinks is silent for long; how long it may be, the run's limits say.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
}

impl Bedrock {
    /// A model by its Bedrock id, inference profile or ARN. Region and credentials are found as the AWS tools find them:
    /// `AWS_REGION`, `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, `AWS_PROFILE`, `AWS_BEARER_TOKEN_BEDROCK`, or the
    /// machine's role.
    pub fn new(model: impl Into<Arc<str>>, settings: Settings) -> Self {
        let model = model.into();
        Self { name: format!("bedrock/{model}"), model, settings, access: Arc::default(), meter: None }
    }

    /// The same, by a configuration of one's own. Its retries and its protection against stalls are switched off.
    #[must_use]
    pub fn with_config(self, config: Builder) -> Self {
        let client = Client::from_conf(ours(config).build());
        Self { access: Arc::new(Access(OnceCell::new_with(Some(client)))), ..self }
    }

    /// The same, with a meter for calls that are cut.
    #[must_use]
    pub fn with_meter(self, meter: Arc<dyn Meter>) -> Self {
        Self { meter: Some(meter), ..self }
    }
}

impl Model for Bedrock {
    fn name(&self) -> &str {
        &self.name
    }

    fn call(&self, request: Request) -> Box<dyn Answer> {
        let prompt = request.prompt();
        let ask = Ask {
            model: &self.model,
            instructions: request.instructions.as_deref(),
            prompt: &prompt,
            tools: &request.tools,
            settings: &self.settings,
        };
        let body = render::bedrock::body(&ask).to_string();
        Box::new(answer::Open::new(Arc::clone(&self.access), Arc::clone(&self.model), body))
    }

    fn meter(&self) -> Option<Arc<dyn Meter>> {
        self.meter.clone()
    }
}
