//! Reads the keys of a mapping one by one, with an error for each mistake.
//!
//! # Invariants
//!
//! 1. An unknown key is refused by name: nothing in a file is silently ignored.
//! 2. No error repeats a value, which may be a secret.

use std::path::PathBuf;
use std::time::Duration;

use super::{Key, Node, NodeIndex, Value, cut};

/// What is wrong with a file, where, and what to change.
#[derive(Debug, PartialEq)]
pub(crate) struct FieldError {
    pub(crate) at: NodeIndex,
    pub(crate) why: String,
    /// Whether it may go away without a change to the file, such as a server that is not up yet.
    pub(crate) may_pass: bool,
}

impl FieldError {
    pub(crate) fn new(at: NodeIndex, why: impl Into<String>) -> Self {
        Self { at, why: why.into(), may_pass: false }
    }

    pub(crate) fn passing(at: NodeIndex, why: impl Into<String>) -> Self {
        Self { may_pass: true, ..Self::new(at, why) }
    }
}

/// A value and its place in the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Located<T> {
    pub(crate) at: NodeIndex,
    pub(crate) value: T,
}

/// The keys that a mapping may have.
pub(crate) struct Keys {
    /// The supported ones.
    pub(crate) known: &'static [&'static str],
    /// Those of ADK's that are not supported yet, and what to do instead.
    pub(crate) not_yet: &'static [(&'static str, &'static str)],
}

/// The entries of a mapping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'n> {
    pub(crate) at: NodeIndex,
    entries: &'n [(Key, Node)],
}

impl<'n> Fields<'n> {
    /// The entries of a mapping that has only these keys. `what` names the mapping in a sentence.
    pub(crate) fn of(node: &'n Node, what: &str, keys: &Keys) -> Result<Self, FieldError> {
        let entries = match &node.value {
            Value::Map(entries) => entries.as_slice(),
            Value::Null => &[],
            _ => {
                return Err(FieldError::new(
                    node.at,
                    format!("{what} must have keys and values, such as `key: value`"),
                ));
            }
        };
        for (key, _) in entries {
            if !keys.known.contains(&key.text.as_str()) {
                return Err(FieldError::new(key.at, refusal(&key.text, what, keys)));
            }
        }
        Ok(Self { at: node.at, entries })
    }

