//! The file with the prices of models.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use andon_server::{ModelPrice, Price, PriceError, Prices};

use crate::yaml::{self, Key, MAX_BYTES, Node, NodeError, Value};

/// Reads a file. The error says what is wrong with it, and where.
pub(crate) fn read(path: &Path) -> Result<Prices, String> {
    let shown = path.display();
    let unreadable =
        |why: String| format!("cannot read the prices in {shown} ({why}): name another file with --prices");
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_string(&mut text));
    read.map_err(|error| unreadable(error.to_string()))?;
    if text.len() > MAX_BYTES {
        return Err(unreadable("the file is larger than 1 MiB".to_owned()));
    }
    yaml::read(&text, prices).map_err(|bad| format!("{shown}{bad}"))
}

fn prices(root: &Node) -> Result<Prices, NodeError> {
    let fields = map(root, "the file must have the keys `currency` and `models`")?;
    known(fields, &["currency", "models"])?;
    let currency = needed(root, fields, "currency")?;
    let Value::Text(name) = &currency.value else { return Err((currency.at, PriceError::BadCurrency.to_string())) };
    let list = Prices::new(name).map_err(|error| (currency.at, error.to_string()))?;
    let models = needed(root, fields, "models")?;
    let none = "`models` must have at least one model, such as `claude-sonnet-*: {input: 3, output: 15}`";
    let entries = map(models, none)?;
    if entries.is_empty() {
        return Err((models.at, none.to_owned()));
    }
    entries.iter().try_fold(list, |list, (key, node)| {
        let price = model_price(key, node, name)?;
        list.with(&key.text, price).map_err(|error| (key.at, error.to_string()))
    })
}

fn model_price(name: &Key, node: &Node, currency: &str) -> Result<ModelPrice, NodeError> {
    let name = yaml::cut(&name.text);
    let fields =
        map(node, &format!("`{name}` must have the keys `input` and `output`, with the price of a million tokens"))?;
    if let Some(own) = find(fields, "currency").filter(|own| own.value != Value::Text(currency.to_owned())) {
        let why = format!(
            "the prices of `{name}` are in another currency than {currency}, and a file has only one: convert them, or leave the model out"
        );
        return Err((own.at, why));
    }
    known(fields, &["input", "cache_read", "cache_write", "output", "currency"])?;
    let input = price(needed(node, fields, "input")?)?;
    // A model without cache prices charges cached tokens as input.
    let or_input = |field: &str| find(fields, field).map_or(Ok(input), price);
    let (cache_read, cache_write) = (or_input("cache_read")?, or_input("cache_write")?);
    Ok(ModelPrice::new(input, cache_read, cache_write, price(needed(node, fields, "output")?)?))
}

fn price(node: &Node) -> Result<Price, NodeError> {
    // Rust prints a float with the shortest digits that give it back, so this is the text in the file.
    let text = match &node.value {
        Value::Whole(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => String::new(),
    };
    text.parse().map_err(|error: PriceError| (node.at, error.to_string()))
}

type Entries = [(Key, Node)];

fn map<'n>(node: &'n Node, why_not: &str) -> Result<&'n Entries, NodeError> {
    match &node.value {
        Value::Map(entries) => Ok(entries),
        _ => Err((node.at, why_not.to_owned())),
    }
}

fn known(fields: &Entries, names: &[&str]) -> Result<(), NodeError> {
    match fields.iter().find(|(key, _)| !names.contains(&key.text.as_str())) {
        None => Ok(()),
        Some((key, _)) => {
            Err((key.at, format!("`{}` is not a key here: use {}", yaml::cut(&key.text), names.join(", "))))
        }
    }
}

fn find<'n>(fields: &'n Entries, name: &str) -> Option<&'n Node> {
    fields.iter().find(|(key, _)| key.text == name).map(|(_, node)| node)
}

