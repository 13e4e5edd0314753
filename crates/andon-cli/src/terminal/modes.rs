//! The terminal's modes: typing is not echoed into a streaming answer, and the modes are restored at the end.

use std::io::stdin;
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// The terminal's modes when the program started; `None` if standard input is not a terminal.
static FOUND: OnceLock<Option<Termios>> = OnceLock::new();

fn found() -> Option<&'static Termios> {
    FOUND.get_or_init(|| tcgetattr(stdin()).ok()).as_ref()
}

/// Remembers the terminal's modes, to restore them later.
pub(crate) fn remember() {
    found();
}

/// Turns echo off. What is typed is kept for the next prompt.
pub(crate) fn hush() {
    if let Some(found) = found() {
        let mut quiet = found.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        // If it fails, the terminal echoes: ugly, but harmless.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &quiet);
    }
}

/// Restores the terminal's modes, if they were remembered: otherwise they were not changed.
pub(crate) fn restore() {
    if let Some(Some(found)) = FOUND.get() {
        // It fails only if the terminal is gone.
        let _ = tcsetattr(stdin(), OptionalActions::Now, found);
    }
}

/// While this lives, echo is off.
pub(crate) struct Hushed;

impl Hushed {
    pub(crate) fn new() -> Self {
        hush();
        Self
    }
}

impl Drop for Hushed {
    fn drop(&mut self) {
        restore();
    }
}

/// Takes a Ctrl-D that was pressed on an empty line. Returns whether there was one.
pub(crate) fn take_end() -> bool {
    let input = stdin();
    let mut keys = [PollFd::new(&input, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_end = matches!(poll(&mut keys, Some(&now)), Ok(1)) && matches!(ioctl_fionread(&input), Ok(0));
    // Zero bytes are ready, so this does not block.
    is_end && matches!(rustix::io::read(&input, &mut [0; 1]), Ok(0))
}
