//! How text looks.

use anstyle::AnsiColor;

/// Text styles. They are dropped if the output is not a terminal, or if NO_COLOR is set.
pub(crate) struct Style;

impl Style {
    /// Thinking, and remarks beside the answer.
    pub(crate) const DIM: anstyle::Style = anstyle::Style::new().dimmed();
    /// Headings.
    pub(crate) const BOLD: anstyle::Style = anstyle::Style::new().bold();
    /// Tools.
    pub(crate) const TOOL: anstyle::Style = AnsiColor::Cyan.on_default();
    /// It went well.
    pub(crate) const GOOD: anstyle::Style = AnsiColor::Green.on_default();
    /// It was stopped.
    pub(crate) const STOP: anstyle::Style = AnsiColor::Yellow.on_default().bold();
    /// It went wrong.
    pub(crate) const BAD: anstyle::Style = AnsiColor::Red.on_default().bold();
}
