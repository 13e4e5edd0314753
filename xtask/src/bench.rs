//! `cargo xtask bench`.

use anyhow::{Result, bail};

use crate::page;
use crate::python::ensure_adk;
use crate::stages::cargo;

/// Runs a benchmark by its name. If there are words, only the lines whose scene contains one.
pub(crate) fn bench(name: &str, words: &[&str]) -> Result<()> {
    let (package, benches): (&str, &[&str]) = match name {
        "core" => ("andon-runtime", &["core"]),
        "tools" => ("andon-tools", &["tools", "process"]),
        "closing" => ("andon-models", &["closing"]),
        "models" => ("andon-models", &["decode"]),
        "journal" => ("andon-store", &["journal"]),
        "instructions" => ("andon-store", &["instructions"]),
        "server" => ("andon-server", &["server"]),
        "adk" => ("andon-adk", &["adk"]),
        "growth" => ("andon-cli", &["growth"]),
        "load" => ("andon-cli", &["load"]),
        "page" => return page::bench(words),
        other => bail!("there is no benchmark `{other}`; `cargo xtask help` lists them"),
    };
    for bench in benches {
        let mut command = cargo(&["bench", "--quiet", "--package", package, "--bench", bench, "--"]);
        if name == "adk" {
            command.env("ANDON_TEST_PYTHON", ensure_adk()?);
        }
        if !command.args(words).status()?.success() {
            bail!("the benchmark failed");
        }
    }
    Ok(())
}
