//! Rules that several providers share, and helpers to read a body that may be anything.

use std::collections::HashSet;

use serde_json::Value;

use super::violation::Violations;

/// The longest tool name that every provider accepts.
const MAX_NAME: usize = 64;

/// Whether a text has only letters, digits, `_` and `-`, at least one of them and at most `max`.
fn is_plain(text: &str, max: usize) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !text.is_empty() && text.len() <= max && text.chars().all(plain)
}

/// The list in a field; empty if there is none.
pub(super) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The text in a field; empty if there is none.
pub(super) fn word<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A call or a result, and where it is.
pub(super) struct Mention {
    pub(super) path: String,
    pub(super) id: String,
}

/// The calls and results of one message.
#[derive(Default)]
pub(super) struct Turn {
    pub(super) calls: Vec<Mention>,
    pub(super) results: Vec<Mention>,
}

/// The conversation begins with `roles[0]`, and the two roles take turns.
pub(super) fn check_roles(field: &str, messages: &[Value], roles: [&str; 2], violations: &mut Violations) {
    violations.require(!messages.is_empty(), field, "there is no message");
    let mut before = None;
    for (place, message) in messages.iter().enumerate() {
        let (path, role) = (format!("{field}[{place}].role"), word(message, "role"));
        if !roles.contains(&role) {
            violations.add(&path, format!("the role is `{}`, not `{role}`", roles.join("` or `")));
        } else if before.is_none() && role != roles.first().copied().unwrap_or_default() {
            violations.add(&path, format!("the first message must not be of `{role}`"));
        } else if before == Some(role) {
            violations.add(&path, format!("roles alternate, but there are two messages of `{role}` in a row"));
        }
        before = Some(role);
    }
}

/// The messages of an API whose two sides are the user and the assistant. `check` looks at one message by itself.
pub(super) fn check_turns(
    body: &Value,
    check: impl Fn(&str, &Value, &mut Violations) -> Turn,
    violations: &mut Violations,
) -> Vec<Turn> {
    let messages = list(body, "messages");
    check_roles("messages", messages, ["user", "assistant"], violations);
    let path = |place| format!("messages[{place}].content");
    let turns = messages.iter().enumerate().map(|(place, message)| check(&path(place), message, violations));
    let turns: Vec<Turn> = turns.collect();
    check_pairs(&turns, violations);
    turns
}

/// Every call has exactly one result in the next message, and every result a call in the message before.
fn check_pairs(turns: &[Turn], violations: &mut Violations) {
    let mut seen = HashSet::new();
    let mut before: &[Mention] = &[];
    for (place, turn) in turns.iter().enumerate() {
        let answers: &[Mention] = turns.get(place + 1).map_or(&[], |next| &next.results);
        for Mention { path, id } in &turn.calls {
            violations.require(seen.insert(id), path, "a call's id is unique in the conversation");
            match answers.iter().filter(|answer| answer.id == *id).count() {
                1 => {}
                0 => violations.add(path, format!("call `{id}` has no result in the next message")),
                many => violations.add(path, format!("call `{id}` has {many} results in the next message")),
            }
        }
        for Mention { path, id } in &turn.results {
            let asked = before.iter().any(|call| call.id == *id);
            violations.require(asked, path, "a result answers a call of the message before");
        }
        before = &turn.calls;
    }
}

/// A text is there and is not blank.
pub(super) fn check_text(path: &str, text: Option<&Value>, violations: &mut Violations) {
    match text.and_then(Value::as_str) {
        Some(text) => violations.require(!text.trim().is_empty(), path, "text must not be blank"),
        None => violations.add(path, "text must be a string"),
    }
}

/// A call's id is plain and short enough.
pub(super) fn check_id(path: &str, id: &str, max: usize, violations: &mut Violations) {
    if !is_plain(id, max) {
        violations.add(path, format!("an id has 1 to {max} letters, digits, `_` or `-`, not `{id}`"));
    }
}

/// A tool's name is plain and short enough.
pub(super) fn check_name(path: &str, name: &str, violations: &mut Violations) {
    if !is_plain(name, MAX_NAME) {
        violations.add(path, format!("a tool's name has 1 to {MAX_NAME} letters, digits, `_` or `-`, not `{name}`"));
    }
}

/// A value is there and is an object.
pub(super) fn check_object(path: &str, value: Option<&Value>, violations: &mut Violations) {
    violations.require(value.is_some_and(Value::is_object), path, "must be an object");
}

/// Arguments are a string that holds a JSON object.
pub(super) fn check_arguments(path: &str, arguments: Option<&Value>, violations: &mut Violations) {
    let Some(text) = arguments.and_then(Value::as_str) else {
        return violations.add(path, "arguments must be a string");
    };
    let is_object = serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object());
    violations.require(is_object, path, "arguments must be the text of a JSON object");
}

/// A signature is there, and is not one that [`signature_of`](super::signature_of()) made for another provider: the server could not read it.
pub(super) fn check_signature(path: &str, signature: &str, own: &str, violations: &mut Violations) {
    violations.require(!signature.is_empty(), path, "a thought needs its signature");
    if let Some(maker) = signature.strip_prefix(super::providers::SIGNATURE_OF) {
        violations.require(maker == own, path, "a signed thought goes back only to its provider");
    }
}

/// No more than four places are marked for the cache, whatever the mark is called.
pub(super) fn check_cache_marks(body: &Value, mark: &str, violations: &mut Violations) {
    violations.require(count(body, mark) <= 4, mark, "at most four places are marked for the cache");
}

fn count(value: &Value, field: &str) -> usize {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, inner)| usize::from(name == field) + count(inner, field)).sum()
        }
        Value::Array(items) => items.iter().map(|item| count(item, field)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// No two tools have the same name, and the schema of each, if there is a field for it, is an object.
///
/// `inner` is the field of a tool that describes it; empty if the tool itself does. A schema may be nested, as `a.b`.
pub(super) fn check_tools(
    field: &str,
    tools: &[Value],
    inner: &str,
    schema: Option<&str>,
    violations: &mut Violations,
) {
    let mut seen = HashSet::new();
    for (place, tool) in tools.iter().enumerate() {
        let (path, tool) = match inner {
            "" => (format!("{field}[{place}]"), Some(tool)),
            inner => (format!("{field}[{place}].{inner}"), tool.get(inner)),
        };
        let Some(tool) = tool else { continue };
        let (name, name_path) = (word(tool, "name"), format!("{path}.name"));
        check_name(&name_path, name, violations);
        violations.require(seen.insert(name), &name_path, "a tool's name is unique in the request");
        if let Some(schema) = schema {
            let value = schema.split('.').try_fold(tool, |value, field| value.get(field));
            check_object(&format!("{path}.{schema}"), value, violations);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::Value;

    use crate::wire::Provider;

    /// Puts each value at its place in a good body, and expects the violation with these words there.
    pub(crate) fn assert_each_value_is_refused(provider: Provider, good: &Value, wrong: &[(&str, &str, Value)]) {
        for (path, words, value) in wrong {
            let (parent, field) = path.rsplit_once('.').unwrap_or(("", path));
            let parent = format!(".{parent}").replace(['[', '.'], "/").replace(']', "");
            let mut body = good.clone();
            body.pointer_mut(parent.trim_end_matches('/')).unwrap()[field] = value.clone();
            let violations = provider.validate(&body).expect_err(words);
            let named = violations.iter().any(|found| found.path == *path && found.rule.contains(words));
            assert!(named, "expected `{words}` at {path}, found {violations:#?}");
        }
    }
}
