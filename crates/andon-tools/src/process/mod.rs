//! Processes that are stopped with their whole tree.
//!
//! # Theory of operation
//!
//! A [`Command`] is started under a *shim* (see [`andon_shim`]): a tiny supervisor that becomes the parent of every orphan in the
//! tree, and says `gone` only when the kernel has told it that no process is left. The host talks to it over a socket. If the
//! host dies or closes that socket, the shim ends the tree by itself.
//!
//! Everything that a call starts is in its [`Tree`]. A tool creates the tree first, gives a clone to its cleanup, and starts
//! commands in it. However the call ends, [`Tree::end`] ends the processes, and names those that it could not end.
//!
//! Background processes end with the command that started them: when the main process has ended, the rest is killed.
//!
//! # Without a shim
//!
//! A program gets a shim by calling `andon_runtime::init()` first in `main`, or by naming a helper. Without one, and on systems
//! other than Linux, a process is started in its own process group and stopped on a best-effort basis: its group, and on Linux
//! every process with its mark in the environment. Daemons that clear their environment escape, and everything escapes if the
//! host is killed. The receipt says so. Also, only a shim closes the descriptors that the host has left open for its children.

#[cfg(target_os = "linux")]
mod adopt;
mod bare;
mod command;
mod environment;
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
pub(crate) use text::{begun_at_the_end, lossless};

/// How long a shim tries to end a tree before it gives up and names the processes that are left.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time that a tool's cleanup needs to end a [`Tree`] in any case.
pub const CLEANUP: Duration = Duration::from_secs(10);

/// Makes this process the parent of every process that outlives its shim, so that it can be ended even if a tool has killed its
/// shim and left no trace. Only on Linux; elsewhere it does nothing.
///
/// For the `main` of a program that starts processes only through this module: call it right after `andon_runtime::init()`,
/// before any thread. **Never call it in a library**, or in a program that has other children: when a shim is killed, every
/// child of this process that was not started here is killed and reaped, whoever started it. Without this call such processes
/// become children of the system's first process, and the receipt says that they may still be running.
///
/// It helps only while this process lives: killing it together with a shim still leaks.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    adopt::begin();
}

/// Hides the environment and the memory of this process from other processes of the same user: without it, a tool can read the
/// host's keys in `/proc/<host>/environ`, where they stay even after the variables are removed. Only on Linux; elsewhere it does
/// nothing.
///
/// For the `main` of a program: call it right after `andon_runtime::init()`. Processes that this one starts are not hidden: the
/// kernel resets it when a program is executed. **Root can still look**, and so can anyone who may trace any process. There are
/// no core dumps of this process, and debuggers need such rights. If the kernel refuses, nothing changes and nothing is reported.
pub fn hide_memory() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}
