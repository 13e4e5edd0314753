//! What a client sent, checked as ADK's server checks it: names in camelCase or in snake_case, and refusals in the form of its
//! validation.
//!
//! # Invariants
//!
//! 1. All that is wrong is told at once, field by field, and nothing of such a request is used.
//! 2. A field that is not known is passed over, as ADK does, but where it forbids that. One that is known and of the wrong kind
//!    is refused, with its place.
//! 3. What is sent back of a refused request is short.

use andon_server::dialect::Problem;
use std::cell::RefCell;

use serde_json::{Map, Value, json};

/// How many bytes of what is wrong are sent back: whoever sent it has it.
const MAX_ECHO: usize = 512;

/// Reads JSON; what is not JSON is refused in the form of ADK's validation.
pub(crate) fn json(bytes: &[u8]) -> Result<Value, Problem> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Problem::bad_request("bad-json", "There was an error parsing the body"))?;
    serde_json::from_str(text).map_err(|error| {
        let why = json!({"error": error.to_string()});
        refuse(vec![
            json!({"type": "json_invalid", "loc": ["body"], "msg": "JSON decode error", "input": {}, "ctx": why}),
        ])
    })
}

/// The refusal of a request in which these things are wrong.
fn refuse(wrong: Vec<Value>) -> Problem {
    Problem::unprocessable("bad-field", "the request is not what it should be").with("detail", wrong)
}

/// The refusal of a request for one thing that is wrong outside of any object: the body as a whole, or something in the address.
pub(crate) fn invalid(kind: &str, place: &[Value], words: &str, input: &Value) -> Problem {
    let wrong = Wrong::default();
    wrong.note(kind, place, words, input);
    refuse(wrong.0.into_inner())
}

/// What is left to say where something is wrong that was noted: that is told in its place.
pub(crate) fn noted() -> Problem {
    refuse(Vec::new())
}

/// Reads a body that is an object. If anything was wrong with it, all of that is told, and whatever was read is not used.
pub(crate) fn read<T>(body: &Value, read: impl FnOnce(&Fields<'_>) -> Result<T, Problem>) -> Result<T, Problem> {
    let wrong = Wrong::default();
    let told = match Fields::of(body, vec![json!("body")], &wrong) {
        Some(fields) => read(&fields),
        None => Err(noted()),
    };
    let wrong = wrong.0.into_inner();
    if wrong.is_empty() { told } else { Err(refuse(wrong)) }
}

/// What is wrong with a body, as far as it was looked at.
#[derive(Debug, Default)]
struct Wrong(RefCell<Vec<Value>>);

impl Wrong {
    /// One thing that is wrong, and where.
    fn note(&self, kind: &str, place: &[Value], words: &str, input: &Value) {
        let is_short = serde_json::to_string(input).is_ok_and(|text| text.len() <= MAX_ECHO);
        let input = if is_short { input } else { &Value::Null };
        self.0.borrow_mut().push(json!({"type": kind, "loc": place, "msg": words, "input": input}));
    }
}

/// An object whose fields are checked. Names are in camelCase; the same in snake_case is taken, too.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    fields: &'a Map<String, Value>,
    whole: &'a Value,
    /// Where it stands in the request.
    place: Vec<Value>,
    wrong: &'a Wrong,
}

impl<'a> Fields<'a> {
    fn of(whole: &'a Value, place: Vec<Value>, wrong: &'a Wrong) -> Option<Self> {
        if let Value::Object(fields) = whole {
            return Some(Self { fields, whole, place, wrong });
        }
        let words = "Input should be a valid dictionary or object to extract fields from";
        wrong.note("model_attributes_type", &place, words, whole);
        None
    }

    /// Something is wrong with a field.
    pub(crate) fn refuse(&self, name: &str, kind: &str, words: &str, input: &Value) {
        let place: Vec<Value> = self.place.iter().cloned().chain([json!(name)]).collect();
        self.wrong.note(kind, &place, words, input);
    }

    /// Whether anything was wrong so far, anywhere in the body.
    pub(crate) fn has_trouble(&self) -> bool {
        !self.wrong.0.borrow().is_empty()
    }

