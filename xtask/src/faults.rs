//! `cargo xtask faults`: breaks the source in every way that `faults/` lists, and checks that each is caught.
//!
//! # Theory of operation
//!
//! A fault is a patch. All patches are applied to one [copy] of the source, which is built once. What a patch adds asks a switch
//! whether its fault is on, and an environment variable says which one is. So each fault is tried by running the same checkers:
//! the explorer, the conformance suite of journals, the crash harness.

mod catch;
mod copy;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};

use catch::{Catch, Checkers};

/// How many faults are tried at a time.
const AT_ONCE: usize = 2;

/// A fault, as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    name: String,
    path: PathBuf,
    /// What goes wrong, in a sentence.
    says: String,
    /// Everything that must catch it.
    catches: Vec<Catch>,
}

impl Fault {
    fn read(path: PathBuf) -> Result<Self> {
        let text = fs::read_to_string(&path)?;
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self::parse(name, path, &text)
    }

    fn parse(name: String, path: PathBuf, text: &str) -> Result<Self> {
        let says = text.lines().next().unwrap_or_default().to_owned();
        if says.is_empty() || says.starts_with("---") || says.starts_with("Caught by:") {
            bail!("its first line must say what goes wrong");
        }
        let words = text.lines().take_while(|line| !line.starts_with("---"));
        let catches =
            words.filter_map(|line| line.strip_prefix("Caught by: ")).map(Catch::parse).collect::<Result<_>>()?;
        if !text.contains(&format!("::fault::is(\"{name}\")")) {
            bail!("nothing in it asks `crate::fault::is(\"{name}\")`");
        }
        Ok(Self { name, path, says, catches })
    }
}

/// Tries every fault, or those that are named.
pub(crate) fn faults(wanted: &[&str]) -> Result<()> {
    let root = root()?;
    let all = read_all(&root.join("faults"))?;
    if let Some(unknown) = wanted.iter().find(|name| !all.iter().any(|fault| fault.name == **name)) {
        bail!("there is no faults/{unknown}.patch");
    }
    let checkers = copy::build(&root, &all)?;
    checkers.check_clean()?;
    let is_wanted = |fault: &&Fault| wanted.is_empty() || wanted.contains(&fault.name.as_str());
    let tried: Vec<&Fault> = all.iter().filter(is_wanted).collect();
    let missed = try_each(&tried, &checkers);
    println!("{} faults, {} caught", tried.len(), tried.len() - missed.len());
    if !missed.is_empty() {
        bail!("not caught: {}", missed.join(", "));
    }
    Ok(())
}

/// The names of the faults that were missed by anything that must catch them.
fn try_each<'a>(faults: &[&'a Fault], checkers: &Checkers) -> Vec<&'a str> {
    let (left, missed) = (Mutex::new(faults.iter()), Mutex::new(Vec::new()));
    let next = || left.lock().ok()?.next().copied();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(fault) = next() {
                    match checkers.catch(&fault.name, &fault.catches) {
                        Ok(seen) => println!("{}: {}\n    {}", fault.name, fault.says, seen.join("\n    ")),
                        Err(why) => {
                            println!("{}: {}\n    is not caught: {why:#}", fault.name, fault.says);
                            if let Ok(mut missed) = missed.lock() {
                                missed.push(fault.name.as_str());
                            }
                        }
                    }
                }
            });
        }
    });
    missed.into_inner().unwrap_or_default()
}

/// All faults, in the order of their names.
fn read_all(folder: &Path) -> Result<Vec<Fault>> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|end| end == "patch"));
    paths.sort();
    let read = |path: PathBuf| Fault::read(path.clone()).with_context(|| path.display().to_string());
    paths.into_iter().map(read).collect()
}

/// The root of the repository.
fn root() -> Result<PathBuf> {
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Fault> {
        Fault::parse("deaf".to_owned(), PathBuf::new(), text)
    }

    #[test]
    fn a_file_says_what_goes_wrong_and_what_catches_it() {
        let text = "It is deaf.\nCaught by: points, \"a process\", P5\nCaught by: crash, I1\n\n--- a/x\n+ crate::fault::is(\"deaf\")\n";
        let fault = parse(text).unwrap();
        assert_eq!(fault.says, "It is deaf.");
        let points = Catch::Points { script: "a process".to_owned(), promise: Some("P5".to_owned()) };
        assert_eq!(fault.catches, [points, Catch::Crash { invariant: "I1".to_owned() }]);
    }

    #[test]
    fn a_patch_that_never_asks_for_its_fault_is_refused() {
        assert!(parse("It is deaf.\nCaught by: crash, I1\n\n--- a/x\n+ crate::fault::is(\"dead\")\n").is_err());
    }
}
