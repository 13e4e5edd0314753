//! Counts what becomes of spans, around the exporter.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

use crate::figures::Figures;

#[derive(Debug)]
pub(super) struct Counting {
    pub(super) inner: opentelemetry_otlp::SpanExporter,
    pub(super) shown: String,
    pub(super) queued: Arc<AtomicUsize>,
    pub(super) figures: Arc<Figures>,
    pub(super) is_failing: AtomicBool,
}

impl SpanExporter for Counting {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.queued.fetch_sub(spans, Ordering::Relaxed);
        let sent = self.inner.export(batch).await;
        let was_failing = self.is_failing.swap(sent.is_err(), Ordering::Relaxed);
        match &sent {
            Ok(()) => self.figures.spans(spans as u64, 0),
            Err(_) => self.figures.spans(0, spans as u64),
        }
        match (&sent, was_failing) {
            (Ok(()), true) => tracing::info!(collector = self.shown, "spans are being sent again"),
            (Err(error), false) => {
                tracing::warn!(collector = self.shown, %error, "spans cannot be sent, and are dropped until they can be");
            }
            _ => {}
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
