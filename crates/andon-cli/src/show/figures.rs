//! Figures for people: tokens with their provenance, costs and times.

use std::fmt::Display;

use andon_runtime::{Figure, Provenance, Usage};

use crate::client::forms::Cost;
use crate::print::plain_line;

/// A number of tokens with its provenance. An unknown number is `unknown`, never 0.
pub(super) fn figure(figure: &Figure) -> String {
    let known = known_words(figure.provenance);
    match (figure.value, figure.low, figure.high) {
        (Some(value), Some(low), Some(high)) if low == value && high == value => format!("{value} ({known})"),
        (Some(value), low, high) => match bounds(low, high) {
            Some(bounds) => format!("{value} ({known}, {bounds})"),
            None => format!("{value} ({known})"),
        },
        (None, low, high) => bounds(low, high).unwrap_or_else(|| UNKNOWN.to_owned()),
    }
}

const UNKNOWN: &str = "unknown";

fn bounds<N: Display + Default + PartialEq>(low: Option<N>, high: Option<N>) -> Option<String> {
    match (low.filter(|low| high.is_some() || *low != N::default()), high) {
        // "at least 0" would say nothing.
        (None, None) => None,
        (Some(low), None) => Some(format!("at least {low}")),
        (None, Some(high)) => Some(format!("at most {high}")),
        (Some(low), Some(high)) => Some(format!("{low} to {high}")),
    }
}

/// An amount of money with its provenance, unless that is the provider's final word; or its bounds. Models without a price
/// are named.
pub(super) fn cost(cost: &Cost) -> String {
    let currency = plain_line(&cost.currency);
    let is_exact = cost.low == cost.value && cost.high == cost.value;
    let known = known_words(cost.provenance);
    let text = match (cost.value, bounds(cost.low, cost.high)) {
        (Some(value), _) if is_exact && cost.provenance == Provenance::Reported => format!("{value} {currency}"),
        (Some(value), Some(bounds)) if !is_exact => format!("{value} {currency} ({known}, {bounds})"),
        (Some(value), _) => format!("{value} {currency} ({known})"),
        (None, Some(bounds)) => format!("{bounds} {currency}"),
        (None, None) => UNKNOWN.to_owned(),
    };
    match cost.unpriced.as_slice() {
        [] => text,
        models => format!("{text}; no price for {}", plain_line(&models.join(", "))),
    }
}

/// A usage, without the kinds that were certainly not used. If all have the same provenance, it is shown once.
pub(super) fn usage(usage: &Usage, delivered: &Usage) -> String {
    let others = [
        ("cache read", usage.cache_read, delivered.cache_read),
        ("cache written", usage.cache_write, delivered.cache_write),
        ("of it thinking", usage.reasoning, delivered.reasoning),
    ];
    let mut kinds = vec![("input", usage.input), ("output", usage.output)];
    let used = others.into_iter().filter(|(.., delivered)| delivered.value != Some(0));
    let (known_kinds, unknown): (Vec<_>, Vec<_>) = used.partition(|(_, shown, _)| short(shown) != UNKNOWN);
    kinds.extend(known_kinds.into_iter().map(|(name, shown, _)| (name, shown)));
    let known =
        kinds.iter().map(|(_, figure)| known_exactly(figure)).reduce(|a, b| a.filter(|a| Some(*a) == b)).flatten();
    let told = |(name, shown): &(&str, Figure)| match known {
        Some(_) => format!("{name} {}", short(shown)),
        None => format!("{name} {}", figure(shown)),
    };
    let text = kinds.iter().map(told).collect::<Vec<_>>().join(", ");
    let text = known.map_or(text.clone(), |known| format!("{text} ({})", known_words(known)));
    // Unknown kinds are listed together at the end.
    let mut names: Vec<&str> = unknown.iter().map(|(name, ..)| name.trim_start_matches("of it ")).collect();
    if let ["cache read", "cache written", ..] = names.as_slice() {
        names.splice(..2, ["cache"]);
    }
    match names.as_slice() {
        [] => text,
        names => format!("{text}; {UNKNOWN}: {}", names.join(", ")),
    }
}

/// The provenance of an exact figure.
fn known_exactly(figure: &Figure) -> Option<Provenance> {
    let exact = figure.value.is_some() && figure.low == figure.value && figure.high == figure.value;
    exact.then_some(figure.provenance)
}