    /// What is there under a name; null is nothing.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.get_any(name).filter(|value| !value.is_null())
    }

    fn get_any(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name).or_else(|| self.fields.get(&snake(name)))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A text that has to be there.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        match self.get_any(name) {
            None => self.missing(name),
            Some(Value::String(text)) => return Some(text),
            Some(other) => self.refuse(name, "string_type", "Input should be a valid string", other),
        }
        None
    }

    /// A field that has to be there is not.
    pub(crate) fn missing(&self, name: &str) {
        self.refuse(name, "missing", "Field required", self.whole);
    }

    /// A text that may be there.
    pub(crate) fn some_text(&self, name: &str) -> Option<&'a str> {
        if self.has(name) { self.text(name) } else { None }
    }

    /// Yes or no, as ADK's server takes it; no if nothing is said.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        let Some(value) = self.get_any(name) else { return false };
        let said = match value {
            Value::Bool(said) => Some(*said),
            Value::Number(number) if number.as_f64() == Some(1.0) => Some(true),
            Value::Number(number) if number.as_f64() == Some(0.0) => Some(false),
            Value::String(word) => match word.to_ascii_lowercase().as_str() {
                "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
                "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
                _ => None,
            },
            _ => None,
        };
        said.unwrap_or_else(|| {
            let (kind, words) = match value {
                Value::Number(_) | Value::String(_) => {
                    ("bool_parsing", "Input should be a valid boolean, unable to interpret input")
                }
                _ => ("bool_type", "Input should be a valid boolean"),
            };
            self.refuse(name, kind, words, value);
            false
        })
    }

    /// As that, of one for which null is nothing.
    pub(crate) fn is_some_set(&self, name: &str) -> bool {
        self.has(name) && self.is_set(name)
    }

    /// A number that may be there.
    pub(crate) fn some_number(&self, name: &str) -> Option<f64> {
        self.some(name, Value::as_f64, "float_type", "Input should be a valid number")
    }

    /// A map that may be there.
    pub(crate) fn map(&self, name: &str) -> Option<&'a Map<String, Value>> {
        self.some(name, Value::as_object, "dict_type", "Input should be a valid dictionary")
    }

    /// A map that has to be there.
    pub(crate) fn needed_map(&self, name: &str) -> Option<&'a Map<String, Value>> {
        if !self.has(name) {
            self.missing(name);
        }
        self.map(name)
    }

    /// A list of anything that may be there.
    pub(crate) fn list(&self, name: &str) -> Option<&'a Vec<Value>> {
        self.some(name, Value::as_array, "list_type", "Input should be a valid list")
    }

    /// What is there under a name, if it is of this kind.
    pub(crate) fn some<T>(
        &self,
        name: &str,
        take: impl Fn(&'a Value) -> Option<T>,
        kind: &str,
        words: &str,
    ) -> Option<T> {
        let value = self.get(name)?;
        let taken = take(value);
        if taken.is_none() {
            self.refuse(name, kind, words, value);
        }
        taken
    }

    /// An object that may be there.
    pub(crate) fn object(&self, name: &str) -> Option<Fields<'a>> {
        let place = self.place.iter().cloned().chain([json!(name)]).collect();
        Fields::of(self.get(name)?, place, self.wrong)
    }

    /// An object that has to be there.
    pub(crate) fn needed(&self, name: &str) -> Option<Fields<'a>> {
        if !self.has(name) {
            self.missing(name);
        }
        self.object(name)
    }

    /// A list that may be there, its items as objects.
    pub(crate) fn objects(&self, name: &str) -> Vec<Fields<'a>> {
        let item = |(index, item)| {
            let place = self.place.iter().cloned().chain([json!(name), json!(index)]).collect();
            Fields::of(item, place, self.wrong)
        };
        self.list(name).into_iter().flatten().enumerate().filter_map(item).collect()
    }

    /// Nothing but these fields may be there.
    pub(crate) fn nothing_but(&self, names: &[&str]) {
        for (key, value) in self.fields {
            if !names.iter().any(|name| key == name || *key == snake(name)) {
                self.refuse(key, "extra_forbidden", "Extra inputs are not permitted", value);
            }
        }
    }
}

fn snake(camel: &str) -> String {
    let lower = |c: char| if c.is_ascii_uppercase() { format!("_{}", c.to_ascii_lowercase()) } else { c.to_string() };
    camel.chars().map(lower).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_is_told_with_its_place() {
        let told = json(b"{\"appName\":x").unwrap_err().to_json();
        let why = json!({"error": "expected value at line 1 column 12"});
        let expected =
            json!([{"type": "json_invalid", "loc": ["body"], "msg": "JSON decode error", "input": {}, "ctx": why}]);
        assert_eq!(told["detail"], expected);
    }

    #[test]
    fn a_field_is_found_by_either_of_its_names_and_null_is_nothing() {
        let body = json!({"state_delta": {"a": 1}, "sessionId": null});
        let found =
            read(&body, |fields| Ok((fields.map("stateDelta").cloned(), fields.some_text("sessionId").is_some())));
        let (delta, has_session) = found.unwrap();
        assert_eq!((delta.unwrap().len(), has_session), (1, false));
    }

    #[test]
    fn what_is_refused_is_named_with_its_place_and_all_of_it_at_once() {
        let body = json!({"events": [{"author": 5}, 7], "long": ["x".repeat(600)]});
        let told = read(&body, |fields| {
            for event in &fields.objects("events") {
                let _ = event.some_text("author");
            }
            fields.map("long");
            Ok(())
        });
        let expected = json!([
            {"type": "model_attributes_type", "loc": ["body", "events", 1], "input": 7,
                "msg": "Input should be a valid dictionary or object to extract fields from"},
            {"type": "string_type", "loc": ["body", "events", 0, "author"],
                "msg": "Input should be a valid string", "input": 5},
            {"type": "dict_type", "loc": ["body", "long"], "msg": "Input should be a valid dictionary", "input": null},
        ]);
        assert_eq!(told.unwrap_err().to_json()["detail"], expected);
    }
}
