//! Checks whether a tool accepts a call's arguments.
//!
//! A tool's schema is read once, when its agent is built, into [`Rules`]; arguments are then checked against the rules. The rules
//! cover schemas that are derived from Rust types, and a little more. Any other schema needs the feature `json-schema`, which brings a
//! validator for all of JSON Schema.
//!
//! # Invariants
//!
//! 1. Nothing is ignored: a keyword that the rules do not know is an error when the agent is built, unless it is only descriptive.
//! 2. Where the rules can be read, they decide, whatever features are on, and their verdict is that of JSON Schema 2020-12.
//! 3. A check ends, and soon: no rule refers back to itself without going deeper into the arguments, and the steps are counted.

#[cfg(test)]
mod agreement;
mod check;
mod read;
mod rules;
mod same;

use serde_json::Value;

use self::check::check;
#[cfg(feature = "json-schema")]
use self::read::Unread;
use self::read::read;
use self::rules::Rules;

/// Checks the arguments of a tool's calls.
pub(crate) enum Validator {
    /// By our own rules.
    Rules(Rules),
    /// By all of JSON Schema.
    #[cfg(feature = "json-schema")]
    Full(Box<jsonschema::Validator>),
}

impl Validator {
    /// Reads a schema. `Err` says what is wrong with it, and what to do.
    pub(crate) fn of(schema: &Value) -> Result<Self, String> {
        match read(schema) {
            Ok(rules) => Ok(Self::Rules(rules)),
            #[cfg(feature = "json-schema")]
            Err(Unread::Unknown { .. }) => {
                let full = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
                Ok(Self::Full(Box::new(full)))
            }
            Err(unread) => Err(unread.to_string()),
        }
    }

    /// What is wrong with these arguments and where, in words for the model; `None` if nothing is.
    pub(crate) fn objection(&self, arguments: &Value) -> Option<String> {
        let (place, why) = match self {
            Self::Rules(rules) => check(rules, arguments).err()?,
            #[cfg(feature = "json-schema")]
            Self::Full(full) => {
                let error = full.validate(arguments).err()?;
                (error.instance_path().to_string(), error.to_string())
            }
        };
        let place = if place.is_empty() { "the arguments".to_owned() } else { place };
        Some(format!("At {place}: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read::Unread;
    use super::*;

    fn objection(schema: &Value, arguments: &Value) -> Option<String> {
        Validator::of(schema).unwrap().objection(arguments)
    }

    #[test]
    fn an_objection_says_where_and_what_in_words_that_a_model_can_act_on() {
        let schema = json!({
            "type": "object",
            "properties": {
                "unit": {"enum": ["kg", "lb"]},
                "count": {"type": "integer", "minimum": 1, "exclusiveMaximum": 10},
                "name": {"type": ["string", "null"], "minLength": 2, "maxLength": 3},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2, "uniqueItems": true},
                "at": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
                "none": false,
            },
            "required": ["unit"],
            "additionalProperties": false,
            "$defs": {
                "Point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"], "minProperties": 1},
            },
        });
        let cases = [
            (json!([]), "At the arguments: must be an object, but is an array"),
            (json!({}), "At the arguments: the field \"unit\" is missing"),
            (json!({"unit": "g"}), "At /unit: must be \"kg\" or \"lb\", but is \"g\""),
            (json!({"unit": "kg", "count": 0}), "At /count: must be at least 1, but is 0"),
            (json!({"unit": "kg", "count": 10}), "At /count: must be less than 10, but is 10"),
            (json!({"unit": "kg", "count": "two"}), "At /count: must be an integer, but is \"two\""),
            (json!({"unit": "kg", "name": 7}), "At /name: must be a string or null, but is 7"),
            (json!({"unit": "kg", "name": "å"}), "At /name: must have at least 2 characters, but has 1"),
            (json!({"unit": "kg", "tags": ["a", "b", "c"]}), "At /tags: must have at most 2 items, but has 3"),
            (json!({"unit": "kg", "tags": ["a", "a"]}), "At /tags: must not have two equal items"),
            (json!({"unit": "kg", "tags": ["a", 1]}), "At /tags/1: must be a string, but is 1"),
            (json!({"unit": "kg", "at": {"x": "0"}}), "At /at/x: must be a number, but is \"0\""),
            (json!({"unit": "kg", "at": 7}), "At /at: must be an object, but is 7; or must be null, but is 7"),
            (json!({"unit": "kg", "none": 1}), "At /none: no value is allowed here"),
            (
                json!({"unit": "kg", "a/b": 1}),
                "At the arguments: there is no field \"a/b\"; the fields are at, count, name, none, tags, unit",
            ),
        ];
        for (arguments, expected) in cases {
            assert_eq!(objection(&schema, &arguments).as_deref(), Some(expected));
        }
        assert_eq!(objection(&schema, &json!({"unit": "kg", "count": 9.0, "name": null, "at": {"x": 1}})), None);
    }