fn known_words(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Reported => "reported",
        Provenance::ReportedRunning => "reported so far",
        Provenance::LookedUp => "looked up",
        Provenance::Counted => "counted",
        Provenance::Estimated => "estimated",
        Provenance::Bounded => "bounded",
        Provenance::Unknown => "unknown",
        #[cfg(not(andon_whole))]
        _ => "known in another way",
    }
}

/// A number of tokens, for the line after each run.
pub(super) fn short(figure: &Figure) -> String {
    match figure.value {
        Some(value) => value.to_string(),
        None => bounds(figure.low, figure.high).unwrap_or_else(|| UNKNOWN.to_owned()),
    }
}

/// A time in microseconds, with the digits that matter.
pub(crate) fn time(micros: u64) -> String {
    let value = micros as f64;
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.1} ms", value / 1e3),
        10_000..1_000_000 => format!("{:.0} ms", value / 1e3),
        1_000_000..60_000_000 => format!("{:.1} s", value / 1e6),
        _ => format!("{} min {} s", micros / 60_000_000, micros % 60_000_000 / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_never_shown_as_zero() {
        assert_eq!(figure(&Figure::UNKNOWN), "unknown");
        assert_eq!(short(&Figure::UNKNOWN), "unknown");
        let both = usage(&Usage::UNKNOWN, &Usage::UNKNOWN);
        assert!(!both.contains('0'), "{both}");
        assert_eq!(both, "input unknown, output unknown; unknown: cache, thinking");
    }

    #[test]
    fn a_figure_has_its_provenance_and_bounds() {
        assert_eq!(figure(&Figure::reported(12)), "12 (reported)");
        let bounded = Figure::new().provenance(Provenance::Bounded).low(7);
        assert_eq!(figure(&bounded), "at least 7");
        let estimate = Figure::new().value(5).provenance(Provenance::Estimated).low(4).high(6);
        assert_eq!(figure(&estimate), "5 (estimated, 4 to 6)");
    }

    #[test]
    fn a_cost_is_exact_or_has_bounds() {
        let of = |provenance, value, low, high| Cost {
            currency: "USD".into(),
            value,
            provenance,
            low,
            high,
            unpriced: Vec::new(),
        };
        let shown = |provenance, value, low, high| cost(&of(provenance, value, low, high));
        let tiny = Some(0.000_000_3);
        assert_eq!(shown(Provenance::Reported, tiny, tiny, tiny), "0.0000003 USD");
        assert_eq!(shown(Provenance::Counted, tiny, tiny, tiny), "0.0000003 USD (counted)");
        assert_eq!(shown(Provenance::Estimated, Some(0.5), Some(0.25), Some(1.0)), "0.5 USD (estimated, 0.25 to 1)");
        assert_eq!(shown(Provenance::Bounded, None, Some(0.25), None), "at least 0.25 USD");
        assert_eq!(shown(Provenance::Bounded, None, Some(0.0), Some(0.75)), "0 to 0.75 USD");
        assert_eq!(shown(Provenance::Unknown, None, None, None), "unknown");
        let unpriced = vec!["gpt-5".to_owned(), "gpt-6".to_owned()];
        let partly = Cost { unpriced, ..of(Provenance::Bounded, None, Some(0.25), None) };
        assert_eq!(cost(&partly), "at least 0.25 USD; no price for gpt-5, gpt-6");
    }

    #[test]
    fn kinds_that_were_certainly_not_used_are_left_out() {
        let known = Usage::NONE.input(Figure::reported(3)).output(Figure::reported(4));
        assert_eq!(usage(&known, &known), "input 3, output 4 (reported)");
        let cut = andon_runtime::Used::cut(known.running());
        assert_eq!(usage(&cut.billed, &cut.delivered), "input 3 (reported so far), output at least 4");
    }

    #[test]
    fn what_the_provider_does_not_mention_is_unknown() {
        let said = Usage::reported(3, 4);
        assert_eq!(usage(&said, &said), "input 3, output 4 (reported); unknown: cache, thinking");
    }

    #[test]
    fn times_have_the_digits_that_matter() {
        let times = [850, 1_250, 120_400, 3_250_000, 75_000_000].map(time);
        assert_eq!(times, ["850 µs", "1.2 ms", "120 ms", "3.2 s", "1 min 15 s"]);
    }
}
