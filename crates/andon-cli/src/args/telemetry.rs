//! What operators see: spans and logs.

use clap::ValueEnum;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Telemetry")]
pub(crate) struct TelemetryArgs {
    /// Send spans to the OpenTelemetry collector at this address, such as http://localhost:4318, as protobuf over HTTP. The usual
    /// variables, such as `OTEL_EXPORTER_OTLP_ENDPOINT`, work as well.
    #[arg(long, value_name = "URL", value_parser = collector)]
    pub(crate) otlp: Option<String>,
    /// What to log to standard error: error, warn, info, debug, or a filter such as `info,andon_server=debug`. Default: warn, or
    /// info if the format is json.
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    /// The format of log lines.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// For machines: one object per line.
    Json,
}

/// Checks the address of a collector.
fn collector(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let is_address = !rest.is_empty() && !rest.starts_with('/') && !text.contains(char::is_whitespace);
    if is_address { Ok(text.to_owned()) } else { Err("write an address such as http://localhost:4318".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_has_an_address() {
        assert!(collector("http://localhost:4318").is_ok() && collector("https://otel.example/v1/traces").is_ok());
        for wrong in ["localhost:4318", "http://", "http:///v1", "http://a b", ""] {
            assert!(collector(wrong).unwrap_err().contains("such as"), "{wrong:?}");
        }
    }
}