fn needed<'n>(owner: &Node, fields: &'n Entries, name: &str) -> Result<&'n Node, NodeError> {
    find(fields, name).ok_or_else(|| (owner.at, format!("`{name}` is missing: add it")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use andon_runtime::{Figure, Usage};

    const GOOD: &str = "currency: USD
models:
  claude-sonnet-*: {input: 3, cache_read: 0.3, cache_write: 3.75, output: 15}
  '*': {input: 0.1, output: 0.4}
";

    #[test]
    fn a_cache_without_a_price_costs_as_much_as_input() {
        let prices = yaml::read(GOOD, prices).unwrap();
        let million = Figure::reported(1_000_000);
        let usage = Usage::NONE.input(million).cache_read(million).output(million);
        let cost = |model: &str| serde_json::to_value(prices.cost(model, &usage)).unwrap()["value"].to_string();
        assert_eq!((cost("anthropic/claude-sonnet-4").as_str(), cost("gpt").as_str()), ("18.3", "0.6"));
        assert_eq!(prices.cost("gpt", &usage).unwrap().currency(), "USD");
    }

    #[test]
    fn a_price_of_nothing_is_free_and_a_model_that_is_not_in_the_file_has_none() {
        let text = "currency: USD\nmodels:\n  free: {input: 0, output: 0, currency: USD}\n";
        let prices = yaml::read(text, prices).unwrap();
        let cost =
            |model: &str| prices.cost(model, &Usage::reported(7, 7)).map(|cost| serde_json::to_value(cost).unwrap());
        assert_eq!(cost("free").unwrap()["value"], 0.0);
        assert_eq!(cost("dear"), None);
    }

    #[test]
    fn an_error_names_its_line() {
        let with = |entry: &str| format!("currency: USD\nmodels:\n  m: {{input: 3, output: 4}}\n  x: {entry}\n");
        let price = "a price must be a non-negative number";
        for (text, line, why) in [
            (with("{input: -1, output: 1}"), Some(4), price),
            (with("{input: .nan, output: 1}"), Some(4), price),
            (with("{input: .inf, output: 1}"), Some(4), price),
            (with("{input: much, output: 1}"), Some(4), price),
            (with("{input: 0.1234567, output: 1}"), Some(4), price),
            (with("{input: 1}"), Some(4), "`output` is missing"),
            (with("{input: 1, output: 1, thinking: 1}"), Some(4), "`thinking` is not a key here"),
            (with("3"), Some(4), "`x` must have the keys"),
            (with("{input: 1, output: 1, currency: EUR}"), Some(4), "in another currency than USD"),
            (with("{input: 1, output: 1, currency: 7}"), Some(4), "in another currency than USD"),
            (with("\n    input: 1\n    output: 1\n    currency: EUR"), Some(7), "convert them, or leave the model out"),
            (GOOD.replace("models:", "currency: EUR\nmodels:"), Some(2), ""),
            (GOOD.replace("'*'", "'a*b'"), Some(4), "only at its end"),
            (GOOD.replace("USD", "dollars"), Some(1), "three capital letters"),
            (GOOD.replace("USD", "7"), Some(1), "three capital letters"),
            (GOOD.replace("currency", "money"), Some(1), "`money` is not a key here"),
            ("currency: USD\nmodels: {}\n".to_owned(), Some(2), "at least one model"),
            ("currency: USD\nmodels:\n".to_owned(), Some(2), "at least one model"),
            ("currency: USD\n".to_owned(), Some(1), "`models` is missing"),
            (with("{input: 1, input: 2, output: 1}"), Some(4), ""),
            ("currency: USD\nmodels: [\n".to_owned(), None, "not valid YAML"),
            (String::new(), None, "the file must have"),
        ] {
            let bad = yaml::read(&text, prices).unwrap_err();
            assert!(bad.why.contains(why), "{text}: {bad}");
            assert!(line.is_none() || bad.line == line, "{text}: {bad}");
        }
    }
}
