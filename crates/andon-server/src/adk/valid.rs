//! What a client sent, checked as ADK's server checks it: all that is wrong is told at once, field by field.

use serde_json::error::Category;
use serde_json::{Map, Value, json};

use crate::problem::Problem;

/// How many bytes of what is wrong are sent back: whoever sent it has it.
const MAX_ECHO: usize = 512;

/// Reads JSON; what is none is refused as ADK's server does it.
pub(crate) fn json(bytes: &[u8]) -> Result<Value, Problem> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Problem::bad_request("bad-json", "There was an error parsing the body"))?;
    serde_json::from_str(text).map_err(|error| {
        let place = offset(text, error.line(), error.column());
        let why = json!({"error": words(&error)});
        refuse(vec![json!({"type": "json_invalid", "loc": ["body", place], "msg": "JSON decode error", "input": {}, "ctx": why})])
    })
}

/// How many characters stand before a line's column.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let end = text.floor_char_boundary(before.saturating_add(column.saturating_sub(1)));
    text.get(..end).map_or(0, |before| before.chars().count())
}

/// What is wrong, in the words of ADK's server.
fn words(error: &serde_json::Error) -> &'static str {
    const KNOWN: [(&str, &str); 8] = [
        ("key must be a string", "Expecting property name enclosed in double quotes"),
        ("trailing comma", "Expecting property name enclosed in double quotes"),
        ("expected `,`", "Expecting ',' delimiter"),
        ("expected `:`", "Expecting ':' delimiter"),
        ("trailing characters", "Extra data"),
        ("EOF while parsing a string", "Unterminated string starting at"),
        ("control character", "Invalid control character at"),
        ("invalid escape", "Invalid \\escape"),
    ];
    let told = error.to_string();
    let known = KNOWN.iter().find(|(ours, _)| error.classify() != Category::Data && told.contains(ours));
    known.map_or("Expecting value", |(_, theirs)| theirs)
}

/// The refusal of a request in which these things are wrong.
pub(crate) fn refuse(errors: Vec<Value>) -> Problem {
    Problem::unprocessable("bad-field", "the request is not what it should be").with("detail", errors)
}

/// One thing that is wrong with one field.
fn wrong(kind: &str, loc: &[Value], msg: &str, input: &Value) -> Value {
    let loc: Vec<Value> = [json!("body")].into_iter().chain(loc.iter().cloned()).collect();
    let is_short = serde_json::to_string(input).is_ok_and(|text| text.len() <= MAX_ECHO);
    let input = if is_short { input } else { &Value::Null };
    json!({"type": kind, "loc": loc, "msg": msg, "input": input})
}

/// A field's name as ADK writes it, and as Python does. Both are taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name(pub(crate) &'static str, pub(crate) &'static str);

impl Name {
    /// What an object holds under this name; null is nothing.
    fn find<'a>(&self, fields: &'a Map<String, Value>) -> Option<&'a Value> {
        self.find_any(fields).filter(|value| !value.is_null())
    }

    fn find_any<'a>(&self, fields: &'a Map<String, Value>) -> Option<&'a Value> {
        fields.get(self.0).or_else(|| fields.get(self.1))
    }
}

/// An object whose fields are checked.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    fields: &'a Map<String, Value>,
    whole: &'a Value,
    /// Where it stands in the body.
    place: Vec<Value>,
}

impl<'a> Fields<'a> {
    /// A body, or what stands at a place in it, as an object.
    pub(crate) fn of(whole: &'a Value, place: Vec<Value>, errors: &mut Vec<Value>) -> Option<Self> {
        if let Value::Object(fields) = whole {
            return Some(Self { fields, whole, place });
        }
        let msg = "Input should be a valid dictionary or object to extract fields from";
        errors.push(wrong("model_attributes_type", &place, msg, whole));
        None
    }

    pub(crate) fn has(&self, name: Name) -> bool {
        name.find(self.fields).is_some()
    }

