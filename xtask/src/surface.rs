//! The whole surface of the server's API, fuzzed with schemathesis from what the server says of itself.
//!
//! The server is thrown away afterwards. What holds the line is fuzzed in a pass of its own, behind the others: while the line
//! is held a new run is refused with 503, as it should be, and everywhere else a 5xx is a defect.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::python::{ensure_venv, target_folder};
use crate::stages::{Stages, build_example, example};
use crate::tests::Length;

/// The same requests each time.
const SEED: &str = "1";
/// What changes the line.
const LINE: &str = "PUT /v1/line";
/// A request that is valid may still ask for what is not there, and there is no authentication yet.
const UNCHECKED: &str = "positive_data_acceptance,ignored_auth";

/// `cargo xtask surface [--long]`.
pub(crate) fn surface(length: Length) -> Result<()> {
    build_example("practice")?;
    let mut stages = Stages::default();
    run(&mut stages, length)?;
    stages.finish()?;
    Ok(())
}

/// Fuzzes a server; it must have been built.
pub(crate) fn run(stages: &mut Stages, length: Length) -> Result<()> {
    let Some(python) = stages.needs("fuzzed surface", ensure_venv()) else { return Ok(()) };
    let server = Server::start()?;
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

fn fuzz(python: &Path, server: &Server, name: &str, examples: &str, which: &[&str]) -> Result<Command> {
    let reports = reports();
    std::fs::create_dir_all(&reports).with_context(|| format!("{} cannot be made", reports.display()))?;
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemathesis").join("hooks.py");
    let mut command = Command::new(python.with_file_name("schemathesis"));
    command.current_dir(&reports).env("SCHEMATHESIS_HOOKS", hooks);
    command.args(["run", &format!("{}/openapi.json", server.url), "--no-color", "--warnings", "off"]);
    command.args(["--phases", "examples,coverage,fuzzing", "--exclude-checks", UNCHECKED]);
    command.args(["--seed", SEED, "--max-examples", examples, "--generation-database", "none"]);
    // A feed of the practice agent ends at once; one that does not is a defect, too. How fast requests are made is the machine's affair.
    command.args(["--request-timeout", "60", "--suppress-health-check", "too_slow", "--continue-on-failure"]);
    command.args(["--report", "junit,html", "--report-junit-path", &format!("{name}.xml")]);
    command.args(["--report-html-path", name]).args(which);
    Ok(command)
}

/// A server with a practice agent, until this is dropped.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start() -> Result<Self> {
        let mut command = example("practice");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().context("the server for the fuzzer cannot be run")?;
        let mut url = String::new();
        if let Some(stdout) = process.stdout.take() {
            BufReader::new(stdout).read_line(&mut url)?;
        }
        let server = Self { process, url: url.trim().to_owned() };
        if server.url.is_empty() {
            bail!("the server for the fuzzer says no address");
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
