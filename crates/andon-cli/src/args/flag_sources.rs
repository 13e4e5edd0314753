//! Where the value of a flag comes from.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// Where the values of a command's flags come from. This field must come before the flags that it is asked about: clap removes
/// each flag as it reads it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FlagSources(Vec<(String, Source)>);

/// Where a value comes from. The later ones win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// The configuration file, or the flag's default.
    File,
    /// An environment variable.
    Variable,
    /// The command line.
    Line,
}

impl FlagSources {
    /// Where a flag's value comes from, by the name of its field.
    pub(crate) fn source(&self, field: &str) -> Source {
        self.0.iter().find(|(id, _)| id == field).map_or(Source::File, |(_, source)| *source)
    }
}

impl clap::FromArgMatches for FlagSources {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let sources = matches.ids().map(|id| {
            let source = match matches.value_source(id.as_str()) {
                Some(ValueSource::CommandLine) => Source::Line,
                Some(ValueSource::EnvVariable) => Source::Variable,
                _ => Source::File,
            };
            (id.to_string(), source)
        });
        Ok(Self(sources.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for FlagSources {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
