//! `andon completions`: what a shell needs to know of the command line.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::Exit;
use crate::args::Args;
use crate::show::out::write_own;

/// Writes a shell's completions to standard output.
pub(crate) fn print(shell: Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    generate(shell, &mut Args::command(), "andon", &mut script);
    write_own(&script)?;
    Ok(Exit::Completed)
}
