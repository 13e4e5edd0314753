//! The command line of keys.

use std::time::Duration;

use andon_server::Scope;
use clap::Subcommand;

use super::{PlaceArgs, some_time};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  andon keys create ada --scope run:create --scope run:read --scope run:cancel
  andon keys create backend --scope run:create --scope run:read --scope impersonate --expires 90d
  andon keys create prometheus --scope metrics
  andon keys list
  andon keys revoke 4f1c09b2a7d3")]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key. It is written to standard output now, and can never be shown again.
    Create(CreateKeyArgs),
    /// List the keys, also those that are no longer valid. None of them can be read from this.
    List(KeyPlace),
    /// Take a key back: it opens nothing from now on, and feeds that it opened end within five seconds.
    Revoke(RevokeKeyArgs),
}

/// Where, and how it is told.
#[derive(Debug, clap::Args)]
pub(crate) struct KeyPlace {
    /// Write one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CreateKeyArgs {
    /// Its name, under which what is done with it is on record.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// What it allows: run:create, run:read, run:cancel, impersonate (act for every user of its tenant), metrics, admin (all
    /// of it, and the server itself). May be repeated.
    #[arg(long = "scope", value_name = "SCOPE", required = true, value_parser = scope)]
    pub(crate) scopes: Vec<Scope>,
    /// The user that it is; the one of its name unless told otherwise.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Whose data it opens; `local` unless told otherwise.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// When it ends, from now on, such as 30d; never unless told otherwise.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) expires: Option<Duration>,
    #[command(flatten)]
    pub(crate) place: KeyPlace,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RevokeKeyArgs {
    /// The key's id: `andon keys list` tells it.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) place: KeyPlace,
}

fn scope(text: &str) -> Result<Scope, String> {
    text.parse().map_err(|error: andon_server::NoSuchScope| error.to_string())
}
