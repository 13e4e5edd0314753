//! What each figure means.

use metrics::Recorder as _;

use super::recorder::Recorder;

const COUNTERS: [(&str, &str); 15] = [
    ("andon_runs_started_total", "Runs that were accepted."),
    ("andon_runs_settled_total", "Runs that have settled, by outcome."),
    (
        "andon_runs_broken_off_total",
        "Runs that were abandoned before their end was on record, because the journal failed.",
    ),
    ("andon_cancels_total", "Requests to stop a run that changed something, by reason and force."),
    ("andon_tokens_total", "Tokens of model calls as first accounted, by how they are known."),
    ("andon_tokens_corrected_total", "Corrections of andon_tokens_total that came later: add `more`, subtract `less`."),
    (
        "andon_usage_unknown_total",
        "Figures of model calls that were unknown when the call ended. They are in no sum of tokens.",
    ),
    ("andon_model_calls_total", "Model calls that have ended, including retries, by how they ended."),
    ("andon_tool_calls_total", "Tool calls that were closed, by what became of them."),
    ("andon_leaked_work_total", "Tools, hooks and processes that kept running after they were stopped."),
    ("andon_observer_panics_total", "Panics in telemetry that were caught."),
    ("andon_spans_sent_total", "Spans that the collector has accepted."),
    ("andon_spans_dropped_total", "Spans that were dropped, because the collector was slow or could not be reached."),
    ("andon_http_requests_total", "Requests that were answered, by method, route and class of status."),
    ("andon_cancels_asked_total", "Cancels that were asked for over HTTP."),
];

const GAUGES: [(&str, &str); 8] = [
    ("andon_runs_in_progress", "Runs that have not settled."),
    ("andon_runs", "Runs in progress, by state."),
    ("andon_runs_stalled", "Runs in progress whose work is over, but whose end cannot be written to the journal."),
    (
        "andon_journal_failing",
        "1 while nothing can be recorded: the disk is full, or another program has the database.",
    ),
    ("andon_leaked_work", "Tool calls that were abandoned and have not ended yet."),
    ("andon_feeds_open", "Feeds that are being read."),
    ("andon_connections_open", "Connections."),
    ("andon_line_held", "1 while the line is held for all."),
];

const HISTOGRAMS: [(&str, &str); 6] = [
    ("andon_run_seconds", "From accepted to settled, which is when the outcome was on disk."),
    (
        "andon_cancel_seconds",
        "From a request to stop to each instant of the stop, by what the run was doing: settled is when the outcome was on disk.",
    ),
    ("andon_model_first_piece_seconds", "From a model call to its first piece."),
    ("andon_journal_seconds", "From the writing of a fact until it is durable and shown."),
    ("andon_feed_lag_seconds", "From the writing of a fact until it is handed to a reader's connection."),
    ("andon_http_request_seconds", "From a request's head to its response's."),
];

pub(super) fn all(recorder: &Recorder) {
    let recorder = recorder.inner();
    for (name, text) in COUNTERS {
        recorder.describe_counter(name.into(), None, text.into());
    }
    for (name, text) in GAUGES {
        recorder.describe_gauge(name.into(), None, text.into());
    }
    for (name, text) in HISTOGRAMS {
        recorder.describe_histogram(name.into(), None, text.into());
    }
}