    #[test]
    fn a_value_that_fits_two_forms_of_which_only_one_may_fit_is_refused() {
        let schema = json!({"oneOf": [{"type": "integer"}, {"minimum": 3}], "not": {"const": 0}});
        let at = |why: &str| Some(format!("At the arguments: {why}"));
        assert_eq!(objection(&schema, &json!(1)), None);
        assert_eq!(objection(&schema, &json!(3.5)), None);
        assert_eq!(objection(&schema, &json!(3)), at("matches more than one of the allowed forms"));
        assert_eq!(objection(&schema, &json!(0)), at("this value is not allowed"));
    }

    #[test]
    fn an_objection_is_about_the_form_that_was_meant() {
        let schema = json!({"oneOf": [
            {"enum": ["none", "all"]},
            {"properties": {"kind": {"const": "sum"}, "of": {"type": "array"}}, "required": ["kind", "of"], "type": "object"},
            {"properties": {"kind": {"const": "head"}, "lines": {"type": "integer"}}, "required": ["kind"], "type": "object"},
            {"type": "null"},
        ]});
        let cases = [
            (json!("some"), "At the arguments: must be \"none\" or \"all\", but is \"some\""),
            (json!({"kind": "sum"}), "At the arguments: the field \"of\" is missing"),
            (json!({"kind": "head", "lines": "3"}), "At /lines: must be an integer, but is \"3\""),
            (
                json!({"kind": "tail"}),
                "At /kind: must be \"sum\", but is \"tail\"; or must be \"head\", but is \"tail\"",
            ),
        ];
        for (arguments, expected) in cases {
            assert_eq!(objection(&schema, &arguments).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_schema_that_needs_the_feature_is_never_read_in_part() {
        for (keyword, value) in [
            ("pattern", json!("^a")),
            ("multipleOf", json!(2)),
            ("if", json!({})),
            ("contains", json!({})),
            ("propertyNames", json!({})),
            ("dependentRequired", json!({})),
            ("unevaluatedProperties", json!(false)),
            ("patternProperties", json!({"^x-": {}})),
            ("$ref", json!("https://example.com/other.json")),
            ("$ref", json!("#anchor")),
            ("$id", json!("https://example.com/a.json")),
            ("$schema", json!("http://json-schema.org/draft-07/schema#")),
            ("a word that nobody knows", json!(true)),
        ] {
            let schema = json!({"type": "object", "properties": {"a/b": {keyword: value}}});
            let unread = read(&schema).unwrap_err();
            let expected = Unread::Unknown { at: "/properties/a~1b".to_owned(), keyword: keyword.to_owned() };
            assert_eq!(unread, expected);
            let expected = format!(
                "without the feature \"json-schema\" of andon, arguments cannot be checked against {keyword:?} at /properties/a~1b: \
                 enable the feature, or remove the keyword"
            );
            assert_eq!(unread.to_string(), expected);
        }
    }

    #[cfg(feature = "json-schema")]
    #[test]
    fn with_the_feature_any_schema_can_be_used() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^x"}}});
        assert_eq!(objection(&schema, &json!({"a": "xy"})), None);
        assert!(objection(&schema, &json!({"a": "y"})).unwrap().starts_with("At /a: "));
    }

    #[cfg(not(feature = "json-schema"))]
    #[test]
    fn without_the_feature_a_schema_that_needs_it_cannot_be_used() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^x"}}});
        let error = Validator::of(&schema).err().unwrap();
        assert!(error.contains("\"json-schema\"") && error.contains("\"pattern\""), "{error}");
    }

    #[test]
    fn a_schema_that_leads_back_to_itself_can_be_used_if_it_goes_deeper_each_time() {
        let list = json!({
            "type": "object",
            "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
            "required": ["next"],
        });
        assert_eq!(objection(&list, &json!({"next": {"next": null}})), None);
        let expected = "At /next: the field \"next\" is missing";
        assert_eq!(objection(&list, &json!({"next": {}})).as_deref(), Some(expected));

        for nowhere in [
            json!({"$ref": "#"}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
        ] {
            let error = Validator::of(&nowhere).err().unwrap();
            assert_eq!(error, "it refers to itself, or nests more than 64 schemas");
        }
    }

    #[test]
    fn arguments_that_would_take_for_ever_to_check_are_refused() {
        let fork = json!({"properties": {"a": {"$ref": "#"}}});
        let schema = json!({
            "anyOf": [fork, fork, {"const": 0}],
            "not": {"const": 1},
        });
        let deep = (0..100).fold(json!(1), |inner, _| json!({"a": inner}));
        let expected = "At the arguments: they take too long to check; send simpler ones";
        assert_eq!(objection(&schema, &deep).as_deref(), Some(expected));
    }
}
