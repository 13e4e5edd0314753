//! Figures that a server adds to those of its runs.

use std::time::Duration;

use super::Figures;

/// A server's current state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Now {
    /// Feeds that are being read.
    pub feeds: u32,
    /// Connections that are open.
    pub connections: u32,
    /// Whether the line is held for all.
    pub is_held: bool,
    /// Cancels that were asked for since it started.
    pub cancels_asked: u64,
}

impl Figures {
    /// Sets the server's current state, before a scrape.
    pub fn set_server(&self, now: Now) {
        let recorder = &self.recorder;
        recorder.gauge("andon_feeds_open", &[]).set(f64::from(now.feeds));
        recorder.gauge("andon_connections_open", &[]).set(f64::from(now.connections));
        recorder.gauge("andon_line_held", &[]).set(if now.is_held { 1.0 } else { 0.0 });
        recorder.counter("andon_cancels_asked_total", &[]).absolute(now.cancels_asked);
    }

    /// Counts a request that was answered. The route is a template, never a path.
    pub fn request(&self, method: &str, route: &str, status: u16, took: Duration) {
        let class = match status {
            100..200 => "1xx",
            200..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            _ => "5xx",
        };
        let method = match method {
            known @ ("GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD" | "OPTIONS") => known,
            _ => "other",
        };
        let labels = [("method", method), ("route", route), ("status", class)];
        self.recorder.counter("andon_http_requests_total", &labels).increment(1);
        self.recorder.histogram("andon_http_request_seconds", &[("route", route)]).record(took.as_secs_f64());
        self.recorder.tidy();
    }

    /// Counts a fact that was handed to a reader's connection this long after it was written.
    pub fn feed_lag(&self, lag: Duration) {
        self.feed_lag.record(lag.as_secs_f64());
        self.recorder.tidy();
    }

    /// Counts spans that the collector accepted, and spans that were dropped.
    #[cfg(feature = "otlp")]
    pub(crate) fn spans(&self, sent: u64, dropped: u64) {
        self.recorder.counter("andon_spans_sent_total", &[]).increment(sent);
        self.recorder.counter("andon_spans_dropped_total", &[]).increment(dropped);
    }
}
