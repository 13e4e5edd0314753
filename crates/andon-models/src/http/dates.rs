//! The two time formats in HTTP headers, an HTTP date and RFC 3339, as seconds since 1970.

use std::time::UNIX_EPOCH;

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(super) fn http_date(text: &str) -> Option<f64> {
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
}

/// `1994-11-06T08:49:37.5+01:00`.
pub(super) fn rfc_3339(text: &str) -> Option<f64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let zone_at = rest.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = rest.split_at_checked(zone_at)?;
    let offset = match zone.split_at_checked(1)? {
        ("+", ahead) => minutes(ahead)?,
        ("-", behind) => -minutes(behind)?,
        (_, _) => 0,
    };
    Some(moment(year, month, day, time)? - (offset * 60) as f64)
}

fn minutes(offset: &str) -> Option<i64> {
    let (hours, minutes) = offset.split_once(':')?;
    Some(hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?)
}

fn moment(year: i64, month: i64, day: i64, time: &str) -> Option<f64> {
    let mut parts = time.split(':');
    let (hours, minutes): (f64, f64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let seconds: f64 = parts.next()?.parse().ok()?;
    let is_date = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_time = hours < 24.0 && minutes < 60.0 && (0.0..61.0).contains(&seconds);
    (is_date && is_time).then(|| days(year, month, day) as f64 * 86_400.0 + hours * 3_600.0 + minutes * 60.0 + seconds)
}

/// Days since 1970-01-01. Years begin in March here, so that the leap day is a year's last day.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let in_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + in_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_give_the_same_moment() {
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777.0));
        for text in ["1994-11-06T08:49:37Z", "1994-11-06T09:49:37+01:00", "1994-11-06t03:49:37.00-05:00"] {
            assert_eq!(rfc_3339(text), Some(784_111_777.0), "{text}");
        }
        assert_eq!(http_date("Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800.0));
        assert_eq!(rfc_3339("1970-01-01T00:00:00Z"), Some(0.0));
    }

    #[test]
    fn what_is_no_date_is_none() {
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
