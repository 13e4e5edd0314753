//! `andon config`: a file with every flag in it, to start from.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::settings::{flags, is_aim};
use super::{SHARED, usual_path};
use crate::args::{Args, CONFIG_VARIABLE};
use crate::print::out::write_own;

/// Prints the file to standard output.
pub(crate) fn print() -> anyhow::Result<()> {
    Ok(write_own(example()?.as_bytes())?)
}

/// Every flag with its help, each commented out.
fn example() -> anyhow::Result<String> {
    let command = Args::command();
    let place = usual_path().map_or_else(|| "nowhere".to_owned(), |path| path.display().to_string());
    let mut text = String::new();
    writeln!(text, "# Andon reads this file from {place}, or from the path in --config or {CONFIG_VARIABLE}.")?;
    writeln!(
        text,
        "# The command line overrides the environment, which overrides this file. Paths are relative to it."
    )?;
    let serve = command.find_subcommand("serve").into_iter().flat_map(flags);
    let mut known: Vec<&str> = Vec::new();
    for arg in serve {
        entry(&mut text, arg, "")?;
        known.extend(arg.get_long());
    }
    for shared in SHARED {
        let mut of_all = command.get_subcommands().flat_map(flags);
        if let Some(arg) = of_all.find(|arg| arg.get_long() == Some(shared)) {
            entry(&mut text, arg, "")?;
            known.extend(arg.get_long());
        }
    }
    for below in command.get_subcommands() {
        section(&mut text, below, below.get_name(), &known)?;
    }
    Ok(text)
}

/// The flags of a single command, such as `line hold`.
fn section(text: &mut String, command: &Command, name: &str, known: &[&str]) -> std::fmt::Result {
    let indent = "  ".repeat(name.split(' ').count());
    let own = flags(command).filter(|arg| {
        let long = arg.get_long().unwrap_or_default();
        !known.contains(&long) && !is_aim(name, long)
    });
    let mut inner = String::new();
    for arg in own {
        entry(&mut inner, arg, &indent)?;
    }
    for below in command.get_subcommands() {
        section(&mut inner, below, &format!("{name} {}", below.get_name()), known)?;
    }
    let outer = indent.get(2..).unwrap_or_default();
    if inner.is_empty() { Ok(()) } else { write!(text, "\n#{outer}{}:\n{inner}", command.get_name()) }
}

fn entry(text: &mut String, arg: &Arg, indent: &str) -> std::fmt::Result {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    writeln!(text, "\n# {help}.")?;
    writeln!(text, "#{indent}{}: {}", arg.get_long().unwrap_or_default(), value(arg))
}

/// The flag's default, or a placeholder.
fn value(arg: &Arg) -> String {
    let usual: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    match (arg.get_action(), usual.as_slice()) {
        (action, _) if !action.takes_values() => "false".to_owned(),
        (_, [usual]) => usual.clone(),
        (ArgAction::Append, _) => "[]".to_owned(),
        _ => {
            let names = arg.get_value_names().unwrap_or_default();
            names.first().map(ToString::to_string).unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags of a command and its subcommands that may be in a file.
    fn longs(command: &Command, name: &str) -> Vec<String> {
        let own = flags(command).filter_map(Arg::get_long).filter(|long| !is_aim(name, long)).map(str::to_owned);
        let below = command.get_subcommands().flat_map(|below| {
            let whole = format!("{name} {}", below.get_name());
            longs(below, whole.trim_start())
        });
        own.chain(below).collect()
    }

    #[test]
    fn the_example_has_every_flag_of_every_command() {
        let text = example().unwrap();
        for long in longs(&Args::command(), "") {
            assert!(text.contains(&format!("{long}: ")), "{long} is not in\n{text}");
        }
    }

    #[test]
    fn the_example_is_all_comments_and_its_defaults_are_accepted() {
        let text = example().unwrap();
        assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "{text}");
        // Help begins with one space. Capitals are placeholders.
        let is_setting = |line: &&str| !line.starts_with(' ') || line.starts_with("  ");
        let is_filled_in = |line: &&str| !line.contains(|c: char| c.is_ascii_uppercase());
        let lines = text.lines().filter_map(|line| line.strip_prefix('#'));
        let settings: Vec<&str> = lines.filter(is_setting).filter(is_filled_in).collect();
        let file = std::path::Path::new("/etc/andon.yaml");
        super::super::settings::apply(Args::command(), &settings.join("\n"), file).unwrap();
        for long in ["bind", "drain", "tool", "instant", "run", "json", "line", "hold", "cancel"] {
            let is_set = settings.iter().any(|line| line.trim_start().starts_with(&format!("{long}:")));
            assert!(is_set, "{long} is not in {settings:#?}");
        }
    }
}
