//! The copy of the source that is broken, and the checkers that are built on it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Fault;
use super::catch::Checkers;
use crate::stages::test_cargo;

/// Copies the source, applies every patch, and builds the checkers.
pub(super) fn build(root: &Path, faults: &[Fault]) -> Result<Checkers> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder));
    let ours = target.join("faults");
    let (fresh, source) = (ours.join("fresh"), ours.join("source"));
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    for file in files(root)? {
        put(&root.join(&file), &fresh.join(&file))?;
    }
    add_switch(root, &fresh, faults)?;
    for fault in faults {
        apply(fault, &fresh, &ours)?;
    }
    bring_up_to_date(&fresh, &source)?;
    // Dependencies are shared with the source's own builds, which use the features of the whole workspace; only our own crates
    // are built again.
    let words = ["--workspace", "--example", "points", "--example", "crash", "--test", "conformance"];
    let built = programs(&source, &target, &words)?;
    // The source's own examples are built to the same paths, so these are moved out of their way.
    let keep = |package: &str, name: &str| -> Result<PathBuf> {
        let is_it = |(of, path): &&(String, PathBuf)| {
            of == package && path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name))
        };
        let (_, program) = built.iter().find(is_it).with_context(|| format!("cargo did not build {name}"))?;
        let kept = ours.join(name);
        put(program, &kept)?;
        Ok(kept)
    };
    Ok(Checkers {
        points: keep("andon-testkit", "points")?,
        conformance: keep("andon-store", "conformance")?,
        crash: keep("andon-store", "crash")?,
    })
}

/// The files that belong to the source, including those that are not committed yet.
fn files(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(words).current_dir(root).output().context("git could not be started")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    }
    let names = String::from_utf8(output.stdout)?;
    let files = names.split_terminator('\0').map(PathBuf::from);
    Ok(files.filter(|file| root.join(file).is_file()).collect())
}

/// Appends the switch that patches ask to every crate that one of them changes.
fn add_switch(root: &Path, copy: &Path, faults: &[Fault]) -> Result<()> {
    let switch = fs::read_to_string(root.join("faults/switch.rs"))?;
    let mut crates = BTreeSet::new();
    for fault in faults {
        let text = fs::read_to_string(&fault.path)?;
        let changed = text.lines().filter_map(|line| line.strip_prefix("+++ b/crates/")?.split('/').next());
        crates.extend(changed.map(str::to_owned));
    }
    for name in crates {
        let path = copy.join(format!("crates/{name}/src/lib.rs"));
        let text = fs::read_to_string(&path).with_context(|| format!("crates/{name} has no src/lib.rs"))?;
        fs::write(&path, text + &switch)?;
    }
    Ok(())
}

/// Applies a patch. Patches may be neighbours: one line between them is enough.
fn apply(fault: &Fault, copy: &Path, around: &Path) -> Result<()> {
    let mut command = Command::new("git");
    // The copy is inside a repository, but not part of it.
    command.args(["apply", "-C1"]).arg(&fault.path).current_dir(copy).env("GIT_CEILING_DIRECTORIES", around);
    let output = command.output().context("git could not be started")?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        let name = &fault.name;
        bail!("faults/{name}.patch does not apply: faults/README.md says how to fix it\n{why}");
    }
    Ok(())
}

/// Makes one folder like another, and touches only what differs, so that cargo rebuilds only that.
fn bring_up_to_date(from: &Path, to: &Path) -> Result<()> {
    let (wanted, old) = (files_below(from)?, files_below(to)?);
    for gone in old.difference(&wanted) {
        fs::remove_file(to.join(gone))?;
    }
    for file in wanted {
        let (new, old) = (from.join(&file), to.join(&file));
        if !old.is_file() || fs::read(&new)? != fs::read(&old)? {
            put(&new, &old)?;
        }
    }
    Ok(())
}

fn files_below(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let (mut files, mut folders) = (BTreeSet::new(), vec![folder.to_path_buf()]);
    while let Some(next) = folders.pop().filter(|next| next.exists()) {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            match path.strip_prefix(folder) {
                _ if path.is_dir() => folders.push(path),
                Ok(file) => drop(files.insert(file.to_path_buf())),
                Err(_) => {}
            }
        }
    }
    Ok(files)
}

fn put(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    // A running program cannot be overwritten.
    if to.exists() {
        fs::remove_file(to)?;
    }
    fs::copy(from, to).with_context(|| format!("{} cannot be copied", from.display()))?;
    Ok(())
}

/// Builds, and returns the package and path of each program.
fn programs(source: &Path, target: &Path, words: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let mut command = test_cargo(&["build", "--quiet", "--message-format", "json-render-diagnostics"]);
    // For cargo, crates at the same place in two workspaces are the same crate: with the same compiler, those of the copy would take
    // the place of the source's own, which would then seem to be up to date. `env` is a compiler that only calls the other.
    command.env("RUSTC_WORKSPACE_WRAPPER", "env");
    command.args(words).current_dir(source).env("CARGO_TARGET_DIR", target).stderr(Stdio::inherit());
    let output = command.output().context("cargo could not be started")?;
    if !output.status.success() {
        bail!("the broken copy in {} cannot be built: fix the patch that breaks it", source.display());
    }
    let told = String::from_utf8(output.stdout)?;
    let program = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let executable = message.get("executable")?.as_str()?;
        let manifest = Path::new(message.get("manifest_path")?.as_str()?);
        let package = manifest.parent()?.file_name()?.to_str()?;
        Some((package.to_owned(), PathBuf::from(executable)))
    };
    Ok(told.lines().filter_map(program).collect())
}
