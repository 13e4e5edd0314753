//! `cargo xtask fuzz`.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// How long each target is fuzzed by default.
const SECONDS: u32 = 60;

/// The directory of the fuzz targets, seen from the root.
const DIRECTORY: &str = "fuzz";

/// Fuzzes every target for this many seconds. Fails if one finds something; the others are fuzzed all the same.
pub(crate) fn fuzz(words: &[&str]) -> Result<()> {
    let seconds = match words {
        [] => SECONDS,
        [seconds] => seconds.parse().with_context(|| format!("{seconds:?} is not a number of seconds"))?,
        _ => bail!("`cargo xtask fuzz` takes a number of seconds and nothing else"),
    };
    let mut found = Vec::new();
    let targets = targets()?;
    for target in &targets {
        println!("{target}");
        if !run(target, seconds)? {
            found.push(target.as_str());
        }
    }
    println!("{} targets, {seconds} s each, {} with findings", targets.len(), found.len());
    if !found.is_empty() {
        bail!("found something: {}", found.join(", "));
    }
    Ok(())
}

fn targets() -> Result<Vec<String>> {
    let listed = cargo_fuzz(&["list", "--fuzz-dir", DIRECTORY]).output()?;
    if !listed.status.success() {
        bail!("cargo-fuzz is missing: run `cargo install cargo-fuzz`, and install a nightly toolchain for it");
    }
    Ok(String::from_utf8(listed.stdout)?.lines().map(str::to_owned).collect())
}

/// New inputs go into a directory that is not kept; the corpus is small and written by hand.
fn run(target: &str, seconds: u32) -> Result<bool> {
    let found = format!("{DIRECTORY}/target/found/{target}");
    std::fs::create_dir_all(&found)?;
    let kept = format!("{DIRECTORY}/corpus/{target}");
    let limit = format!("-max_total_time={seconds}");
    // What is fuzzed has no unsafe code: a sanitizer would only slow it down.
    let build = ["run", "--fuzz-dir", DIRECTORY, "--sanitizer", "none", target, &found, &kept];
    let fuzzer = ["--", &limit, "-max_len=8192", "-timeout=10"];
    Ok(cargo_fuzz(&build).args(fuzzer).status()?.success())
}

fn cargo_fuzz(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    // Cargo passes xtask's toolchain on to what it starts; fuzzing needs another.
    command.env_remove("RUSTUP_TOOLCHAIN").args(["+nightly", "fuzz"]).args(arguments);
    command
}
