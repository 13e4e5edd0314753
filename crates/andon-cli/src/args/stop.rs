//! The command line of what watches runs and stops them.

use std::time::Duration;

use andon_runtime::{CallId, Cursor, Force};

use super::{PlaceArgs, SessionName};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  andon watch 019a8744-1f3c
  andon watch 019a8744-1f3c --json --after 12.340

Ctrl-C leaves with 130, and the run goes on. Else the exit code tells how the run ended, as that of `andon run` does.")]
pub(crate) struct WatchArgs {
    /// The run's id, or enough of its beginning. `andon runs` lists them.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Write each item of the run's feed to standard output as one line of JSON, and then its receipt.
    #[arg(long)]
    pub(crate) json: bool,
    /// Begin behind this place in the feed, such as 12 or 12.340.
    #[arg(long, value_name = "PLACE")]
    pub(crate) after: Option<Cursor>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  andon cancel 019a8744-1f3c
  andon cancel 019a8744-1f3c --now --wait --note \"wrong file\"
  andon cancel 019a8744-1f3c --call call_1
  andon cancel --user ada --wait
  andon cancel --all --json

The answer says what was looked for, what was reached, and how many other runs go on.

Exit codes:
  0    it is stopping, or it has ended, or none of it was running
  1    there is no such run or agent, or it could not be stopped
  2    the command line is wrong")]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true).args(["run", "session", "user", "app", "all"]))]
pub(crate) struct CancelArgs {
    /// The run's id, or enough of its beginning. `andon runs` lists them.
    #[arg(value_name = "RUN", conflicts_with_all = ["session", "user", "app", "all", "tenant"])]
    pub(crate) run: Option<String>,
    /// All runs of this session, also those that wait for their turn.
    #[arg(long, value_name = "SESSION", conflicts_with = "all")]
    pub(crate) session: Option<SessionName>,
    /// All runs of this user.
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub(crate) user: Option<String>,
    /// All runs of this agent.
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub(crate) app: Option<String>,
    /// All runs that you reach: with the key beside the server's database everything on the server, with one from ANDON_KEY or
    /// --key-file what that key reaches.
    #[arg(long)]
    pub(crate) all: bool,
    /// Of this tenant, for operators of a server with several. Otherwise a session, user or agent is of your own tenant, and all
    /// are those of every tenant that you reach.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Only this tool call of the run; the run goes on.
    #[arg(long, value_name = "CALL", requires = "run", conflicts_with_all = ["session", "user", "app", "all", "wait"], value_parser = call_id)]
    pub(crate) call: Option<CallId>,
    /// Give running tools no time.
    #[arg(long, conflicts_with = "after_turn")]
    now: bool,
    /// Let the answer in progress and its tools come to their end, and stop before the next.
    #[arg(long)]
    after_turn: bool,
    /// Give running tools this time, such as 500ms or 10s, in place of each tool's own.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) grace: Option<Duration>,
    /// Wait until all of it has settled, and tell how.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Say why, for the receipt.
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// Write one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
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

fn call_id(text: &str) -> Result<CallId, String> {
    CallId::new(text).map_err(|error| error.to_string())
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  andon approve 019a8744-1f3c                      shows the call, and asks
  andon approve 019a8744-1f3c --yes
  andon approve 019a8744-1f3c call_1 --deny --why \"not this file\"")]
pub(crate) struct ApproveArgs {
    /// The run's id, or enough of its beginning.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// The call, if more than one waits.
    #[arg(value_name = "CALL")]
    pub(crate) call: Option<String>,
    /// Do not ask: yes.
    #[arg(long, conflicts_with = "deny")]
    pub(crate) yes: bool,
    /// Do not ask: no.
    #[arg(long)]
    pub(crate) deny: bool,
    /// Tell the model why not.
    #[arg(long, value_name = "TEXT", requires = "deny")]
    pub(crate) why: Option<String>,
    /// Write what was decided as one line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
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
    /// Take no new runs: none at all, or none of an agent or a user.
    Hold(HoldArgs),
    /// Take new runs again.
    Open(LineScope),
    /// Tell how the line stands.
    Status(LineStatus),
}

/// What a hold is on.
#[derive(Debug, clap::Args)]
pub(crate) struct LineScope {
    /// Only for this agent.
    #[arg(long, value_name = "NAME", conflicts_with = "user")]
    pub(crate) app: Option<String>,
    /// Only for this user.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Only of this tenant. Otherwise an agent or a user is of your own tenant, and all are those of every tenant.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) status: LineStatus,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LineStatus {
    /// Write it as one line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct HoldArgs {
    /// Say why, to those who are turned away.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Also stop what runs there.
    #[arg(long)]
    pub(crate) cancel: bool,
    /// Give running tools no time.
    #[arg(long, requires = "cancel")]
    pub(crate) now: bool,
    /// Wait until all that was stopped has settled.
    #[arg(long, requires = "cancel")]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) scope: LineScope,
}
