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
//! 3. What a command is aimed at is said when it is given, and never in a file: nothing is stopped because of a forgotten line.
//! 4. What the file says of the agent is for the agents of this program: it is no error where a command talks to a server.
//! 5. A relative path is one beside the file.

mod example;
mod settings;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::args::Args;
pub(crate) use example::print;

/// The variable that names the file.
pub(crate) const VARIABLE: &str = "ANDON_CONFIG";

/// The flags that stand for every command that has them, beside those of `andon serve`.
const SHARED: [&str; 1] = ["server"];

/// The command line with the file's flags behind it; leaves with 2 if one of them is wrong.
pub(crate) fn parse() -> Args {
    let words: Vec<OsString> = std::env::args_os().collect();
    read(&words).unwrap_or_else(|error| error.exit())
}

fn read(words: &[OsString]) -> Result<Args, clap::Error> {
    let Some(file) = named(words)?.or_else(usual) else {
        return Args::from_arg_matches(&Args::command().try_get_matches_from(words)?);
    };
    Args::from_arg_matches(&with_file(&file)?.try_get_matches_from(words)?)
}

/// The file that the command line or the environment names.
fn named(words: &[OsString]) -> Result<Option<PathBuf>, clap::Error> {
    // Whatever is wrong with the rest is said when all is read. A cry for help needs no file.
    let matches = Args::command().ignore_errors(true).try_get_matches_from(words)?;
    let mut deepest: &ArgMatches = &matches;
    while let Some((_, below)) = deepest.subcommand() {
        deepest = below;
    }
    let name = deepest.try_get_one::<OsString>("config").ok().flatten();
    Ok(name.filter(|name| !name.is_empty()).map(PathBuf::from))
}

/// The file in the user's config folder, if it is there.
fn usual() -> Option<PathBuf> {
    usual_path().filter(|path| path.exists())
}

fn usual_path() -> Option<PathBuf> {
    Some(dirs::config_dir()?.join("andon").join("andon.yaml"))
}

fn with_file(file: &Path) -> Result<clap::Command, clap::Error> {
    let shown = file.display();
    let refuse = |why: String| Args::command().error(ErrorKind::ValueValidation, why);
    let text = std::fs::read_to_string(file).map_err(|error| refuse(format!("{shown} cannot be read: {error}")))?;
    let applied = settings::apply(Args::command(), &text, file);
    applied.map(|(command, _)| command).map_err(|fault| refuse(format!("{shown}{fault}")))
}
