//! Turns a file's values into defaults of flags.

use std::path::Path;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command, Id, ValueHint};

use super::SHARED;
use super::line::exclude_each_other;
use crate::db::is_file;
use crate::yaml::{self, BadYaml, Key, Node, NodeError, Value};

/// The flags that say what a command is aimed at.
const AIMS: [(&str, &[&str]); 4] = [
    ("cancel", &["all", "app", "call", "session", "tenant", "user"]),
    ("keys create", &["expires", "scope", "tenant", "user"]),
    ("line hold", &["app", "tenant", "user"]),
    ("line open", &["app", "tenant", "user"]),
];

/// The flags that decide what a command does.
const DECISIONS: [(&str, &[&str]); 3] =
    [("approve", &["deny", "yes"]), ("delete", &["yes"]), ("line hold", &["cancel", "now"])];

/// The command with the text's values as defaults. `file` is where the text comes from.
pub(super) fn apply(command: Command, text: &str, file: &Path) -> Result<Command, BadYaml> {
    let folder = std::path::absolute(file).ok().and_then(|file| file.parent().map(Path::to_path_buf));
    yaml::read(text, |root| all(command, root, folder.as_deref().unwrap_or(Path::new("."))))
}

fn all(mut command: Command, root: &Node, folder: &Path) -> Result<Command, NodeError> {
    let entries = entries(root, "the file must have keys and values, such as `bind: 127.0.0.1:8001`")?;
    let is_section = |key: &Key| command.find_subcommand(&key.text).is_some();
    let (sections, flat): (Vec<_>, Vec<_>) = entries.iter().partition(|(key, _)| is_section(key));
    for (key, node) in flat {
        let (owner, arg) = shared(&command, &key.text).ok_or_else(|| unknown(&command, key))?;
        let values = values(owner, arg, node, folder)?;
        command = set_everywhere(command, &key.text, &values);
    }
    // After the flat keys, which they override.
    for (key, node) in sections {
        let name = key.text.as_str();
        let Some(below) = command.find_subcommand(name).cloned() else { continue };
        let below = section(below, name, node, folder)?;
        command = command.mut_subcommand(name, |_| below);
    }
    Ok(command)
}

/// Applies the flags of one command and of its subcommands.
fn section(mut command: Command, name: &str, node: &Node, folder: &Path) -> Result<Command, NodeError> {
    let mut said = Vec::new();
    for (key, node) in entries(node, &format!("`{name}` is a command: put its flags under it, indented"))? {
        let flag = key.text.as_str();
        if let Some(below) = command.find_subcommand(flag).cloned() {
            let below = section(below, &format!("{name} {flag}"), node, folder)?;
            command = command.mut_subcommand(flag, |_| below);
            continue;
        }
        let arg = flag_of(&command, flag)
            .ok_or_else(|| (key.at, format!("`andon {name}` has no flag --{flag}: see `andon {name} --help`")))?;
        if let Some(why) = why_not(name, flag) {
            return Err((key.at, why));
        }
        let values = values(&command, arg, node, folder)?;
        if values.iter().any(|value| value != "false") {
            alone(&command, &said, arg).map_err(|why| (key.at, why))?;
            said.push(arg.get_id().clone());
        }
        command = set(command, flag, &values);
    }
    Ok(command)
}

/// Whether the flag says what the command is aimed at or decides: such a flag must not be in a file.
pub(super) fn is_aim(command: &str, long: &str) -> bool {
    why_not(command, long).is_some()
}

fn why_not(command: &str, long: &str) -> Option<String> {
    let is_in = |list: &[(&str, &[&str])]| list.iter().any(|(of, flags)| *of == command && flags.contains(&long));
    let says = match () {
        () if is_in(&AIMS) => format!("says what `andon {command}` is aimed at"),
        () if is_in(&DECISIONS) => format!("decides what `andon {command}` does"),
        () => return None,
    };
    Some(format!("--{long} {says}, so it must be on the command line"))
}

/// Fails if the flag excludes another one in the file.
fn alone(command: &Command, said: &[Id], arg: &Arg) -> Result<(), String> {
    let others = command.get_arguments().filter(|other| said.contains(other.get_id()));
    let rival = others.into_iter().find(|other| exclude_each_other(command, arg, other));
    rival.map_or(Ok(()), |rival| {
        let [one, other] = [rival, arg].map(|arg| arg.get_long().unwrap_or_default());
        Err(format!("--{one} and --{other} cannot be used together: leave one out"))
    })
}

fn entries<'n>(node: &'n Node, why_not: &str) -> Result<&'n [(Key, Node)], NodeError> {
    match &node.value {
        Value::Map(entries) => Ok(entries),
        Value::Null => Ok(&[]),
        _ => Err((node.at, why_not.to_owned())),
    }
}

