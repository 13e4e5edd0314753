//! A tool's arguments as a Rust type: the schema that is made from it, and how a call's arguments become a value of it.
//!
//! # Invariants
//!
//! 1. Nothing here panics: the types are the user's, and a type from which no schema can be made is an error when the agent is built.
//! 2. Whatever does not fit is refused in words that name the argument; so is an argument that the type does not have, unless its schema
//!    allows more than its fields.

use std::any::type_name;
use std::sync::Arc;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, IntoDeserializer, MapAccess};
use serde_json::{Map, Value, json, map};

use super::Invocation;
use crate::lanes::caught::caught;
use crate::tool::{ToolError, ToolSpec};

/// Reads the arguments of a call.
pub(super) type Read<T> = fn(&Invocation) -> Result<T, ToolError>;

/// What was made from the type of a tool's arguments.
pub(super) struct Described<T> {
    pub(super) schema: Value,
    /// Why there is no schema, if so.
    pub(super) flaw: Option<Arc<str>>,
    pub(super) read: Read<T>,
}

impl<T: DeserializeOwned + JsonSchema> Described<T> {
    /// Describes the type.
    pub(super) fn new() -> Self {
        let (schema, flaw) = match caught(schema::<T>) {
            Err(panic) => (Value::Null, Some(format!("{} panicked while making it: {panic}", short_name::<T>()))),
            Ok(schema) => match schema.get("type").and_then(Value::as_str) {
                Some("object") => (schema, None),
                Some("null") => return Self { schema: no_arguments(), flaw: None, read: |_| read(&Value::Null) },
                _ => (schema, Some(not_an_object(short_name::<T>()))),
            },
        };
        Self { schema, flaw: flaw.map(Arc::from), read: arguments }
    }
}

/// The spec of a tool with arguments of this type.
pub fn spec<T: DeserializeOwned + JsonSchema>(name: &str, description: &str) -> ToolSpec {
    let mut spec = ToolSpec::new(name, description, Value::Null);
    let Described { schema, flaw, .. } = Described::<T>::new();
    (spec.schema, spec.flaw) = (schema, flaw);
    spec
}

fn not_an_object(name: &str) -> String {
    format!(
        "{name} is not an object, and a model gives each argument by its name: use a struct with a field for each argument"
    )
}

fn no_arguments() -> Value {
    json!({"type": "object", "properties": {}, "additionalProperties": false})
}

/// The type's own name, without its module.
fn short_name<T>() -> &'static str {
    let name = type_name::<T>();
    // Those of a generic type's arguments stay as they are.
    let own = name.split('<').next().unwrap_or(name);
    own.rfind("::").and_then(|at| name.get(at + 2..)).unwrap_or(name)
}

/// The schema of a tool's arguments: one object, without anything that providers have no use for.
fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        // Not every provider follows references.
        settings.inline_subschemas = true;
    });
    let mut schema =
        settings.with_transform(RecursiveTransform(drop_number_format)).into_generator().into_root_schema_for::<T>();
    // The title is the name of a type.
    schema.remove("title");
    // Some providers insist on `properties`, even if there are none.
    let root = schema.ensure_object();
    root.entry("properties").or_insert_with(|| Map::new().into());
    if !MORE.iter().any(|keyword| root.contains_key(*keyword)) {
        // Serde would ignore an argument that the type does not have, such as one whose name is misspelled.
        root.insert("additionalProperties".to_owned(), false.into());
    }
    schema.to_value()
}

/// What may allow more arguments than `properties` has.
const MORE: [&str; 11] = [
    "additionalProperties",
    "unevaluatedProperties",
    "patternProperties",
    "oneOf",
    "anyOf",
    "allOf",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "$ref",
];

/// `uint32` and the like are Rust's own formats: a strict provider refuses a schema that has them.
fn drop_number_format(schema: &mut Schema) {
    let is_number = |format: &str| {
        let digits = format.trim_start_matches("uint").trim_start_matches("int");
        matches!(format, "float" | "double" | "int" | "uint") || (digits != format && digits.parse::<u8>().is_ok())
    };
    if schema.get("format").and_then(Value::as_str).is_some_and(is_number) {
        schema.remove("format");
    }
}

/// The arguments of a call. They match the schema. Serde refuses what the schema cannot express, and the model is told.
pub fn arguments<T: DeserializeOwned>(invocation: &Invocation) -> Result<T, ToolError> {
    read(&invocation.input)
}

fn read<T: DeserializeOwned>(input: &Value) -> Result<T, ToolError> {
    T::deserialize(input).map_err(|error| {
        ToolError(match culprit::<T>(input) {
            Some(name) => format!("The argument `{name}` is not valid: {error}."),
            None => format!("The arguments are not valid: {error}."),
        })
    })
}

/// The argument that cannot be read. Serde's error does not say: the arguments are read again, one by one.
fn culprit<T: DeserializeOwned>(input: &Value) -> Option<&str> {
    let mut reading = None;
    let one_by_one = OneByOne { left: input.as_object()?.iter(), value: None, reading: &mut reading };
    // It fails as it did before, and only where it does matters.
    let _ = T::deserialize(MapAccessDeserializer::new(one_by_one));
    reading
}

/// Arguments that are read one by one.
struct OneByOne<'a, 'r> {
    left: map::Iter<'a>,
    value: Option<(&'a str, &'a Value)>,
    /// The argument whose value is being read.
    reading: &'r mut Option<&'a str>,
}

impl<'a> MapAccess<'a> for OneByOne<'a, '_> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Self::Error> {
        let Some((name, value)) = self.left.next() else { return Ok(None) };
        self.value = Some((name, value));
        seed.deserialize(name.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Self::Error> {
        let Some((name, value)) = self.value.take() else { return Err(Self::Error::custom("a value before its name")) };
        *self.reading = Some(name);
        let value = seed.deserialize(value)?;
        *self.reading = None;
        Ok(value)
    }
}
