//! A schema as rules.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Number, Value};

/// One schema of those that refer to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SchemaId(pub(super) usize);

/// A schema with all that it refers to. The first is the whole.
#[derive(Debug, Default)]
pub(crate) struct Rules(pub(super) Vec<Vec<Rule>>);

impl Rules {
    /// The rules of this schema: a value must satisfy all of them.
    pub(super) fn of(&self, schema: SchemaId) -> &[Rule] {
        self.0.get(schema.0).map_or(&[], Vec::as_slice)
    }
}

/// A rule for a value. Most rules are about values of one type, and values of other types satisfy them.
#[derive(Debug)]
pub(super) enum Rule {
    /// No value satisfies it.
    Never,
    Types(Vec<JsonType>),
    /// It is one of these.
    Values(Vec<Value>),
    Bound(Bound, Number),
    Characters(Count),
    ItemCount(Count),
    FieldCount(Count),
    /// No two items are equal.
    Unique,
    /// The first items, each by its own schema, and the rest.
    Items {
        first: Vec<SchemaId>,
        rest: Option<SchemaId>,
    },
    Required(Vec<String>),
    /// Fields by their names, then by what their names look like, then all others.
    Fields {
        named: BTreeMap<String, SchemaId>,
        alike: Vec<(NameForm, SchemaId)>,
        others: Option<SchemaId>,
    },
    /// It fits this schema, which is defined elsewhere.
    Refer(SchemaId),
    All(Vec<SchemaId>),
    Any(Vec<SchemaId>),
    One(Vec<SchemaId>),
    Not(SchemaId),
}

impl Rule {
    /// The schemas that the same value must be checked against.
    pub(super) fn in_place(&self) -> &[SchemaId] {
        match self {
            Self::All(schemas) | Self::Any(schemas) | Self::One(schemas) => schemas,
            Self::Refer(schema) | Self::Not(schema) => std::slice::from_ref(schema),
            Self::Never
            | Self::Types(_)
            | Self::Values(_)
            | Self::Bound(..)
            | Self::Characters(_)
            | Self::ItemCount(_)
            | Self::FieldCount(_)
            | Self::Unique
            | Self::Items { .. }
            | Self::Required(_)
            | Self::Fields { .. } => &[],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonType {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl JsonType {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::Null,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "string" => Self::String,
            "array" => Self::Array,
            "object" => Self::Object,
            _ => return None,
        })
    }

    pub(super) fn has(self, value: &Value) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Boolean => value.is_boolean(),
            Self::Integer => value.as_number().is_some_and(is_integer),
            Self::Number => value.is_number(),
            Self::String => value.is_string(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

impl fmt::Display for JsonType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Boolean => "true or false",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        })
    }
}

/// Whether it has no fraction: 1.0 is an integer, too.
fn is_integer(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    AtLeast,
    MoreThan,
    AtMost,
    LessThan,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtLeast => "at least",
            Self::MoreThan => "more than",
            Self::AtMost => "at most",
            Self::LessThan => "less than",
        })
    }
}

/// How many there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    AtLeast(u64),
    AtMost(u64),
}

/// What the name of a field looks like: the two forms that the keys of Rust's maps have when they are integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameForm {
    /// `^\d+$`.
    Digits,
    /// `^-?\d+$`.
    SignedDigits,
}

impl NameForm {
    pub(super) fn of(pattern: &str) -> Option<Self> {
        match pattern {
            r"^\d+$" => Some(Self::Digits),
            r"^-?\d+$" => Some(Self::SignedDigits),
            _ => None,
        }
    }

    pub(super) fn fits(self, name: &str) -> bool {
        let digits = match self {
            Self::Digits => name,
            Self::SignedDigits => name.strip_prefix('-').unwrap_or(name),
        };
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    }
}
