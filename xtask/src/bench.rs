//! `cargo xtask bench`.

use anyhow::{Result, bail};

use crate::stages::cargo;

/// The benchmarks of the core, as a table.
pub(crate) fn core() -> Result<()> {
    let status = cargo(&["bench", "--quiet", "--package", "andon", "--bench", "core"]).status()?;
    if !status.success() {
        bail!("the benchmark failed");
    }
    Ok(())
}
