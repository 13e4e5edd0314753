//! The two time formats in HTTP headers, an HTTP date and RFC 3339, as seconds since 1970.

use std::time::UNIX_EPOCH;

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(super) fn http_date(text: &str) -> Option<f64> {
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
}

/// `1994-11-06T08:49:37.5Z`. Providers send UTC; a date with another offset is `None`.
pub(super) fn rfc_3339(text: &str) -> Option<f64> {
    let date = humantime::parse_rfc3339(text).ok()?;
    Some(date.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_give_the_same_moment() {
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777.0));
        for text in ["1994-11-06T08:49:37Z", "1994-11-06T08:49:37+00:00", "1994-11-06T08:49:37.00Z"] {
            assert_eq!(rfc_3339(text), Some(784_111_777.0), "{text}");
        }
        assert_eq!(http_date("Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800.0));
        assert_eq!(rfc_3339("1970-01-01T00:00:00Z"), Some(0.0));
    }

    #[test]
    fn an_invalid_date_is_none() {
        for text in
            ["", "tomorrow", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 99 Nov 1994 x GMT"]
        {
            assert_eq!(http_date(text), None, "{text}");
        }
        for text in
            ["", "1994-11-06", "1994-11-06T08:49:37", "1994-13-06T08:49:37Z", "T", "99999999999-1-1T0:0:0Z", "é-T+"]
        {
            assert_eq!(rfc_3339(text), None, "{text}");
        }
    }
}
