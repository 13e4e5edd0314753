//! What operators see of a server: metrics and logs always, spans on request.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::RuntimeBuilder;
use andon_telemetry::{Collector, Figures, Logs, Traces};

use super::log;
use super::voice::Voice;
use crate::args::TelemetryArgs;

/// How long to wait for the last spans to be sent.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// The observers of a server's runs.
pub(super) struct Telemetry {
    figures: Arc<Figures>,
    traces: Option<Arc<Traces>>,
}

impl Telemetry {
    /// Starts logging. A collector that cannot be used is an error message, but no reason not to serve.
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
        let runtime = runtime.observer(Arc::clone(&self.figures)).observer(Logs);
        match &self.traces {
            Some(traces) => runtime.observer(Arc::clone(traces)),
            None => runtime,
        }
    }

    /// Sends the last spans, within a time limit.
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
    fn spans_name_the_provider_of_every_known_model() {
        for prefix in andon_models::names::known().chain(["bedrock"]) {
            let model = format!("{prefix}/some-model");
            let (who, name) = provider(&model);
            assert!(who.is_some() && name == "some-model", "{model} is reported as {who:?} {name}");
        }
    }
}