/// A flag that applies to every command, and a command that has it.
fn shared<'c>(command: &'c Command, long: &str) -> Option<(&'c Command, &'c Arg)> {
    let serve = command.find_subcommand("serve")?;
    let others = SHARED.contains(&long).then(|| command.get_subcommands()).into_iter().flatten();
    std::iter::once(serve).chain(others).find_map(|owner| Some((owner, flag_of(owner, long)?)))
}

/// A flag that may be in a file.
fn flag_of<'c>(command: &'c Command, long: &str) -> Option<&'c Arg> {
    flags(command).find(|arg| arg.get_long() == Some(long))
}

/// The flags of a command that may be in a file.
pub(super) fn flags(command: &Command) -> impl Iterator<Item = &Arg> {
    let never = ["config", "help", "version"];
    command.get_arguments().filter(move |arg| arg.get_long().is_some_and(|long| !never.contains(&long)))
}

fn unknown(command: &Command, key: &Key) -> NodeError {
    let name = yaml::cut(&key.text);
    let owner = command.get_subcommands().find(|owner| flag_of(owner, &key.text).is_some());
    let why = match owner.map(Command::get_name) {
        Some(owner) => format!("--{name} does not apply to every command: put `{name}` under `{owner}:`"),
        None => format!("there is no flag --{name}: see `andon config` for all of them"),
    };
    (key.at, why)
}

/// The values of a flag, as they would be on the command line.
fn values(owner: &Command, arg: &Arg, node: &Node, folder: &Path) -> Result<Vec<String>, NodeError> {
    let long = arg.get_long().unwrap_or_default();
    if !arg.get_action().takes_values() {
        return match node.value {
            Value::Bool(is_set) => Ok(vec![is_set.to_string()]),
            _ => Err((node.at, format!("`{long}` must be true or false"))),
        };
    }
    let nodes = match (&node.value, arg.get_action()) {
        (Value::List(nodes), ArgAction::Append) => nodes.as_slice(),
        (Value::List(_), _) => return Err((node.at, format!("`{long}` takes one value, not a list"))),
        _ => std::slice::from_ref(node),
    };
    nodes.iter().map(|node| value(owner, arg, node, folder)).collect()
}

fn value(owner: &Command, arg: &Arg, node: &Node, folder: &Path) -> Result<String, NodeError> {
    let long = arg.get_long().unwrap_or_default();
    let text = match &node.value {
        Value::Text(text) => text.clone(),
        Value::Bool(value) => value.to_string(),
        Value::Whole(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::Null => return Err((node.at, format!("`{long}` has no value: give it one, or remove the key"))),
        Value::List(_) | Value::Map(_) => return Err((node.at, format!("`{long}` must be a single value"))),
    };
    let is_path = matches!(arg.get_value_hint(), ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath);
    let text = if is_path && is_file(&text) { beside(&text, folder) } else { text };
    check(owner, long, &text).map_err(|why| (node.at, why))?;
    Ok(text)
}

/// Resolves a path relative to the file's folder, or to the home folder after `~/`.
fn beside(path: &str, folder: &Path) -> String {
    let home = path.strip_prefix("~/").and_then(|rest| Some(dirs::home_dir()?.join(rest)));
    home.unwrap_or_else(|| folder.join(path)).to_string_lossy().into_owned()
}

/// Fails with the flag's own error if it does not accept the value.
fn check(owner: &Command, long: &str, value: &str) -> Result<(), String> {
    let word = format!("--{long}={value}");
    let parsed = owner.clone().no_binary_name(true).try_get_matches_from([word]);
    match parsed.map_err(|error| (error.kind(), error)) {
        Err((ErrorKind::InvalidValue | ErrorKind::ValueValidation, error)) => {
            let said = error.render().to_string();
            let said = said.split("\n\n").next().unwrap_or_default();
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            Err(said.trim_start_matches("error: ").to_owned())
        }
        // Other errors, such as a missing argument, are not the file's fault.
        _ => Ok(()),
    }
}

/// Sets the flag's default in every command that has it.
fn set_everywhere(command: Command, long: &str, values: &[String]) -> Command {
    set(command, long, values).mut_subcommands(|below| set_everywhere(below, long, values))
}

fn set(command: Command, long: &str, values: &[String]) -> Command {
    let Some(id) = flag_of(&command, long).map(|arg| arg.get_id().clone()) else { return command };
    // Leaked, because clap needs them as long as the program runs, and they are few.
    let values: Vec<&'static str> = values.iter().map(|value| &*value.clone().leak()).collect();
    command.mut_arg(id, |arg| arg.default_values(values))
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
