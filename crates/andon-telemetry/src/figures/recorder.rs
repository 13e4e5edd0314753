//! Where figures are kept: a recorder of our own instead of a global one.

use std::sync::atomic::{AtomicU32, Ordering};

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder as _};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

/// Upper bounds of the buckets for times, in seconds: from what a stop takes to what a run takes.
const SECONDS: [f64; 21] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0, 60.0, 300.0, 1800.0,
];

/// After how many facts their times are folded into buckets, if nobody scrapes.
const TIDY_AFTER: u32 = 4_096;

pub(super) struct Recorder {
    inner: PrometheusRecorder,
    handle: PrometheusHandle,
    untidy: AtomicU32,
}

const ABOUT: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

impl Recorder {
    pub(super) fn new() -> Self {
        let builder = PrometheusBuilder::new();
        // It fails only without buckets.
        let builder = builder.set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS);
        let inner = builder.unwrap_or_default().build_recorder();
        Self { handle: inner.handle(), inner, untidy: AtomicU32::new(0) }
    }

    pub(super) fn counter(&self, name: &'static str, labels: &[(&'static str, &str)]) -> Counter {
        self.inner.register_counter(&key(name, labels), &ABOUT)
    }

    pub(super) fn gauge(&self, name: &'static str, labels: &[(&'static str, &str)]) -> Gauge {
        self.inner.register_gauge(&key(name, labels), &ABOUT)
    }

    pub(super) fn histogram(&self, name: &'static str, labels: &[(&'static str, &str)]) -> Histogram {
        self.inner.register_histogram(&key(name, labels), &ABOUT)
    }

    pub(super) fn inner(&self) -> &PrometheusRecorder {
        &self.inner
    }

    /// Times are kept one by one until somebody scrapes. If nobody does, this bounds their number.
    pub(super) fn tidy(&self) {
        if self.untidy.fetch_add(1, Ordering::Relaxed) == TIDY_AFTER {
            self.untidy.store(0, Ordering::Relaxed);
            self.handle.run_upkeep();
        }
    }

    pub(super) fn render(&self) -> String {
        self.handle.render()
    }
}

fn key(name: &'static str, labels: &[(&'static str, &str)]) -> Key {
    let labels: Vec<Label> = labels.iter().map(|(key, value)| Label::new(*key, (*value).to_owned())).collect();
    Key::from_parts(name, labels)
}
