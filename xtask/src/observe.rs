//! Every query of the dashboard and of the alerts, answered by a real Prometheus.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::python::target_folder;
use crate::stages::{Stages, cargo};

/// `cargo xtask observe`.
pub(crate) fn observe() -> Result<()> {
    let mut stages = Stages::default();
    run(&mut stages)?;
    stages.finish()
}

pub(crate) fn run(stages: &mut Stages) -> Result<()> {
    let programs = ensure_prometheus()?;
    let words = ["run", "--quiet", "--package", "andon-server", "--example", "observed"];
    stages.run("dashboard and alerts, by Prometheus", cargo(&words).env("ANDON_PROMETHEUS", programs))
}

/// The folder with Debian's `prometheus` and `promtool`. The package is unpacked and not installed: so nothing is started as a service.
fn ensure_prometheus() -> Result<PathBuf> {
    if let Some(own) = std::env::var_os("ANDON_PROMETHEUS") {
        return Ok(own.into());
    }
    let folder = target_folder().join("prometheus");
    let programs = folder.join("usr").join("bin");
    if programs.join("promtool").exists() {
        return Ok(programs);
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let downloaded =
        || succeeds(Command::new("apt-get").args(["download", "--quiet", "prometheus"]).current_dir(&folder));
    let known = downloaded() || (succeeds(Command::new("apt-get").args(["update", "--quiet"])) && downloaded());
    if !known || !unpack(&folder)? || !programs.join("promtool").exists() {
        bail!(
            "Debian's package `prometheus` could not be unpacked; name the folder of its programs in ANDON_PROMETHEUS"
        );
    }
    Ok(programs)
}

fn unpack(folder: &Path) -> Result<bool> {
    let packages = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let package = packages.into_iter().find(|file| file.extension().is_some_and(|kind| kind == "deb"));
    Ok(package.is_some_and(|package| succeeds(Command::new("dpkg").arg("-x").arg(package).arg(folder))))
}

fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}
