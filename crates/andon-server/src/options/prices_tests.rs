//! What tokens cost.

use andon_runtime::core::event::Entry;
use andon_runtime::core::usage::Used;
use andon_runtime::{Event, Figure, JournaledRun, Provenance, Record, RunId, SessionKey};
use serde_json::{Value, json};

use super::*;
use crate::options::cost::priced;

fn price(text: &str) -> Price {
    text.parse().unwrap()
}

fn model_price(input: &str, output: &str) -> ModelPrice {
    ModelPrice { input: price(input), cache_read: price("0.3"), cache_write: price("3.75"), output: price(output) }
}

fn prices() -> Prices {
    let usual = Prices::new("USD").unwrap().with("claude-sonnet-*", model_price("3", "15")).unwrap();
    usual.with("free", model_price("0", "0")).unwrap()
}

/// What a provider reports that says that no cache was used.
fn without_cache(input: u64, output: u64) -> Usage {
    Usage::NONE.input(Figure::reported(input)).output(Figure::reported(output))
}

fn cost_of(model: &str, usage: &Usage) -> Value {
    json!(prices().cost(model, usage))
}

fn usd(value: Option<f64>, provenance: &str, low: Option<f64>, high: Option<f64>) -> Value {
    json!({"currency": "USD", "value": value, "provenance": provenance, "low": low, "high": high})
}

fn bounded(low: Option<u64>, high: Option<u64>) -> Figure {
    Figure::new().provenance(Provenance::Bounded).low(low).high(high)
}

#[test]
fn what_is_known_is_multiplied_and_nothing_is_rounded() {
    let usage = without_cache(1000, 7).cache_read(Figure::reported(10)).cache_write(Figure::reported(4));
    let cost = cost_of("claude-sonnet-4-5", &usage);
    assert_eq!(cost, usd(Some(0.003123), "reported", Some(0.003123), Some(0.003123)));
    assert_eq!(cost["value"].to_string(), "0.003123");
    let one = cost_of("claude-sonnet-4-5", &Usage::NONE.cache_read(Figure::reported(1)));
    assert_eq!(one["value"], 0.000_000_3, "one token is not nothing");
    let third = Prices::new("EUR").unwrap().with("*", model_price("0.1", "0.2")).unwrap();
    let cost = third.cost("x", &without_cache(1_000_000, 1_000_000)).unwrap();
    assert_eq!(json!(cost)["value"].to_string(), "0.3", "a tenth and two tenths");
    let sum = (0..1000).fold(third.nothing(), |sum, _| sum.plus(&cost));
    assert_eq!(json!(sum)["value"].to_string(), "300.0");
}

#[test]
fn what_is_unknown_gives_no_value_and_the_bounds_that_are_known() {
    let cut = without_cache(1000, 0).output(bounded(Some(100), None));
    assert_eq!(cost_of("claude-sonnet-4", &cut), usd(None, "bounded", Some(0.0045), None));
    let limited = without_cache(1000, 0).output(bounded(None, Some(1000)));
    assert_eq!(cost_of("claude-sonnet-4", &limited), usd(None, "bounded", Some(0.003), Some(0.018)));
    assert_eq!(cost_of("claude-sonnet-4", &Usage::UNKNOWN), usd(None, "unknown", None, None));
    let estimate = Figure::new().value(50).provenance(Provenance::Estimated).low(40).high(80);
    let cost = cost_of("claude-sonnet-4", &Usage::NONE.output(estimate));
    assert_eq!(cost, usd(Some(0.00075), "estimated", Some(0.0006), Some(0.0012)));
}

#[test]
fn what_is_free_costs_nothing_however_much_there_was() {
    let cost = cost_of("free", &Usage::new().cache_read(Figure::reported(0)).cache_write(Figure::reported(0)));
    assert_eq!(cost, usd(Some(0.0), "reported", Some(0.0), Some(0.0)));
}

