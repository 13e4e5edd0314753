//! The terminal's modes: typing while an answer streams is not echoed into it, and the terminal is left as it was found.

use std::io::stdin;
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The modes that the terminal had when the program began; nothing if standard input is none.
static FOUND: OnceLock<Option<Termios>> = OnceLock::new();

fn found() -> Option<&'static Termios> {
    FOUND.get_or_init(|| tcgetattr(stdin()).ok()).as_ref()
}

/// Remembers the terminal's modes, to leave it as it was found.
pub(crate) fn remember() {
    found();
}

/// Stops the echo of what is typed. It is kept for the next prompt.
pub(crate) fn hush() {
    if let Some(found) = found() {
        let mut quiet = found.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        // A terminal that does not take it echoes: ugly, and no more.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &quiet);
    }
}

/// Makes the terminal as it was found. A program that never remembered it has not changed it.
pub(crate) fn restore() {
    if let Some(Some(found)) = FOUND.get() {
        // Nothing can be done for a terminal that is gone.
        let _ = tcsetattr(stdin(), OptionalActions::Now, found);
    }
}

/// While this lives, what is typed is not echoed.
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

/// Whether Ctrl-D was pressed on an empty line: then it is taken.
pub(crate) fn take_end() -> bool {
    let input = stdin();
    let mut keys = [PollFd::new(&input, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_end = matches!(poll(&mut keys, Some(&now)), Ok(1)) && matches!(ioctl_fionread(&input), Ok(0));
    // There is nothing to be read, so this waits for nobody.
    is_end && matches!(rustix::io::read(&input, &mut [0; 1]), Ok(0))
}

/// How many columns standard output has; nothing if it is no terminal.
pub(crate) fn columns() -> Option<usize> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}
