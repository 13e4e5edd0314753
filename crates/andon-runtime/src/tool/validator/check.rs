//! Checks arguments against rules.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde_json::{Map, Number, Value};

use super::rules::{Bound, Count, JsonType, NameForm, Rule, Rules, SchemaId};
use super::same::{Same, order};

/// How many times a value is checked against a schema before the check is given up: after about 50 ms. The longest arguments that may
/// be sent have half as many values.
const MOST_STEPS: u32 = 1_000_000;

/// How many characters of a text an objection quotes.
const QUOTED: usize = 40;

/// Where something is wrong, as a JSON pointer, and what.
pub(super) type Objection = (String, String);

/// Checks arguments against a whole schema.
pub(super) fn check(rules: &Rules, arguments: &Value) -> Result<(), Objection> {
    let mut checker = Checker { rules, steps: 0 };
    match checker.fits(SchemaId(0), arguments) {
        Ok(()) => Ok(()),
        Err(Misfit::Wrong { inward, why, .. }) => {
            Err((inward.iter().rev().map(|step| format!("/{step}")).collect(), why))
        }
        Err(Misfit::TooLong) => Err((String::new(), "they take too long to check; send simpler ones".to_owned())),
    }
}

/// Why a value does not fit.
enum Misfit {
    Wrong {
        /// Where in the value it is, from the inside to the outside, as parts of a JSON pointer.
        inward: Vec<String>,
        slip: Slip,
        why: String,
    },
    /// It is not known whether it fits.
    TooLong,
}

/// What kind of mistake it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slip {
    Type,
    Value,
    Other,
}

impl Misfit {
    fn new(slip: Slip, why: String) -> Self {
        Self::Wrong { inward: Vec::new(), slip, why }
    }

    /// The same, seen from the enclosing value.
    fn at(mut self, step: impl FnOnce() -> String) -> Self {
        if let Self::Wrong { inward, .. } = &mut self {
            inward.push(step());
        }
        self
    }
}

type Fits = Result<(), Misfit>;

fn wrong(why: impl Into<String>) -> Fits {
    Err(Misfit::new(Slip::Other, why.into()))
}

struct Checker<'a> {
    rules: &'a Rules,
    steps: u32,
}

impl Checker<'_> {
    fn fits(&mut self, schema: SchemaId, value: &Value) -> Fits {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return Err(Misfit::TooLong);
        }
        let rules = self.rules;
        rules.of(schema).iter().try_for_each(|rule| self.satisfies(rule, value))
    }

    fn satisfies(&mut self, rule: &Rule, value: &Value) -> Fits {
        match (rule, value) {
            (Rule::Never, _) => wrong("no value is allowed here"),
            (Rule::Types(types), _) => of_types(types, value),
            (Rule::Values(values), _) => among(values, value),
            (Rule::Bound(bound, limit), Value::Number(number)) => within(*bound, limit, number),
            (Rule::Characters(count), Value::String(text)) => counted(*count, text.chars().count(), "character"),
            (Rule::ItemCount(count), Value::Array(items)) => counted(*count, items.len(), "item"),
            (Rule::FieldCount(count), Value::Object(fields)) => counted(*count, fields.len(), "field"),
            (Rule::Unique, Value::Array(items)) => all_differ(items),
            (Rule::Items { first, rest }, Value::Array(items)) => self.items(first, *rest, items),
            (Rule::Required(names), Value::Object(fields)) => all_there(names, fields),
            (Rule::Fields { named, alike, others }, Value::Object(fields)) => {
                fields.iter().try_for_each(|field| self.field(named, alike, *others, field))
            }
            (Rule::Refer(schema), _) => self.fits(*schema, value),
            (Rule::All(schemas), _) => schemas.iter().try_for_each(|schema| self.fits(*schema, value)),
            (Rule::Any(schemas), _) => self.any(schemas, value),
            (Rule::One(schemas), _) => self.one(schemas, value),
            (Rule::Not(schema), _) => match self.fits(*schema, value) {
                Ok(()) => wrong("this value is not allowed"),
                Err(Misfit::Wrong { .. }) => Ok(()),
                Err(Misfit::TooLong) => Err(Misfit::TooLong),
            },
            // These are about values of another type.
            (
                Rule::Bound(..)
                | Rule::Characters(_)
                | Rule::ItemCount(_)
                | Rule::FieldCount(_)
                | Rule::Unique
                | Rule::Items { .. }
                | Rule::Required(_)
                | Rule::Fields { .. },
                _,
            ) => Ok(()),
        }
    }

    fn items(&mut self, first: &[SchemaId], rest: Option<SchemaId>, items: &[Value]) -> Fits {
        items.iter().enumerate().try_for_each(|(index, item)| match first.get(index).copied().or(rest) {
            Some(schema) => self.fits(schema, item).map_err(|misfit| misfit.at(|| index.to_string())),
            None => Ok(()),
        })
    }

    fn field(
        &mut self,
        named: &BTreeMap<String, SchemaId>,
        alike: &[(NameForm, SchemaId)],
        others: Option<SchemaId>,
        (name, value): (&String, &Value),
    ) -> Fits {
        let own = named.get(name).copied();
        let alike = alike.iter().filter(|(form, _)| form.fits(name)).map(|(_, schema)| *schema);
        let mut known = own.into_iter().chain(alike).peekable();
        let others = others.filter(|_| known.peek().is_none());
        if others.is_some_and(|others| matches!(self.rules.of(others), [Rule::Never])) {
            return wrong(not_a_field(name, named));
        }
        let inside = |misfit: Misfit| misfit.at(|| name.replace('~', "~0").replace('/', "~1"));
        known.chain(others).try_for_each(|schema| self.fits(schema, value)).map_err(inside)
    }

    fn any(&mut self, schemas: &[SchemaId], value: &Value) -> Fits {
        let mut misfits = Vec::new();
        for schema in schemas {
            match self.fits(*schema, value) {
                Ok(()) => return Ok(()),
                Err(misfit) => misfits.push(misfit),
            }
        }
        Err(nearest(misfits))
    }

    fn one(&mut self, schemas: &[SchemaId], value: &Value) -> Fits {
        let (mut fitting, mut misfits) = (0, Vec::new());
        for schema in schemas {
            match self.fits(*schema, value) {
                Ok(()) => fitting += 1,
                Err(misfit) => misfits.push(misfit),
            }
        }
        match fitting {
            // It is not known whether another one fits.
            _ if misfits.iter().any(|misfit| matches!(misfit, Misfit::TooLong)) => Err(Misfit::TooLong),
            0 => Err(nearest(misfits)),
            1 => Ok(()),
            _ => wrong("matches more than one of the allowed forms"),
        }
    }
}

