//! `cargo xtask eval-usage`.

use anyhow::{Result, bail};

use crate::stages::cargo;

/// How good the meter is on recorded calls: tables, and a line that sums them up.
pub(crate) fn usage(words: &[&str]) -> Result<()> {
    let command = ["run", "--quiet", "--release", "--package", "andon-models", "--example", "eval_usage", "--"];
    let status = cargo(&command).args(words).status()?;
    if !status.success() {
        bail!("the evaluation failed");
    }
    Ok(())
}
