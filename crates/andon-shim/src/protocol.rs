//! The protocol between host and shim: one JSON value per line, over the socket that is the shim's standard input.
//!
//! The host's first byte carries the tool's standard input as a descriptor, if it has one; then comes a [`Config`], then
//! perhaps an [`Order`]. The end of the host's stream is the order to end the whole tree now: so a host that closes its end
//! and one that dies have the same effect, and no message has to get through. The shim answers with [`Word`]s. If they end before
//! [`Word::Gone`] or [`Word::GaveUp`], the shim is dead.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

/// The name under which a shim is executed, and its first argument.
pub const SHIM: &str = "__andon-shim";

/// What the shim should start, and how.
///
/// Arguments and variables need not be UTF-8, as JSON must be: serde writes an [`OsString`] as a list of its bytes.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Config {
    /// The program, looked up in the tool's `PATH` if it has no slash.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The folder to start in. Default: the host's.
    pub cwd: Option<OsString>,
    /// What it may use.
    pub limits: Limits,
    /// How long the shim tries to end the tree before it gives up, in milliseconds.
    pub patience_ms: u64,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, args, env, cwd, limits, patience_ms } = self;
        let mut shown = f.debug_struct("Config");
        shown.field("program", program).field("args", args).field("env", &Variables(env)).field("cwd", cwd);
        shown.field("limits", limits).field("patience_ms", patience_ms).finish()
    }
}

/// Variables in a form that is safe for logs: their names, and the lengths of their values, which may be secrets.
pub struct Variables<'a>(pub &'a [(OsString, OsString)]);

impl fmt::Debug for Variables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().map(|(name, value)| (name, format!("{} bytes", value.len())));
        f.debug_map().entries(shown).finish()
    }
}

/// What a tool's processes may use. Each limit but the last is per process, not for all of them together.
///
/// A limit is never above the host's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// CPU time, in full seconds; beyond it the process gets `SIGXCPU`, and a second later `SIGKILL`.
    pub cpu: Option<Duration>,
    /// Bytes of address space.
    pub memory: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// The size in bytes of a file that it writes; beyond it the process gets `SIGXFSZ`.
    pub file_size: Option<u64>,
    /// Processes and threads of the *user*, including those outside the tool. It does not apply to root.
    pub processes: Option<u64>,
}

/// What the host tells its shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Ask the whole tree to end: `SIGTERM`, then `SIGCONT` for those that are stopped.
    Term,
}

/// What a shim tells its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// The tool runs.
    Started {
        /// Its process, which leads its own session.
        pid: i32,
        /// When it started, in ticks since boot: together with the pid it identifies the process uniquely.
        start: u64,
    },
    /// Its processes are in this cgroup. Sent some time after the start, if a cgroup can be created.
    Grouped(OsString),
    /// It could not be started; nothing runs.
    Refused(Refusal),
    /// The tool's main process has ended.
    Exited(Status),
    /// The shim has killed the tool's main process, so nobody else did.
    Killed,
    /// Nothing that the tool started is left. Proof: the shim, which is the parent of all orphans, has no child.
    Gone,
    /// The patience is over, and these are still alive.
    GaveUp(Vec<Survivor>),
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A process that could not be ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// Its id.
    pub pid: i32,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Survivor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn every_argument_arrives_as_it_was_sent() {
        let words = [&b""[..], b"plain", "\u{fc}ber \\ \"".as_bytes(), b"\xff", b"a\xfe\n\x01"];
        let words: Vec<OsString> = words.into_iter().map(|bytes| OsString::from_vec(bytes.to_vec())).collect();
        for word in &words {
            let config = Config {
                program: word.clone(),
                args: words.clone(),
                env: vec![(word.clone(), word.clone())],
                cwd: Some(word.clone()),
                ..Config::default()
            };
            let line = serde_json::to_vec(&config).unwrap();
            assert!(!line.contains(&b'\n'), "one message must be one line");
            assert_eq!(serde_json::from_slice::<Config>(&line).unwrap(), config);
        }
    }
}
