//! What operators see of a server: figures always, spans and logs where they are asked for.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::RuntimeBuilder;
use andon_telemetry::{Collector, Figures, Logs, Traces};

use super::log;
use super::voice::Voice;
use crate::args::TelemetryArgs;

/// How long the last spans are waited for.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// What observes the runs of a server.
pub(super) struct Telemetry {
    figures: Arc<Figures>,
    traces: Option<Arc<Traces>>,
}

impl Telemetry {
    /// Begins to log. A collector that cannot be used is said, and is no reason not to serve.
    pub(super) fn begin(args: &TelemetryArgs, voice: &Voice) -> anyhow::Result<Self> {
        log::begin(args)?;
        let figures = Figures::new();
        let named = args.otlp.as_deref().map(Collector::at).or_else(Collector::from_env);
        let traces = named.and_then(|collector| match Traces::to(&collector, &figures) {
            Ok(traces) => Some(traces),
            Err(error) => {
                voice.complain(&error.to_string());
                None
            }
        });
        Ok(Self { figures, traces })
    }

    pub(super) fn watch(&self, runtime: RuntimeBuilder) -> RuntimeBuilder {
        let runtime = runtime.observer(Arc::clone(&self.figures) as _).observer(Arc::new(Logs));
        match &self.traces {
            Some(traces) => runtime.observer(Arc::clone(traces) as _),
            None => runtime,
        }
    }

    /// Sends what is left of the spans, for a moment.
    pub(super) async fn end(self) {
        if let Some(traces) = self.traces {
            let _ = tokio::task::spawn_blocking(move || traces.end(LAST_SPANS)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use andon_telemetry::names::provider;

    #[test]
    fn spans_tell_the_provider_of_every_model_that_can_be_named() {
        for prefix in andon_models::names::known().chain(["bedrock"]) {
            let model = format!("{prefix}/some-model");
            let (who, name) = provider(&model);
            assert!(who.is_some() && name == "some-model", "{model} is told as {who:?} {name}");
        }
    }
}
