//! `cargo xtask features`: what depending on `andon` brings, and whether each feature of each crate builds alone.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::packages::{is_published, members, name, printed};
use crate::stages::test_cargo;
use crate::tests::Length;

/// What people depend on.
const ANDON: &str = "andon";

/// How many crates `andon` without features may bring, itself included.
const MOST: usize = 60;

/// Counts the crates that each feature of `andon` brings, and checks that none needs a newer Rust than we state. At length, each
/// feature of each crate is built alone, and what must hold without features is tested without them.
pub(crate) fn features(length: Length) -> Result<()> {
    let everything = metadata(&[])?;
    let ours = metadata(&["--no-deps"])?;
    let too_new = needing_newer(&everything, stated_rust(&ours)?);
    if !too_new.is_empty() {
        bail!("our Cargo.toml states an older rust-version than these crates do: {}", too_new.join(", "));
    }
    let alone = crates(None)?;
    println!("{:<14} {alone:>4} crates, of at most {MOST}", "no feature");
    for feature in features_of(members(&ours).find(|package| name(package) == ANDON)) {
        println!("{feature:<14} {:>4} crates", crates(Some(feature))?);
    }
    if alone > MOST {
        bail!("{ANDON} without features brings {alone} crates: `cargo tree -p {ANDON} -e normal,build` says why");
    }
    match length {
        Length::Short => Ok(()),
        Length::Long => build_alone(&ours),
    }
}

fn metadata(words: &[&str]) -> Result<Value> {
    let printed = printed(&[&["metadata", "--format-version", "1"], words].concat())?;
    serde_json::from_str(&printed).context("cargo metadata is not JSON")
}

/// How many crates are built for somebody who depends on `andon`.
fn crates(feature: Option<&str>) -> Result<usize> {
    let mut words = vec!["tree", "--package", ANDON, "--edges", "normal,build", "--prefix", "none"];
    words.extend(feature.iter().flat_map(|feature| ["--features", *feature]));
    Ok(counted(&printed(&words)?))
}

/// Counts crates in what `cargo tree` prints. One that it has shown before is marked.
fn counted(tree: &str) -> usize {
    tree.lines().map(|line| line.trim_end_matches(" (*)")).collect::<BTreeSet<_>>().len()
}

fn features_of(package: Option<&Value>) -> Vec<&str> {
    let features = package.and_then(|package| package.get("features")).and_then(Value::as_object);
    features.into_iter().flatten().map(|(feature, _)| feature.as_str()).filter(|name| *name != "default").collect()
}

/// A version of Rust: major, minor, patch.
type Rust = (u32, u32, u32);

fn rust_of(package: &Value) -> Option<Rust> {
    let mut numbers = package.get("rust_version")?.as_str()?.split('.').map(|number| number.parse().unwrap_or(0));
    Some((numbers.next()?, numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)))
}

/// The oldest Rust that our crates state; `cargo xtask packages` checks that all do.
fn stated_rust(ours: &Value) -> Result<Rust> {
    members(ours).filter_map(rust_of).min().context("no crate states a rust-version")
}

/// The crates that state a newer Rust than this one.
fn needing_newer(everything: &Value, ours: Rust) -> Vec<String> {
    let is_newer = |package: &&Value| rust_of(package).is_some_and(|rust| rust > ours);
    members(everything).filter(is_newer).map(|package| name(package).to_owned()).collect()
}

/// Builds each published crate without features and with each one, linted; and tests what is there without features.
fn build_alone(ours: &Value) -> Result<()> {
    for package in members(ours).filter(|package| is_published(package)) {
        let name = name(package);
        check(name, None)?;
        for feature in features_of(Some(package)) {
            check(name, Some(feature))?;
        }
    }
    run(&["test", "--quiet", "--package", "andon-runtime", "--lib", "validator"])?;
    run(&["test", "--quiet", "--package", ANDON])
}

fn check(package: &str, feature: Option<&str>) -> Result<()> {
    println!("{package}, {}", feature.unwrap_or("no feature"));
    let mut words = vec!["check", "--quiet", "--package", package, "--no-default-features"];
    words.extend(feature.iter().flat_map(|feature| ["--features", *feature]));
    run(&words)
}

fn run(words: &[&str]) -> Result<()> {
    if !test_cargo(words).status().context("cargo cannot be started")?.success() {
        bail!("`cargo {}` failed", words.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_crate_is_counted_once_however_often_it_is_shown() {
        assert_eq!(counted("andon v0.1.0\nserde v1.0.0\nlibc v0.2.0\nserde v1.0.0 (*)\nserde v2.0.0\n"), 4);
    }

    #[test]
    fn a_dependency_that_needs_a_newer_rust_than_we_state_is_named() {
        let package = |name: &str, rust: Value| json!({ "name": name, "rust_version": rust });
        let packages = [
            package("older", json!("1.9")),
            package("same", json!("1.95.0")),
            package("newer", json!("1.95.1")),
            package("next", json!("2")),
            package("silent", Value::Null),
        ];
        let everything = json!({ "packages": packages });
        let ours = stated_rust(&json!({ "packages": [package("ours", json!("1.95"))] })).unwrap();
        assert_eq!(needing_newer(&everything, ours), ["newer", "next"]);
    }
}
