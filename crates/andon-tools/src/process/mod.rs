//! Processes whose whole tree is stopped.
//!
//! # Theory of operation
//!
//! A [`Command`] is started under a *shim* (see [`andon_shim`]): a tiny supervisor that becomes the parent of every process that
//! loses its own, and that says `gone` only when the kernel has told it that none is left. The host talks with it over a
//! socket. If the host dies, or only lets go of that socket, the shim ends the tree by itself.
//!
//! What a call has started is in its [`Tree`]. A tool makes the tree first, gives a clone of it to its cleanup, and starts
//! commands in it. However the call ends, [`Tree::end`] brings the processes to their end, and says what it could not.
//!
//! Background processes end with the command that started them: what is left when the main process has ended is killed.
//!
//! # Without a shim
//!
//! A program gets a shim by calling `andon_runtime::init()` first in `main`, or by naming a helper. Without one, and on other
//! systems than Linux, a process is started in a group of its own and stopped by best effort: its group, and on Linux
//! whoever carries its mark in the environment. Daemons that cleared it escape, and so does everything if the host is killed. Then the receipt
//! says so. Only a shim keeps from the process what descriptors the host has left open for its children.

#[cfg(target_os = "linux")]
mod adopt;
mod bare;
mod command;
mod environment;
mod mark;
mod output;
mod pipes;
mod run;
#[cfg(target_os = "linux")]
mod scan;
#[cfg(target_os = "linux")]
mod shim;
mod status;
mod text;
mod tree;

use std::time::Duration;

pub use andon_runtime::Remains;
pub use andon_shim::{Limits, Refusal, Status};
pub use command::{Command, StartError, Stdin};
pub use output::Captured;
pub use run::{Finished, Stop};
pub use tree::{Running, Tree};

pub(crate) use output::Collector;
pub(crate) use status::in_words;
pub(crate) use text::lossless;

/// How long a shim tries to end a tree before it gives up and names who is left.
const PATIENCE: Duration = Duration::from_secs(5);

/// The budget that a tool's cleanup needs to end a [`Tree`] in any case.
pub const CLEANUP: Duration = Duration::from_secs(10);

/// Makes this process the parent of whatever outlives its shim, so that it can be ended also when a tool has killed its shim
/// and has left nothing to be found by. On Linux; elsewhere it does nothing.
///
/// For the `main` of a program that starts processes only through this module: right after `andon_runtime::init()`, before any thread.
/// **Never for a library**, and never in a program that has other children: when a shim was killed, every child of this process
/// that was not started here is killed and reaped, whoever started it. Without this call such processes belong to the
/// system's first process, and the receipt says that they could live on.
///
/// It helps while this process lives and ends its trees with [`Tree::end`]: killing it together with a shim still leaks.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    adopt::begin();
}

/// Hides the environment and the memory of this process from other processes of the same user: without it a tool can read the
/// host's keys in `/proc/<host>/environ`, where they stay even when the variables are removed. On Linux; elsewhere it does
/// nothing.
///
/// For the `main` of a program, right after `andon_runtime::init()`. Processes that it starts are not hidden by it: the kernel forgets
/// it when a program is executed. **Root sees all the same**, and so does who may trace any process; nobody gets a core dump of
/// this process, and no debugger without such rights is let in. Says nothing where the kernel refuses: then all is as it was.
pub fn hide_memory() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}