    fn at(&self, name: Name) -> Vec<Value> {
        self.place.iter().cloned().chain([json!(name.0)]).collect()
    }

    /// A text that has to be there.
    pub(crate) fn text(&self, name: Name, errors: &mut Vec<Value>) -> Option<String> {
        match name.find_any(self.fields) {
            None => errors.push(wrong("missing", &self.at(name), "Field required", self.whole)),
            Some(Value::String(text)) => return Some(text.clone()),
            Some(other) => errors.push(wrong("string_type", &self.at(name), "Input should be a valid string", other)),
        }
        None
    }

    /// A text that may be there.
    pub(crate) fn some_text(&self, name: Name, errors: &mut Vec<Value>) -> Option<String> {
        if self.has(name) { self.text(name, errors) } else { None }
    }

    /// Yes or no, as ADK's server takes it; no if nothing is said.
    pub(crate) fn is_set(&self, name: Name, errors: &mut Vec<Value>) -> bool {
        let Some(value) = name.find_any(self.fields) else { return false };
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
            let (kind, msg) = match value {
                Value::Number(_) | Value::String(_) => {
                    ("bool_parsing", "Input should be a valid boolean, unable to interpret input")
                }
                _ => ("bool_type", "Input should be a valid boolean"),
            };
            errors.push(wrong(kind, &self.at(name), msg, value));
            false
        })
    }

    /// A map that may be there.
    pub(crate) fn map(&self, name: Name, errors: &mut Vec<Value>) -> Option<Map<String, Value>> {
        match name.find(self.fields)? {
            Value::Object(map) => Some(map.clone()),
            other => {
                errors.push(wrong("dict_type", &self.at(name), "Input should be a valid dictionary", other));
                None
            }
        }
    }

    /// An object that may be there.
    pub(crate) fn object(&self, name: Name, errors: &mut Vec<Value>) -> Option<Fields<'a>> {
        Fields::of(name.find(self.fields)?, self.at(name), errors)
    }

    /// An object that has to be there.
    pub(crate) fn needed(&self, name: Name, errors: &mut Vec<Value>) -> Option<Fields<'a>> {
        if !self.has(name) {
            errors.push(wrong("missing", &self.at(name), "Field required", self.whole));
        }
        self.object(name, errors)
    }

    /// A list that may be there, its items as objects.
    pub(crate) fn list(&self, name: Name, errors: &mut Vec<Value>) -> Vec<Fields<'a>> {
        match name.find(self.fields) {
            None => Vec::new(),
            Some(Value::Array(items)) => {
                let place = self.at(name);
                let item = |(index, item)| {
                    let place = place.iter().cloned().chain([json!(index)]).collect();
                    Fields::of(item, place, errors)
                };
                items.iter().enumerate().filter_map(item).collect()
            }
            Some(other) => {
                errors.push(wrong("list_type", &self.at(name), "Input should be a valid list", other));
                Vec::new()
            }
        }
    }

    /// Nothing but these fields may be there.
    pub(crate) fn nothing_but(&self, names: &[Name], errors: &mut Vec<Value>) {
        for (key, value) in self.fields {
            if !names.iter().any(|name| key == name.0 || key == name.1) {
                let place: Vec<Value> = self.place.iter().cloned().chain([json!(key)]).collect();
                errors.push(wrong("extra_forbidden", &place, "Extra inputs are not permitted", value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_is_told_with_its_place() {
        for (text, place, why) in [
            ("{\"appName\":x", 11, "Expecting value"),
            ("", 0, "Expecting value"),
            ("{a", 1, "Expecting property name enclosed in double quotes"),
            ("{\"é\" 1}", 5, "Expecting ':' delimiter"),
            ("{} {}", 3, "Extra data"),
        ] {
            let told = json(text.as_bytes()).unwrap_err().to_json();
            let expected = json!([{"type": "json_invalid", "loc": ["body", place], "msg": "JSON decode error", "input": {}, "ctx": {"error": why}}]);
            assert_eq!(told["detail"], expected, "{text}");
        }
    }
}
