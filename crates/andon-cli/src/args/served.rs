//! What can be said of a run only where a server runs it.

use clap::ValueEnum;
use serde_json::{Value, json};

use super::Options;
use crate::agent::PRACTICE;

/// What a server is told about a run, beside its prompt.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "At a server")]
pub(crate) struct ServedArgs {
    /// The agent to talk to; the practice agent unless told otherwise, or the only one that the server has.
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Whose session it is; `local` unless told otherwise.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// What to do when a run is in progress in this session: refuse, wait for its end, or stop it.
    #[arg(long, value_name = "WHAT", value_enum)]
    when_busy: Option<Busy>,
    /// What losing the connection does to the run: `continue`, `cancel`, or a time such as 30s to come back in.
    #[arg(long, value_name = "WHAT", value_parser = on_disconnect)]
    on_disconnect: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Busy {
    /// The new run is refused.
    Reject,
    /// The new run waits.
    Queue,
    /// The run in progress is stopped, and then the new one starts.
    Supersede,
}

impl ServedArgs {
    /// The first flag that says something only a server can do.
    pub(crate) fn needs_a_server(&self) -> Option<&'static str> {
        let app = self.app.as_deref().filter(|app| *app != PRACTICE).map(|_| "--app");
        let user = self.user.as_deref().filter(|user| *user != andon_runtime::core::id::LOCAL).map(|_| "--user");
        let busy = self.when_busy.map(|_| "--when-busy");
        let disconnect = self.on_disconnect.as_ref().map(|_| "--on-disconnect");
        app.or(user).or(busy).or(disconnect)
    }

    pub(crate) fn when_busy(&self) -> Option<&'static str> {
        self.when_busy.map(|busy| match busy {
            Busy::Reject => "reject",
            Busy::Queue => "queue",
            Busy::Supersede => "supersede",
        })
    }

    pub(crate) fn on_disconnect(&self) -> Option<Value> {
        self.on_disconnect.clone()
    }
}

fn on_disconnect(text: &str) -> Result<Value, String> {
    match text {
        "continue" | "cancel" => Ok(json!(text)),
        time => match super::some_time(time) {
            Ok(time) => Ok(json!({ "cancel_after_ms": u64::try_from(time.as_millis()).unwrap_or(u64::MAX) })),
            Err(_) => Err("write `continue`, `cancel`, or a time such as 30s".to_owned()),
        },
    }
}

impl Options {
    /// The flags on the command line that say what the agent is, which is for a server to say where there is one. What a
    /// variable or a file says is for agents of this program, and no error elsewhere.
    pub(crate) fn only_here(&self) -> Vec<String> {
        let fields = ["model", "instructions", "seed", "instant", "tools", "folder", "mcp"];
        let flag = |field: &str| format!("--{}", if field == "tools" { "tool" } else { field });
        fields.into_iter().filter(|field| self.typed.has(field)).map(flag).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_come_back_is_said_in_milliseconds() {
        assert_eq!(on_disconnect("cancel"), Ok(json!("cancel")));
        assert_eq!(on_disconnect("1500ms"), Ok(json!({"cancel_after_ms": 1500})));
        assert!(on_disconnect("never").is_err());
    }
}
