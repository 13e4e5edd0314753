//! Makes arguments for a tool from the prompt and the tool's schema: good enough for practice.

use serde_json::{Map, Value, json};

/// How deep it looks into a schema; anything deeper gets `null`.
const DEPTH: usize = 4;

/// What the prompt offers for arguments. Each number is used once, in order.
pub(super) struct PromptValues<'a> {
    prompt: &'a str,
    numbers: std::vec::IntoIter<i64>,
}

impl<'a> PromptValues<'a> {
    pub(super) fn new(prompt: &'a str) -> Self {
        Self { prompt, numbers: numbers(prompt).into_iter() }
    }

    /// The arguments of one call.
    pub(super) fn arguments(&mut self, schema: &Value) -> Value {
        self.object(schema, DEPTH)
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return json!({}) };
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map_or_else(Vec::new, |names| names.iter().filter_map(Value::as_str).collect());
        let mut arguments = Map::new();
        for (name, property) in properties {
            let value = match self.wanted(name, property) {
                None if required.contains(&name.as_str()) => Some(self.made_up(property, depth)),
                wanted => wanted,
            };
            arguments.extend(value.map(|value| (name.clone(), value)));
        }
        Value::Object(arguments)
    }

    /// A value that the prompt itself asks for.
    fn wanted(&mut self, name: &str, schema: &Value) -> Option<Value> {
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            let lower = self.prompt.to_lowercase();
            let named = |choice: &&Value| choice.as_str().is_some_and(|word| lower.contains(&word.to_lowercase()));
            return choices.iter().find(named).cloned();
        }
        match type_of(schema) {
            "integer" | "number" => self.numbers.next().map(|number| json!(within(schema, number))),
            "boolean" => {
                let name = name.to_lowercase();
                let says_so = |word: String| word.starts_with(&name);
                super::words::plain(self.prompt).any(says_so).then_some(Value::Bool(true))
            }
            "string" => quoted(self.prompt).map(|text| json!(shortened(schema, text))),
            _ => None,
        }
    }

    /// A value that the tool requires, but the prompt does not give.
    fn made_up(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(value) = schema.get("default").or_else(|| schema.get("const")) {
            return value.clone();
        }
        if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|choices| choices.first()) {
            return first.clone();
        }
        match type_of(schema) {
            "string" => json!(shortened(schema, self.prompt.trim())),
            "integer" | "number" => json!(within(schema, 3)),
            "boolean" => json!(true),
            "array" if depth > 0 => match schema.get("items") {
                Some(items) => json!([self.made_up(items, depth - 1)]),
                None => json!([]),
            },
            "object" if depth > 0 => self.object(schema, depth - 1),
            _ => Value::Null,
        }
    }
}

/// Arguments that consist of one text: it goes to the first required text, or else to the first optional one.
pub(super) fn spelled_out(schema: &Value, text: &str) -> Option<Value> {
    let properties = schema.get("properties")?.as_object()?;
    let is_text = |name: &&str| properties.get(*name).is_some_and(|property| type_of(property) == "string");
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let name = required.chain(properties.keys().map(String::as_str)).find(is_text)?;
    Some(json!({ name: text }))
}

/// The first type that a schema allows.
fn type_of(schema: &Value) -> &str {
    let kind = schema.get("type");
    let first = kind.and_then(Value::as_array).and_then(|kinds| kinds.first());
    first.or(kind).and_then(Value::as_str).unwrap_or_default()
}

fn within(schema: &Value, number: i64) -> i64 {
    let limit = |name: &str| schema.get(name).and_then(Value::as_i64);
    let number = limit("minimum").map_or(number, |minimum| number.max(minimum));
    limit("maximum").map_or(number, |maximum| number.min(maximum))
}

fn shortened<'t>(schema: &Value, text: &'t str) -> &'t str {
    let longest = schema.get("maxLength").and_then(Value::as_u64).and_then(|length| usize::try_from(length).ok());
    let end = longest.and_then(|longest| text.char_indices().nth(longest)).map_or(text.len(), |(byte, _)| byte);
    text.get(..end).unwrap_or(text)
}

/// The text in double quotes, or after a colon.
fn quoted(prompt: &str) -> Option<&str> {
    let in_quotes = prompt.split_once('"').and_then(|(_, rest)| rest.split_once('"')).map(|(text, _)| text);
    let behind_colon = prompt.split_once(": ").map(|(_, text)| text.trim());
    in_quotes.or(behind_colon).filter(|text| !text.is_empty())
}

/// The numbers of a prompt in order, in digits or as words up to twelve.
fn numbers(prompt: &str) -> Vec<i64> {
    const WORDS: [&str; 12] =
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    let mut numbers = Vec::new();
    for word in super::words::plain(prompt) {
        if let Some(place) = WORDS.iter().position(|name| *name == word) {
            numbers.push(place as i64 + 1);
        }
        numbers.extend(word.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<i64>().ok()));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(prompt: &str, schema: Value) -> Value {
        PromptValues::new(prompt).arguments(&schema)
    }

    #[test]
    fn numbers_in_the_prompt_are_used_in_order_and_kept_within_limits() {
        let schema = json!({"type": "object", "properties": {
            "count": {"type": "integer", "maximum": 10},
            "sides": {"type": "integer"},
        }});
        assert_eq!(arguments("roll two dice", schema.clone()), json!({"count": 2}));
        assert_eq!(arguments("roll 99d20", schema.clone()), json!({"count": 10, "sides": 20}));
        assert_eq!(arguments("roll", schema), json!({}));
    }

    #[test]
    fn a_required_value_is_made_up_and_fits_its_schema() {
        let schema = json!({
            "type": "object",
            "properties": {
                "colour": {"enum": ["red", "green"]},
                "deep": {"type": "object", "properties": {"x": {"type": ["integer", "null"]}}, "required": ["x"]},
                "list": {"type": "array", "items": {"type": "string", "maxLength": 4}},
                "loud": {"type": "boolean"},
            },
            "required": ["colour", "deep", "list"],
        });
        let made_up = arguments("paint it", schema.clone());
        assert_eq!(made_up, json!({"colour": "red", "deep": {"x": 3}, "list": ["pain"]}));
        assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&made_up));
        let named = arguments("paint it green and loudly", schema);
        assert_eq!((&named["colour"], &named["loud"]), (&json!("green"), &json!(true)));
    }

    #[test]
    fn a_text_comes_from_quotes_or_after_a_colon_or_is_the_whole_prompt() {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        assert_eq!(arguments("note \"buy milk\" please", schema.clone()), json!({"text": "buy milk"}));
        assert_eq!(arguments("write a note: call Ada", schema.clone()), json!({"text": "call Ada"}));
        assert_eq!(arguments("write a note", schema), json!({"text": "write a note"}));
    }
}
