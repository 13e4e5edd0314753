//! `cargo xtask bench`.

use std::process::Command;

use anyhow::{Result, bail};

use crate::python::ensure_adk;
use crate::stages::cargo;

/// The benchmarks of one crate, as a table; only those whose name contains a word, if there are words.
fn bench(package: &str, name: &str, words: &[&str]) -> Result<()> {
    run(&mut command(package, name, words))
}

fn command(package: &str, name: &str, words: &[&str]) -> Command {
    let mut command = cargo(&["bench", "--quiet", "--package", package, "--bench", name, "--"]);
    command.args(words);
    command
}

fn run(command: &mut Command) -> Result<()> {
    if !command.status()?.success() {
        bail!("the benchmark failed");
    }
    Ok(())
}

/// The core's own costs.
pub(crate) fn core(words: &[&str]) -> Result<()> {
    bench("andon-runtime", "core", words)
}

/// What tools cost, and how soon they stop.
pub(crate) fn tools(words: &[&str]) -> Result<()> {
    bench("andon-tools", "tools", words)?;
    bench("andon-tools", "process", words)
}

/// How soon a pull closes the connection to a provider.
pub(crate) fn closing(words: &[&str]) -> Result<()> {
    bench("andon-models", "closing", words)
}

/// What durability costs.
pub(crate) fn journal(words: &[&str]) -> Result<()> {
    bench("andon-store", "journal", words)
}

/// What a run costs over HTTP, and how soon it stops.
pub(crate) fn server(words: &[&str]) -> Result<()> {
    bench("andon-server", "server", words)
}

/// Andon beside ADK's own server, through ADK's own routes.
pub(crate) fn adk(words: &[&str]) -> Result<()> {
    run(command("andon-adk", "adk", words).env("ANDON_TEST_PYTHON", ensure_adk()?))
}

/// How fast the streams of models are decoded.
pub(crate) fn models(words: &[&str]) -> Result<()> {
    bench("andon-models", "decode", words)
}

/// What costs more when there is more of it.
pub(crate) fn growth(words: &[&str]) -> Result<()> {
    bench("andon-cli", "growth", words)
}

/// A server under load for a while, as a plot.
pub(crate) fn load(words: &[&str]) -> Result<()> {
    bench("andon-cli", "load", words)
}

/// How many instructions the commonest things take, held against a file.
pub(crate) fn instructions(words: &[&str]) -> Result<()> {
    bench("andon-store", "instructions", words)
}
