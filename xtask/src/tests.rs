//! `cargo xtask test` and `cargo xtask points`.

use std::path::PathBuf;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail};

use crate::components::check_components;
use crate::debian::ensure_programs;
use crate::programs::{self, Program, counted};
use crate::python::{ensure_adk, ensure_venv};
use crate::stages::{Stages, build_example, cargo, example, is_ci, printed, test_cargo, xtask};
use crate::unchanged::{Inputs, Work, built};
use crate::{adk, docs, observe, page, postgres, proxy, surface, types};

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// What everybody runs before every commit.
    Short,
    /// What takes longer, too.
    Long,
}

/// Runs everything. All of it is built once, with the features of the whole workspace, and then run side by side. What this machine
/// lacks is installed while it is built.
pub(crate) fn test(length: Length) -> Result<()> {
    check_components()?;
    let mut stages = Stages::default();
    stages.run("formatting", &mut cargo(&["fmt", "--all", "--check"]))?;
    stages.run("rooms", &mut xtask(&["rooms"])?)?;
    stages.run("cancel safety", &mut xtask(&["drops"])?)?;
    stages.run("features, counted", &mut xtask(&["features"])?)?;
    let installing = thread::spawn(install);
    let mut programs = programs::build(&mut stages, "tests, built and linted", &["--lib", "--bins", "--tests"])?;
    let others = ["build", "--workspace", "--examples", "--benches"];
    stages.run("examples and benchmarks, built and linted", &mut test_cargo(&others))?;
    // Last, so that tests start the program as its users build it: without what the features of tests add to the crates.
    stages.run("the program, as its users build it", &mut plain_build())?;
    // Whatever could not be installed is asked for again, and reported, by the stages that need it.
    drop(installing.join());
    let python = stages.needs("tests of MCP, whose servers are written in Python", ensure_venv());
    let has_programs = stages.needs("tests of the guides, which run other programs", ensure_programs()).is_some();
    programs.retain(|program| python.is_some() || !program.name.starts_with("andon-tools/mcp"));
    programs.sort_by_key(|program| LONGEST.iter().position(|long| *long == program.name).unwrap_or(LONGEST.len()));
    let inputs = (length == Length::Short).then(Inputs::read).flatten();
    let tests = programs.iter().map(|program| tests_of(program.clone(), python.clone(), has_programs));
    let lanes = long_lanes(length).into_iter().chain(tests).chain(short_lanes(&programs)?);
    let lanes = lanes.map(|work| work.unless_unchanged(inputs.as_ref()));
    stages.side_by_side(lanes.collect())?;
    let printed: Vec<String> = programs.iter().map(|program| printed(&program.stage())).collect::<Result<_>>()?;
    println!("tests: {}", counted(&printed.concat()));
    if length == Length::Long {
        only_long(&mut stages)?;
    }
    stages.finish()
}

/// The test programs that take longest. They are started first, so that nothing long is left at the end.
const LONGEST: [&str; 6] = [
    "andon-tools/mcp",
    "andon-server/explorer",
    "andon-cli/program",
    "andon-tools/processes",
    "andon-tools/mcp_cycles",
    "andon-server/server",
];

/// Installs what tests need and this machine lacks.
fn install() {
    let all = [
        || ensure_programs(),
        || ensure_venv().map(drop),
        || page::ensure_browser(),
        || ensure_adk().map(drop),
        || types::ensure_compiler().map(drop),
        || proxy::path_with_nginx().map(drop),
        || observe::ensure_prometheus().map(drop),
        || postgres::ensure_programs().map(drop),
    ];
    for ensure in all {
        drop(ensure());
    }
}

