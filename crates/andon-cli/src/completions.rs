//! `andon completions`: a shell's completion script.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::args::Args;
use crate::print::out::write_own;

/// Prints the completion script to standard output.
pub(crate) fn print(shell: Shell) -> std::io::Result<()> {
    let mut script = Vec::new();
    generate(shell, &mut Args::command(), "andon", &mut script);
    write_own(&script)
}
