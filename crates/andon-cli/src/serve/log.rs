//! Log lines on standard error.
//!
//! # Invariants
//!
//! 1. Logging never waits for a reader: lines that are not read in time are dropped.
//! 2. Libraries that would log their traffic, with headers and keys, log only warnings and errors, whatever the filter says.

use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};

use anyhow::{Context, anyhow};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, registry};

use crate::args::{LogFormat, TelemetryArgs};
use crate::print::out::write_log;

/// How many lines may be unread.
const UNREAD: usize = 4_096;

/// Libraries that see secrets (invariant 2).
const DISCREET: [&str; 9] = [
    "h2",
    "hyper",
    "hyper_util",
    "reqwest",
    "rustls",
    "rmcp",
    "tungstenite",
    "tokio_tungstenite",
    "aws_smithy_runtime",
];

/// Starts logging for the whole process.
pub(super) fn begin(args: &TelemetryArgs) -> anyhow::Result<()> {
    let usual = match args.log_format {
        LogFormat::Text => "warn",
        LogFormat::Json => "info",
    };
    let asked = args.log.as_deref().unwrap_or(usual);
    let filter = filter(asked)?;
    let lines = Lines::new()?;
    let writer = move || lines.clone();
    let layer = match args.log_format {
        LogFormat::Text => fmt::layer().with_ansi(false).with_writer(writer).boxed(),
        LogFormat::Json => fmt::layer().json().flatten_event(true).with_span_list(false).with_writer(writer).boxed(),
    };
    // A test may have started logging already.
    let _ = registry().with(layer.with_filter(filter)).try_init();
    Ok(())
}

fn filter(asked: &str) -> anyhow::Result<EnvFilter> {
    let what = "write error, warn, info, debug, or a filter such as info,andon_server=debug";
    let mut filter = EnvFilter::try_new(asked).map_err(|error| anyhow!("--log {asked}: {error}: {what}"))?;
    for library in DISCREET {
        filter = filter.add_directive(format!("{library}=warn").parse()?);
    }
    Ok(filter)
}

/// Lines on their way to standard error, which a separate thread writes.
#[derive(Clone)]
struct Lines(SyncSender<Vec<u8>>);

impl Lines {
    fn new() -> anyhow::Result<Self> {
        let (lines, unread) = sync_channel::<Vec<u8>>(UNREAD);
        let thread = std::thread::Builder::new().name("andon-log".to_owned());
        let write = move || unread.iter().for_each(|line| drop(write_log(&line)));
        thread.spawn(write).context("cannot start the thread that writes the log")?;
        Ok(Self(lines))
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Each call is one line; a line that does not fit is dropped (invariant 1).
        let _ = self.0.try_send(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_filter_is_refused_with_an_example() {
        assert!(filter("info,andon_server=debug").is_ok());
        let refused = filter("andon=loud").unwrap_err().to_string();
        assert!(refused.contains("such as info"), "{refused}");
    }

    #[test]
    fn libraries_that_see_headers_stay_discreet() {
        let shown = filter("trace,h2=trace").unwrap().to_string();
        assert!(shown.contains("h2=warn") && !shown.contains("h2=trace"), "{shown}");
    }
}
