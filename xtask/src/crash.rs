//! `cargo xtask crash`.

use anyhow::{Result, bail};

use crate::stages::{build_example, cargo, example};

/// Kills the runtime on its journal, or breaks the protocol to see that the judge notices. The harness prints the last line
/// itself.
pub(crate) fn crash(words: &[&str]) -> Result<()> {
    let breaks = words.iter().any(|word| matches!(*word, "--mutants" | "--fault"));
    let mut command = match breaks {
        true => crash_command(words),
        false => {
            build_example("crash")?;
            let mut command = example("crash");
            command.args(words);
            command
        }
    };
    if !command.status()?.success() {
        bail!("something was lost, or a broken protocol was not noticed");
    }
    Ok(())
}

/// The harness in a build in which faults can be planted.
pub(crate) fn crash_command(words: &[&str]) -> std::process::Command {
    let mut command = cargo(&["run", "--quiet", "--package", "andon-store", "--example", "crash"]);
    command.args(["--features", "faults", "--"]).args(words);
    command
}
