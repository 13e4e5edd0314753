//! The `shell` tool.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::{Content, Invocation, Returned, Tool, ToolError, ToolSpec, Work};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::process::{CLEANUP, Collector, Command, Finished, Limits, Status, Tree, in_words};

/// Runs a command with `sh`, and stops it with everything that it started.
///
/// It takes `{"command": "…"}`. The command gets no input and sees only a few variables of the host's environment. Both of its
/// outputs come back as one text, with the exit code in words. Background processes end with the command.
///
/// ```
/// use std::time::Duration;
/// use andon_tools::Shell;
///
/// let shell = Shell::new().cwd("/srv/project").timeout(Duration::from_secs(60));
/// # let _ = shell;
/// ```
#[derive(Debug, Clone)]
pub struct Shell {
    spec: Arc<ToolSpec>,
    command: Command,
}

impl Default for Shell {
    fn default() -> Self {
        Self::new()
    }
}

impl Shell {
    /// A shell in the host's working folder, with no limits.
    pub fn new() -> Self {
        let description = "Runs a command with sh and returns what it prints and its exit code. It gets no input. \
                           Background processes are ended when the command ends.";
        let schema = json!({
            "type": "object",
            "properties": { "command": { "type": "string", "description": "The command, as for `sh -c`." } },
            "required": ["command"],
            "additionalProperties": false,
        });
        let mut spec = ToolSpec::new("shell", description, schema);
        spec.cleanup = CLEANUP;
        Self { spec: Arc::new(spec), command: Command::new("sh").args(["-c", "--"]).merge_outputs() }
    }

    /// The folder that commands start in.
    #[must_use]
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.command = self.command.cwd(folder);
        self
    }

    /// Sets a variable for every command.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.command = self.command.env(name, value);
        self
    }

    /// Passes on a variable of the host's environment.
    #[must_use]
    pub fn pass(mut self, name: impl Into<OsString>) -> Self {
        self.command = self.command.pass(name);
        self
    }

    /// What a command's processes may use.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.command = self.command.limits(limits);
        self
    }

    /// How many bytes of output to keep, half from the beginning and half from the end. Default: 64 KiB.
    #[must_use]
    pub fn max_output(mut self, bytes: usize) -> Self {
        self.command = self.command.max_output(bytes);
        self
    }

    /// How long a command may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        Arc::make_mut(&mut self.spec).timeout = Some(timeout);
        self
    }

    /// How long a command's processes may take to end when they are asked to. Default: two seconds.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        Arc::make_mut(&mut self.spec).grace = grace;
        self
    }

    /// Makes each command need approval.
    #[must_use]
    pub fn needs_approval(mut self) -> Self {
        Arc::make_mut(&mut self.spec).needs_approval = true;
        self
    }
}

impl Tool for Shell {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, invocation: Invocation) -> Work {
        let line = invocation.input.get("command").and_then(Value::as_str).unwrap_or_default();
        let command = self.command.clone().arg(line);
        let tree = Tree::new();
        let started = tree.clone();
        // Output is kept even if the work is dropped before it can return it.
        let printed = Arc::new(Mutex::new(Collector::new(self.command.max_output)));
        let kept = Arc::clone(&printed);
        let work = async move {
            let Invocation { cord, progress, .. } = invocation;
            let show = |text: &str| {
                printed.lock().push(text.as_bytes());
                progress.show(text);
            };
            let finished = command.run(&started, &cord, show).await?;
            result(finished)
        };
        Work::task(work).cleanup(move || async move {
            let remains = tree.end().await;
            let text = kept.lock().take().into_text();
            let output = if text.is_empty() { Vec::new() } else { vec![Content::Text { text }] };
            remains.output(output)
        })
    }
}

/// The result for the model: the output, and then how the command ended. A command that was not found, could not be executed or
/// was killed is an error; any other exit code is an answer.
fn result(finished: Finished) -> Returned {
    let Finished { status, stdout, stopped, killed, .. } = finished;
    let mut text = stdout.into_text();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let end = status.map_or_else(|| "it is not known how it ended: its supervisor was killed".to_owned(), in_words);
    if stopped {
        // A signal that we sent ourselves needs no explanation.
        let end = match status {
            Some(Status::Signal(9)) => "it was killed".to_owned(),
            Some(Status::Signal(15)) => "it ended when it was asked to".to_owned(),
            _ => end,
        };
        return Ok(format!("{text}[stopped before it was done; {end}]").into());
    }
    let end = match status {
        // Otherwise the text would suggest that it ran out of memory.
        Some(Status::Signal(9)) if killed => "it was killed because its supervisor was told to end".to_owned(),
        _ => end,
    };
    let text = format!("{text}[{end}]");
    match status {
        Some(Status::Code(126 | 127) | Status::Signal(_)) | None => Err(ToolError::new(text)),
        Some(Status::Code(_)) => Ok(text.into()),
    }
}
