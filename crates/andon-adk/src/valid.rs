//! Checks what a client sent as ADK's server does: names in camelCase or snake_case, and refusals in the form of its validation
//! errors.
//!
//! # Invariants
//!
//! 1. All errors are reported at once, field by field, and nothing of an invalid request is used.
//! 2. Unknown fields are ignored, as in ADK, except where ADK forbids them. A known field of the wrong type is refused, with its
//!    location.
//! 3. Only a short part of an invalid request is echoed.

use andon_server::dialect::Problem;
use std::cell::RefCell;

use serde_json::{Map, Value, json};

/// The most bytes of invalid input that are echoed: the sender has the rest.
const MAX_ECHO: usize = 512;

/// Reads JSON; invalid JSON is refused in the form of ADK's validation errors.
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

/// The refusal of a request with these errors.
fn refuse(wrong: Vec<Value>) -> Problem {
    Problem::unprocessable("bad-field", "the request is not valid").with("detail", wrong)
}

/// The refusal of a request for one error outside of any object: in the body as a whole, or in the address.
pub(crate) fn invalid(kind: &str, place: &[Value], words: &str, input: &Value) -> Problem {
    let wrong = Wrong::default();
    wrong.note(kind, place, words, input);
    refuse(wrong.0.into_inner())
}

/// A placeholder for errors that were noted: the response lists those instead.
pub(crate) fn noted() -> Problem {
    refuse(Vec::new())
}

/// Reads a body that is an object. If it has any errors, all of them are reported, and the result is not used.
pub(crate) fn read<T>(body: &Value, read: impl FnOnce(&Fields<'_>) -> Result<T, Problem>) -> Result<T, Problem> {
    let wrong = Wrong::default();
    let told = match Fields::of(body, vec![json!("body")], &wrong) {
        Some(fields) => read(&fields),
        None => Err(noted()),
    };
    let wrong = wrong.0.into_inner();
    if wrong.is_empty() { told } else { Err(refuse(wrong)) }
}

/// The errors found in a body so far.
#[derive(Debug, Default)]
struct Wrong(RefCell<Vec<Value>>);

impl Wrong {
    /// Notes an error and its location.
    fn note(&self, kind: &str, place: &[Value], words: &str, input: &Value) {
        let is_short = serde_json::to_string(input).is_ok_and(|text| text.len() <= MAX_ECHO);
        let input = if is_short { input } else { &Value::Null };
        self.0.borrow_mut().push(json!({"type": kind, "loc": place, "msg": words, "input": input}));
    }
}

/// An object whose fields are checked. Names are given in camelCase; snake_case is accepted, too.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    fields: &'a Map<String, Value>,
    whole: &'a Value,
    /// Its location in the request.
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

    /// Notes an error in a field.
    pub(crate) fn refuse(&self, name: &str, kind: &str, words: &str, input: &Value) {
        let place: Vec<Value> = self.place.iter().cloned().chain([json!(name)]).collect();
        self.wrong.note(kind, &place, words, input);
    }

    /// Whether any error was found so far, anywhere in the body.
    pub(crate) fn has_errors(&self) -> bool {
        !self.wrong.0.borrow().is_empty()
    }

    /// The value of a field; null counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.get_any(name).filter(|value| !value.is_null())
    }

    fn get_any(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name).or_else(|| self.fields.get(&snake(name)))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A required string.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        match self.get_any(name) {
            None => self.missing(name),
            Some(Value::String(text)) => return Some(text),
            Some(other) => self.refuse(name, "string_type", "Input should be a valid string", other),
        }
        None
    }

    /// Notes that a required field is missing.
    pub(crate) fn missing(&self, name: &str) {
        self.refuse(name, "missing", "Field required", self.whole);
    }

    /// An optional string.
    pub(crate) fn some_text(&self, name: &str) -> Option<&'a str> {
        if self.has(name) { self.text(name) } else { None }
    }

    /// A boolean in any form that ADK's server accepts; false if absent.
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

    /// The same, for a field in which null counts as absent.
    pub(crate) fn is_some_set(&self, name: &str) -> bool {
        self.has(name) && self.is_set(name)
    }

    /// An optional number.
    pub(crate) fn some_number(&self, name: &str) -> Option<f64> {
        self.some(name, Value::as_f64, "float_type", "Input should be a valid number")
    }

    /// An optional map.
    pub(crate) fn map(&self, name: &str) -> Option<&'a Map<String, Value>> {
        self.some(name, Value::as_object, "dict_type", "Input should be a valid dictionary")
    }

    /// A required map.
    pub(crate) fn needed_map(&self, name: &str) -> Option<&'a Map<String, Value>> {
        if !self.has(name) {
            self.missing(name);
        }
        self.map(name)
    }

    /// An optional list of anything.
    pub(crate) fn list(&self, name: &str) -> Option<&'a Vec<Value>> {
        self.some(name, Value::as_array, "list_type", "Input should be a valid list")
    }

    /// The value of a field, if it has this type.
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

    /// An optional object.
    pub(crate) fn object(&self, name: &str) -> Option<Fields<'a>> {
        let place = self.place.iter().cloned().chain([json!(name)]).collect();
        Fields::of(self.get(name)?, place, self.wrong)
    }

    /// A required object.
    pub(crate) fn needed(&self, name: &str) -> Option<Fields<'a>> {
        if !self.has(name) {
            self.missing(name);
        }
        self.object(name)
    }

    /// An optional list of objects.
    pub(crate) fn objects(&self, name: &str) -> Vec<Fields<'a>> {
        let item = |(index, item)| {
            let place = self.place.iter().cloned().chain([json!(name), json!(index)]).collect();
            Fields::of(item, place, self.wrong)
        };
        self.list(name).into_iter().flatten().enumerate().filter_map(item).collect()
    }

    /// Notes an error for every field but these.
    pub(crate) fn forbid_others(&self, names: &[&str]) {
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
    fn invalid_json_is_reported_with_its_position() {
        let told = json(b"{\"appName\":x").unwrap_err().to_json();
        let why = json!({"error": "expected value at line 1 column 12"});
        let expected =
            json!([{"type": "json_invalid", "loc": ["body"], "msg": "JSON decode error", "input": {}, "ctx": why}]);
        assert_eq!(told["detail"], expected);
    }

    #[test]
    fn a_field_is_found_by_either_of_its_names_and_null_counts_as_absent() {
        let body = json!({"state_delta": {"a": 1}, "sessionId": null});
        let found =
            read(&body, |fields| Ok((fields.map("stateDelta").cloned(), fields.some_text("sessionId").is_some())));
        let (delta, has_session) = found.unwrap();
        assert_eq!((delta.unwrap().len(), has_session), (1, false));
    }

    #[test]
    fn all_errors_are_reported_with_their_location() {
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
