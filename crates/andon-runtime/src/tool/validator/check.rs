//! Checks arguments against rules.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde_json::{Map, Number, Value};

use super::rules::{Bound, Count, JsonType, NameForm, Rule, Rules, SchemaId};
use super::same::{Same, order};

/// How many values are checked against a schema before it is given up: a fraction of a second.
const MOST_STEPS: u32 = 4_000_000;

/// How many characters of a text an objection quotes.
const QUOTED: usize = 40;

/// Where something is wrong, as a JSON pointer, and what.
pub(super) type Objection = (String, String);

/// Checks arguments against a whole schema.
pub(super) fn check(rules: &Rules, arguments: &Value) -> Result<(), Objection> {
    let mut checker = Checker { rules, steps: 0 };
    match checker.fits(SchemaId(0), arguments, &Place::Root) {
        Ok(()) => Ok(()),
        Err(Misfit::Wrong { at, why, .. }) => Err((at, why)),
        Err(Misfit::TooLong) => Err((String::new(), "checking them takes too long; send simpler ones".to_owned())),
    }
}

/// Where a value is in the arguments.
enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl Place<'_> {
    fn depth(&self) -> usize {
        match self {
            Self::Root => 0,
            Self::Field(around, _) | Self::Item(around, _) => around.depth() + 1,
        }
    }

    fn wrong(&self, why: impl Into<String>) -> Misfit {
        Misfit::Wrong { at: self.to_string(), depth: self.depth(), why: why.into() }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(around, name) => write!(f, "{around}/{}", name.replace('~', "~0").replace('/', "~1")),
            Self::Item(around, index) => write!(f, "{around}/{index}"),
        }
    }
}

/// Why a value does not fit.
enum Misfit {
    Wrong {
        at: String,
        depth: usize,
        why: String,
    },
    /// It is not known whether it fits.
    TooLong,
}

struct Checker<'a> {
    rules: &'a Rules,
    steps: u32,
}

