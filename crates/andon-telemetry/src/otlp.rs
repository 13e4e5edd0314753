//! Spans to an OpenTelemetry collector, over OTLP/HTTP with protobuf.
//!
//! # Invariants
//!
//! 1. No run waits for a collector: spans go into a bounded queue, and what does not fit is thrown away and counted.
//! 2. A collector that cannot be reached is logged once, and once more when it is back.
//! 3. What is sent to a collector besides spans, such as a key in a header, is never logged or shown.

mod client;
mod export;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use andon_runtime::core::time::Wall;
use andon_runtime::{Observer, ShownFact};
use opentelemetry::trace::{Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_otlp::{Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor,
};

use crate::figures::Figures;
use crate::span::{self, Kind, Span};
use client::Client;
use export::Counting;

/// How many spans may wait for the collector.
const QUEUE: usize = 8_192;
/// How many are sent together.
const TOGETHER: usize = 2_048;
/// How long the first of a batch waits.
const DELAY: Duration = Duration::from_secs(1);
/// How long the collector may take for a batch.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where spans are sent. Headers, such as a key, come from `OTEL_EXPORTER_OTLP_HEADERS`.
#[derive(Clone)]
pub struct Collector {
    /// The whole address, such as `http://localhost:4318/v1/traces`.
    pub endpoint: String,
}

impl Collector {
    /// The collector at an address. An address without a path gets `/v1/traces`.
    pub fn at(address: &str) -> Self {
        let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
        let has_path = rest.split_once('/').is_some_and(|(_, path)| !path.is_empty());
        let endpoint =
            if has_path { address.to_owned() } else { format!("{}/v1/traces", address.trim_end_matches('/')) };
        Self { endpoint }
    }

    /// The collector that OpenTelemetry's environment variables name.
    pub fn from_env() -> Option<Self> {
        let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        // The address for traces is complete; the common one is not.
        let whole = named("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let base =
            || named("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| format!("{}/v1/traces", base.trim_end_matches('/')));
        whole.or_else(base).map(|endpoint| Self { endpoint })
    }

    /// The address, without the parts that may be secret.
    pub fn shown(&self) -> String {
        let (scheme, rest) = self.endpoint.split_once("://").unwrap_or(("", &self.endpoint));
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = authority.rsplit('@').next().unwrap_or_default();
        format!("{scheme}://{host}/{path}")
    }
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector").field("endpoint", &self.shown()).finish_non_exhaustive()
    }
}

/// Why spans cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The address is not valid.
    #[error("{0} is not the address of a collector: use one such as http://localhost:4318")]
    BadAddress(String),
    /// The HTTP client could not be created.
    #[error("the HTTP client for the collector could not be created: {0}")]
    NoClient(String),
}

/// An observer that sends spans to a collector.
pub struct Traces {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
    queued: Arc<AtomicUsize>,
    figures: Arc<Figures>,
}

impl Traces {
    /// Sends spans to this collector from now on, and counts in the figures what becomes of them.
    pub fn to(collector: &Collector, figures: &Arc<Figures>) -> Result<Arc<Self>, TracesError> {
        let uri: Option<http::Uri> = collector.endpoint.parse().ok();
        let is_http = |uri: &http::Uri| matches!(uri.scheme_str(), Some("http" | "https"));
        let host = uri.as_ref().filter(|uri| is_http(uri)).and_then(http::Uri::host);
        let Some(host) = host else { return Err(TracesError::BadAddress(collector.shown())) };
        let client = Client::new(host, PATIENCE).map_err(|error| TracesError::NoClient(error.to_string()))?;
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(&collector.endpoint)
            .with_timeout(PATIENCE)
            .build()
            .map_err(|_| TracesError::BadAddress(collector.shown()))?;
        let queued = Arc::new(AtomicUsize::new(0));
        let exporter = Counting {
            inner: exporter,
            shown: collector.shown(),
            queued: Arc::clone(&queued),
            figures: Arc::clone(figures),
            is_failing: AtomicBool::new(false),
        };
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(TOGETHER)
            .with_scheduled_delay(DELAY)
            .build();
        let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
        processor.set_resource(&resource());
        let scope = InstrumentationScope::builder("andon").with_version(env!("CARGO_PKG_VERSION")).build();
        Ok(Arc::new(Self { processor, scope, queued, figures: Arc::clone(figures) }))
    }

    /// Sends what is waiting, and nothing after that. It blocks, and gives up after `within`. Returns whether everything was
    /// sent.
    pub fn end(&self, within: Duration) -> bool {
        self.processor.shutdown_with_timeout(within).is_ok()
    }

    fn hand_over(&self, span: Span) {
        if self.queued.fetch_add(1, Ordering::Relaxed) >= QUEUE {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            self.figures.spans(0, 1);
            return;
        }
        self.processor.on_end(data(span, self.scope.clone()));
    }
}

impl Observer for Traces {
    fn fact(&self, seen: &ShownFact<'_>) {
        if let Some(span) = span::ended_by(seen.past, seen.record, Some(seen.now)) {
            self.hand_over(span);
        }
    }
}

impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traces").field("queued", &self.queued).finish_non_exhaustive()
    }
}