/// What the README's first command builds.
fn plain_build() -> Command {
    let mut command = cargo(&["build"]);
    if is_ci() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// What takes minutes, the longest first.
fn long_lanes(length: Length) -> Vec<Work> {
    let is_long = length == Length::Long;
    let iterations = if is_long { "100000" } else { "3000" };
    let kills = if is_long { "2000" } else { "150" };
    vec![
        // Cargo builds one thing at a time, so what it has to build is in one lane.
        Work::new("what cargo builds again", [], move |stages| {
            stages.run("faults, each of them caught", &mut xtask(&["faults"])?)?;
            let build = ["build", "--workspace", "--features", "andon-runtime/shuttle", "--bin", "andon-threads"];
            stages.run("threads, built with shuttle", &mut test_cargo(&build))?;
            let mut threads = Command::new(built("andon-threads"));
            stages.run("threads, checked by shuttle", threads.env("ANDON_SHUTTLE", iterations))?;
            stages.run("documentation, tested and linted", &mut docs::command()?)?;
            postgres::run(stages, &[])
        }),
        Work::new("the page, in a browser", [built("andon")], page::run),
        Work::new("points", [built("examples/points")], |stages| stages.run("points", &mut example("points"))),
        Work::new("fuzzed surface", [built("examples/practice")], move |stages| surface::run(stages, length)),
        Work::new("ADK's client and its page", [built("examples/adk_house")], adk::run),
        Work::new("crash", [built("examples/crash")], move |stages| {
            stages.run("crash", example("crash").args(["--kills", kills]))
        }),
    ]
}

/// The tests in a program, without those that this machine cannot run.
fn tests_of(program: Program, python: Option<PathBuf>, has_programs: bool) -> Work {
    let left_out = match program.name.as_str() {
        "andon-cli/andon" if python.is_none() => Some("agents::folder::tests::mcp::"),
        "andon-cli/program" if !has_programs => Some("guide::"),
        _ => None,
    };
    // A name of its own, so that these tests do not count as passed once the machine can run them.
    let name = left_out.map_or_else(|| program.stage(), |tests| format!("{}, without {tests}", program.stage()));
    // The program's own tests start it; `andon` is an input of no others.
    let started = program.name.starts_with("andon-cli/").then(|| built("andon"));
    let inputs: Vec<_> = [program.executable.clone()].into_iter().chain(started).chain(python.clone()).collect();
    Work::new(&name, inputs, move |stages| {
        let mut command = program.command();
        command.env("ANDON_TEST_SHIM", built("andon-shim"));
        command.envs(python.map(|python| ("ANDON_TEST_PYTHON", python)));
        command.args(left_out.into_iter().flat_map(|tests| ["--skip", tests]));
        stages.run(&program.stage(), &mut command)
    })
}

/// What takes seconds: the examples, and programs of others against ours.
fn short_lanes(programs: &[Program]) -> Result<Vec<Work>> {
    let programs = programs.to_vec();
    let mut lanes = vec![
        Work::new("the program behind nginx", [built("andon")], move |stages| proxy::run(stages, &programs)),
        Work::new("dashboard and alerts", [built("examples/observed")], observe::run),
        Work::new("types of the page", [], types::run),
        Work::new("example stop_tree, its host killed", [built("examples/stop_tree")], |stages| {
            stages.run("example stop_tree, its host killed", example("stop_tree").arg("--kill-host"))
        }),
    ];
    let mut names = vec!["backend".to_owned(), "bank".to_owned()];
    for package in ["andon", "andon-store", "andon-tools", "andon-models"] {
        names.extend(examples(package)?);
    }
    for name in names {
        let stage = format!("example {name}");
        let executable = built(&format!("examples/{name}"));
        lanes.push(Work::new(&stage.clone(), [executable], move |stages| stages.run(&stage, &mut example(&name))));
    }
    Ok(lanes)
}

/// What is too slow to run every day.
fn only_long(stages: &mut Stages) -> Result<()> {
    let mut docs = cargo(&["doc", "--workspace", "--no-deps"]);
    stages.run("documentation of the programs, too", docs.env("RUSTDOCFLAGS", "-D warnings"))?;
    stages.run("packages, each built alone", &mut xtask(&["packages"])?)?;
    stages.run("features, each built alone", &mut xtask(&["features", "--long"])?)?;
    stages.run("what the crates offer", &mut xtask(&["api"])?)?;
    let slow = ["test", "--workspace", "--test", "server", "--", "--ignored", "slowly_stays"];
    stages.run("a slow reader, in real time", &mut test_cargo(&slow))?;
    let bedrock = ["test", "--package", "andon-models", "--features", "bedrock", "--test", "bedrock"];
    stages.run("Bedrock, by its SDK", &mut test_cargo(&bedrock))?;
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
