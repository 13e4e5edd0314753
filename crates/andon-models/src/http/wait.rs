//! How long a provider asks us to wait.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::HeaderMap;
use serde_json::Value;

/// The wait that a refusal's headers or body ask for. The most exact one wins; among several exhausted rate limits, the longest.
pub(super) fn asked(headers: &HeaderMap, body: Option<&Value>, now: SystemTime) -> Option<Duration> {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let milliseconds = header(headers, "retry-after-ms").and_then(|text| text.parse::<f64>().ok());
    let seconds = milliseconds
        .map(|milliseconds| milliseconds / 1000.0)
        .or_else(|| retry_after(header(headers, "retry-after")?, now))
        .or_else(|| retry_delay(body?))
        .or_else(|| reset(headers, now))?;
    Duration::try_from_secs_f64(seconds.max(0.0)).ok()
}

fn retry_after(text: &str, now: f64) -> Option<f64> {
    text.parse().ok().or_else(|| Some(since_1970(httpdate::parse_http_date(text).ok()?)? - now))
}

fn since_1970(date: SystemTime) -> Option<f64> {
    Some(date.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
}

/// Google's wait, in the details of its error.
fn retry_delay(body: &Value) -> Option<f64> {
    let details = body.get(0).unwrap_or(body).pointer("/error/details")?.as_array()?;
    details.iter().find_map(|detail| duration(detail.get("retryDelay")?.as_str()?))
}

/// The exhausted rate limits: `anthropic-ratelimit-requests-reset`, `x-ratelimit-reset-tokens` and the like.
fn reset(headers: &HeaderMap, now: f64) -> Option<f64> {
    let resets = headers.iter().filter_map(|(name, value)| {
        let (name, value) = (name.as_str(), value.to_str().ok()?);
        let remaining = if name.starts_with("anthropic-ratelimit-") {
            format!("{}-remaining", name.strip_suffix("-reset")?)
        } else {
            format!("x-ratelimit-remaining{}", name.strip_prefix("x-ratelimit-reset")?)
        };
        let is_used_up = header(headers, &remaining).is_none_or(|left| left.parse() == Ok(0.0));
        if is_used_up { until(value, now) } else { None }
    });
    resets.reduce(f64::max)
}

/// A date, a duration such as `6m0s`, seconds, or a Unix time in seconds or milliseconds.
fn until(text: &str, now: f64) -> Option<f64> {
    const A_YEAR: f64 = 365.0 * 86_400.0;
    match text.parse::<f64>() {
        Ok(seconds) if seconds < A_YEAR => Some(seconds),
        Ok(unix) if unix < 1000.0 * A_YEAR => Some(unix - now),
        Ok(unix) => Some(unix / 1000.0 - now),
        Err(_) => duration(text).or_else(|| Some(since_1970(humantime::parse_rfc3339(text).ok()?)? - now)),
    }
}

/// `1h2m3.5s`, `20ms`.
fn duration(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let (number, after) = rest.split_at_checked(number_end)?;
        let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(unit_end)?;
        let unit = match unit {
            "d" => 86_400.0,
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * unit;
        rest = after;
    }
    (!text.trim().is_empty()).then_some(seconds)
}

/// A header, if it came and is text.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: u64 = 784_111_777;

    fn wait(headers: &[(&'static str, &str)]) -> Option<Duration> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        asked(&headers, None, UNIX_EPOCH + Duration::from_secs(NOW))
    }

    fn seconds(seconds: f64) -> Option<Duration> {
        Some(Duration::from_secs_f64(seconds))
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(wait(&[("retry-after", "7")]), seconds(7.0));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")]), seconds(30.0));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), seconds(0.0));
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        assert_eq!(wait(&[("retry-after", "-5")]), seconds(0.0));
        assert_eq!(wait(&[("retry-after", "1e999")]), None);
        assert_eq!(wait(&[]), None);
    }

    #[test]
    fn milliseconds_are_more_exact_than_seconds() {
        assert_eq!(wait(&[("retry-after", "1"), ("retry-after-ms", "250")]), seconds(0.25));
    }

    #[test]
    fn of_the_limits_that_are_used_up_the_longest_counts() {
        let headers = [
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "1994-11-06T08:49:47Z"),
            ("anthropic-ratelimit-tokens-remaining", "0"),
            ("anthropic-ratelimit-tokens-reset", "1994-11-06T08:49:57Z"),
            ("anthropic-ratelimit-input-tokens-remaining", "9000"),
            ("anthropic-ratelimit-input-tokens-reset", "1994-11-06T09:49:57Z"),
        ];
        assert_eq!(wait(&headers), seconds(20.0));
        let headers = [
            ("x-ratelimit-reset-requests", "6m0s"),
            ("x-ratelimit-remaining-requests", "3"),
            ("x-ratelimit-reset-tokens", "7.5s"),
        ];
        assert_eq!(wait(&headers), seconds(7.5));
        assert_eq!(wait(&[("x-ratelimit-reset", "784111787000")]), seconds(10.0));
        assert_eq!(wait(&[("x-ratelimit-reset-requests", "1m0.5s")]), seconds(60.5));
        assert_eq!(wait(&[("x-ratelimit-reset-requests", "20ms")]), seconds(0.02));
    }

    #[test]
    fn an_invalid_date_asks_for_no_wait() {
        for text in ["tomorrow", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 CET"] {
            assert_eq!(wait(&[("retry-after", text)]), None, "{text}");
        }
        for text in ["", "1994-11-06", "1994-11-06T08:49:37", "1994-13-06T08:49:37Z", "99999999999-1-1T0:0:0Z"] {
            assert_eq!(wait(&[("x-ratelimit-reset", text)]), None, "{text}");
        }
    }

    #[test]
    fn google_says_it_in_the_body() {
        let body = json!({"error": {"details": [{"@type": "other"}, {"retryDelay": "34s"}]}});
        assert_eq!(asked(&HeaderMap::new(), Some(&body), UNIX_EPOCH), seconds(34.0));
    }
}
