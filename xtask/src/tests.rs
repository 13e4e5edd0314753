//! `cargo xtask test` and `cargo xtask points`.

use anyhow::{Context, Result, bail};

use crate::debian::ensure_programs;
use crate::python::ensure_venv;
use crate::stages::{Stages, build_example, cargo, example, printed, xtask};
use crate::{adk, observe, page, proxy, surface, types};

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// What everybody runs before every commit.
    Short,
    /// What takes longer, too.
    Long,
}

/// Runs everything. All of it is built once, with the features of the whole workspace, and then run side by side, because most of it waits.
pub(crate) fn test(length: Length) -> Result<()> {
    let mut stages = Stages::default();
    stages.run("formatting", &mut cargo(&["fmt", "--all", "--check"]))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    stages.run("clippy", &mut cargo(&clippy))?;
    stages.run("rooms", &mut xtask(&["rooms"])?)?;
    stages.run("tests, built", cargo(&TESTS).arg("--no-run"))?;
    stages.run("examples, built", &mut cargo(&["build", "--workspace", "--examples"]))?;
    stages.side_by_side(&[
        Box::new(move |stages| tests(stages, length)),
        Box::new(move |stages| served(stages, length)),
        Box::new(move |stages| proofs(stages, length)),
    ])?;
    if length == Length::Long {
        only_long(&mut stages)?;
    }
    stages.finish()
}

/// All tests of all crates.
const TESTS: [&str; 5] = ["test", "--workspace", "--lib", "--bins", "--tests"];

/// The lane of tests that cargo runs.
fn tests(stages: &mut Stages, length: Length) -> Result<()> {
    let python = stages.needs("tests that need Python", ensure_programs().and_then(|()| ensure_venv()));
    match python {
        Some(python) => stages.run("tests", cargo(&TESTS).env("ANDON_TEST_PYTHON", python))?,
        // The tests of `andon-tools` start MCP servers that are written in Python.
        None => stages.run("tests", cargo(&TESTS).args(["--exclude", "andon-tools", "--", "--skip", "mcp"]))?,
    }
    println!("tests: {}", counted(&printed("tests")?));
    stages.run("doc tests", &mut cargo(&["test", "--workspace", "--doc"]))?;
    let mut docs = cargo(&["doc", "--workspace", "--no-deps"]);
    stages.run("documentation", docs.env("RUSTDOCFLAGS", "-D warnings"))?;
    let shuttle = ["test", "--package", "andon-runtime", "--features", "shuttle", "--lib", "threads"];
    let iterations = if length == Length::Long { "100000" } else { "3000" };
    stages.run("threads, checked by shuttle", cargo(&shuttle).env("ANDON_SHUTTLE", iterations))
}

/// Adds up the `test result:` lines of all test programs.
fn counted(printed: &str) -> String {
    let (mut passed, mut failed) = (0, 0);
    for line in printed.lines().filter(|line| line.starts_with("test result:")) {
        let before = |word: &str| -> usize {
            let words: Vec<&str> = line.split_whitespace().collect();
            let place = words.iter().position(|own| own.trim_end_matches(';') == word).unwrap_or_default();
            place.checked_sub(1).and_then(|place| words.get(place)?.parse().ok()).unwrap_or_default()
        };
        passed += before("passed");
        failed += before("failed");
    }
    format!("{passed} passed, {failed} failed")
}

/// The lane that uses the programs as people do.
fn served(stages: &mut Stages, length: Length) -> Result<()> {
    for package in ["andon", "andon-store", "andon-tools", "andon-models"] {
        for name in examples(package)? {
            stages.run(&format!("example {name}"), &mut example(&name))?;
        }
    }
    stages.run("example own_router", &mut example("own_router"))?;
    stages.run("example stop_tree, its host killed", example("stop_tree").arg("--kill-host"))?;
    types::run(stages)?;
    page::run(stages)?;
    adk::run(stages)?;
    surface::run(stages, length)?;
    proxy::run(stages)?;
    observe::run(stages)
}

/// The lane that stops runs at every point, and checks that every fault is caught.
fn proofs(stages: &mut Stages, length: Length) -> Result<()> {
    stages.run("points", &mut example("points"))?;
    let kills = if length == Length::Long { "2000" } else { "150" };
    stages.run("crash", example("crash").args(["--kills", kills]))?;
    stages.run("faults, each of them caught", &mut xtask(&["faults"])?)
}

/// What is too slow to run every day.
fn only_long(stages: &mut Stages) -> Result<()> {
    let slow = ["test", "--workspace", "--test", "server", "--", "--ignored", "slowly_stays"];
    stages.run("a slow reader, in real time", &mut cargo(&slow))?;
    let bedrock = ["test", "--package", "andon-models", "--features", "bedrock", "--test", "bedrock"];
    stages.run("Bedrock, by its SDK", &mut cargo(&bedrock))?;
    let stress = ["test", "--package", "andon-runtime", "--release", "--test", "stress"];
    stages.run("stress, a million pulls", cargo(&stress).env("ANDON_PULLS", "1000000"))
}

/// The names of a crate's examples that are one file each, in order.
fn examples(package: &str) -> Result<Vec<String>> {
    let folder = format!("{}/../crates/{package}/examples", env!("CARGO_MANIFEST_DIR"));
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("{folder} cannot be read"))? {
        let path = entry?.path();
        if let (Some(name), Some("rs")) = (path.file_stem(), path.extension().and_then(|end| end.to_str())) {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Every script at every point. The explorer prints the last line itself.
pub(crate) fn points(words: &[&str]) -> Result<()> {
    build_example("points")?;
    let status = example("points").args(words).status()?;
    if !status.success() {
        bail!("a promise was broken");
    }
    Ok(())
}

#[cfg(test)]
mod counting {
    #[test]
    fn tests_are_counted_over_all_programs() {
        let printed = "\
running 3 tests
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s
test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s";
        assert_eq!(super::counted(printed), "7 passed, 2 failed");
        assert_eq!(super::counted(""), "0 passed, 0 failed");
    }
}
