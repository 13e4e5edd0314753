//! `cargo xtask mutants`: changes the source in one small place at a time, and checks that a test notices.
//!
//! Faults are ways to go wrong that somebody has thought of; mutants are those that nobody has. A mutant that no test catches
//! is a hole in the tests, or means the same as the source: then it is in `mutants.accepted`, with the reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::components::ensure_cargo_tool;
use crate::stages::{cargo, on_this_machine};

/// The version of cargo-mutants. Another version makes other mutants.
const VERSION: &str = "27.1.0";
/// Where cargo-mutants writes its results, relative to the root.
const OUTPUT: &str = "target/mutants";
/// The mutants that may survive, relative to the root.
const ACCEPTED: &str = "mutants.accepted";
/// The middle of the runtime: what decides between a pull and everything else, and what follows a pull.
const MIDDLE: [&str; 3] = [
    "crates/andon-runtime/src/live/gate.rs",
    "crates/andon-runtime/src/live/pull.rs",
    "crates/andon-runtime/src/driver/settle.rs",
];

/// What `--long` leaves out, because it has been tested by then or is itself for tests.
const NOT_LONG: [&str; 3] = ["crates/andon-core/**", "crates/andon-testkit/**", "xtask/**"];

/// Tests the mutants of `andon-core` and of the middle of `andon-runtime`, and with `--long` those of everything else. All other
/// words are passed to cargo-mutants, such as `--shard 1/8`, `--list`, `--file crates/andon-core/src/cancel.rs`, or `--iterate`, which goes
/// on where an earlier run was broken off.
pub(crate) fn mutants(words: &[&str]) -> Result<()> {
    let (is_long, words) = match words {
        ["--long", words @ ..] => (true, words),
        words => (false, words),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let program = ensure_cargo_tool("mutants", VERSION)?;
    let accepted = Accepted::parse(&fs::read_to_string(root.join(ACCEPTED)).context(ACCEPTED)?)?;
    check_middle(&root)?;
    let run = |name: &str, what: &[&str]| run(&program, &root, name, what, words);
    let results = if words.contains(&"--file") {
        vec![run("named", &["--workspace"])?]
    } else if is_long {
        let left_out: Vec<&str> = NOT_LONG.iter().chain(&MIDDLE).flat_map(|files| ["--exclude", *files]).collect();
        vec![run("rest", &[&["--workspace"], &left_out[..]].concat())?]
    } else {
        let middle: Vec<&str> = MIDDLE.iter().flat_map(|file| ["--file", *file]).collect();
        let middle = [&["--package", "andon-runtime"], &middle[..]].concat();
        vec![run("core", &["--package", "andon-core"])?, run("middle", &middle)?]
    };
    if words.contains(&"--list") {
        return Ok(());
    }
    let mut tally = Tally::default();
    for folder in &results {
        tally.add(folder, &accepted)?;
    }
    for survivor in &tally.survivors {
        println!("not caught: {survivor}");
    }
    let Tally { caught, accepted, survivors } = tally;
    println!("{} mutants, {caught} caught, {accepted} accepted", caught + accepted + survivors.len());
    if !survivors.is_empty() {
        bail!("{} mutants survive: write the missing test, or give the reason in {ACCEPTED}", survivors.len());
    }
    Ok(())
}

/// cargo-mutants finds no mutants in a file that does not exist, and says nothing about it.
fn check_middle(root: &Path) -> Result<()> {
    match MIDDLE.iter().find(|file| !root.join(file).is_file()) {
        Some(missing) => bail!("{missing} does not exist: has it moved? Correct the list in xtask/src/mutants.rs"),
        None => Ok(()),
    }
}

/// What became of the mutants. Those that do not build are not counted.
#[derive(Debug, Default)]
struct Tally {
    caught: usize,
    accepted: usize,
    survivors: Vec<String>,
}

impl Tally {
    /// Adds the results in a folder of cargo-mutants. A mutant that runs into the timeout is caught, and so is one that an earlier run
    /// caught, if this one was told to `--iterate`.
    fn add(&mut self, results: &Path, accepted: &Accepted) -> Result<()> {
        let read =
            |name: &str| fs::read_to_string(results.join(name)).with_context(|| format!("{name} of cargo-mutants"));
        self.caught += read("caught.txt")?.lines().count() + read("timeout.txt")?.lines().count();
        self.caught += read("previously_caught.txt").map_or(0, |earlier| earlier.lines().count());
        for missed in read("missed.txt")?.lines() {
            match accepted.0.contains_key(&without_place(missed)) {
                true => self.accepted += 1,
                false => self.survivors.push(missed.to_owned()),
            }
        }
        Ok(())
    }
}

/// The mutants that may survive, each with the reason.
#[derive(Debug, PartialEq, Eq)]
struct Accepted(BTreeMap<String, String>);

impl Accepted {
    /// Each mutant is a line, and the indented line below it says why it may survive. Lines that begin with `#` are comments.
    fn parse(text: &str) -> Result<Self> {
        let mut accepted = BTreeMap::new();
        let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        while let Some(mutant) = lines.next() {
            let why = lines.next().and_then(|why| why.strip_prefix("    "));
            let why =
                why.with_context(|| format!("{ACCEPTED}: the line below `{mutant}` must say why it may survive"))?;
            accepted.insert(mutant.to_owned(), why.to_owned());
        }
        Ok(Self(accepted))
    }
}

/// A mutant without its line and column, which change with every line above it.
fn without_place(mutant: &str) -> String {
    match mutant.splitn(4, ':').collect::<Vec<_>>().as_slice() {
        [file, _, _, change] => format!("{file}:{change}"),
        _ => mutant.to_owned(),
    }
}

/// Runs cargo-mutants, and returns the folder with its results.
fn run(program: &Path, root: &Path, name: &str, what: &[&str], words: &[&str]) -> Result<PathBuf> {
    let output = root.join(OUTPUT).join(name);
    fs::create_dir_all(&output)?;
    let mut command = Command::new(program);
    on_this_machine(&mut command).arg("mutants").current_dir(root);
    command.args(["--no-shuffle", "--colors", "never", "--output"]).arg(&output).args(what).args(words);
    let has_nextest = cargo(&["nextest", "--version"]).output().is_ok_and(|output| output.status.success());
    // It ends with the first test that fails, so a mutant that is caught is caught soon.
    if has_nextest {
        command.args(["--test-tool", "nextest"]);
    }
    // Doc tests are slow, and are there to show how things are used.
    command.args(["--", "--lib", "--tests"]);
    if has_nextest {
        // Many a mutant never settles. A test that hangs costs a minute, not the time of all tests.
        let config = output.join("nextest.toml");
        fs::write(&config, "[profile.default]\nslow-timeout = { period = \"20s\", terminate-after = 3 }\n")?;
        command.arg("--config-file").arg(config);
    }
    // Nobody debugs a mutant, and linking without debug information is quicker.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    let status = command.status().context("cargo-mutants could not be started")?;
    // 2: some were not caught; 3: some ran into the timeout.
    match status.code() {
        Some(0 | 2 | 3) => Ok(output.join("mutants.out")),
        _ => bail!("cargo-mutants has failed: {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_is_recognised_wherever_its_line_has_moved() {
        let mutant = "crates/andon-core/src/id.rs:10:5: replace RunId::new -> Self with Default::default()";
        assert_eq!(
            without_place(mutant),
            "crates/andon-core/src/id.rs: replace RunId::new -> Self with Default::default()"
        );
    }

    #[test]
    fn a_mutant_may_survive_only_with_a_reason() {
        assert!(Accepted::parse("# Why.\n\na.rs: replace f\n    It is the same.\n").is_ok_and(|all| all.0.len() == 1));
        assert!(Accepted::parse("a.rs: replace f\nb.rs: replace g\n").is_err());
    }

    #[test]
    fn every_file_of_the_middle_exists() {
        check_middle(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    }
}
