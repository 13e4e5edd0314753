//! The arguments of `andon keys`.

use std::time::Duration;

use andon_server::Scope;
use clap::Subcommand;

use super::{TargetArgs, some_time};

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
    /// Create a key. It is printed to standard output once, and cannot be shown again.
    Create(CreateKeyArgs),
    /// List the keys, including expired and revoked ones. The keys themselves are not shown.
    List(KeysTarget),
    /// Revoke a key. It stops working at once, and feeds opened with it end within five seconds.
    Revoke(RevokeKeyArgs),
}

/// Which server or database, and the output format.
#[derive(Debug, clap::Args)]
pub(crate) struct KeysTarget {
    /// Print one JSON object per line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CreateKeyArgs {
    /// The key's name, which is recorded with everything done with this key.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// What the key allows: run:create, run:read, run:cancel, impersonate (act for any user of its tenant), metrics, or admin
    /// (everything, including the server itself). May be repeated.
    #[arg(long = "scope", value_name = "SCOPE", required = true)]
    pub(crate) scopes: Vec<Scope>,
    /// The user that the key acts as. Default: the key's name.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// The tenant whose data the key can reach. Default: `local`.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// When the key expires, counted from now, such as 30d. Default: never.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) expires: Option<Duration>,
    #[command(flatten)]
    pub(crate) target: KeysTarget,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RevokeKeyArgs {
    /// The key's id, as `andon keys list` shows it.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) target: KeysTarget,
}