#[test]
fn input_of_which_nobody_said_how_much_came_from_a_cache_is_priced_between_the_cheapest_and_the_dearest_rate() {
    let reported = Usage::new().input(Figure::reported(10_000)).output(Figure::reported(100));
    // The output is 0.0015; the input is 0.003 if all of it came from a cache, 0.03 if none did, 0.0375 if it was written to one.
    let expected = usd(Some(0.0315), "estimated", Some(0.0045), Some(0.039));
    assert_eq!(cost_of("claude-sonnet-4", &reported), expected);
    let cached = without_cache(1_000, 100).cache_read(Figure::reported(9_000));
    let truth = cost_of("claude-sonnet-4", &cached)["value"].as_f64().unwrap();
    assert!(expected["low"].as_f64().unwrap() <= truth && truth <= expected["high"].as_f64().unwrap());
    let read_only = cached.input(Figure::reported(1_000)).cache_write(Figure::UNKNOWN);
    // What may have been written to a cache was surely not read from it.
    assert_eq!(cost_of("claude-sonnet-4", &read_only), usd(Some(0.0072), "estimated", Some(0.0072), Some(0.00795)));
}

#[test]
fn a_cut_call_with_an_estimate_has_a_value_and_both_bounds() {
    let estimate =
        |value| Figure::new().value(value).provenance(Provenance::Estimated).low(value - 10).high(value + 10);
    let cut = Usage::new().input(estimate(1_000)).output(estimate(100));
    assert_eq!(cost_of("claude-sonnet-4", &cut), usd(Some(0.0045), "estimated", Some(0.001647), Some(0.0054375)));
    let part = cut.output(bounded(Some(10), None));
    // Of the input at least 980 is certain, and was read from a cache if it cost the least.
    assert_eq!(cost_of("claude-sonnet-4", &part), usd(None, "bounded", Some(0.000444), None));
    let possibly = Usage::new().input(bounded(Some(0), Some(1_000))).output(bounded(Some(10), Some(100)));
    assert_eq!(cost_of("claude-sonnet-4", &possibly), usd(None, "bounded", Some(0.00015), Some(0.00525)));
}

#[test]
fn rates_that_agree_leave_nothing_to_guess() {
    let three = ModelPrice { cache_read: price("3"), cache_write: price("3"), ..model_price("3", "15") };
    let list = Prices::new("USD").unwrap().with("*", three).unwrap();
    let usage = Usage::new().input(Figure::reported(1_000)).output(Figure::reported(100));
    assert_eq!(json!(list.cost("m", &usage)), usd(Some(0.0045), "reported", Some(0.0045), Some(0.0045)));
}

#[test]
fn a_cost_that_is_too_large_to_count_has_no_value_and_no_upper_bound_and_never_panics() {
    let dear = price("1000000000");
    let dear = ModelPrice { input: dear, cache_read: dear, cache_write: dear, output: dear };
    let list = Prices::new("USD").unwrap().with("*", dear).unwrap();
    let one = list.cost("m", &without_cache(u64::MAX, u64::MAX)).unwrap();
    assert_eq!(json!(one)["provenance"], "reported");
    let many = (0..20).fold(one, |sum, _| sum.plus(&sum));
    let many = json!(many);
    assert_eq!((&many["value"], &many["high"], &many["provenance"]), (&Value::Null, &Value::Null, &json!("bounded")));
    assert!(many["low"].as_f64().unwrap() > 1e25);
}

