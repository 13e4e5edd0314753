//! `cargo xtask mutants`: changes the source in one small place at a time, and sees that a test notices.
//!
//! Faults are ways to go wrong that somebody has thought of; mutants are those that nobody has. One that no test catches is
//! a hole in the tests, or means the same as the source: then it stands in `mutants.accepted`, with a sentence why.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::stages::{cargo, on_this_machine};

/// Another version makes other mutants.
const VERSION: &str = "27.1.0";
/// Where what came of it is told, seen from the root.
const OUTPUT: &str = "target/mutants";
/// Those that may live, seen from the root.
const ACCEPTED: &str = "mutants.accepted";
/// What decides, under the lock, between a pull and everything else.
const MIDDLE: [&str; 3] = [
    "crates/andon-runtime/src/live/gate.rs",
    "crates/andon-runtime/src/live/pull.rs",
    "crates/andon-runtime/src/driver/settle.rs",
];

/// Tries the mutants of `andon-core`, and with `--long` of the middle of `andon-runtime`. What follows is handed to cargo-mutants, such
/// as `--shard 1/8` or `--file crates/andon-core/src/cancel.rs`.
pub(crate) fn mutants(words: &[&str]) -> Result<()> {
    let (is_long, words) = match words {
        ["--long", words @ ..] => (true, words),
        words => (false, words),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let program = ensure_program(&root)?;
    let accepted = Accepted::parse(&fs::read_to_string(root.join(ACCEPTED)).context(ACCEPTED)?)?;
    let mut tally = Tally::default();
    tally.add(&run(&program, &root, "core", &["--package", "andon-core"], words)?, &accepted)?;
    if is_long {
        let middle: Vec<&str> = MIDDLE.iter().flat_map(|file| ["--file", *file]).collect();
        let packages = ["--package", "andon-runtime", "--test-package", "andon-runtime"];
        tally.add(&run(&program, &root, "middle", &[&packages[..], &middle].concat(), words)?, &accepted)?;
    }
    for survivor in &tally.survivors {
        println!("not caught: {survivor}");
    }
    let Tally { caught, accepted, survivors } = tally;
    println!("{} mutants, {caught} caught, {accepted} accepted", caught + accepted + survivors.len());
    if !survivors.is_empty() {
        bail!("{} mutants live: write the test that is missing, or say in {ACCEPTED} why none is", survivors.len());
    }
    Ok(())
}

/// What became of mutants. Those that cannot be built are none.
#[derive(Debug, Default)]
struct Tally {
    caught: usize,
    accepted: usize,
    survivors: Vec<String>,
}

impl Tally {
    /// Adds what a folder of cargo-mutants tells. A mutant that never ends is caught.
    fn add(&mut self, told: &Path, accepted: &Accepted) -> Result<()> {
        let read = |name: &str| fs::read_to_string(told.join(name)).with_context(|| format!("{name} of cargo-mutants"));
        self.caught += read("caught.txt")?.lines().count() + read("timeout.txt")?.lines().count();
        for missed in read("missed.txt")?.lines() {
            match accepted.0.contains_key(&without_place(missed)) {
                true => self.accepted += 1,
                false => self.survivors.push(missed.to_owned()),
            }
        }
        Ok(())
    }
}

/// The mutants that may live, each with the reason.
#[derive(Debug, PartialEq, Eq)]
struct Accepted(BTreeMap<String, String>);

impl Accepted {
    /// A mutant is a line, and the indented line below it says why it may live. Lines that begin with `#` are for the reader.
    fn parse(text: &str) -> Result<Self> {
        let mut accepted = BTreeMap::new();
        let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        while let Some(mutant) = lines.next() {
            let why = lines.next().and_then(|why| why.strip_prefix("    "));
            let why = why.with_context(|| format!("{ACCEPTED}: the line below `{mutant}` must say why it may live"))?;
            accepted.insert(mutant.to_owned(), why.to_owned());
        }
        Ok(Self(accepted))
    }
}

/// A mutant without its line and its column, which change with every line above it.
fn without_place(mutant: &str) -> String {
    match mutant.splitn(4, ':').collect::<Vec<_>>().as_slice() {
        [file, _, _, change] => format!("{file}:{change}"),
        _ => mutant.to_owned(),
    }
}

/// Runs cargo-mutants, and gives the folder in which it tells what came of it.
fn run(program: &Path, root: &Path, name: &str, what: &[&str], words: &[&str]) -> Result<PathBuf> {
    let output = root.join(OUTPUT).join(name);
    fs::create_dir_all(&output)?;
    let mut command = Command::new(program);
    on_this_machine(&mut command).arg("mutants").current_dir(root);
    command.args(["--no-shuffle", "--colors", "never", "--output"]).arg(&output).args(what).args(words);
    // Doc tests are slow and show how things are used.
    command.args(["--", "--lib", "--tests"]);
    let status = command.status().context("cargo-mutants could not be started")?;
    // 2: some were not caught; 3: some did not end.
    match status.code() {
        Some(0 | 2 | 3) => Ok(output.join("mutants.out")),
        _ => bail!("cargo-mutants has failed: {status}"),
    }
}

/// The program, installed below `target` if it is not there.
fn ensure_program(root: &Path) -> Result<PathBuf> {
    let place = root.join("target/tools");
    let program = place.join("bin/cargo-mutants");
    let version = Command::new(&program).args(["mutants", "--version"]).output();
    if version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim().ends_with(VERSION)) {
        return Ok(program);
    }
    let mut install = cargo(&["install", "--quiet", "cargo-mutants", "--locked", "--version", VERSION, "--root"]);
    if !install.arg(&place).status()?.success() {
        bail!("cargo-mutants could not be installed");
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_is_known_wherever_its_line_has_moved() {
        let mutant = "crates/andon-core/src/id.rs:10:5: replace RunId::new -> Self with Default::default()";
        assert_eq!(
            without_place(mutant),
            "crates/andon-core/src/id.rs: replace RunId::new -> Self with Default::default()"
        );
    }

    #[test]
    fn a_mutant_may_live_only_with_a_reason() {
        assert!(Accepted::parse("# Why.\n\na.rs: replace f\n    It is the same.\n").is_ok_and(|all| all.0.len() == 1));
        assert!(Accepted::parse("a.rs: replace f\nb.rs: replace g\n").is_err());
    }
}
