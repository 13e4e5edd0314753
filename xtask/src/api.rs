//! `cargo xtask api`: what each crate offers to others is what its file in `api/` says, and no release breaks an earlier one by accident.
//!
//! The lists are made from rustdoc's JSON. Its format is not stable yet, so an environment variable must allow it, and the program
//! that reads it must fit the compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::components::ensure_cargo_tool;
use crate::packages::{is_published, members, name, printed};
use crate::python::target_folder;
use crate::stages::{cargo, on_this_machine};

/// The version of cargo-public-api that reads what Rust 1.95 writes (format 57). A newer Rust may need a newer one.
const PUBLIC_API: &str = "0.52.0";

/// The version of cargo-semver-checks. It reads the formats of several Rusts.
const SEMVER_CHECKS: &str = "0.51.0";

/// The lists, seen from the root.
const LISTS: &str = "api";

/// Compares what each crate offers with its list, or, with `--bless`, writes the lists; words are names of crates, all by default.
/// Then looks for what breaks users of the last release, if there was one.
pub(crate) fn api(words: &[&str]) -> Result<()> {
    let (is_blessed, wanted) = match words {
        ["--bless", wanted @ ..] => (true, wanted),
        wanted => (false, wanted),
    };
    let printed = printed(&["metadata", "--no-deps", "--format-version", "1"])?;
    let workspace: Value = serde_json::from_str(&printed).context("cargo metadata is not JSON")?;
    let published = members(&workspace).filter(|package| is_published(package) && has_library(package));
    let names: Vec<&str> = published.map(name).filter(|name| wanted.is_empty() || wanted.contains(name)).collect();
    if let Some(unknown) = wanted.iter().find(|wanted| !names.contains(wanted)) {
        bail!("{unknown:?} is no library of ours");
    }
    let program = ensure_cargo_tool("public-api", PUBLIC_API)?;
    let mut changed = Vec::new();
    for name in &names {
        if !is_listed(&program, name, is_blessed)? {
            changed.push(*name);
        }
    }
    if !changed.is_empty() {
        let them = changed.join(" ");
        bail!(
            "what {them} offers has changed: if it should have, run `cargo xtask api --bless {them}` and commit the lists"
        );
    }
    match (is_blessed, last_release()?) {
        (true, _) => Ok(()),
        (false, Some(release)) => check_semver(&release),
        (false, None) => {
            println!("nothing has been released, so there is nothing to break");
            Ok(())
        }
    }
}

/// Whether others can use it in their code. Macros have no items of their own.
fn has_library(package: &Value) -> bool {
    let targets = package.get("targets").and_then(Value::as_array).into_iter().flatten();
    let mut kinds = targets.filter_map(|target| target.get("kind")?.as_array()).flatten();
    kinds.any(|kind| kind == "lib")
}

/// Whether a crate offers what its list says. What differs is printed; with `bless` the list is written instead.
fn is_listed(program: &Path, package: &str, bless: bool) -> Result<bool> {
    let now = offered(program, package)?;
    let list = root().join(LISTS).join(format!("{package}.txt"));
    if bless {
        fs::create_dir_all(root().join(LISTS))?;
        fs::write(&list, &now).with_context(|| format!("{} cannot be written", list.display()))?;
        println!("{package}: {} lines", now.lines().count());
        return Ok(true);
    }
    // A crate without a list offers nothing yet.
    let before = fs::read_to_string(&list).unwrap_or_default();
    let differences = differences(&before, &now);
    for line in &differences {
        println!("{package}: {line}");
    }
    Ok(differences.is_empty())
}

/// What was removed and what was added, each as a line.
fn differences(before: &str, now: &str) -> Vec<String> {
    let missing = |from: &str, of: &str, mark: &str| {
        let there: Vec<&str> = of.lines().collect();
        let missing = from.lines().filter(|line| !there.contains(line));
        missing.map(|line| format!("{mark} {line}")).collect::<Vec<_>>()
    };
    [missing(before, now, "-"), missing(now, before, "+")].concat()
}

/// What a crate with all its features offers to others, a line for each item.
fn offered(program: &Path, package: &str) -> Result<String> {
    let mut document = cargo(&["rustdoc", "--quiet", "--package", package, "--lib", "--all-features", "--"]);
    document.args(["-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"]);
    document.env("RUSTC_BOOTSTRAP", "1");
    if !document.status().context("cargo cannot be started")?.success() {
        bail!("rustdoc failed for {package}");
    }
    let json = target_folder().join("doc").join(format!("{}.json", package.replace('-', "_")));
    let mut list = Command::new(program);
    // Three times: without what every type has of itself.
    let output = list.args(["public-api", "-sss", "--color", "never", "--rustdoc-json"]).arg(json).output()?;
    if !output.status.success() {
        bail!("cargo-public-api failed for {package}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The tag of the newest release that this source contains.
fn last_release() -> Result<Option<String>> {
    let mut git = Command::new("git");
    let output = git.args(["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]).current_dir(root()).output()?;
    let tag = String::from_utf8(output.stdout)?.trim().to_owned();
    Ok(Some(tag).filter(|tag| output.status.success() && !tag.is_empty()))
}

fn check_semver(release: &str) -> Result<()> {
    let program = ensure_cargo_tool("semver-checks", SEMVER_CHECKS)?;
    let mut check = Command::new(program);
    check.args(["semver-checks", "--workspace", "--baseline-rev", release]).current_dir(root());
    if !on_this_machine(&mut check).status()?.success() {
        bail!("something that worked with {release} does not work any more: bring it back, or raise the version");
    }
    Ok(())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_removed_and_what_was_added_is_told() {
        let (before, now) = ("pub fn a()\npub fn b()\n", "pub fn b()\npub fn c()\n");
        assert_eq!(differences(before, now), ["- pub fn a()", "+ pub fn c()"]);
        assert!(differences(now, now).is_empty());
    }

    #[test]
    fn programs_and_macros_have_no_list() {
        let package = |kinds: &[&str]| json!({ "targets": kinds.iter().map(|kind| json!({ "kind": [kind] })).collect::<Vec<_>>() });
        assert!(has_library(&package(&["example", "lib"])));
        assert!(!has_library(&package(&["bin", "test"])));
        assert!(!has_library(&package(&["proc-macro"])));
    }
}
