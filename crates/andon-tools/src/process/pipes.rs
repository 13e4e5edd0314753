//! The pipes between the host and a process.

use std::io;
use std::os::fd::OwnedFd;

use tokio::net::unix::pipe::{Receiver, Sender};

/// The host's ends.
#[derive(Debug)]
pub(crate) struct HostEnds {
    pub(crate) stdin: Option<Sender>,
    pub(crate) stdout: Receiver,
    pub(crate) stderr: Option<Receiver>,
}

/// The process's ends. The host must close them, or the pipes never end.
#[derive(Debug)]
pub(crate) struct ToolEnds {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// Which pipes are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PipeOptions {
    pub(crate) stdin: bool,
    /// Both outputs through one pipe, in the order in which they were written.
    pub(crate) merged: bool,
}

pub(crate) fn make(wanted: PipeOptions) -> io::Result<(HostEnds, ToolEnds)> {
    let (stdout, tool_stdout) = io::pipe()?;
    let (stderr, tool_stderr) = if wanted.merged {
        (None, tool_stdout.try_clone()?)
    } else {
        let (stderr, tool_stderr) = io::pipe()?;
        (Some(stderr), tool_stderr)
    };
    let (tool_stdin, stdin) =
        if wanted.stdin { io::pipe().map(|(read, write)| (Some(read), Some(write)))? } else { (None, None) };
    let host = HostEnds {
        stdin: stdin.map(|end| Sender::from_owned_fd(end.into())).transpose()?,
        stdout: Receiver::from_owned_fd(stdout.into())?,
        stderr: stderr.map(|end| Receiver::from_owned_fd(end.into())).transpose()?,
    };
    let tool =
        ToolEnds { stdin: tool_stdin.map(OwnedFd::from), stdout: tool_stdout.into(), stderr: tool_stderr.into() };
    Ok((host, tool))
}
