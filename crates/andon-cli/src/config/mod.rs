//! The configuration file: defaults for flags.
//!
//! Its keys are the long names of flags. Those of `andon serve`, and `server`, apply to every command that has them; the flags of
//! a single command go under its name:
//!
//! ```yaml
//! bind: 127.0.0.1:8001
//! agents: ./agents
//! tool: [shell, read_file]
//! run:
//!   json: true
//! ```
//!
//! # Invariants
//!
//! 1. A value in the file becomes the default of its flag. So the command line and the environment win, and no flag is
//!    defined twice.
//! 2. An unknown key is refused by name, a wrong value with its flag's own error, each with file and line.
//! 3. What a command is aimed at, and what it decides, must be on the command line: nothing is stopped, approved or deleted
//!    because of a forgotten line in a file.
//! 4. Settings for the agent are for local agents: they are ignored when a command talks to a server.
//! 5. A relative path is relative to the file.
//! 6. A mistake in the default file does not disable the commands that stop something.

mod example;
mod line;
mod settings;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use self::line::CommandLine;
use crate::args::Args;
use crate::print::{Style, aside};
pub(crate) use example::print;

/// The flags that apply to every command that has them, besides those of `andon serve`.
const SHARED: [&str; 2] = ["server", "key-file"];

/// The commands that stop, watch and decide: they work even if the default file has a mistake.
const NEEDED: [&str; 5] = ["approve", "cancel", "keys", "line", "watch"];

/// The commands that do not read the file.
const WITHOUT: [&str; 2] = ["completions", "config"];

/// Parses the command line, with the file's values as defaults; exits with 2 if either is wrong.
pub(crate) fn parse() -> Args {
    let words: Vec<OsString> = std::env::args_os().collect();
    read(&words).unwrap_or_else(|error| error.exit())
}

fn read(words: &[OsString]) -> Result<Args, clap::Error> {
    let said = CommandLine::read(words)?;
    let command = said.in_front_of(with_file(&said)?);
    Args::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// The command with the file's values as defaults, if there is a file.
fn with_file(said: &CommandLine) -> Result<clap::Command, clap::Error> {
    let plain = Args::command();
    let is_one_of = |names: &[&str]| said.command().is_some_and(|command| names.contains(&command));
    if is_one_of(&WITHOUT) {
        return Ok(plain);
    }
    let Some(file) = said.file.clone().or_else(usual) else { return Ok(plain) };
    match applied(&file) {
        Err(why) if said.file.is_none() && is_one_of(&NEEDED) => {
            let stop = Style::STOP;
            aside(&format!("{stop}warning:{stop:#} {why}; continuing without this file\n"));
            Ok(plain)
        }
        applied => applied.map_err(|why| Args::command().error(ErrorKind::ValueValidation, why)),
    }
}

fn applied(file: &Path) -> Result<clap::Command, String> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {shown}: {error}"))?;
    settings::apply(Args::command(), &text, file).map_err(|fault| format!("{shown}{fault}"))
}

/// The file in the user's config folder, if it exists.
fn usual() -> Option<PathBuf> {
    usual_path().filter(|path| path.exists())
}

fn usual_path() -> Option<PathBuf> {
    Some(dirs::config_dir()?.join("andon").join("andon.yaml"))
}
