//! What clients of ADK send: JSON with names in camelCase or in snake_case, and refusals in the form of its validation.
//!
//! # Invariants
//!
//! 1. A field that is not known is passed over, as ADK does. One that is known and of the wrong kind is refused, with its place.
//! 2. What is sent back of a refused request is short.

use axum::extract::{FromRequest, Request};
use serde_json::{Map, Value, json};

use super::valid;
use crate::Shared;
use crate::body::{depth, must_be_json, read};
use crate::problem::Problem;

/// How many bytes of a value that is refused are sent back.
const MAX_ECHO: usize = 512;

/// A request's body, which must be there.
pub(crate) struct Body(pub(crate) Value);

/// A request's body; nothing at all and `null` are the same.
pub(crate) struct MaybeBody(pub(crate) Option<Value>);

impl FromRequest<Shared> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, core: &Shared) -> Result<Self, Problem> {
        let body = MaybeBody::from_request(request, core).await?.0;
        body.map(Self).ok_or_else(|| invalid("missing", &[json!("body")], "Field required", &Value::Null))
    }
}

impl FromRequest<Shared> for MaybeBody {
    type Rejection = Problem;

    async fn from_request(request: Request, core: &Shared) -> Result<Self, Problem> {
        let kind = must_be_json(request.headers());
        let bytes = read(request, core).await?;
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        kind?;
        let max = core.options.max_depth;
        if depth(&bytes) > max {
            let detail = format!("the JSON is nested more than {max} deep: flatten it");
            return Err(Problem::bad_request("json-too-deep", detail));
        }
        let value = valid::json(&bytes)?;
        Ok(Self(Some(value).filter(|value| !value.is_null())))
    }
}

/// A value that is refused, in the form of ADK's validation.
pub(crate) fn invalid(kind: &str, place: &[Value], words: &str, input: &Value) -> Problem {
    let input = if input.to_string().len() > MAX_ECHO { &Value::Null } else { input };
    valid::refuse(vec![json!({"type": kind, "loc": place, "msg": words, "input": input})])
}

/// An object that a client sent, and its place in the request.
pub(crate) struct Object<'a> {
    fields: &'a Map<String, Value>,
    whole: &'a Value,
    place: Vec<Value>,
}

impl<'a> Object<'a> {
    /// The body itself.
    pub(crate) fn body(value: &'a Value) -> Result<Self, Problem> {
        Self::at(value, vec![json!("body")])
    }

    /// An object at a place.
    pub(crate) fn at(value: &'a Value, place: Vec<Value>) -> Result<Self, Problem> {
        let words = "Input should be a valid dictionary or object to extract fields from";
        let Value::Object(fields) = value else { return Err(invalid("model_attributes_type", &place, words, value)) };
        Ok(Self { fields, whole: value, place })
    }

    /// A field by its name in camelCase, or else by the same in snake_case; nothing if it is `null`.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        let value = self.fields.get(name).or_else(|| self.fields.get(&snake(name)));
        value.filter(|value| !value.is_null())
    }

    /// Where a field is.
    pub(crate) fn place(&self, name: &str) -> Vec<Value> {
        let mut place = self.place.clone();
        place.push(json!(name));
        place
    }

    /// The refusal of a request that lacks a field.
    pub(crate) fn missing(&self, name: &str) -> Problem {
        invalid("missing", &self.place(name), "Field required", self.whole)
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, Problem> {
        self.of_kind(name, Value::as_str, "string_type", "Input should be a valid string")
    }

    pub(crate) fn map(&self, name: &str) -> Result<Option<&'a Map<String, Value>>, Problem> {
        self.of_kind(name, Value::as_object, "dict_type", "Input should be a valid dictionary")
    }

    pub(crate) fn list(&self, name: &str) -> Result<Option<&'a Vec<Value>>, Problem> {
        self.of_kind(name, Value::as_array, "list_type", "Input should be a valid list")
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        self.of_kind(name, Value::as_bool, "bool_type", "Input should be a valid boolean")
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, Problem> {
        self.of_kind(name, Value::as_f64, "float_type", "Input should be a valid number")
    }

    /// An object within this one.
    pub(crate) fn object(&self, name: &str) -> Result<Option<Object<'a>>, Problem> {
        self.get(name).map(|value| Self::at(value, self.place(name))).transpose()
    }

    /// The objects of a list within this one.
    pub(crate) fn objects(&self, name: &str) -> Result<Option<Vec<Object<'a>>>, Problem> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        let at = |(number, value)| {
            let mut place = self.place(name);
            place.push(json!(number));
            Self::at(value, place)
        };
        list.iter().enumerate().map(at).collect::<Result<_, _>>().map(Some)
    }

    /// A field of some kind; if it is of another, it is refused in these words.
    pub(crate) fn of_kind<T>(
        &self,
        name: &str,
        take: impl Fn(&'a Value) -> Option<T>,
        kind: &str,
        words: &str,
    ) -> Result<Option<T>, Problem> {
        let Some(value) = self.get(name) else { return Ok(None) };
        take(value).map(Some).ok_or_else(|| invalid(kind, &self.place(name), words, value))
    }
}

fn snake(camel: &str) -> String {
    let lower = |c: char| if c.is_ascii_uppercase() { format!("_{}", c.to_ascii_lowercase()) } else { c.to_string() };
    camel.chars().map(lower).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_either_of_its_names_and_null_is_nothing() {
        let body = json!({"state_delta": {"a": 1}, "sessionId": null});
        let object = Object::body(&body).unwrap();
        assert_eq!(object.map("stateDelta").unwrap().unwrap().len(), 1);
        assert_eq!(object.text("sessionId").unwrap(), None);
    }

    #[test]
    fn what_is_refused_is_named_with_its_place() {
        let body = json!({"events": [{"author": 5}]});
        let events = Object::body(&body).unwrap().objects("events").unwrap().unwrap();
        let problem = events.first().unwrap().text("author").unwrap_err().to_json();
        let expected = json!([{"type": "string_type", "loc": ["body", "events", 0, "author"],
            "msg": "Input should be a valid string", "input": 5}]);
        assert_eq!(problem.get("detail"), Some(&expected));
    }
}
