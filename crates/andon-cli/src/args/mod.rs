//! The command line.

mod keys;
mod place;
mod records;
mod serve;
mod served;
mod session;
mod stop;
mod telemetry;
mod typed;

pub(crate) use keys::{CreateKeyArgs, KeyPlace, KeysArgs, KeysCommand, RevokeKeyArgs};
pub(crate) use place::PlaceArgs;
pub(crate) use records::{
    DeleteArgs, ExportArgs, HistoryArgs, ImportArgs, ListForm, ReceiptArgs, RunsArgs, SessionsArgs, UsageArgs,
};
pub(crate) use serve::ServeArgs;
pub(crate) use served::ServedArgs;
pub(crate) use session::{DbArgs, SessionName, TalkArgs};
pub(crate) use stop::{ApproveArgs, CancelArgs, HoldArgs, LineArgs, LineCommand, LineScope, LineStatus, WatchArgs};
pub(crate) use telemetry::{LogFormat, TelemetryArgs};

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use andon_runtime::{Limits, RunId};
use clap::{CommandFactory, Parser, Subcommand};

use crate::config;

const EXIT_CODES: &str = "\
Exit codes:
  0    the run completed (a chat that is left always ends so); the server ended with nothing left
  1    the run failed, or the program could not do what it was asked
  2    the command line is wrong
  3    the run was cancelled: by Ctrl-C, a deadline or a limit
  130  left at once by a third Ctrl-C

Ctrl-C stops the run gracefully, a second one stops it now, a third one leaves at once.";

const SERVE_EXAMPLES: &str = "\
Examples:
  andon serve
  andon serve --bind 127.0.0.1:8001 --db ./shop.db --agents ./agents
  andon serve --auth --bind 0.0.0.0:8000 --host andon.example
  andon serve --model anthropic/claude-sonnet-5 --tool read_file --folder ./docs

At SIGTERM or Ctrl-C runs in progress have the time of --drain to finish, and are stopped then.
A second one stops them now, a third one leaves at once.";

const CHAT_EXAMPLES: &str = "\
Examples:
  andon chat                    a new session
  andon chat --continue         the last session, where you left it
  andon chat --session monday   the session `monday`
  andon chat --model anthropic/claude-sonnet-5 --tool shell";

const RUN_EXAMPLES: &str = "\
Examples:
  andon run roll 3 dice
  andon run --continue --json tell me more
  echo roll 3 dice | andon run
  andon run --detach tell me a long story     leave it to the server
  andon run --server http://127.0.0.1:8000 --app shop hello";

