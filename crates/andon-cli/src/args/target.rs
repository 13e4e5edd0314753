//! Which server or database a command works on, as the command line says it.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::CommandFactory;
use clap::error::ErrorKind;

use super::flag_sources::{FlagSources, Source};
use super::{Args, DbArgs};
use crate::paste::{quoted, without_secret};

/// A server or a database.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TargetArgs {
    #[command(flatten)]
    flag_sources: FlagSources,
    /// The server to use. Default: the one that holds the database, if there is one.
    // An empty value counts as unset.
    #[arg(long, value_name = "URL", env = "ANDON_SERVER", hide_env_values = true)]
    pub(crate) server: Option<String>,
    /// A file with the key or token for the server. Or put the key into the variable ANDON_KEY.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) db: DbArgs,
}

/// The variable with the key.
const KEY: &str = "ANDON_KEY";

/// A key given to this command. It does not implement `Debug`, so it is not shown by accident.
pub(crate) struct GivenKey {
    pub(crate) key: String,
    /// Where it was found: the variable, or the flag.
    pub(crate) source: &'static str,
}

impl TargetArgs {
    /// The key to send. It is never on the command line, which everybody on a machine can read.
    pub(crate) fn key(&self) -> anyhow::Result<Option<GivenKey>> {
        let Some(file) = &self.key_file else {
            let key = std::env::var(KEY).unwrap_or_default().trim().to_owned();
            return Ok(Some(GivenKey { key, source: KEY }).filter(|given| !given.key.is_empty()));
        };
        let shown = file.display();
        let key = std::fs::read_to_string(file).with_context(|| format!("the key in {shown} cannot be read"))?;
        let key = key.trim().to_owned();
        anyhow::ensure!(!key.is_empty(), "{shown} is empty: put the key into it");
        Ok(Some(GivenKey { key, source: "--key-file" }))
    }

    /// The server that was named, and the flag that other commands need to reach it. The command line wins over a variable,
    /// and a variable over the file.
    pub(crate) fn server(&self) -> Option<(&str, String)> {
        let server = self.server.as_deref().filter(|server| !server.is_empty())?;
        let db = self.db.db.as_ref().filter(|db| !db.is_empty()).map(|_| self.flag_sources.source("db"));
        match (self.flag_sources.source("server"), db) {
            (Source::Line, Some(Source::Line)) => {
                let why = "use either --server or --db: a server has its own database";
                Args::command().error(ErrorKind::ArgumentConflict, why).exit()
            }
            (source, Some(db)) if db > source => None,
            (Source::Line, _) => Some((server, format!(" --server {}", quoted(&without_secret(server))))),
            (Source::Variable | Source::File, _) => Some((server, String::new())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Command;
    use clap::builder::Resettable;
    use clap::{FromArgMatches, Parser};

    /// The server that a command line means when the configuration file names a server or a database.
    fn server(file: Option<(&str, &'static str)>, words: &[&str]) -> Option<String> {
        let command = Args::command().mut_subcommand("runs", |runs| {
            // Whoever runs the tests may have set these variables, which win over the file.
            let runs = runs.mut_args(|arg| arg.env(Resettable::Reset));
            match file {
                Some((flag, value)) => runs.mut_arg(flag, |arg| arg.default_value(value)),
                None => runs,
            }
        });
        let matches = command.try_get_matches_from([&["andon", "runs"], words].concat()).unwrap();
        let Some(Command::Runs(args)) = Args::from_arg_matches(&matches).unwrap().command else { panic!("runs") };
        args.target.server().map(|(server, _)| server.to_owned())
    }

    #[test]
    fn the_command_line_comes_before_the_file() {
        assert_eq!(server(None, &[]), None);
        assert_eq!(server(Some(("server", "f:1")), &[]).as_deref(), Some("f:1"));
        assert_eq!(server(Some(("server", "f:1")), &["--db", "x.db"]), None);
        assert_eq!(server(Some(("server", "f:1")), &["--server", "l:1"]).as_deref(), Some("l:1"));
        assert_eq!(server(Some(("db", "f.db")), &["--server", "l:1"]).as_deref(), Some("l:1"));
    }

    #[test]
    fn an_empty_server_is_none() {
        let Some(Command::Runs(args)) = Args::try_parse_from(["andon", "runs", "--server", ""]).unwrap().command else {
            panic!("runs");
        };
        assert_eq!(args.target.server(), None);
    }
}
