//! Durations such as `500ms`, `2s` and `1m30s`, parsed at compile time.

use syn::{Error, LitStr};

const HOW: &str = "write a number and a unit, such as \"500ms\", \"2s\", \"10m\", \"1h\" or \"1m30s\"";

/// A duration in milliseconds, or what to write instead.
pub(crate) fn milliseconds(literal: &LitStr) -> Result<u64, Error> {
    read(&literal.value()).map_err(|why| Error::new(literal.span(), format!("{why}: {HOW}")))
}

fn read(text: &str) -> Result<u64, String> {
    let mut rest = text;
    let mut total = 0_u64;
    let mut smallest = u64::MAX;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let (unit, after) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        if number.is_empty() {
            return Err(format!("{text:?} has no number before {unit:?}"));
        }
        let factor = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "" => return Err(format!("{text:?} has no unit after {number}")),
            _ => return Err(format!("{unit:?} is not a unit")),
        };
        // "30s1m" and "1s1s" are mistakes.
        if factor >= smallest {
            return Err(format!("the units of {text:?} are not in order from large to small"));
        }
        smallest = factor;
        let milliseconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        total = milliseconds
            .and_then(|milliseconds| total.checked_add(milliseconds))
            .ok_or_else(|| format!("{text:?} is too long"))?;
        rest = after;
    }
    if smallest == u64::MAX { Err("this duration is empty".to_owned()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_duration_is_the_sum_of_its_parts() {
        let read = |text| read(text).unwrap();
        assert_eq!([read("500ms"), read("2s"), read("10m"), read("1h")], [500, 2_000, 600_000, 3_600_000]);
        assert_eq!([read("1m30s"), read("1h0m1s5ms"), read("0s")], [90_000, 3_601_005, 0]);
    }

    #[test]
    fn a_bad_duration_is_refused_with_the_reason() {
        let why = |text| read(text).unwrap_err();
        assert_eq!(why(""), "this duration is empty");
        assert_eq!(why("2"), "\"2\" has no unit after 2");
        assert_eq!(why("s"), "\"s\" has no number before \"s\"");
        assert_eq!(why("2 s"), "\" s\" is not a unit");
        assert_eq!(why("1.5s"), "\".\" is not a unit");
        assert_eq!(why("-1s"), "\"-1s\" has no number before \"-\"");
        assert_eq!(why("3 weeks"), "\" weeks\" is not a unit");
        assert_eq!(why("30s1m"), "the units of \"30s1m\" are not in order from large to small");
        assert_eq!(why("1s1s"), "the units of \"1s1s\" are not in order from large to small");
        assert_eq!(why("99999999999999999999h"), "\"99999999999999999999h\" is too long");
        assert_eq!(why("18446744073709551615h"), "\"18446744073709551615h\" is too long");
    }
}
