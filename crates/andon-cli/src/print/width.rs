//! How wide the terminal is.

use rustix::termios::tcgetwinsize;

/// How many columns standard output has; `None` if it is not a terminal.
pub(crate) fn columns() -> Option<usize> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// How many columns text may use: the last one is left free, because a space there would start the next line.
pub(crate) fn text_columns() -> Option<usize> {
    columns().map(|columns| columns.saturating_sub(1))
}
