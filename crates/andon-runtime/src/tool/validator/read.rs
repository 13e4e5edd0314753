//! Reads a schema into rules.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use serde_json::{Map, Value};

use super::rules::{Bound, Count, JsonType, NameForm, Rule, Rules, SchemaId};

/// The dialect that the rules follow.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// How deeply schemas for one value may be nested.
const DEEPEST: usize = 64;

/// Why a schema could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unread {
    /// It is not a schema.
    #[error("at {}: {why}", place(at))]
    Wrong { at: String, why: &'static str },
    /// It refers to something that does not exist.
    #[error("at {}: {to:?} does not exist", place(at))]
    Dangling { at: String, to: String },
    /// Checking against it might never end.
    #[error("it refers to itself, or nests more than {DEEPEST} schemas")]
    Endless,
    /// It may be a schema, but the rules cannot express it.
    #[error(
        "without the feature \"json-schema\" of andon, arguments cannot be checked against {keyword:?} at {}: enable the feature, \
         or remove the keyword",
        place(at)
    )]
    Unknown { at: String, keyword: String },
}

fn place(at: &str) -> &str {
    if at.is_empty() { "the root" } else { at }
}

/// Reads a schema with all that it refers to.
pub(super) fn read(schema: &Value) -> Result<Rules, Unread> {
    let mut reader = Reader { root: schema, known: HashMap::new(), unread: VecDeque::new(), rules: Rules::default() };
    reader.id(String::new(), schema);
    while let Some((id, at, schema)) = reader.unread.pop_front() {
        let rules = reader.rules(&at, schema)?;
        if let Some(place) = reader.rules.0.get_mut(id.0) {
            *place = rules;
        }
    }
    check_depth(&reader.rules)?;
    Ok(reader.rules)
}

struct Reader<'a> {
    root: &'a Value,
    /// Schemas by their JSON pointers.
    known: HashMap<String, SchemaId>,
    unread: VecDeque<(SchemaId, String, &'a Value)>,
    rules: Rules,
}

type Read<T> = Result<T, Unread>;

impl<'a> Reader<'a> {
    /// The id of a schema, which is read later if it is new.
    fn id(&mut self, at: String, schema: &'a Value) -> SchemaId {
        if let Some(known) = self.known.get(&at) {
            return *known;
        }
        let id = SchemaId(self.rules.0.len());
        self.rules.0.push(Vec::new());
        self.known.insert(at.clone(), id);
        self.unread.push_back((id, at, schema));
        id
    }

