//! The arguments of the commands that watch and stop runs.

use std::time::Duration;

use andon_runtime::{CallId, Cursor, Force};

use super::{SessionName, TargetArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  andon watch 019a8744-1f3c
  andon watch 019a8744-1f3c --json --after 12.340

Ctrl-C exits with 130, and the run goes on. Otherwise the exit code says how the run ended, as with `andon run`.")]
pub(crate) struct WatchArgs {
    /// The run's id, or enough of its beginning to be unique. `andon runs` lists them.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Print each item of the run's feed as one line of JSON, and then its receipt.
    #[arg(long)]
    pub(crate) json: bool,
    /// Start after this event id, such as 12 or 12.340.
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<Cursor>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  andon cancel 019a8744-1f3c
  andon cancel 019a8744-1f3c --now --wait --note \"wrong file\"
  andon cancel 019a8744-1f3c --call call_1
  andon cancel --user ada --wait
  andon cancel --all --json

The output says what was targeted, which runs were reached, and how many others are still in progress.

Exit codes:
  0    the runs are stopping or have ended, or none was running
  1    there is no such run or agent, no run of such a user or session was ever here, or it could not be stopped
  2    the command line is wrong")]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true).args(["run", "session", "user", "app", "all"]))]
pub(crate) struct CancelArgs {
    /// The run's id, or enough of its beginning to be unique. `andon runs` lists them.
    #[arg(value_name = "RUN", conflicts_with_all = ["session", "user", "app", "all", "tenant"])]
    pub(crate) run: Option<String>,
    /// All runs in sessions of this name, including queued ones: of every agent and user, unless --app or --user says whose.
    #[arg(long, value_name = "SESSION", conflicts_with = "all")]
    pub(crate) session: Option<SessionName>,
    /// All runs of this user.
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub(crate) user: Option<String>,
    /// All runs of this agent.
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub(crate) app: Option<String>,
    /// All runs that you can reach. With the key beside the server's database that is every run on the server; with ANDON_KEY
    /// or --key-file, the runs that this key can reach.
    #[arg(long)]
    pub(crate) all: bool,
    /// Only runs of this tenant, for operators of a server with several tenants. Default: your own tenant for a session, user or
    /// agent, and every tenant that you can reach for --all.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Only this tool call of the run; the run goes on.
    #[arg(long, value_name = "CALL", requires = "run", conflicts_with_all = ["session", "user", "app", "all", "wait"], value_parser = |text: &str| CallId::new(text))]
    pub(crate) call: Option<CallId>,
    /// Give running tools no time to stop by themselves.
    #[arg(long, conflicts_with = "after_turn")]
    now: bool,
    /// Let the answer in progress and its tools finish, and stop before the next model call.
    #[arg(long)]
    after_turn: bool,
    /// Give running tools this much time to stop, such as 500ms or 10s, instead of each tool's own grace.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) grace: Option<Duration>,
    /// Wait until all the runs have settled, and show how they ended.
    #[arg(long)]
    pub(crate) wait: bool,
    /// A note for the receipt that says why.
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// Print one JSON object per line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

impl CancelArgs {
    pub(crate) fn force(&self) -> Force {
        match (self.now, self.after_turn) {
            (true, _) => Force::Now,
            (_, true) => Force::AfterTurn,
            _ => Force::Graceful,
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  andon approve 019a8744-1f3c                      show the call, and ask
  andon approve 019a8744-1f3c --yes
  andon approve 019a8744-1f3c call_1 --deny --why \"not this file\"")]
pub(crate) struct ApproveArgs {
    /// The run's id, or enough of its beginning to be unique.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// The call's id, if several calls need approval.
    #[arg(value_name = "CALL")]
    pub(crate) call: Option<String>,
    /// Approve without asking.
    #[arg(long, conflicts_with = "deny")]
    pub(crate) yes: bool,
    /// Deny without asking.
    #[arg(long)]
    pub(crate) deny: bool,
    /// The reason for denying it, shown to the model.
    #[arg(long, value_name = "TEXT", requires = "deny")]
    pub(crate) why: Option<String>,
    /// Print the decision as one line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  andon line status
  andon line hold --reason \"upgrade at noon\"
  andon line hold --app shop --cancel --wait
  andon line open --app shop

A hold survives a restart of the server.")]
pub(crate) struct LineArgs {
    #[command(subcommand)]
    pub(crate) command: LineCommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum LineCommand {
    /// Refuse new runs: all of them, or those of one agent or user.
    Hold(HoldArgs),
    /// Take new runs again.
    Open(LineScope),
    /// Show what is held.
    Status(LineStatus),
}

/// What is held or opened.
#[derive(Debug, clap::Args)]
pub(crate) struct LineScope {
    /// Only for this agent.
    #[arg(long, value_name = "NAME", conflicts_with = "user")]
    pub(crate) app: Option<String>,
    /// Only for this user.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Only for this tenant. Default: your own tenant for an agent or a user, otherwise every tenant.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) status: LineStatus,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LineStatus {
    /// Print it as one line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct HoldArgs {
    /// The reason, which refused clients are told.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Also stop the runs in progress.
    #[arg(long)]
    pub(crate) cancel: bool,
    /// Give running tools no time to stop by themselves.
    #[arg(long, requires = "cancel")]
    pub(crate) now: bool,
    /// Wait until all the stopped runs have settled.
    #[arg(long, requires = "cancel")]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) scope: LineScope,
}