#[test]
fn a_price_list_is_the_same_after_it_was_written_down() {
    let list = Prices::new("USD").unwrap().with("m*", model_price("0.000001", "1000000000")).unwrap();
    let list = list.with("free", model_price("0", "0")).unwrap();
    let written = serde_json::to_string(&list).unwrap();
    assert_eq!(serde_json::from_str::<Prices>(&written).unwrap(), list);
    for wrong in [written.replace("USD", "dollars"), written.replace("m*", "*m"), written.replace("0.300000", "-1")] {
        assert!(serde_json::from_str::<Prices>(&wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_longest_name_that_fits_counts_with_or_without_its_provider() {
    let names = ["*", "claude-*", "claude-sonnet-*", "claude-sonnet-4", "anthropic/claude-*", "router/x/y", "openai/*"];
    let list = names
        .iter()
        .enumerate()
        .try_fold(Prices::new("USD").unwrap(), |list, (at, name)| list.with(name, model_price(&at.to_string(), "0")));
    let list = list.unwrap();
    let found = |model: &str| {
        let micros = list.find_for(model, None).unwrap().input.micros;
        names[usize::try_from(micros / 1_000_000).unwrap()]
    };
    assert_eq!(found("claude-opus-4"), "claude-*");
    assert_eq!(found("claude-sonnet-5"), "claude-sonnet-*");
    assert_eq!(found("claude-sonnet-4"), "claude-sonnet-4", "the whole name, of two that are equally long");
    assert_eq!(found("anthropic/claude-opus-4"), "anthropic/claude-*");
    assert_eq!(found("router/anthropic/claude-opus-4"), "anthropic/claude-*");
    assert_eq!(found("router/x/y"), "router/x/y");
    assert_eq!(found("openai/gpt-5"), "openai/*");
    assert_eq!(found("notclaude-4"), "*", "a name begins where a part does");
    assert_eq!(prices().cost("gpt-5", &Usage::NONE), None);
    assert_eq!(prices().cost("free-of-charge", &Usage::NONE), None, "only with `*` it stands for more");
}

#[test]
fn a_call_costs_what_the_model_costs_that_answered_it() {
    let names = ["cheap", "dear", "anthropic/claude-*", "mine/deployment", "mine/*"];
    let list = names
        .iter()
        .zip(["1", "2", "3", "4", "5"])
        .fold(Prices::new("USD").unwrap(), |list, (name, price)| list.with(name, model_price(price, "0")).unwrap());
    let cost = |asked: &str, answered: Option<&str>| {
        let cost = list.cost_of_call(asked, answered, &without_cache(1_000_000, 0));
        cost.map(|cost| json!(cost)["value"].as_f64().unwrap())
    };
    assert_eq!(cost("router/cheap", Some("dear")), Some(2.0), "a fallback to another model");
    assert_eq!(cost("openrouter/auto", Some("anthropic/claude-sonnet-5")), Some(3.0));
    assert_eq!(cost("router/cheap", Some("cheap-2026-11-01")), Some(1.0), "no name matches what answered");
    assert_eq!(cost("router/cheap", None), Some(1.0));
    assert_eq!(cost("mine/deployment", Some("gpt-5")), Some(4.0), "`mine/*` matches both, so it says nothing");
    assert_eq!(cost("mine/other", Some("gpt-5")), Some(5.0));
    assert_eq!(cost("openrouter/auto", Some("who-knows")), None);
}

#[test]
fn a_name_that_fits_the_router_as_well_hides_no_shorter_name_of_the_model_that_answered() {
    let list = Prices::new("USD").unwrap().with("openrouter/*", model_price("1", "0")).unwrap();
    let list = list.with("gpt-4o", model_price("2.5", "0")).unwrap();
    let cost = |answered: &str| {
        let cost = list.cost_of_call("openrouter/auto", Some(answered), &without_cache(1_000_000, 0));
        json!(cost)["value"].as_f64()
    };
    assert_eq!((cost("openai/gpt-4o"), cost("openai/gpt-5")), (Some(2.5), Some(1.0)));
}

#[test]
fn an_answer_from_a_larger_model_of_the_family_costs_what_the_family_costs() {
    let list = Prices::new("USD").unwrap().with("gpt-5-mini", model_price("0.25", "0")).unwrap();
    let list = list.with("gpt-5*", model_price("1.25", "0")).unwrap().with("gpt*", model_price("9", "0")).unwrap();
    let cost = |answered: &str| {
        let cost = list.cost_of_call("openai/gpt-5-mini", Some(answered), &without_cache(1_000_000, 0));
        json!(cost)["value"].as_f64()
    };
    assert_eq!(cost("gpt-5-2025-08-07"), Some(1.25));
    assert_eq!([cost("gpt-5-mini"), cost("gpt-5-mini-2025-08-07")], [Some(0.25); 2], "the model that was asked for");
    assert_eq!(cost("gpt-4o"), Some(9.0));
}

#[test]
fn a_run_on_record_costs_what_the_model_costs_that_answered_it() {
    let usage = without_cache(1_000_000, 0);
    let events = [
        Event::model_started(1, "router/cheap"),
        Event::Usage {
            call: 1,
            used: Box::new(Used::new(usage, usage)),
            pending: None,
            answered_by: Some("dear".into()),
            request_id: None,
            answer_changed: false,
        },
    ];
    let entry = |(seq, event): (u64, Event)| Entry::Fact(Arc::new(Record::new(seq, 1, Default::default(), event)));
    let account = JournaledRun::new().entries((2..).zip(events).map(entry).collect());
    let list = Prices::new("USD").unwrap().with("cheap", model_price("1", "0")).unwrap();
    let list = list.with("dear", model_price("2", "0")).unwrap();
    assert_eq!(json!(Spent::of_account(&list, &account).total())["value"], 2.0);
}

#[test]
fn invalid_prices_names_and_currencies_are_refused() {
    for wrong in ["", "-1", "NaN", "inf", "1e3", "0.0000001", "1.", ".5", "1,5"] {
        assert_eq!(wrong.parse::<Price>(), Err(PriceError::BadPrice), "{wrong:?}");
    }
    assert_eq!(price("0.000001"), Price { micros: 1 });
    for wrong in ["", "a*b", "**", "*a"] {
        assert_eq!(
            Prices::new("USD").unwrap().with(wrong, model_price("1", "1")),
            Err(PriceError::BadName),
            "{wrong:?}"
        );
    }
    for large in ["1000000001", "1000000000.000001", "99999999999999", "99999999999999999999999999"] {
        assert_eq!(large.parse::<Price>(), Err(PriceError::TooLarge), "{large:?}");
    }
    assert!("1000000000".parse::<Price>().is_ok());
    assert_eq!(PriceError::TooLarge.to_string(), "a price must be at most 1000000000 per million tokens");
    for wrong in ["", "usd", "US", "DOLLAR", "€"] {
        assert_eq!(Prices::new(wrong), Err(PriceError::BadCurrency), "{wrong:?}");
    }
}

#[test]
fn a_run_costs_what_its_calls_cost_as_far_as_they_have_a_price() {
    let call = |model: &str| {
        andon_runtime::core::receipt::ModelAccount::new(1, model, Used::new(Usage::NONE, without_cache(1000, 100)))
    };
    let run = RunId::new("r").unwrap();
    let empty = Receipt::unknown(&run, &SessionKey::new("a", "u", "s").unwrap());
    let of = |models: &[&str]| {
        let model_calls: Vec<_> = models.iter().map(|model| call(model)).collect();
        let usage = model_calls.iter().fold(Used::NONE, |sum, call| sum.plus(call.usage));
        empty.clone().model_calls(model_calls).usage(usage)
    };
    let total = |models: &[&str]| json!(prices().of_run(&of(models)));
    assert_eq!(total(&["claude-sonnet-4", "claude-sonnet-4"])["value"], 0.009);
    let without = |unpriced: &[&str], low: Option<f64>| {
        let provenance = if low.is_some() { "bounded" } else { "unknown" };
        json!({"currency": "USD", "value": null, "provenance": provenance, "low": low, "high": null, "unpriced": unpriced})
    };
    let partly = without(&["gpt-5"], Some(0.0045));
    assert_eq!(total(&["claude-sonnet-4", "gpt-5", "gpt-5"]), partly);
    assert_eq!(total(&["gpt-5", "claude-sonnet-4"]), partly);
    assert_eq!(total(&["free", "gpt-6", "gpt-5"]), without(&["gpt-5", "gpt-6"], None), "free is not without a price");
    assert_eq!(total(&[])["value"], 0.0, "a run that called no model costs nothing");
    let open = of(&["claude-sonnet-4"]);
    let open = open.clone().usage(open.usage.plus(Used::UNKNOWN));
    assert_eq!(json!(prices().of_run(&open)), usd(None, "bounded", Some(0.0045), None), "a call is open");
    let told = json!(priced(Some(&prices()), of(&["claude-sonnet-4", "gpt-5"])));
    assert_eq!((&told["cost"], &told["model_calls"][0]["cost"]["value"]), (&partly, &json!(0.0045)));
    assert!(told["model_calls"][1].get("cost").is_none());
    let plain = of(&["claude-sonnet-4"]);
    assert_eq!(json!(priced(None, plain.clone())), json!(plain), "without prices it is the receipt as it is");
}
