//! Options of a run that only a server has.

use andon_runtime::OnDisconnect;
use clap::ValueEnum;
use serde::Serialize;

use super::Options;
use super::flag_sources::Source;
use crate::names::PRACTICE;

/// What to send to a server besides the prompt.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "On a server")]
pub(crate) struct ServedArgs {
    /// The agent to talk to. Default: the practice agent, or the server's only agent.
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// The user whose session it is. Default: `local`.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// What to do if a run is in progress in this session: refuse the new run, queue it, or stop the one in progress.
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) when_busy: Option<Busy>,
    /// What to do with the run if the connection is lost: `continue`, `cancel`, or a time such as 30s in which to reconnect.
    #[arg(long, value_name = "WHAT", value_parser = on_disconnect)]
    pub(crate) on_disconnect: Option<OnDisconnect>,
}

/// What to do if a run is in progress, in the words of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Busy {
    /// The new run is refused.
    Reject,
    /// The new run waits.
    Queue,
    /// The run in progress is stopped, and then the new one starts.
    Supersede,
}

impl ServedArgs {
    /// The first flag that only works with a server.
    pub(crate) fn needs_a_server(&self) -> Option<&'static str> {
        let app = self.app.as_deref().filter(|app| *app != PRACTICE).map(|_| "--app");
        let user = self.user.as_deref().filter(|user| *user != andon_runtime::core::id::LOCAL).map(|_| "--user");
        let busy = self.when_busy.map(|_| "--when-busy");
        let disconnect = self.on_disconnect.map(|_| "--on-disconnect");
        app.or(user).or(busy).or(disconnect)
    }
}

fn on_disconnect(text: &str) -> Result<OnDisconnect, String> {
    match text {
        "continue" => Ok(OnDisconnect::Continue),
        "cancel" => Ok(OnDisconnect::Cancel),
        time => match super::some_time(time) {
            Ok(time) => Ok(OnDisconnect::CancelAfterMs(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))),
            Err(_) => Err("write `continue`, `cancel`, or a time such as 30s".to_owned()),
        },
    }
}

impl Options {
    /// The flags on the command line that describe the agent. A server describes its own agents, so they are wrong there. Values
    /// from a variable or the configuration file are for local agents, and are ignored rather than refused.
    pub(crate) fn only_here(&self) -> Vec<String> {
        let fields = ["model", "instructions", "seed", "instant", "tools", "folder", "mcp"];
        let flag = |field: &str| format!("--{}", if field == "tools" { "tool" } else { field });
        fields.into_iter().filter(|field| self.flag_sources.source(field) == Source::Line).map(flag).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_reconnect_is_sent_in_milliseconds() {
        assert_eq!(on_disconnect("cancel"), Ok(OnDisconnect::Cancel));
        assert_eq!(on_disconnect("1500ms"), Ok(OnDisconnect::CancelAfterMs(1500)));
        assert!(on_disconnect("never").is_err());
    }
}
