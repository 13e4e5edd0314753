//! A tiny supervisor for one tool process, which proves that the tool's whole process tree is gone.
//!
//! # Theory of operation
//!
//! A tool can lose track of the processes that it starts: they fork twice, start their own session, clear their environment,
//! ignore signals. So each tool process gets a *shim*: our own program, executed again, which becomes a supervisor before it
//! does anything else. The shim is a child subreaper, so every process that loses its parent becomes the shim's child, however
//! it was started. To stop, it freezes the tree until two looks at it agree, kills it, and reaps until the kernel says that
//! there is no child left (`ECHILD`). Only that answer is proof.
//!
//! The shim ends the tree when it is told to, when the tool's main process ends, when it gets `SIGTERM`, and when its host is
//! dead: it has a pidfd of the host, and the socket between them.
//!
//! A program that can be its own shim calls [`init`] first in `main`. One that cannot names a helper with [`set_helper`]: the
//! `andon-shim` program of this crate.
//!
//! # What it does not do
//!
//! It is not a security boundary: a tool of the same user can kill its shim. Descendants with other privileges, processes in
//! uninterruptible sleep, and work that was given to another daemon (docker, systemd-run, at, ssh) are not covered. Against a
//! fork bomb, set a limit on processes, which does not apply to root. Killing host and shim together leaks, unless a service
//! manager owns the cgroup.
//!
//! Unix systems other than Linux have no subreaper, no pidfd and no parent-death signal. There [`helper`] is always `None`, and
//! only the process group can be stopped.

#[cfg(windows)]
compile_error!("Andon needs Unix to stop whole process trees: on Windows, use WSL 2.");

#[cfg(target_os = "linux")]
mod linux;
mod protocol;
mod refusal;

use std::path::PathBuf;
use std::sync::{OnceLock, PoisonError, RwLock};

#[cfg(target_os = "linux")]
pub use linux::{cgroup, proc, rlimits, send_stdin};
pub use protocol::{Config, Limits, Order, SHIM, Status, Survivor, Variables, Word};
pub use refusal::{Part, Refusal};

/// The variable that marks a tool's processes, so that they can be found without a shim.
pub const MARK: &str = "ANDON_PROCESS";

static SELF: OnceLock<PathBuf> = OnceLock::new();
static HELPER: RwLock<Option<PathBuf>> = RwLock::new(None);

/// Must be called first in `main`, before any thread or runtime is started.
///
/// If this process was executed as a shim, it does that work and exits. Otherwise it remembers that this program can be its own
/// shim, and returns at once. Arguments alone cannot turn the program into a shim: the process that started it must also hold the
/// other end of its standard input.
///
/// ```no_run
/// andon_shim::init();
/// // … the rest of the program.
/// ```
pub fn init() {
    #[cfg(target_os = "linux")]
    {
        linux::serve_if_asked();
        // The link and not its target: it is this program even after an update has replaced the file.
        let itself = PathBuf::from("/proc/self/exe");
        if itself.exists() {
            // It fails only on a second call, with the same value.
            let _ = SELF.set(itself);
        }
    }
}

/// Names the `andon-shim` program, for a program that cannot call [`init`] first. It wins over `init`.
///
/// ```
/// andon_shim::set_helper("/usr/libexec/andon-shim");
/// ```
pub fn set_helper(path: impl Into<PathBuf>) {
    *HELPER.write().unwrap_or_else(PoisonError::into_inner) = Some(path.into());
}

/// The program to execute as a shim, if there is one. Always `None` on systems other than Linux.
pub fn helper() -> Option<PathBuf> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let named = HELPER.read().unwrap_or_else(PoisonError::into_inner).clone();
    named.or_else(|| SELF.get().cloned())
}