    fn rules(&mut self, at: &str, schema: &'a Value) -> Read<Vec<Rule>> {
        match schema {
            Value::Bool(true) => Ok(Vec::new()),
            Value::Bool(false) => Ok(vec![Rule::Never]),
            Value::Object(fields) => {
                let mut rules = Vec::new();
                for (keyword, value) in fields {
                    rules.extend(self.rule(&Keyword { at, name: keyword, value }, fields)?);
                }
                Ok(rules)
            }
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(Unread::Wrong { at: at.to_owned(), why: "a schema must be an object, true or false" })
            }
        }
    }

    /// The rule that a keyword makes, if it makes one by itself.
    fn rule(&mut self, keyword: &Keyword<'_, 'a>, beside: &'a Map<String, Value>) -> Read<Option<Rule>> {
        Ok(Some(match keyword.name {
            "type" => Rule::Types(keyword.types()?),
            "const" => Rule::Values(vec![keyword.value.clone()]),
            "enum" => Rule::Values(keyword.list("must be a list")?.to_vec()),
            "minimum" => keyword.bound(Bound::AtLeast)?,
            "exclusiveMinimum" => keyword.bound(Bound::MoreThan)?,
            "maximum" => keyword.bound(Bound::AtMost)?,
            "exclusiveMaximum" => keyword.bound(Bound::LessThan)?,
            "minLength" => Rule::Characters(Count::AtLeast(keyword.count()?)),
            "maxLength" => Rule::Characters(Count::AtMost(keyword.count()?)),
            "minItems" => Rule::ItemCount(Count::AtLeast(keyword.count()?)),
            "maxItems" => Rule::ItemCount(Count::AtMost(keyword.count()?)),
            "minProperties" => Rule::FieldCount(Count::AtLeast(keyword.count()?)),
            "maxProperties" => Rule::FieldCount(Count::AtMost(keyword.count()?)),
            "uniqueItems" => return Ok(keyword.flag()?.then_some(Rule::Unique)),
            "required" => Rule::Required(keyword.names()?),
            "$ref" => Rule::Refer(self.referred(keyword)?),
            "allOf" => Rule::All(self.listed(keyword)?),
            "anyOf" => Rule::Any(self.listed(keyword)?),
            "oneOf" => Rule::One(self.listed(keyword)?),
            "not" => Rule::Not(self.id(keyword.pointer(), keyword.value)),
            // What follows belongs together, so the first that is there makes the rule for all.
            "prefixItems" => self.items(keyword.at, beside)?,
            "items" if !beside.contains_key("prefixItems") => self.items(keyword.at, beside)?,
            "items" => return Ok(None),
            "properties" | "patternProperties" | "additionalProperties" => {
                let group = ["properties", "patternProperties", "additionalProperties"];
                let first = group.into_iter().find(|name| beside.contains_key(*name));
                return if first == Some(keyword.name) { self.fields(keyword.at, beside).map(Some) } else { Ok(None) };
            }
            "$defs" | "definitions" => return self.by_name(keyword).map(|_| None),
            "unevaluatedProperties" | "unevaluatedItems" if *keyword.value == Value::Bool(true) => return Ok(None),
            _ => return keyword.describes().map(|()| None),
        }))
    }

    fn items(&mut self, at: &str, beside: &'a Map<String, Value>) -> Read<Rule> {
        let keyword = |name: &'static str| beside.get(name).map(|value| Keyword { at, name, value });
        let first = keyword("prefixItems").map(|first| self.listed(&first)).transpose()?.unwrap_or_default();
        let rest = keyword("items").map(|rest| self.id(rest.pointer(), rest.value));
        Ok(Rule::Items { first, rest })
    }

    fn fields(&mut self, at: &str, beside: &'a Map<String, Value>) -> Read<Rule> {
        let keyword = |name: &'static str| beside.get(name).map(|value| Keyword { at, name, value });
        let named = keyword("properties").map(|named| self.by_name(&named)).transpose()?.unwrap_or_default();
        let mut alike = Vec::new();
        if let Some(keyword) = keyword("patternProperties") {
            for (pattern, schema) in self.by_name(&keyword)? {
                alike.push((NameForm::of(&pattern).ok_or_else(|| keyword.unknown())?, schema));
            }
        }
        let others = keyword("additionalProperties").map(|others| self.id(others.pointer(), others.value));
        Ok(Rule::Fields { named: named.into_iter().collect(), alike, others })
    }

    fn listed(&mut self, keyword: &Keyword<'_, 'a>) -> Read<Vec<SchemaId>> {
        let why = "must be a non-empty list of schemas";
        let schemas = keyword.list(why)?;
        if schemas.is_empty() {
            return Err(keyword.wrong(why));
        }
        let pointer = keyword.pointer();
        let ids = schemas.iter().enumerate();
        Ok(ids.map(|(index, schema)| self.id(format!("{pointer}/{index}"), schema)).collect())
    }

    fn by_name(&mut self, keyword: &Keyword<'_, 'a>) -> Read<BTreeMap<String, SchemaId>> {
        let Value::Object(schemas) = keyword.value else {
            return Err(keyword.wrong("must be an object whose values are schemas"));
        };
        let pointer = keyword.pointer();
        let id = |(name, schema): (&'a String, &'a Value)| {
            (name.clone(), self.id(format!("{pointer}/{}", escaped(name)), schema))
        };
        Ok(schemas.iter().map(id).collect())
    }

    fn referred(&mut self, keyword: &Keyword<'_, 'a>) -> Read<SchemaId> {
        let Value::String(to) = keyword.value else { return Err(keyword.wrong("must be a string")) };
        // Other documents, and anchors.
        let Some(pointer) = to.strip_prefix('#').and_then(unescaped) else { return Err(keyword.unknown()) };
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(keyword.unknown());
        }
        match self.root.pointer(&pointer) {
            Some(schema) => Ok(self.id(pointer, schema)),
            None => Err(Unread::Dangling { at: keyword.pointer(), to: to.clone() }),
        }
    }
}