    /// The value of a key, if it is present and not null.
    pub(crate) fn get(&self, key: &str) -> Option<&'n Node> {
        let entry = self.entries.iter().find(|(other, _)| other.text == key);
        entry.map(|(_, value)| value).filter(|value| value.value != Value::Null)
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<Located<&'n str>>, FieldError> {
        self.get(key).map(|node| text(node, &format!("`{key}`"))).transpose()
    }

    pub(crate) fn is_true(&self, key: &str) -> Result<bool, FieldError> {
        match self.get(key) {
            None => Ok(false),
            Some(Node { value: Value::Bool(value), .. }) => Ok(*value),
            Some(node) => Err(FieldError::new(node.at, format!("`{key}` must be true or false"))),
        }
    }

    pub(crate) fn path(&self, key: &str) -> Result<Option<Located<PathBuf>>, FieldError> {
        Ok(self.text(key)?.map(|path| Located { at: path.at, value: path.value.into() }))
    }

    /// A positive whole number.
    pub(crate) fn count(&self, key: &str) -> Result<Option<u64>, FieldError> {
        match self.get(key) {
            None => Ok(None),
            Some(Node { value: Value::Whole(count @ 1..), .. }) => Ok(Some(*count)),
            Some(node) => Err(FieldError::new(node.at, format!("`{key}` must be a whole number, at least 1"))),
        }
    }

    /// A time with its unit, such as `30s`; not zero.
    pub(crate) fn time(&self, key: &str) -> Result<Option<Duration>, FieldError> {
        let Some(node) = self.get(key) else { return Ok(None) };
        let bad =
            || FieldError::new(node.at, format!("`{key}` must be a time of more than zero, such as 30s, 2m or 500ms"));
        let Value::Text(text) = &node.value else { return Err(bad()) };
        let time = humantime::parse_duration(text).map_err(|_| bad())?;
        if time.is_zero() { Err(bad()) } else { Ok(Some(time)) }
    }

    /// A time as ADK writes it: a number of seconds.
    pub(crate) fn seconds(&self, key: &str, most: Duration) -> Result<Option<Duration>, FieldError> {
        let Some(node) = self.get(key) else { return Ok(None) };
        let seconds = match &node.value {
            Value::Whole(seconds) => Duration::from_secs(*seconds),
            Value::Number(seconds) => Duration::try_from_secs_f64(*seconds).unwrap_or_default(),
            _ => Duration::ZERO,
        };
        if seconds.is_zero() || seconds > most {
            let why = format!("`{key}` must be a number of seconds, more than 0 and at most {}", most.as_secs());
            return Err(FieldError::new(node.at, why));
        }
        Ok(Some(seconds))
    }

    /// A list of texts; empty if the key is missing.
    pub(crate) fn texts(&self, key: &str) -> Result<Vec<&'n str>, FieldError> {
        let Some(node) = self.get(key) else { return Ok(Vec::new()) };
        let items = list(node, &format!("`{key}`"))?;
        let what = format!("each entry of `{key}`");
        items.iter().map(|item| text(item, &what).map(|text| text.value)).collect()
    }

    /// Names and texts, such as variables with their values; empty if the key is missing.
    pub(crate) fn pairs(&self, key: &str) -> Result<Vec<(&'n Key, Located<&'n str>)>, FieldError> {
        let Some(node) = self.get(key) else { return Ok(Vec::new()) };
        let Value::Map(entries) = &node.value else {
            return Err(FieldError::new(node.at, format!("`{key}` must have names and values, such as `NAME: value`")));
        };
        let pair = |(name, value): &'n (Key, Node)| {
            let what = format!("the value of `{}` in `{key}`", cut(&name.text));
            text(value, &what).map(|value| (name, value))
        };
        entries.iter().map(pair).collect()
    }
}

/// The items of a list.
pub(crate) fn list<'n>(node: &'n Node, what: &str) -> Result<&'n [Node], FieldError> {
    match &node.value {
        Value::List(items) => Ok(items),
        _ => Err(FieldError::new(node.at, format!("{what} must be a list: begin each entry with `- `"))),
    }
}

/// A text that is not empty.
fn text<'n>(node: &'n Node, what: &str) -> Result<Located<&'n str>, FieldError> {
    let why = match &node.value {
        Value::Text(text) if !text.trim().is_empty() => return Ok(Located { at: node.at, value: text }),
        Value::Text(_) | Value::Null => format!("{what} is empty: give it a value, or remove the key"),
        Value::Bool(_) | Value::Whole(_) | Value::Number(_) => format!("{what} must be text: put it into quotes"),
        Value::List(_) | Value::Map(_) => format!("{what} must be text, not a list or a mapping"),
    };
    Err(FieldError::new(node.at, why))
}

/// Why a key is refused.
fn refusal(key: &str, what: &str, keys: &Keys) -> String {
    if let Some((name, instead)) = keys.not_yet.iter().find(|(name, _)| *name == key) {
        return format!("`{name}` is not supported yet: {instead}");
    }
    let known = keys.known.join(", ");
    match nearest(key, keys.known) {
        Some(meant) => {
            format!("unknown key `{}` in {what}: did you mean `{meant}`? The valid keys are {known}", cut(key))
        }
        None => format!("unknown key `{}` in {what}: remove it; the valid keys are {known}", cut(key)),
    }
}

/// The most similar name, if one is similar enough.
pub(crate) fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    // A very long name is similar to nothing, and would take long to compare.
    if name.len() > 64 {
        return None;
    }
    let far = |other: &&str| strsim::osa_distance(&name.to_lowercase(), &other.to_lowercase());
    names.iter().copied().min_by_key(far).filter(|other| far(other) <= other.len() / 3)
}
