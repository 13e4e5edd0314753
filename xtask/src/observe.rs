//! Every query of the dashboard and of the alerts, answered by a real Prometheus.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::debian;
use crate::python::target_folder;
use crate::stages::{Stages, build_example, example};

/// `cargo xtask observe`.
pub(crate) fn observe() -> Result<()> {
    build_example("observed")?;
    let mut stages = Stages::default();
    run(&mut stages)?;
    stages.finish()
}

pub(crate) fn run(stages: &mut Stages) -> Result<()> {
    let name = "dashboard and alerts, by Prometheus";
    let Some(programs) = stages.needs(name, ensure_prometheus()) else { return Ok(()) };
    stages.run(name, example("observed").env("ANDON_PROMETHEUS", programs))
}

/// The folder with Debian's `prometheus` and `promtool`. The package is unpacked, not installed, so that no service is started.
pub(crate) fn ensure_prometheus() -> Result<PathBuf> {
    if let Some(own) = std::env::var_os("ANDON_PROMETHEUS") {
        return Ok(own.into());
    }
    let folder = target_folder().join("prometheus");
    let programs = folder.join("usr").join("bin");
    if programs.join("promtool").exists() {
        return Ok(programs);
    }
    if !debian::unpack("prometheus", &folder) || !programs.join("promtool").exists() {
        bail!(
            "Debian's package `prometheus` could not be unpacked; set ANDON_PROMETHEUS to the folder of its programs"
        );
    }
    Ok(programs)
}