/// A keyword with its value, and where its schema is.
struct Keyword<'k, 'a> {
    at: &'k str,
    name: &'k str,
    value: &'a Value,
}

impl<'a> Keyword<'_, 'a> {
    fn pointer(&self) -> String {
        format!("{}/{}", self.at, escaped(self.name))
    }

    fn wrong(&self, why: &'static str) -> Unread {
        Unread::Wrong { at: self.pointer(), why }
    }

    fn unknown(&self) -> Unread {
        Unread::Unknown { at: self.at.to_owned(), keyword: self.name.to_owned() }
    }

    fn list(&self, why: &'static str) -> Read<&'a [Value]> {
        self.value.as_array().map(Vec::as_slice).ok_or_else(|| self.wrong(why))
    }

    fn flag(&self) -> Read<bool> {
        self.value.as_bool().ok_or_else(|| self.wrong("must be true or false"))
    }

    fn bound(&self, bound: Bound) -> Read<Rule> {
        let number = self.value.as_number().ok_or_else(|| self.wrong("must be a number"))?;
        Ok(Rule::Bound(bound, number.clone()))
    }

    fn count(&self) -> Read<u64> {
        let whole = |float: f64| (float >= 0.0 && float.fract() == 0.0).then_some(float as u64);
        let count = self.value.as_u64().or_else(|| self.value.as_f64().and_then(whole));
        count.ok_or_else(|| self.wrong("must be a non-negative integer"))
    }

    fn names(&self) -> Read<Vec<String>> {
        let why = "must be a list of unique names";
        let names: Option<Vec<&str>> = self.list(why)?.iter().map(Value::as_str).collect();
        let names = names.ok_or_else(|| self.wrong(why))?;
        if names.iter().collect::<HashSet<_>>().len() < names.len() {
            return Err(self.wrong(why));
        }
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    fn types(&self) -> Read<Vec<JsonType>> {
        let why = "must be one or more of null, boolean, integer, number, string, array and object";
        let names = match self.value {
            Value::Array(names) => names.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut types = Vec::new();
        for name in names {
            match name.as_str().and_then(JsonType::named) {
                Some(named) if !types.contains(&named) => types.push(named),
                _ => return Err(self.wrong(why)),
            }
        }
        if types.is_empty() { Err(self.wrong(why)) } else { Ok(types) }
    }

    /// Fails unless the keyword is only descriptive, and refuses nothing. Formats are only descriptive in this dialect.
    fn describes(&self) -> Read<()> {
        let (is_right, why) = match self.name {
            "$schema" if self.value.as_str().is_some_and(|name| name.trim_end_matches('#') == DIALECT) => (true, ""),
            "title" | "description" | "$comment" | "format" | "contentEncoding" | "contentMediaType" => {
                (self.value.is_string(), "must be a string")
            }
            "deprecated" | "readOnly" | "writeOnly" => (self.value.is_boolean(), "must be true or false"),
            "examples" => (self.value.is_array(), "must be a list"),
            "default" => (true, ""),
            name if name.starts_with("x-") => (true, ""),
            _ => return Err(self.unknown()),
        };
        if is_right { Ok(()) } else { Err(self.wrong(why)) }
    }
}

/// A name, escaped for a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Decodes the percent escapes of an address; `None` if they are invalid.
fn unescaped(address: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(address.len());
    let mut rest = address.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        // A sign is no digit, though numbers may begin with one.
        let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

/// Checks that no schema refers to itself for the same value, and that none nests too deeply.
fn check_depth(rules: &Rules) -> Result<(), Unread> {
    let mut known = vec![None; rules.0.len()];
    for index in 0..rules.0.len() {
        if depth(rules, SchemaId(index), DEEPEST, &mut known).is_none() {
            return Err(Unread::Endless);
        }
    }
    Ok(())
}

/// How deeply schemas are nested for one value; `None` if that is more than `allowed`.
fn depth(rules: &Rules, schema: SchemaId, allowed: usize, known: &mut [Option<usize>]) -> Option<usize> {
    let place = known.get(schema.0).copied().flatten();
    if let Some(known) = place {
        return (known <= allowed).then_some(known);
    }
    let inside = allowed.checked_sub(1)?;
    let mut deepest = 0;
    for next in rules.of(schema).iter().flat_map(Rule::in_place) {
        deepest = deepest.max(depth(rules, *next, inside, known)?);
    }
    if let Some(place) = known.get_mut(schema.0) {
        *place = Some(deepest + 1);
    }
    Some(deepest + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_schema_is_refused_with_its_place() {
        let wrong = |at: &str, why: &'static str| Unread::Wrong { at: at.to_owned(), why };
        let types = "must be one or more of null, boolean, integer, number, string, array and object";
        let count = "must be a non-negative integer";
        let schemas = "must be a non-empty list of schemas";
        let cases = [
            (json!([]), wrong("", "a schema must be an object, true or false")),
            (
                json!({"properties": {"a~/b": 1}}),
                wrong("/properties/a~0~1b", "a schema must be an object, true or false"),
            ),
            (json!({"properties": []}), wrong("/properties", "must be an object whose values are schemas")),
            (json!({"items": [{}]}), wrong("/items", "a schema must be an object, true or false")),
            (json!({"type": "strin"}), wrong("/type", types)),
            (json!({"type": []}), wrong("/type", types)),
            (json!({"type": ["null", "null"]}), wrong("/type", types)),
            (json!({"enum": "a"}), wrong("/enum", "must be a list")),
            (json!({"minimum": "1"}), wrong("/minimum", "must be a number")),
            (json!({"minLength": -1}), wrong("/minLength", count)),
            (json!({"maxItems": 1.5}), wrong("/maxItems", count)),
            (json!({"uniqueItems": 1}), wrong("/uniqueItems", "must be true or false")),
            (json!({"required": true}), wrong("/required", "must be a list of unique names")),
            (json!({"required": ["a", "a"]}), wrong("/required", "must be a list of unique names")),
            (json!({"anyOf": []}), wrong("/anyOf", schemas)),
            (json!({"prefixItems": {}}), wrong("/prefixItems", schemas)),
            (json!({"description": 1}), wrong("/description", "must be a string")),
            (json!({"deprecated": "no"}), wrong("/deprecated", "must be true or false")),
            (json!({"examples": 1}), wrong("/examples", "must be a list")),
            (json!({"$ref": 1}), wrong("/$ref", "must be a string")),
            (json!({"$defs": {"a": {"type": 1}}}), wrong("/$defs/a/type", types)),
            (json!({"$ref": "#/$defs/a"}), Unread::Dangling { at: "/$ref".to_owned(), to: "#/$defs/a".to_owned() }),
        ];
        for (schema, expected) in cases {
            assert_eq!(read(&schema).unwrap_err(), expected, "{schema}");
            assert!(jsonschema::validator_for(&schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn a_reference_is_an_address_with_its_escapes() {
        let schema = json!({"$ref": "#/$defs/a%3Cb%3E~1%C3%A5", "$defs": {"a<b>/å": {"type": "string"}}});
        let rules = read(&schema).unwrap();
        assert!(matches!(rules.of(SchemaId(0)), [Rule::Refer(_)]));
        assert_eq!(rules.0.len(), 2);
        for bad in ["#/%4", "#/%+4", "#/%zz", "#/%ff"] {
            let expected = Unread::Unknown { at: String::new(), keyword: "$ref".to_owned() };
            assert_eq!(read(&json!({"$ref": bad})).unwrap_err(), expected);
        }
    }

    #[test]
    fn a_schema_is_read_however_many_others_it_refers_to() {
        let mut defs = Map::new();
        for number in 0..10_000 {
            let next = format!("#/$defs/d{}", number + 1);
            defs.insert(format!("d{number}"), json!({"properties": {"next": {"$ref": next}}}));
        }
        defs.insert("d10000".to_owned(), json!(true));
        assert!(read(&json!({"$ref": "#/$defs/d0", "$defs": defs})).is_ok());
    }

    #[test]
    fn schemas_for_one_value_that_are_many_inside_each_other_are_refused() {
        let nested = |levels| (0..levels).fold(json!({"type": "string"}), |inner, _| json!({"allOf": [inner]}));
        assert!(read(&nested(63)).is_ok());
        assert_eq!(read(&nested(64)).unwrap_err(), Unread::Endless);
    }
}
