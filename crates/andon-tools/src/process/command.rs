//! What to start, and how.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

use andon_shim::{Config, Limits, MARK, Refusal, Variables};
use thiserror::Error;

use super::PATIENCE;
use super::bare::Bare;
use super::environment::environment;
use super::pipes::{self, PipeOptions};
use super::tree::{Process, Running, Tree};

/// The default of how much of each output is kept.
const MAX_OUTPUT: usize = 64 * 1024;

/// A command, its environment and its limits.
///
/// Of the host's environment it sees only `PATH`, `HOME`, `LANG`, `LC_*`, `TZ`, `TERM`, `TMPDIR`, `USER` and the variables named
/// with [`pass`](Self::pass).
#[derive(Clone)]
pub struct Command {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) passed: Vec<OsString>,
    pub(crate) set: Vec<(OsString, OsString)>,
    limits: Limits,
    stdin: Stdin,
    merged: bool,
    pub(crate) max_output: usize,
}

/// What a process reads.
#[derive(Clone, PartialEq, Eq, Default)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Stdin {
    /// Nothing.
    #[default]
    Null,
    /// This, and then the end.
    Text(Vec<u8>),
    /// What is written to [`Running::stdin`].
    Open,
}

impl Command {
    /// A program, looked up in `PATH` if its name has no slash, with no arguments.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: None,
            passed: Vec::new(),
            set: Vec::new(),
            limits: Limits::default(),
            stdin: Stdin::Null,
            merged: false,
            max_output: MAX_OUTPUT,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// The folder to start in. Default: the host's.
    #[must_use]
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cwd = Some(folder.into());
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.set.push((name.into(), value.into()));
        self
    }

    /// Passes on a variable of the host's environment.
    #[must_use]
    pub fn pass(mut self, name: impl Into<OsString>) -> Self {
        self.passed.push(name.into());
        self
    }

    /// What its processes may use.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What it reads. Default: nothing.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Merges both outputs, in the order in which they were written.
    #[must_use]
    pub fn merge_outputs(mut self) -> Self {
        self.merged = true;
        self
    }

    /// How many bytes of each output to keep, half from its beginning and half from its end. Default: 64 KiB.
    #[must_use]
    pub fn max_output(mut self, bytes: usize) -> Self {
        self.max_output = bytes;
        self
    }

    /// Starts it in a tree, and waits until it runs.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: if it is dropped early, the process may have been started. Then it is in the tree, and ends with it.
    pub async fn start(&self, tree: &Tree) -> Result<Running, StartError> {
        let wanted = PipeOptions { stdin: self.stdin != Stdin::Null, merged: self.merged };
        let (host, tool) = pipes::make(wanted).map_err(StartError::NoPipes)?;
        // No other process of this or any other host has it. Descendants are found by it.
        let mark = uuid::Uuid::now_v7().to_string();
        let config = self.config(&mark);
        if has_nul(&config) {
            return Err(StartError::Nul);
        }
        let process = tree.add(|| self.execute(&config, mark, tool))?.ok_or(StartError::Ended)?;
        match process.as_ref() {
            #[cfg(target_os = "linux")]
            Process::Shim(shim) => {
                shim.started().await.map_err(|refusal| refusal.map_or(StartError::Lost, StartError::Refused))?
            }
            Process::Bare(_) => {}
        }
        Ok(Running::new(process, host))
    }

    #[cfg(target_os = "linux")]
    fn execute(&self, config: &Config, mark: String, ends: pipes::ToolEnds) -> Result<Process, StartError> {
        match andon_shim::helper() {
            Some(helper) => match super::shim::Shim::execute(&helper, config, mark, ends) {
                Ok(shim) => Ok(Process::Shim(shim)),
                Err(error) => Err(StartError::NoShim { helper, error }),
            },
            None => Ok(Process::Bare(Bare::start(config, mark, ends)?)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn execute(&self, config: &Config, mark: String, ends: pipes::ToolEnds) -> Result<Process, StartError> {
        Ok(Process::Bare(Bare::start(config, mark, ends)?))
    }

    /// The text that it reads.
    pub(crate) fn text(&self) -> &[u8] {
        match &self.stdin {
            Stdin::Text(text) => text,
            Stdin::Null | Stdin::Open => &[],
        }
    }

    fn config(&self, mark: &str) -> Config {
        let mut env = environment(std::env::vars_os(), &self.passed, &self.set);
        env.push((MARK.into(), mark.into()));
        Config {
            program: self.program.clone(),
            args: self.args.clone(),
            env,
            cwd: self.cwd.clone().map(OsString::from),
            limits: self.limits,
            patience_ms: u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// Safe for logs: shows only the lengths of variables and of the input.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, args, cwd, passed, set, limits, stdin, merged, max_output } = self;
        let mut shown = f.debug_struct("Command");
        shown.field("program", program).field("args", args).field("cwd", cwd);
        shown.field("passed", passed).field("set", &Variables(set)).field("limits", limits);
        shown.field("stdin", stdin).field("merged", merged).field("max_output", max_output).finish()
    }
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Open => f.write_str("Open"),
        }
    }
}

fn has_nul(config: &Config) -> bool {
    let variables = config.env.iter().flat_map(|(name, value)| [name, value]);
    let mut all = config.args.iter().chain([&config.program]).chain(&config.cwd).chain(variables);
    all.any(|one| one.as_encoded_bytes().contains(&0))
}

/// Why a process could not be started.
#[derive(Debug, Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum StartError {
    /// The command or its folder does not exist, or something that it needs is not available.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The shim cannot be executed.
    #[error("the shim `{}` cannot be executed ({error}): name another helper with set_helper", helper.display())]
    NoShim {
        /// The file.
        helper: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The shim died before the process ran, or the helper is not a shim, or it did not answer for ten seconds.
    #[error(
        "the shim ended before it started the process, or never answered: is the helper an `andon-shim`, and is init() called first in main?"
    )]
    Lost,
    /// No pipes could be created.
    #[error("cannot create pipes for the process: {0}")]
    NoPipes(#[source] io::Error),
    /// A NUL byte ends an argument, so none can contain one.
    #[error("the command, an argument or a variable contains a NUL byte: leave it out")]
    Nul,
    /// The tree has ended.
    #[error("nothing was started, because the call has already ended")]
    Ended,
}
