//! `cargo xtask packages`: each crate that others may depend on packs, is small, and builds from its package alone.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::stages::cargo;

/// The most bytes that the files of a package may have. No source of ours is near it, so what is above it has data in it.
const LARGEST: u64 = 2 << 20;

/// What a package should say of itself. Cargo does not insist on all of it.
const SAID: [&str; 6] = ["description", "license", "readme", "rust_version", "keywords", "categories"];

/// Checks what the manifests say, and then does all of a publication but the upload.
pub(crate) fn packages() -> Result<()> {
    let printed = printed(&["metadata", "--no-deps", "--format-version", "1"])?;
    let workspace: Value = serde_json::from_str(&printed).context("cargo metadata is not JSON")?;
    let wrong = missing(&workspace);
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    check_sizes(&workspace)?;
    // What is not committed yet is tested, too.
    let mut dry_run = cargo(&["publish", "--workspace", "--dry-run", "--allow-dirty"]);
    // As in the workspace's profile, which packages do not have: dependencies that are built already are not built again.
    dry_run.env("CARGO_PROFILE_DEV_DEBUG", "false");
    if !dry_run.status().context("cargo cannot be started")?.success() {
        bail!("a crate cannot be published");
    }
    Ok(())
}

/// What manifests do not say. Crates that are not published state only which Rust they need.
fn missing(workspace: &Value) -> Vec<String> {
    let of = |package: &Value| {
        let said: &[&str] = if is_published(package) { &SAID } else { &["rust_version"] };
        let is_said = |field: &str| match package.get(field) {
            Some(Value::Array(words)) => !words.is_empty(),
            Some(Value::String(words)) => !words.is_empty(),
            _ => false,
        };
        let lacks = said.iter().filter(|field| !is_said(field));
        lacks.map(|field| format!("{}: Cargo.toml states no {field}", name(package))).collect::<Vec<_>>()
    };
    members(workspace).flat_map(of).collect()
}

/// Checks how large the files of each package are together.
fn check_sizes(workspace: &Value) -> Result<()> {
    for package in members(workspace).filter(|package| is_published(package)) {
        let manifest = package.get("manifest_path").and_then(Value::as_str).unwrap_or_default();
        let folder = Path::new(manifest).parent().context("a manifest is in no folder")?;
        let files = printed(&["package", "--list", "--allow-dirty", "--manifest-path", manifest])?;
        // Files that cargo makes while it packs are listed, too, and are not there.
        let sizes = files.lines().filter_map(|file| fs::metadata(folder.join(file)).ok()).map(|file| file.len());
        let bytes: u64 = sizes.sum();
        println!("{:<16} {:>5} KiB", name(package), bytes.div_ceil(1 << 10));
        if bytes > LARGEST {
            bail!("the package of {} would have {bytes} bytes: does it contain the data of tests?", name(package));
        }
    }
    Ok(())
}

/// What cargo prints.
pub(crate) fn printed(words: &[&str]) -> Result<String> {
    let output = cargo(words).output().context("cargo cannot be started")?;
    if !output.status.success() {
        bail!("cargo {} failed: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

pub(crate) fn members(workspace: &Value) -> impl Iterator<Item = &Value> {
    workspace.get("packages").and_then(Value::as_array).into_iter().flatten()
}

pub(crate) fn name(package: &Value) -> &str {
    package.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// `publish = false` is an empty list of registries.
pub(crate) fn is_published(package: &Value) -> bool {
    package.get("publish").and_then(Value::as_array).is_none_or(|registries| !registries.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_crate_that_does_not_state_its_rust_is_named() {
        let whole = json!({
            "name": "whole", "publish": null, "description": "A crate.", "license": "MIT", "readme": "README.md",
            "rust_version": "1.95", "keywords": ["agent"], "categories": ["asynchronous"],
        });
        let mut bare = whole.clone();
        bare["name"] = json!("bare");
        bare["rust_version"] = Value::Null;
        bare["categories"] = json!([]);
        let chores = json!({ "name": "chores", "publish": [], "rust_version": null, "keywords": [] });
        let expected = [
            "bare: Cargo.toml states no rust_version",
            "bare: Cargo.toml states no categories",
            "chores: Cargo.toml states no rust_version",
        ];
        assert_eq!(missing(&json!({ "packages": [whole, bare, chores] })), expected);
    }
}
