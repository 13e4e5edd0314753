//! `cargo xtask crash`.

use anyhow::{Result, bail};

use crate::stages::cargo;

/// Kills the runtime on its journal. The harness prints the last line itself.
pub(crate) fn crash(words: &[&str]) -> Result<()> {
    if !crash_command(words).status()?.success() {
        bail!("something was lost");
    }
    Ok(())
}

/// The harness with these options.
pub(crate) fn crash_command(words: &[&str]) -> std::process::Command {
    let mut command = cargo(&["run", "--quiet", "--package", "andon-store", "--example", "crash", "--"]);
    command.args(words);
    command
}
