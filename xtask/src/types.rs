//! `cargo xtask types`: the types of the page's modules, as their comments declare them, checked by TypeScript.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::debian;
use crate::python::target_folder;
use crate::stages::{Stages, quietly, xtask};

/// Pinned, because another version finds other errors.
const VERSION: &str = "5.9.3";
/// The configuration, relative to the root. It is not beside the modules, because everything there is put into the program.
const PROJECT: &str = "xtask/page/tsconfig.json";

/// Checks them, and prints what is wrong.
pub(crate) fn types() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut check = Command::new(ensure_compiler()?);
    // From the root, so that files are named as seen from there.
    let status = check.args(["--project", PROJECT]).current_dir(&root).status().context("tsc cannot be started")?;
    if !status.success() {
        bail!("the types of the page are wrong ({status})");
    }
    Ok(())
}

/// As a stage.
pub(crate) fn run(stages: &mut Stages) -> Result<()> {
    let name = "types of the page";
    if stages.needs(name, ensure_compiler()).is_none() {
        return Ok(());
    }
    stages.run(name, &mut xtask(&["types"])?)
}

/// TypeScript's compiler, installed below `target` if it is missing.
pub(crate) fn ensure_compiler() -> Result<PathBuf> {
    debian::ensure("node", "nodejs")?;
    let place = target_folder().join("tools").join("typescript");
    // Absolute, because it is started from another folder.
    let place = std::path::absolute(&place).unwrap_or(place);
    let compiler = place.join("node_modules").join(".bin").join("tsc");
    if is_wanted(&compiler) {
        return Ok(compiler);
    }
    debian::ensure("npm", "npm")?;
    std::fs::create_dir_all(&place).with_context(|| format!("{} cannot be created", place.display()))?;
    let mut install = Command::new("npm");
    install.args([
        "install",
        "--no-save",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--loglevel=error",
        "--prefix",
    ]);
    install.arg(&place).arg(format!("typescript@{VERSION}"));
    let failed = || format!("typescript@{VERSION} could not be installed by npm; is there a network?");
    quietly(&mut install).with_context(failed)?;
    if !is_wanted(&compiler) {
        bail!("npm installed another version than typescript@{VERSION}");
    }
    Ok(compiler)
}

/// Whether this is the compiler in the right version.
fn is_wanted(compiler: &Path) -> bool {
    let output = Command::new(compiler).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == format!("Version {VERSION}"))
}
