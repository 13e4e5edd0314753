//! `cargo xtask test` and `cargo xtask points`.

use anyhow::{Context, Result, bail};

use crate::crash::crash_command;
use crate::debian::ensure_programs;
use crate::observe;
use crate::proxy;
use crate::python::ensure_venv;
use crate::stages::{Stages, cargo};
use crate::surface;

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// What everybody runs before every commit.
    Short,
    /// What takes longer, too.
    Long,
}

/// Everything.
pub(crate) fn test(length: Length) -> Result<()> {
    ensure_programs()?;
    let python = ensure_venv()?;
    let mut stages = Stages::default();
    stages.run("formatting", &mut cargo(&["fmt", "--all", "--check"]))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    stages.run("clippy", &mut cargo(&clippy))?;
    let tests = ["test", "--workspace", "--lib", "--bins", "--tests", "--examples"];
    stages.run("tests", cargo(&tests).env("ANDON_TEST_PYTHON", python))?;
    stages.run("doc tests", &mut cargo(&["test", "--workspace", "--doc"]))?;
    let mut docs = cargo(&["doc", "--workspace", "--no-deps"]);
    stages.run("documentation", docs.env("RUSTDOCFLAGS", "-D warnings"))?;
    for package in ["andon", "andon-store", "andon-tools", "andon-models"] {
        for example in examples(package)? {
            let words = ["run", "--quiet", "--package", package, "--example", &example];
            stages.run(&format!("example {example}"), &mut cargo(&words))?;
        }
    }
    let own_router = ["run", "--quiet", "--package", "andon-server", "--example", "own_router"];
    stages.run("example own_router", &mut cargo(&own_router))?;
    stages.run("server for the fuzzer", &mut surface::build_command())?;
    surface::run(&mut stages, length)?;
    stages.run("ADK's client and its page", &mut cargo(&["xtask", "adk"]))?;
    stages.run("the page, in a browser", &mut cargo(&["xtask", "page"]))?;
    proxy::run(&mut stages)?;
    observe::run(&mut stages)?;
    let stop_tree = ["run", "--quiet", "--package", "andon-tools", "--example", "stop_tree", "--", "--kill-host"];
    stages.run("example stop_tree, its host killed", &mut cargo(&stop_tree))?;
    stages.run("points", &mut points_command(&[]))?;
    let kills = if length == Length::Long { "2000" } else { "150" };
    stages.run("crash", &mut crash_command(&["--kills", kills]))?;
    stages.run("faults, each of them caught", &mut cargo(&["xtask", "faults"]))?;
    let shuttle = ["test", "--package", "andon", "--features", "shuttle", "--lib", "threads"];
    let iterations = if length == Length::Long { "100000" } else { "3000" };
    stages.run("threads, checked by shuttle", cargo(&shuttle).env("ANDON_SHUTTLE", iterations))?;
    let stress = ["test", "--package", "andon", "--release", "--test", "stress"];
    if length == Length::Long {
        let slow = ["test", "--workspace", "--test", "server", "--", "--ignored", "slowly_stays"];
        stages.run("a slow reader, in real time", &mut cargo(&slow))?;
        let bedrock = ["test", "--package", "andon-models", "--features", "bedrock", "--test", "bedrock"];
        stages.run("Bedrock, by its SDK", &mut cargo(&bedrock))?;
        stages.run("stress, a million pulls", cargo(&stress).env("ANDON_PULLS", "1000000"))?;
    }
    stages.finish();
    Ok(())
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
    let status = points_command(words).status()?;
    if !status.success() {
        bail!("a promise was broken");
    }
    Ok(())
}

fn points_command(words: &[&str]) -> std::process::Command {
    let mut command = cargo(&["run", "--quiet", "--package", "andon-testkit", "--example", "points", "--"]);
    command.args(words);
    command
}
