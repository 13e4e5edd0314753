//! `cargo xtask crash`.

use anyhow::{Result, bail};

use crate::stages::cargo;

/// Kills the runtime on its journal, or breaks the protocol to see that the judge notices. The harness prints the last line
/// itself.
pub(crate) fn crash(words: &[&str]) -> Result<()> {
    if !crash_command(words).status()?.success() {
        bail!("something was lost, or a broken protocol was not noticed");
    }
    Ok(())
}

/// The harness with these options. A planted fault needs a build in which faults can be planted.
pub(crate) fn crash_command(words: &[&str]) -> std::process::Command {
    let mut command = cargo(&["run", "--quiet", "--package", "andon-store", "--example", "crash"]);
    if words.iter().any(|word| matches!(*word, "--mutants" | "--fault")) {
        command.args(["--features", "faults"]);
    }
    command.arg("--").args(words);
    command
}