/// Run AI agents that you can stop at any moment, from anywhere, with nothing lost.
///
/// Without a command this is `andon serve`: a server on 127.0.0.1:8000. Unless --model names another, the model is a practice
/// model: it needs no key and no network. What was said is kept in a database in your data folder, and outlives the program
/// however that ends.
#[derive(Debug, Parser)]
#[command(name = "andon", version, args_conflicts_with_subcommands = true, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// A file with flags in it, such as `bind: 127.0.0.1:8001`; `andon config` writes one to begin with. Unless told otherwise
    /// it is `andon/andon.yaml` in your config folder, if that is there. The command line wins, then the environment.
    // Read by `config::parse` before all else.
    #[arg(long, value_name = "FILE", env = config::VARIABLE, hide_env_values = true, global = true, value_hint = clap::ValueHint::FilePath)]
    pub(crate) config: Option<std::ffi::OsString>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve agents over HTTP, to be started, watched and stopped from anywhere on this machine.
    #[command(after_help = format!("{SERVE_EXAMPLES}\n\n{EXIT_CODES}"))]
    Serve(Box<ServeArgs>),
    /// Talk to an agent in the terminal.
    #[command(after_help = format!("{CHAT_EXAMPLES}\n\n{EXIT_CODES}"))]
    Chat(ChatArgs),
    /// Run one prompt and leave. The answer goes to standard output, all else to standard error.
    #[command(after_help = format!("{RUN_EXAMPLES}\n\n{EXIT_CODES}"))]
    Run(RunArgs),
    /// List sessions, the one that was last used first.
    Sessions(SessionsArgs),
    /// List runs, the newest first.
    Runs(RunsArgs),
    /// Tell all about one run: how it ended, who stopped it and why, its tool calls and its tokens.
    Receipt(ReceiptArgs),
    /// Show what was said in a session, by all runs that have settled.
    History(HistoryArgs),
    /// Write all of a session as JSON Lines, to be kept or moved.
    Export(ExportArgs),
    /// Take in a session that was exported, all of it or nothing.
    Import(ImportArgs),
    /// Delete a session so that nothing of it remains.
    Delete(DeleteArgs),
    /// Tell how good the estimates of tokens have been, model by model.
    Usage(UsageArgs),
    /// Watch a run of a server, from its beginning.
    Watch(WatchArgs),
    /// Stop a run, or all runs of a session, a user or an agent.
    Cancel(CancelArgs),
    /// Say yes or no to a tool call that waits for it.
    Approve(ApproveArgs),
    /// Hold and open a server's line: whether it takes new runs.
    Line(LineArgs),
    /// Make, list and take back the keys of a server that asks for them (`andon serve --auth`).
    Keys(KeysArgs),
    /// Print a configuration file with every flag in it, all commented out.
    #[command(after_help = "Example:\n  andon config > andon.yaml")]
    Config,
    /// Print what a shell needs to complete these commands.
    #[command(after_help = "Examples:\n  source <(andon completions bash)\n  andon completions fish | source")]
    Completions(CompletionsArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) talk: TalkArgs,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) served: ServedArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// What to ask. `-`, or nothing where standard input is no terminal, reads it from there.
    pub(crate) prompt: Vec<String>,
    /// Write each item of the run's feed to standard output as one line of JSON, and then its receipt.
    #[arg(long)]
    pub(crate) json: bool,
    /// Say yes to every tool call that needs an approval.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Name the run, so that it can be stopped before it begins, and asked for twice without running twice.
    #[arg(long, value_name = "ID", value_parser = run_id)]
    pub(crate) run_id: Option<RunId>,
    /// Leave the run to the server: print its id, and do not wait for its end.
    #[arg(long, conflicts_with = "yes", help_heading = "At a server")]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) talk: TalkArgs,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) served: ServedArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    typed: typed::Typed,
    /// The model, such as anthropic/claude-sonnet-5, openai/gpt-5, gemini/gemini-3-pro or ollama/llama3.2. Its key comes from
    /// the usual variable, such as ANTHROPIC_API_KEY. The practice model needs none.
    #[arg(long, value_name = "NAME", env = "ANDON_MODEL", default_value = "practice", help_heading = "Model")]
    pub(crate) model: String,
    /// What the agent is told about itself and its work.
    #[arg(long, value_name = "TEXT", help_heading = "Model")]
    pub(crate) instructions: Option<String>,
    /// Repeat a conversation: the same seed gives the same answers of the practice model.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Let the practice model answer without pauses.
    #[arg(long)]
    pub(crate) instant: bool,
    /// Give the agent a tool that can do something: `shell`, `read_file`, `write_file` or `http_get`. May be repeated. The
    /// practice model calls one when it is spelt out: `shell: ls -l`.
    #[arg(long = "tool", value_name = "NAME", value_enum)]
    pub(crate) tools: Vec<BuiltIn>,
    /// The folder that these tools work in; the current one unless told otherwise.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Give the agent the tools of an MCP server: a command, such as "python server.py", or an address that begins with http. May
    /// be repeated.
    #[arg(long = "mcp", value_name = "COMMAND|URL")]
    pub(crate) mcp: Vec<String>,
    /// Stop each run after this time, such as 30s or 2m.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    deadline: Option<Duration>,
    /// Stop a run when the model has sent nothing for this time.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    silence: Option<Duration>,
    /// Stop a run after this many answers of the model.
    #[arg(long, value_name = "NUMBER")]
    turns: Option<NonZeroU32>,
    /// Stop a run after this many tokens, read and written.
    #[arg(long, value_name = "NUMBER")]
    tokens: Option<NonZeroU64>,
}

/// A tool that comes with the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum BuiltIn {
    /// Runs a command with sh.
    Shell,
    /// Reads a file in the folder.
    ReadFile,
    /// Writes a file in the folder.
    WriteFile,
    /// Fetches a page, but none of a private network.
    HttpGet,
}

impl Options {
    /// What each run may use.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            deadline: self.deadline,
            silence: self.silence,
            turns: self.turns.map(NonZeroU32::get),
            tokens: self.tokens.map(NonZeroU64::get),
        }
    }
}

/// Says what is wrong with the command line of a command, and how it is written; leaves with 2.
pub(crate) fn refuse(command: &str, why: &str) -> ! {
    let mut args = Args::command();
    let kind = clap::error::ErrorKind::MissingRequiredArgument;
    args.build();
    match args.find_subcommand_mut(command) {
        Some(command) => command.error(kind, why).exit(),
        None => args.error(kind, why).exit(),
    }
}

/// A run's whole id.
fn run_id(text: &str) -> Result<RunId, String> {
    RunId::new(text).map_err(|error| error.to_string())
}

/// A time.
fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it as 30s, 2m or 500ms"))
}

/// A time that is not zero: a run with no time would stop before it began.
fn some_time(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    if time.is_zero() { Err("it must be more than nothing".to_owned()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn options_work_with_and_without_a_command() {
        let alone = Args::try_parse_from(["andon", "--deadline", "30s"]).unwrap();
        assert_eq!(alone.serve.options.limits().deadline, Some(Duration::from_secs(30)));
        let Some(Command::Chat(chat)) = Args::try_parse_from(["andon", "chat", "--turns", "2"]).unwrap().command else {
            panic!("that is a chat");
        };
        assert_eq!(chat.options.limits(), Limits { turns: Some(2), ..Limits::NONE });
        assert!(Args::try_parse_from(["andon", "--deadline", "0s"]).is_err());
    }
}
