//! `cargo xtask crash`.

use anyhow::{Result, bail};

use crate::stages::{build_example, example};

/// Kills the runtime while it writes its journal. The harness prints the last line itself.
pub(crate) fn crash(words: &[&str]) -> Result<()> {
    build_example("crash")?;
    if !example("crash").args(words).status()?.success() {
        bail!("something was lost");
    }
    Ok(())
}
