//! A tiny supervisor for one tool process: when it says that all are gone, all are gone.
//!
//! # Theory of operation
//!
//! A tool that starts processes can lose sight of them: they fork twice, move to a session of their own, clear their
//! environment, ignore signals. So each tool process gets a *shim*: our own program, executed again before anything else in
//! it has begun. The shim is a child subreaper, so every process that loses its parent becomes the shim's child, however it
//! was started. To stop, it freezes the tree until two looks at it agree, kills it, and reaps until the kernel says that
//! there is no child left (`ECHILD`). That answer is the proof; nothing else is believed.
//!
//! The shim ends the tree when it is told to, when the tool's main process ends, when it is sent `SIGTERM`, and when its host
//! is dead: it holds a pidfd of the host, and the socket between them.
//!
//! A program that can be its own shim calls [`init`] first thing in `main`. One that cannot names a helper with
//! [`set_helper`]: the `andon-shim` program of this crate.
//!
//! # What it does not do
//!
//! It is no security boundary: a tool of the same user can kill its shim. Descendants with other privileges, processes in
//! uninterruptible sleep, and work that was handed to another daemon (docker, systemd-run, at, ssh) are not covered. A fork bomb
//! needs a limit on processes, and root is not bound by that limit. Killing host and shim together leaks, unless a
//! service manager owns the cgroup.
//!
//! Other Unixes than Linux have no subreaper, no pidfd and no parent-death signal: there [`helper`] is always `None`, and who
//! starts a process has its process group and nothing more.

#[cfg(windows)]
compile_error!("Andon stops whole process trees with Unix means, and Windows has none of them: use WSL 2.");

#[cfg(target_os = "linux")]
mod linux;
mod protocol;
mod refusal;
mod wire;

use std::path::PathBuf;
use std::sync::{OnceLock, PoisonError, RwLock};

#[cfg(target_os = "linux")]
pub use linux::{cgroup, proc, rlimits, send_stdin};
pub use protocol::{Config, Limits, Order, Status, Survivor, Variables, Word};
pub use refusal::{Part, Refusal};

/// The name under which a shim is executed, and its first argument.
pub const SHIM: &str = "__andon-shim";

/// The variable that marks a tool's processes, for the times when there is no shim to ask.
pub const MARK: &str = "ANDON_PROCESS";

static SELF: OnceLock<PathBuf> = OnceLock::new();
static HELPER: RwLock<Option<PathBuf>> = RwLock::new(None);

/// To be called first in `main`, before any thread or runtime is started.
///
/// If this process was executed as a shim it does that work and exits. Otherwise it remembers that this program can be its own
/// shim, and returns at once. No argument that a person types can make a shim of the program: it must also have been
/// started by a process that holds the other end of its standard input.
///
/// ```no_run
/// andon_shim::init();
/// // … the program's own work.
/// ```
pub fn init() {
    #[cfg(target_os = "linux")]
    {
        linux::serve_if_asked();
        // The link and not what it points to: it is this very program, also after an update has replaced the file.
        let itself = PathBuf::from("/proc/self/exe");
        if itself.exists() {
            // A second call says the same.
            let _ = SELF.set(itself);
        }
    }
}

/// Names the `andon-shim` program, for a program that cannot call [`init`] at its start. It wins over `init`.
pub fn set_helper(path: impl Into<PathBuf>) {
    *HELPER.write().unwrap_or_else(PoisonError::into_inner) = Some(path.into());
}

/// The program to execute as a shim, if there is one. Never one on other systems than Linux.
pub fn helper() -> Option<PathBuf> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let named = HELPER.read().unwrap_or_else(PoisonError::into_inner).clone();
    named.or_else(|| SELF.get().cloned())
}
