//! The rules and the `jsonschema` crate have the same verdict wherever both apply.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU8;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use schemars::{JsonSchema, schema_for};
use serde_json::{Map, Value, json};

use super::check::check;
use super::read::{Unread, read};

/// Words that are values, names of fields, and constants, so that they meet.
const WORDS: [&str; 8] = ["a", "b", "c", "", "ab", "å", "1", "-1"];

fn number() -> impl Strategy<Value = Value> {
    select(vec![
        json!(-1),
        json!(0),
        json!(-0.0),
        json!(1),
        json!(1.0),
        json!(1.5),
        json!(2),
        json!(u64::MAX),
        json!(1e300),
    ])
}

fn word() -> impl Strategy<Value = Value> {
    select(WORDS.to_vec()).prop_map(Value::from)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number(), word()];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let fields = btree_map(select(WORDS.to_vec()), inner.clone(), 0..4);
        prop_oneof![vec(inner, 0..4).prop_map(Value::from), fields.prop_map(object)]
    })
}

fn object(fields: BTreeMap<&str, Value>) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn keyword(
    names: &[&'static str],
    value: impl Strategy<Value = Value> + 'static,
) -> BoxedStrategy<(&'static str, Value)> {
    (select(names.to_vec()), value).boxed()
}

/// A keyword that contains no schema, with its value.
fn plain_keyword() -> impl Strategy<Value = (&'static str, Value)> {
    let types = ["null", "boolean", "integer", "number", "string", "array", "object"];
    let counts = ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
    let bounds = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"];
    let some_types = proptest::sample::subsequence(types.to_vec(), 1..4).prop_map(Value::from);
    let names = proptest::sample::subsequence(WORDS.to_vec(), 0..3).prop_map(Value::from);
    prop_oneof![
        keyword(&["type"], select(types.to_vec()).prop_map(Value::from)),
        keyword(&["type"], some_types),
        keyword(&["const"], value()),
        keyword(&["enum"], vec(value(), 1..4).prop_map(Value::from)),
        keyword(&counts, (0..4_u64).prop_map(Value::from)),
        keyword(&bounds, number()),
        keyword(&["uniqueItems"], any::<bool>().prop_map(Value::from)),
        keyword(&["required"], names),
        keyword(&["$ref"], select(vec!["#", "#/$defs/a", "#/$defs/b"]).prop_map(Value::from)),
        keyword(&["title", "format"], Just(json!("date-time"))),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let flat = btree_map_of(plain_keyword().boxed(), 0..3);
    let leaf = prop_oneof![8 => flat, 1 => any::<bool>().prop_map(Value::from)];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let fields = || btree_map(select(WORDS.to_vec()), inner.clone(), 0..4).prop_map(object);
        let patterns = btree_map(select(vec![r"^\d+$", r"^-?\d+$"]), inner.clone(), 0..2).prop_map(object);
        let nested = prop_oneof![
            2 => keyword(&["properties"], fields()),
            1 => keyword(&["patternProperties"], patterns),
            2 => keyword(&["additionalProperties", "items", "not"], inner.clone()),
            3 => keyword(&["prefixItems", "allOf", "anyOf", "oneOf"], vec(inner.clone(), 1..4).prop_map(Value::from)),
            3 => plain_keyword(),
        ];
        btree_map_of(nested.boxed(), 1..5)
    })
}

