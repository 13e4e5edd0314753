//! The configuration file: flags that need not be typed.
//!
//! Its keys are the long names of flags. Those of `andon serve`, and `server`, stand for every command that has them; the flags of
//! one command alone stand under its name:
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
//! 1. What is in the file becomes the default of a flag. So the command line and the environment win, and no flag has to be
//!    defined twice.
//! 2. A key that no flag has is refused by name, a wrong value in the words of its flag, each with file and line.
//! 3. What a command is aimed at, and what it decides, is said when it is given, and never in a file: nothing is stopped, allowed
//!    or deleted because of a forgotten line.
//! 4. What the file says of the agent is for the agents of this program: it is no error where a command talks to a server.
//! 5. A relative path is one beside the file.
//! 6. A mistake in a file that nobody named takes away no command that stops something.

mod example;
mod line;
mod settings;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use self::line::Said;
use crate::args::Args;
use crate::show::{Style, aside};
pub(crate) use example::print;

/// The variable that names the file.
pub(crate) const VARIABLE: &str = "ANDON_CONFIG";

/// The flags that stand for every command that has them, beside those of `andon serve`.
const SHARED: [&str; 2] = ["server", "key-file"];

/// The commands that stop, watch and decide: a mistake in a file that nobody named does not take them away.
const NEEDED: [&str; 5] = ["approve", "cancel", "keys", "line", "watch"];

/// The commands that tell what may be in the file, and how it is written: they do without it.
const WITHOUT: [&str; 2] = ["completions", "config"];

/// The command line with the file's flags behind it; leaves with 2 if one of them is wrong.
pub(crate) fn parse() -> Args {
    let words: Vec<OsString> = std::env::args_os().collect();
    read(&words).unwrap_or_else(|error| error.exit())
}

fn read(words: &[OsString]) -> Result<Args, clap::Error> {
    let said = Said::read(words)?;
    let command = said.in_front_of(with_file(&said)?);
    Args::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// The command line with what is in its file, if there is one.
fn with_file(said: &Said) -> Result<clap::Command, clap::Error> {
    let plain = Args::command();
    let is_one_of = |names: &[&str]| said.command().is_some_and(|command| names.contains(&command));
    if is_one_of(&WITHOUT) {
        return Ok(plain);
    }
    let Some(file) = said.file.clone().or_else(usual) else { return Ok(plain) };
    match applied(&file) {
        Err(why) if said.file.is_none() && is_one_of(&NEEDED) => {
            let stop = Style::STOP;
            // Where it cannot be said, what was asked for is done all the same.
            aside(&format!("{stop}warning:{stop:#} {why}; this goes on without the file\n"));
            Ok(plain)
        }
        applied => applied.map_err(|why| Args::command().error(ErrorKind::ValueValidation, why)),
    }
}

fn applied(file: &Path) -> Result<clap::Command, String> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let applied = settings::apply(Args::command(), &text, file);
    applied.map(|(command, _)| command).map_err(|fault| format!("{shown}{fault}"))
}

/// The file in the user's config folder, if it is there.
fn usual() -> Option<PathBuf> {
    usual_path().filter(|path| path.exists())
}

fn usual_path() -> Option<PathBuf> {
    Some(dirs::config_dir()?.join("andon").join("andon.yaml"))
}