impl Checker<'_> {
    fn fits(&mut self, schema: SchemaId, value: &Value, at: &Place<'_>) -> Result<(), Misfit> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return Err(Misfit::TooLong);
        }
        let rules = self.rules;
        rules.of(schema).iter().try_for_each(|rule| self.keeps(rule, value, at))
    }

    fn keeps(&mut self, rule: &Rule, value: &Value, at: &Place<'_>) -> Result<(), Misfit> {
        match (rule, value) {
            (Rule::Never, _) => Err(at.wrong("nothing is allowed here")),
            (Rule::Types(types), _) => of_types(types, value, at),
            (Rule::Values(values), _) => among(values, value, at),
            (Rule::Bound(bound, limit), Value::Number(number)) => within(*bound, limit, number, at),
            (Rule::Characters(count), Value::String(text)) => counted(*count, text.chars().count(), "character", at),
            (Rule::ItemCount(count), Value::Array(items)) => counted(*count, items.len(), "item", at),
            (Rule::FieldCount(count), Value::Object(fields)) => counted(*count, fields.len(), "field", at),
            (Rule::Unique, Value::Array(items)) => all_differ(items, at),
            (Rule::Items { first, rest }, Value::Array(items)) => self.items(first, *rest, items, at),
            (Rule::Required(names), Value::Object(fields)) => all_there(names, fields, at),
            (Rule::Fields { named, alike, others }, Value::Object(fields)) => {
                fields.iter().try_for_each(|field| self.field(named, alike, *others, field, at))
            }
            (Rule::Refer(schema), _) => self.fits(*schema, value, at),
            (Rule::All(schemas), _) => schemas.iter().try_for_each(|schema| self.fits(*schema, value, at)),
            (Rule::Any(schemas), _) => self.any(schemas, value, at),
            (Rule::One(schemas), _) => self.one(schemas, value, at),
            (Rule::Not(schema), _) => match self.fits(*schema, value, at) {
                Ok(()) => Err(at.wrong("it is among the values that are not allowed")),
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

    fn items(
        &mut self,
        first: &[SchemaId],
        rest: Option<SchemaId>,
        items: &[Value],
        at: &Place<'_>,
    ) -> Result<(), Misfit> {
        items.iter().enumerate().try_for_each(|(index, item)| match first.get(index).copied().or(rest) {
            Some(schema) => self.fits(schema, item, &Place::Item(at, index)),
            None => Ok(()),
        })
    }

    fn field(
        &mut self,
        named: &BTreeMap<String, SchemaId>,
        alike: &[(NameForm, SchemaId)],
        others: Option<SchemaId>,
        (name, value): (&String, &Value),
        around: &Place<'_>,
    ) -> Result<(), Misfit> {
        let at = Place::Field(around, name);
        let own = named.get(name);
        let mut is_known = own.is_some();
        if let Some(schema) = own {
            self.fits(*schema, value, &at)?;
        }
        for (_, schema) in alike.iter().filter(|(form, _)| form.fits(name)) {
            is_known = true;
            self.fits(*schema, value, &at)?;
        }
        match others.filter(|_| !is_known) {
            Some(schema) if matches!(self.rules.of(schema), [Rule::Never]) => {
                Err(around.wrong(not_a_field(name, named)))
            }
            Some(schema) => self.fits(schema, value, &at),
            None => Ok(()),
        }
    }

    fn any(&mut self, schemas: &[SchemaId], value: &Value, at: &Place<'_>) -> Result<(), Misfit> {
        let mut misfits = Vec::new();
        for schema in schemas {
            match self.fits(*schema, value, at) {
                Ok(()) => return Ok(()),
                Err(misfit) => misfits.push(misfit),
            }
        }
        Err(nearest(misfits))
    }

    fn one(&mut self, schemas: &[SchemaId], value: &Value, at: &Place<'_>) -> Result<(), Misfit> {
        let (mut fitting, mut misfits) = (0, Vec::new());
        for schema in schemas {
            match self.fits(*schema, value, at) {
                Ok(()) => fitting += 1,
                Err(misfit) => misfits.push(misfit),
            }
        }
        match fitting {
            // It is not known whether another one fits.
            _ if misfits.iter().any(|misfit| matches!(misfit, Misfit::TooLong)) => Err(Misfit::TooLong),
            0 => Err(nearest(misfits)),
            1 => Ok(()),
            _ => Err(at.wrong("it fits more than one of the forms that it may have")),
        }
    }
}

/// What to say when a value fits none of several forms: what is wrong with the form that fitted furthest, because that is the one
/// that was meant; with all of them if none did.
fn nearest(misfits: Vec<Misfit>) -> Misfit {
    let mut nearest: Option<(String, usize, String)> = None;
    for misfit in misfits {
        let Misfit::Wrong { at, depth, why } = misfit else { return Misfit::TooLong };
        nearest = Some(match nearest {
            Some((place, deepest, said)) if deepest > depth || said.contains(&why) => (place, deepest, said),
            Some((place, deepest, said)) if deepest == depth && place == at => {
                (place, deepest, format!("{said}; or {why}"))
            }
            Some((place, deepest, said)) if deepest == depth => (place, deepest, said),
            Some(_) | None => (at, depth, why),
        });
    }
    match nearest {
        Some((at, depth, why)) => Misfit::Wrong { at, depth, why },
        None => Place::Root.wrong("nothing is allowed here"),
    }
}

fn of_types(types: &[JsonType], value: &Value, at: &Place<'_>) -> Result<(), Misfit> {
    if types.iter().any(|of| of.has(value)) {
        return Ok(());
    }
    Err(at.wrong(format!("it must be {}, and is {}", one_of(types), shown(value))))
}

fn among(values: &[Value], value: &Value, at: &Place<'_>) -> Result<(), Misfit> {
    if values.iter().any(|allowed| Same(allowed) == Same(value)) {
        return Ok(());
    }
    let values: Vec<String> = values.iter().map(shown).collect();
    Err(at.wrong(format!("it must be {}, and is {}", one_of(&values), shown(value))))
}

fn within(bound: Bound, limit: &Number, number: &Number, at: &Place<'_>) -> Result<(), Misfit> {
    let is_within = order(number, limit).is_some_and(|order| match bound {
        Bound::AtLeast => order.is_ge(),
        Bound::MoreThan => order.is_gt(),
        Bound::AtMost => order.is_le(),
        Bound::LessThan => order.is_lt(),
    });
    if is_within { Ok(()) } else { Err(at.wrong(format!("it must be {bound} {limit}, and is {number}"))) }
}

fn counted(count: Count, there: usize, what: &str, at: &Place<'_>) -> Result<(), Misfit> {
    let there = u64::try_from(there).unwrap_or(u64::MAX);
    let (is_right, words, limit) = match count {
        Count::AtLeast(limit) => (there >= limit, "at least", limit),
        Count::AtMost(limit) => (there <= limit, "at most", limit),
    };
    if is_right {
        return Ok(());
    }
    let plural = if limit == 1 { "" } else { "s" };
    Err(at.wrong(format!("it must have {words} {limit} {what}{plural}, and has {there}")))
}

fn all_differ(items: &[Value], at: &Place<'_>) -> Result<(), Misfit> {
    let mut seen = HashSet::with_capacity(items.len());
    if items.iter().all(|item| seen.insert(Same(item))) {
        return Ok(());
    }
    Err(at.wrong("two of its items are the same, and all must differ"))
}

fn all_there(names: &[String], fields: &Map<String, Value>, at: &Place<'_>) -> Result<(), Misfit> {
    match names.iter().find(|name| !fields.contains_key(*name)) {
        Some(missing) => Err(at.wrong(format!("the field {missing:?} is missing"))),
        None => Ok(()),
    }
}

fn not_a_field(name: &str, named: &BTreeMap<String, SchemaId>) -> String {
    let names: Vec<&str> = named.keys().map(String::as_str).collect();
    match names.as_slice() {
        [] => format!("it has no field {}", quoted(name)),
        names => format!("it has no field {}; its fields are {}", quoted(name), names.join(", ")),
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
