//! The whole surface of the server's API, fuzzed with schemathesis from the server's own description.
//!
//! The server is thrown away afterwards. What holds the line is fuzzed in a pass of its own, after the others: while the line is
//! held, a new run is refused with 503, as it should be, and anywhere else a 5xx is a defect.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::python::{ensure_venv, target_folder};
use crate::served::Served;
use crate::stages::{Stages, build_example, example};
use crate::tests::Length;

/// Makes the same requests each time.
const SEED: &str = "1";
/// What changes the line.
const LINE: &str = "PUT /v1/line";
/// A valid request may ask for something that does not exist, and the server runs without authentication.
const UNCHECKED: &str = "positive_data_acceptance,ignored_auth";

/// `cargo xtask surface [--long]`.
pub(crate) fn surface(length: Length) -> Result<()> {
    build_example("practice")?;
    let mut stages = Stages::default();
    run(&mut stages, length)?;
    stages.finish()?;
    Ok(())
}

/// Fuzzes a server, which must have been built.
pub(crate) fn run(stages: &mut Stages, length: Length) -> Result<()> {
    let Some(python) = stages.needs("fuzzed surface", ensure_venv()) else { return Ok(()) };
    let server = Served::start(&mut example("practice"))?;
    let examples = if length == Length::Long { "1500" } else { "120" };
    let all_but_the_line = ["--exclude-name", LINE];
    stages.run("fuzzed surface", &mut fuzz(&python, &server, "surface", examples, &all_but_the_line)?)?;
    let the_line = ["--include-path", "/v1/line"];
    stages.run("fuzzed surface, the line", &mut fuzz(&python, &server, "line", examples, &the_line)?)?;
    println!("reports: {}", reports().display());
    Ok(())
}

fn reports() -> PathBuf {
    target_folder().join("schemathesis")
}

fn fuzz(python: &Path, server: &Served, name: &str, examples: &str, which: &[&str]) -> Result<Command> {
    let reports = reports();
    std::fs::create_dir_all(&reports).with_context(|| format!("{} cannot be created", reports.display()))?;
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemathesis").join("hooks.py");
    let mut command = Command::new(python.with_file_name("schemathesis"));
    command.current_dir(&reports).env("SCHEMATHESIS_HOOKS", hooks);
    command.args(["run", &format!("{}/openapi.json", server.url), "--no-color", "--warnings", "off"]);
    command.args(["--phases", "examples,coverage,fuzzing", "--exclude-checks", UNCHECKED]);
    command.args(["--seed", SEED, "--max-examples", examples, "--generation-database", "none"]);
    // A feed of the practice agent ends at once; one that does not is a defect, too. How fast requests are generated depends on
    // the machine.
    command.args(["--request-timeout", "60", "--suppress-health-check", "too_slow", "--continue-on-failure"]);
    command.args(["--report", "junit,html", "--report-junit-path", &format!("{name}.xml")]);
    command.args(["--report-html-path", name]).args(which);
    Ok(command)
}