/// What to say when a value fits none of several forms: what is wrong under the form that fits best, because that one was meant. A form
/// of another type was not meant, nor one that requires another value in a field, as fields that tell forms apart do.
fn nearest(misfits: Vec<Misfit>) -> Misfit {
    let mut best: Option<((u8, usize), Misfit)> = None;
    for misfit in misfits {
        let Misfit::Wrong { inward, slip, why } = &misfit else { return misfit };
        let fitted = match (slip, inward.len()) {
            (Slip::Type, 0) => (0, 0),
            (Slip::Value, depth @ 1..) => (1, depth),
            (Slip::Type | Slip::Value | Slip::Other, depth) => (2, depth),
        };
        best = Some(match best {
            Some((most, Misfit::Wrong { inward: place, slip, why: mut said }))
                if most == fitted && place == *inward =>
            {
                if !said.contains(why) {
                    said = format!("{said}; or {why}");
                }
                (most, Misfit::Wrong { inward: place, slip, why: said })
            }
            Some(better) if better.0 >= fitted => better,
            Some(_) | None => (fitted, misfit),
        });
    }
    best.map_or_else(|| Misfit::new(Slip::Other, "no value is allowed here".to_owned()), |(_, misfit)| misfit)
}

fn of_types(types: &[JsonType], value: &Value) -> Fits {
    if types.iter().any(|of| of.has(value)) {
        return Ok(());
    }
    Err(Misfit::new(Slip::Type, format!("must be {}, but is {}", one_of(types), shown(value))))
}

fn among(values: &[Value], value: &Value) -> Fits {
    if values.iter().any(|allowed| Same(allowed) == Same(value)) {
        return Ok(());
    }
    let is_alike = values.iter().any(|allowed| std::mem::discriminant(allowed) == std::mem::discriminant(value));
    let slip = if is_alike { Slip::Value } else { Slip::Type };
    let values: Vec<String> = values.iter().map(shown).collect();
    Err(Misfit::new(slip, format!("must be {}, but is {}", one_of(&values), shown(value))))
}

fn within(bound: Bound, limit: &Number, number: &Number) -> Fits {
    let is_within = order(number, limit).is_some_and(|order| match bound {
        Bound::AtLeast => order.is_ge(),
        Bound::MoreThan => order.is_gt(),
        Bound::AtMost => order.is_le(),
        Bound::LessThan => order.is_lt(),
    });
    if is_within { Ok(()) } else { wrong(format!("must be {bound} {limit}, but is {number}")) }
}

fn counted(count: Count, there: usize, what: &str) -> Fits {
    let there = u64::try_from(there).unwrap_or(u64::MAX);
    let (is_right, words, limit) = match count {
        Count::AtLeast(limit) => (there >= limit, "at least", limit),
        Count::AtMost(limit) => (there <= limit, "at most", limit),
    };
    if is_right {
        return Ok(());
    }
    let plural = if limit == 1 { "" } else { "s" };
    wrong(format!("must have {words} {limit} {what}{plural}, but has {there}"))
}

fn all_differ(items: &[Value]) -> Fits {
    let mut seen = HashSet::with_capacity(items.len());
    if items.iter().all(|item| seen.insert(Same(item))) {
        return Ok(());
    }
    wrong("must not have two equal items")
}

fn all_there(names: &[String], fields: &Map<String, Value>) -> Fits {
    match names.iter().find(|name| !fields.contains_key(*name)) {
        Some(missing) => wrong(format!("the field {missing:?} is missing")),
        None => Ok(()),
    }
}

fn not_a_field(name: &str, named: &BTreeMap<String, SchemaId>) -> String {
    let names: Vec<&str> = named.keys().map(String::as_str).collect();
    match names.as_slice() {
        [] => format!("there is no field {}", quoted(name)),
        names => format!("there is no field {}; the fields are {}", quoted(name), names.join(", ")),
    }
}

/// "a", "a or b", "a, b or c".
fn one_of(what: &[impl fmt::Display]) -> String {
    let words: Vec<String> = what.iter().map(ToString::to_string).collect();
    match words.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}

/// A value in an objection: the value if it is short, otherwise what it is.
fn shown(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{:?}…", text.get(..end).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}
