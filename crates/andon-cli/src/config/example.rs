//! `andon config`: a file with every flag in it, to begin with.

use std::fmt::Write as _;
use std::io::Write as _;

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::settings::flags;
use super::{SHARED, VARIABLE, usual_path};
use crate::Exit;
use crate::args::Args;

/// Writes the file to standard output.
pub(crate) fn print() -> anyhow::Result<Exit> {
    std::io::stdout().write_all(example()?.as_bytes())?;
    Ok(Exit::Completed)
}

/// Every flag with what it is for, each commented out.
fn example() -> anyhow::Result<String> {
    let command = Args::command();
    let place = usual_path().map_or_else(|| "nowhere".to_owned(), |path| path.display().to_string());
    let mut text = String::new();
    writeln!(text, "# Andon reads this file from {place}, or from where --config or {VARIABLE} says.")?;
    writeln!(text, "# The command line wins, then the environment, then this file. A relative path is one beside it.")?;
    let serve = command.find_subcommand("serve").into_iter().flat_map(flags);
    let mut known: Vec<&str> = Vec::new();
    for arg in serve {
        entry(&mut text, arg, "")?;
        known.extend(arg.get_long());
    }
    let of_all = |arg: &&Arg| arg.get_long().is_some_and(|long| SHARED.contains(&long));
    if let Some(arg) = command.get_subcommands().flat_map(flags).find(of_all) {
        entry(&mut text, arg, "")?;
        known.extend(arg.get_long());
    }
    for below in command.get_subcommands() {
        section(&mut text, below, &known, "")?;
    }
    Ok(text)
}

/// The flags of one command alone.
fn section(text: &mut String, command: &Command, known: &[&str], indent: &str) -> std::fmt::Result {
    let own: Vec<&Arg> = flags(command).filter(|arg| !known.contains(&arg.get_long().unwrap_or_default())).collect();
    let below = format!("{indent}  ");
    let mut inner = String::new();
    for arg in own {
        entry(&mut inner, arg, &below)?;
    }
    for command in command.get_subcommands() {
        section(&mut inner, command, known, &below)?;
    }
    if inner.is_empty() { Ok(()) } else { write!(text, "\n#{indent}{}:{inner}", command.get_name()) }
}

fn entry(text: &mut String, arg: &Arg, indent: &str) -> std::fmt::Result {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    writeln!(text, "\n#{indent} # {help}")?;
    write!(text, "#{indent}{}: {}", arg.get_long().unwrap_or_default(), value(arg))?;
    if indent.is_empty() { writeln!(text) } else { Ok(()) }
}

/// What the flag is unless told otherwise, or what has to be written there.
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

    fn longs(command: &Command) -> Vec<String> {
        let own = flags(command).filter_map(|arg| arg.get_long().map(str::to_owned));
        own.chain(command.get_subcommands().flat_map(longs)).collect()
    }

    #[test]
    fn every_flag_of_every_command_is_in_it() {
        let text = example().unwrap();
        for long in longs(&Args::command()) {
            assert!(text.contains(&format!("{long}: ")), "{long} is not in\n{text}");
        }
    }

    #[test]
    fn it_is_all_comment_and_what_has_a_default_can_be_taken_as_it_is() {
        let text = example().unwrap();
        assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "{text}");
        let with_default = |line: &&str| {
            ["#bind: ", "#drain: ", "#max-runs: ", "#tool: ", "#instant: "].iter().any(|key| line.starts_with(key))
        };
        let taken: Vec<&str> = text.lines().filter(with_default).map(|line| line.trim_start_matches('#')).collect();
        assert_eq!(taken.len(), 5, "{text}");
        let file = std::path::Path::new("/etc/andon.yaml");
        super::super::settings::apply(Args::command(), &taken.join("\n"), file).unwrap();
    }
}
