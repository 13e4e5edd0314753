//! The arguments of the commands that show, move and delete what is on record.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::{DbArgs, SessionName, TargetArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  andon sessions --limit 5")]
pub(crate) struct SessionsArgs {
    /// Only sessions of this agent.
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Only sessions of this user.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    #[command(flatten)]
    pub(crate) form: ListForm,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  andon runs --open\n  andon runs --json | jq -r .run_id")]
pub(crate) struct RunsArgs {
    /// Only runs of this session.
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<SessionName>,
    /// Only runs of this agent.
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Only runs of this user.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Only runs that have not settled.
    #[arg(long, conflicts_with = "settled")]
    pub(crate) open: bool,
    /// Only runs that have settled.
    #[arg(long)]
    pub(crate) settled: bool,
    #[command(flatten)]
    pub(crate) form: ListForm,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// The output of a list.
#[derive(Debug, clap::Args)]
pub(crate) struct ListForm {
    /// Show at most this many. Default: 20, or all with --json.
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
    /// Print one JSON object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

impl ListForm {
    /// How many entries to show; `None` for all.
    pub(crate) fn limit(&self) -> Option<usize> {
        let usual = if self.json { None } else { Some(20) };
        self.limit.map(NonZeroUsize::get).or(usual)
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  andon receipt 019a8744-1f3c")]
pub(crate) struct ReceiptArgs {
    /// The run's id, or enough of its beginning to be unique. `andon runs` lists them.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Print it as one line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  andon history calm-otter-17\n  andon history practice/local/calm-otter-17")]
pub(crate) struct HistoryArgs {
    /// The session: its name, or app/user/session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: SessionName,
    /// Print one message per line, as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  andon export calm-otter-17 --out otter.jsonl

It reads the database itself, even while a server is using it: a file on this machine, or one on PostgreSQL.")]
pub(crate) struct ExportArgs {
    /// The session: its name, or app/user/session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: SessionName,
    /// Write to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) db: DbArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  andon import otter.jsonl
  andon export otter | andon import - --db other.db

It writes the database. No other program may be using a file: shut its server down first. On PostgreSQL servers may go on.")]
pub(crate) struct ImportArgs {
    /// A file written by `andon export`, or `-` for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) db: DbArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  andon delete calm-otter-17")]
pub(crate) struct DeleteArgs {
    /// The session: its name, or app/user/session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: SessionName,
    /// Do not ask for confirmation.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  andon usage\n  andon usage --json | jq .output")]
pub(crate) struct UsageArgs {
    /// Only models whose name contains this.
    #[arg(value_name = "WORD")]
    pub(crate) model: Option<String>,
    /// Print one JSON object per line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}
