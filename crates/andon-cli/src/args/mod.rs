//! The command line.

mod flag_sources;
mod keys;
mod records;
mod serve;
mod served;
mod session;
mod stop;
mod target;
mod telemetry;

pub(crate) use keys::{CreateKeyArgs, KeysArgs, KeysCommand, KeysTarget, RevokeKeyArgs};
pub(crate) use records::{
    DeleteArgs, ExportArgs, HistoryArgs, ImportArgs, ReceiptArgs, RunsArgs, SessionsArgs, UsageArgs,
};
pub(crate) use serve::ServeArgs;
pub(crate) use served::{Busy, ServedArgs};
pub(crate) use session::{DbArgs, SessionName, TalkArgs, filters};
pub(crate) use stop::{ApproveArgs, CancelArgs, HoldArgs, LineArgs, LineCommand, LineScope, LineStatus, WatchArgs};
pub(crate) use target::{GivenKey, TargetArgs};
pub(crate) use telemetry::{LogFormat, TelemetryArgs};

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use andon_runtime::{Limits, RunId};
use clap::{CommandFactory, Parser, Subcommand};

/// The variable that names the file.
pub(crate) const CONFIG_VARIABLE: &str = "ANDON_CONFIG";

const EXIT_CODES: &str = "\
Exit codes:
  0    the run completed, the chat was closed, or the server shut down with nothing still running
  1    the run failed, or the command failed
  2    the command line is wrong
  3    the run was cancelled: by Ctrl-C, a deadline or a limit
  130  a third Ctrl-C exited at once

Ctrl-C stops the run gracefully, a second one stops it now, a third one exits at once.";

const SERVE_EXAMPLES: &str = "\
Examples:
  andon serve
  andon serve --bind 127.0.0.1:8001 --db ./shop.db --agents ./agents
  andon serve --auth --bind 0.0.0.0:8000 --host andon.example
  andon serve --model anthropic/claude-sonnet-5 --tool read_file --folder ./docs

On SIGTERM or Ctrl-C, runs in progress get the time set by --drain to finish, and are then stopped.
A second signal stops them now, a third one exits at once.";

