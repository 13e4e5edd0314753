//! How the program ends, for whoever started it.

/// The exit code. Usage errors are clap's, and exit with 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The run completed, the chat was closed, the server shut down with nothing still running, or the command succeeded.
    Completed = 0,
    /// The run or the command failed, or something outlived the server.
    Failed = 1,
    /// The run was cancelled.
    Cancelled = 3,
    /// A third Ctrl-C, or a server's third signal: exited at once.
    Interrupted = 130,
}
