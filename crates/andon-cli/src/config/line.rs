//! The command line itself: what it says before any file is read, and how it overrides the file.
//!
//! # Invariants
//!
//! 1. An empty variable counts as unset: many scripts unset a variable that way.
//! 2. A flag that a file may switch on can be switched off on the command line: `--json=false`. One that a file may not set
//!    takes no value: `--all=false` would not say what to stop.
//! 3. If two flags exclude each other, the one on the command line or in a variable overrides the one in the file.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, Id};

use super::settings::is_aim;
use crate::args::Args;

/// What the command line and the variables say.
#[derive(Debug, Default)]
pub(super) struct CommandLine {
    /// The subcommands: `line`, `hold`.
    path: Vec<String>,
    /// The flags that are set, and not to false.
    flags: Vec<Id>,
    /// The file named by `--config` or its variable.
    pub(super) file: Option<PathBuf>,
}

impl CommandLine {
    /// Reads the command line once without the file. Mistakes in it are reported by the second reading; a request for help is
    /// answered here, because it needs no file.
    pub(super) fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        let parse = |command: Command| command.ignore_errors(true).try_get_matches_from(words);
        // Help shows flags as they are usually written.
        let matches =
            parse(prepare(Args::command(), "")).map_err(|error| parse(Args::command()).err().unwrap_or(error))?;
        let mut said = Self::default();
        let mut deepest: &ArgMatches = &matches;
        while let Some((name, below)) = deepest.subcommand() {
            said.path.push(name.to_owned());
            deepest = below;
        }
        said.flags = deepest.ids().filter(|id| is_said(deepest, id.as_str())).cloned().collect();
        let file = deepest.try_get_one::<OsString>("config").ok().flatten();
        said.file = file.filter(|name| !name.is_empty()).map(PathBuf::from);
        Ok(said)
    }

    /// The first subcommand; `None` for `andon` alone.
    pub(super) fn command(&self) -> Option<&str> {
        self.path.first().map(String::as_str)
    }

    /// The command with the file's defaults, ready to parse.
    pub(super) fn in_front_of(&self, command: Command) -> Command {
        prepare(self.first(command, &Args::command(), &self.path), "")
    }

    /// Resets the file's defaults that exclude a flag on the command line (invariant 3).
    fn first(&self, command: Command, plain: &Command, path: &[String]) -> Command {
        if let Some((name, rest)) = path.split_first() {
            let Some(plain) = plain.find_subcommand(name) else { return command };
            return command.mut_subcommand(name, |below| self.first(below, plain, rest));
        }
        let said = plain.get_arguments().filter(|arg| self.flags.contains(arg.get_id()));
        let said: Vec<&Arg> = said.collect();
        let rivals = plain.get_arguments().filter(|arg| {
            !self.flags.contains(arg.get_id()) && said.iter().any(|said| exclude_each_other(plain, arg, said))
        });
        rivals.fold(command, |command, rival| {
            let usual = rival.get_default_values().to_vec();
            command.mut_arg(rival.get_id(), |arg| arg.default_values(usual))
        })
    }
}

/// Whether two flags of a command exclude each other.
pub(super) fn exclude_each_other(command: &Command, one: &Arg, other: &Arg) -> bool {
    let excludes = |one: &Arg, other: &Arg| {
        command.get_arg_conflicts_with(one).iter().any(|excluded| excluded.get_id() == other.get_id())
    };
    excludes(one, other) || excludes(other, one)
}

fn is_said(matches: &ArgMatches, id: &str) -> bool {
    let is_off = matches.try_get_one::<bool>(id).is_ok_and(|value| value == Some(&false));
    let source = matches.value_source(id);
    !is_off && matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

/// The command without empty variables, and with flags that can be switched off (invariants 1 and 2). The program itself has no
/// name.
fn prepare(command: Command, name: &str) -> Command {
    let command = command.mut_args(|arg| can_be_off(without_empty(arg), name));
    command.mut_subcommands(|below| {
        let whole = format!("{name} {}", below.get_name());
        prepare(below, whole.trim_start())
    })
}

fn without_empty(arg: Arg) -> Arg {
    let value = arg.get_env().and_then(std::env::var_os);
    if value.is_some_and(|value| value.is_empty()) { arg.env(Resettable::Reset) } else { arg }
}

fn can_be_off(arg: Arg, command: &str) -> Arg {
    let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
    if !is_flag || is_aim(command, arg.get_long().unwrap_or_default()) {
        return arg;
    }
    let usual = arg.get_default_values().first().cloned().unwrap_or_else(|| "false".into());
    arg.action(ArgAction::Set)
        .value_parser(clap::value_parser!(bool))
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .default_value(usual)
        .value_name("true|false")
        .hide_possible_values(true)
        .hide_default_value(true)
}