const CHAT_EXAMPLES: &str = "\
Examples:
  andon chat                    a new session
  andon chat --continue         the last session, where you left off
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
/// Without a command, this is `andon serve`: a server on 127.0.0.1:8000. The default model is a practice model, which needs no
/// key and no network; choose another with --model. Conversations are stored in a database in your data folder, and survive
/// however the program ends.
#[derive(Debug, Parser)]
#[command(name = "andon", version, args_conflicts_with_subcommands = true, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// A YAML file with defaults for flags, such as `bind: 127.0.0.1:8001`. `andon config` prints one to start from. Default:
    /// `andon/andon.yaml` in your config folder, if it exists. The command line overrides the environment, which overrides the file.
    // `config::parse` reads it before clap parses the command line.
    #[arg(long, value_name = "FILE", env = CONFIG_VARIABLE, hide_env_values = true, global = true, value_hint = clap::ValueHint::FilePath)]
    pub(crate) config: Option<std::ffi::OsString>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve agents over HTTP, so that anyone on this machine can start, watch and stop runs.
    #[command(after_help = format!("{SERVE_EXAMPLES}\n\n{EXIT_CODES}"))]
    Serve(Box<ServeArgs>),
    /// Talk to an agent in the terminal.
    #[command(after_help = format!("{CHAT_EXAMPLES}\n\n{EXIT_CODES}"))]
    Chat(ConversationArgs),
    /// Run one prompt and exit. The answer goes to standard output, everything else to standard error.
    #[command(after_help = format!("{RUN_EXAMPLES}\n\n{EXIT_CODES}"))]
    Run(RunArgs),
    /// List sessions, most recently used first.
    Sessions(SessionsArgs),
    /// List runs, newest first.
    Runs(RunsArgs),
    /// Show the receipt of a run: how it ended, who stopped it and why, its tool calls and its tokens.
    Receipt(ReceiptArgs),
    /// Show the conversation of a session, from all its settled runs.
    History(HistoryArgs),
    /// Export a session as JSON Lines, to keep it or move it.
    Export(ExportArgs),
    /// Import an exported session, all of it or nothing.
    Import(ImportArgs),
    /// Delete a session and everything recorded in it.
    Delete(DeleteArgs),
    /// Show how accurate the token estimates have been, by model.
    Usage(UsageArgs),
    /// Watch a run on a server, from its beginning.
    Watch(WatchArgs),
    /// Stop a run, or all runs of a session, a user or an agent.
    Cancel(CancelArgs),
    /// Approve or deny a tool call that needs approval.
    Approve(ApproveArgs),
    /// Hold or open a server's line: whether it takes new runs.
    Line(LineArgs),
    /// Create, list and revoke the keys of a server that asks for them (`andon serve --auth`).
    Keys(KeysArgs),
    /// Print a configuration file with every flag in it, all commented out.
    #[command(after_help = "Example:\n  andon config > andon.yaml")]
    Config,
    /// Print a shell's completion script.
    #[command(after_help = "Examples:\n  source <(andon completions bash)\n  andon completions fish | source")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Which conversation, with which agent, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct ConversationArgs {
    #[command(flatten)]
    pub(crate) talk: TalkArgs,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) served: ServedArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The prompt. Use `-`, or leave it out when input is piped, to read it from standard input.
    pub(crate) prompt: Vec<String>,
    /// Print each item of the run's feed as one line of JSON, and then its receipt.
    #[arg(long)]
    pub(crate) json: bool,
    /// Approve every tool call that needs approval.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Choose the run's id, so that it can be stopped before it starts, and a repeated request does not run it twice.
    #[arg(long, value_name = "ID", value_parser = |text: &str| RunId::new(text))]
    pub(crate) run_id: Option<RunId>,
    /// Leave the run to the server: print its id, and do not wait for it to end.
    #[arg(long, conflicts_with = "yes", help_heading = "On a server")]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) conversation: ConversationArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    flag_sources: flag_sources::FlagSources,
    /// The model, such as anthropic/claude-sonnet-5, openai/gpt-5, gemini/gemini-3-pro or ollama/llama3.2. Its key comes from
    /// the usual variable, such as ANTHROPIC_API_KEY. The practice model needs no key.
    #[arg(long, value_name = "NAME", env = "ANDON_MODEL", default_value = "practice", help_heading = "Model")]
    pub(crate) model: String,
    /// Instructions for the agent: its system prompt.
    #[arg(long, value_name = "TEXT", help_heading = "Model")]
    pub(crate) instructions: Option<String>,
    /// Seed the practice model: the same seed gives the same answers.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Make the practice model answer without pauses.
    #[arg(long)]
    pub(crate) instant: bool,
    /// Give the agent a built-in tool: `shell`, `read_file`, `write_file` or `http_get`. May be repeated. The practice model
    /// calls one when the prompt spells it out: `shell: ls -l`.
    #[arg(long = "tool", value_name = "NAME", value_enum)]
    pub(crate) tools: Vec<BuiltIn>,
    /// The folder that these tools work in. Default: the current one.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Give the agent the tools of an MCP server: a command, such as "python server.py", or an http(s) address. May be repeated.
    #[arg(long = "mcp", value_name = "COMMAND|URL")]
    pub(crate) mcp: Vec<String>,
    /// Stop each run after this time, such as 30s or 2m.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    deadline: Option<Duration>,
    /// Stop a run when the model has sent nothing for this time.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    silence: Option<Duration>,
    /// Stop a run after this many answers from the model.
    #[arg(long, value_name = "NUMBER")]
    turns: Option<NonZeroU32>,
    /// Stop a run after this many tokens, input and output together.
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
    /// Fetches a page, but not from private networks.
    HttpGet,
}

impl Options {
    /// The limits of each run.
    pub(crate) fn limits(&self) -> Limits {
        Limits::new()
            .deadline(self.deadline)
            .silence(self.silence)
            .turns(self.turns.map(NonZeroU32::get))
            .tokens(self.tokens.map(NonZeroU64::get))
    }
}

/// Prints what is wrong with a subcommand's arguments and its usage, and exits with 2.
pub(crate) fn refuse(command: &str, why: &str) -> ! {
    let mut args = Args::command();
    let kind = clap::error::ErrorKind::MissingRequiredArgument;
    args.build();
    match args.find_subcommand_mut(command) {
        Some(command) => command.error(kind, why).exit(),
        None => args.error(kind, why).exit(),
    }
}

/// Parses a duration.
fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write 30s, 2m or 500ms, for example"))
}

/// Parses a duration that is not zero: a run with no time would stop before it began.
fn some_time(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    if time.is_zero() { Err("it must be more than zero".to_owned()) } else { Ok(time) }
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
        assert_eq!(chat.options.limits(), Limits::new().turns(2));
        assert!(Args::try_parse_from(["andon", "--deadline", "0s"]).is_err());
    }
}