fn btree_map_of(
    keyword: BoxedStrategy<(&'static str, Value)>,
    size: std::ops::Range<usize>,
) -> impl Strategy<Value = Value> {
    vec(keyword, size).prop_map(|keywords| object(keywords.into_iter().collect()))
}

fn whole_schema() -> impl Strategy<Value = Value> {
    (schema(), schema(), schema()).prop_map(|(whole, a, b)| {
        let mut fields = match whole {
            Value::Object(fields) => fields,
            other => Map::from_iter([("not".to_owned(), other)]),
        };
        fields.insert("$defs".to_owned(), json!({"a": a, "b": b}));
        Value::Object(fields)
    })
}

/// Compares the verdicts on each of these values, and says how many were accepted.
fn assert_same_verdicts<'a>(schema: &Value, values: impl IntoIterator<Item = &'a Value>) -> usize {
    let rules = match read(schema) {
        Ok(rules) => rules,
        // The other one would never come back.
        Err(Unread::Endless) => return 0,
        Err(error) => panic!("{error}: {schema}"),
    };
    let full = jsonschema::validator_for(schema).unwrap();
    let mut accepted = 0;
    for value in values {
        let ours = check(&rules, value);
        assert_eq!(ours.is_ok(), full.is_valid(value), "{schema}\n{value}\n{ours:?}\n{:?}", full.validate(value));
        accepted += usize::from(ours.is_ok());
    }
    accepted
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_value_has_the_same_verdict_under_any_schema(schema in whole_schema(), values in vec(value(), 8)) {
        assert_same_verdicts(&schema, &values);
    }
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Order {
    /// Whose it is.
    name: String,
    #[schemars(range(min = 1, max = 9))]
    count: u8,
    price: Option<f64>,
    #[schemars(length(min = 1))]
    lines: Vec<Line>,
    state: State,
    at: (i32, bool),
    tags: BTreeSet<char>,
    places: HashMap<i64, NonZeroU8>,
    notes: BTreeMap<String, Option<Order>>,
}

#[derive(JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum Line {
    Article(Article),
    Discount { percent: u32 },
    Nothing,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Article {
    id: u64,
    #[serde(flatten)]
    size: Option<Size>,
    #[serde(default)]
    parts: Vec<Article>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
enum Size {
    /// As small as it gets.
    Small,
    Exact(f32),
    Between {
        from: f32,
        to: f32,
    },
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
enum State {
    Open,
    /// It was paid.
    Paid {
        at: String,
    },
}

fn order() -> Value {
    json!({
        "name": "Ada", "count": 3, "price": null,
        "lines": [
            {"kind": "article", "id": 1, "Between": {"from": 1, "to": 2.5}, "parts": [{"id": 2, "parts": []}, {"id": 3, "Small": null}]},
            {"kind": "discount", "percent": 10},
            {"kind": "nothing"},
        ],
        "state": {"Paid": {"at": "noon"}}, "at": [-1, true], "tags": ["a", "å"], "places": {"1": 2, "-1": 255},
        "notes": {"": null, "later": null},
    })
}

/// The places in a value, as JSON pointers.
fn places(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| places(value, format!("{at}/{name}"), found)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| places(item, format!("{at}/{index}"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    found.push(at);
}

#[test]
fn schemas_of_rust_types_can_be_read_and_have_the_same_verdicts_on_good_values_and_each_that_is_a_little_wrong() {
    let schema = schema_for!(Order).to_value();
    let mut nested = order();
    nested["notes"]["later"] = order();
    let mut found = Vec::new();
    places(&nested, String::new(), &mut found);
    let mut values = vec![order(), nested.clone()];
    let odd = [
        json!(null),
        json!(true),
        json!(0),
        json!(1.0),
        json!(-7.5),
        json!("a"),
        json!("Open"),
        json!([]),
        json!({}),
        order(),
    ];
    for place in &found {
        for other in &odd {
            let mut value = nested.clone();
            *value.pointer_mut(place).unwrap() = other.clone();
            values.push(value);
        }
        let mut value = nested.clone();
        match value.pointer_mut(place).unwrap() {
            Value::Object(fields) => drop(fields.insert("extra".to_owned(), json!(1))),
            Value::Array(items) => items.push(items.first().cloned().unwrap_or_default()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        values.push(value);
        if let Some((around, name)) = place.rsplit_once('/') {
            let mut value = nested.clone();
            if let Some(Value::Object(fields)) = value.pointer_mut(around) {
                fields.remove(name);
            }
            values.push(value);
        }
    }
    let accepted = assert_same_verdicts(&schema, &values);
    assert!(accepted > found.len() && accepted < values.len() / 2, "{accepted} of {}", values.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn schemas_of_rust_types_have_the_same_verdict_on_anything(other in value(), place in any::<Index>()) {
        let mut nested = order();
        let mut found = Vec::new();
        places(&nested, String::new(), &mut found);
        let place: &String = place.get(&found);
        *nested.pointer_mut(place).unwrap() = other;
        assert_same_verdicts(&schema_for!(Order).to_value(), [&nested]);
    }
}