/// What is sent with all spans: `OTEL_SERVICE_NAME`, or `andon`, and `OTEL_RESOURCE_ATTRIBUTES`.
fn resource() -> Resource {
    let from_env = Resource::builder().build();
    let named = from_env.get(&"service.name".into()).map(|name| name.to_string());
    let named = named.filter(|name| !name.starts_with("unknown_service"));
    Resource::builder().with_service_name(named.unwrap_or_else(|| "andon".to_owned())).build()
}

fn data(span: Span, instrumentation_scope: InstrumentationScope) -> SpanData {
    let trace = TraceId::from_bytes(span.trace.0);
    let context =
        |id: [u8; 8]| SpanContext::new(trace, SpanId::from_bytes(id), TraceFlags::SAMPLED, false, TraceState::NONE);
    let mut events = SpanEvents::default();
    let event = |event: span::SpanEvent| Event::new(event.name, time(event.at), attributes(event.attributes), 0);
    events.events = span.events.into_iter().map(event).collect();
    SpanData {
        span_context: context(span.id.0),
        parent_span_id: span.parent.map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.0)),
        parent_span_is_remote: false,
        span_kind: match span.kind {
            Kind::Internal => SpanKind::Internal,
            Kind::Client => SpanKind::Client,
        },
        name: span.name.into(),
        start_time: time(span.start),
        end_time: time(span.end),
        attributes: attributes(span.attributes),
        dropped_attributes_count: 0,
        events,
        links: SpanLinks::default(),
        status: match span.status {
            span::Status::Unset => Status::Unset,
            span::Status::Error { what } => Status::error(what),
        },
        instrumentation_scope,
    }
}

fn attributes(attributes: span::Attributes) -> Vec<KeyValue> {
    let value = |value: span::Value| match value {
        span::Value::Text(text) => Value::from(text),
        span::Value::Texts(texts) => Value::Array(Array::String(texts.into_iter().map(StringValue::from).collect())),
        span::Value::Int(number) => Value::I64(number),
        span::Value::Float(number) => Value::F64(number),
    };
    attributes.0.into_iter().map(|(name, of)| KeyValue::new(name, value(of))).collect()
}

fn time(wall: Wall) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(wall.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_path_gets_the_one_for_traces_and_no_secret_is_shown() {
        assert_eq!(Collector::at("http://localhost:4318").endpoint, "http://localhost:4318/v1/traces");
        assert_eq!(Collector::at("http://localhost:4318/").endpoint, "http://localhost:4318/v1/traces");
        assert_eq!(Collector::at("https://otel.example/in/v1/traces").endpoint, "https://otel.example/in/v1/traces");
        let secret = Collector::at("https://ada:s3cret@otel.example/v1/traces?key=s3cret");
        assert_eq!(secret.shown(), "https://otel.example/v1/traces");
        assert!(!format!("{secret:?}").contains("s3cret"));
    }

    #[test]
    fn a_bad_address_is_refused_with_what_to_do() {
        for bad in ["localhost:4318", "ftp://localhost", "http://", "http:// space", "nonsense"] {
            let refused = Traces::to(&Collector::at(bad), &Figures::new()).unwrap_err();
            assert!(refused.to_string().contains("http://localhost:4318"), "{bad}: {refused}");
        }
    }
}
