//! Lanes that passed, and whose inputs have not changed since: they are not run again, except with `--long` or `CI=true`.
//!
//! Our tests are meant to be deterministic; one that fails now and then is found by CI and `--long`, which run everything. An input is a file with its length and the time of its last
//! change: cargo leaves an executable alone unless something in it changes. When in doubt a lane runs: every file that is not Rust
//! source counts as an input of every lane, because tests read many of them, and a lane that names no executable depends on all
//! source files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use anyhow::Result;

use crate::python::target_folder;
use crate::stages::{Lane, Stages, is_ci, log_of};

/// The files of the repository at the start, as inputs.
#[derive(Debug, Clone)]
pub(crate) struct Inputs {
    source: String,
    /// Everything but Rust source, and the shim, which is a part of every tool.
    others: String,
}

impl Inputs {
    /// `None` if every lane has to run: under CI, or if git does not say which files there are.
    pub(crate) fn read() -> Option<Self> {
        if is_ci() {
            return None;
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
        let listed =
            Command::new("git").args(["ls-files", "-co", "--exclude-standard"]).current_dir(root).output().ok()?;
        if !listed.status.success() {
            return None;
        }
        let listed = String::from_utf8(listed.stdout).ok()?;
        let (source, others): (Vec<&str>, Vec<&str>) = listed.lines().partition(|name| name.ends_with(".rs"));
        let lines = |names: Vec<&str>| names.into_iter().map(|name| line(&root.join(name))).collect::<String>();
        Some(Self { source: lines(source), others: lines(others) + &line(&built("andon-shim")) })
    }

    fn of(&self, executables: &[PathBuf]) -> String {
        let own = match executables {
            [] => self.source.clone(),
            executables => executables.iter().map(|path| line(path)).collect(),
        };
        own + &self.others
    }
}

/// A lane, with what it depends on.
pub(crate) struct Work {
    name: String,
    /// What it runs. If this is empty, it depends on all source files.
    executables: Vec<PathBuf>,
    lane: Lane,
}

impl Work {
    pub(crate) fn new(
        name: &str,
        executables: impl IntoIterator<Item = PathBuf>,
        lane: impl FnOnce(&mut Stages) -> Result<()> + Send + 'static,
    ) -> Self {
        Self { name: name.to_owned(), executables: executables.into_iter().collect(), lane: Box::new(lane) }
    }

    /// The lane, skipped if it has passed with the same inputs.
    pub(crate) fn unless_unchanged(self, inputs: Option<&Inputs>) -> Lane {
        let Self { name, executables, lane } = self;
        let Some(inputs) = inputs.map(|inputs| inputs.of(&executables)) else { return lane };
        Box::new(move |stages| {
            let record = log_of(&name)?.with_extension("passed");
            if fs::read_to_string(&record).is_ok_and(|passed| passed == inputs) {
                stages.unchanged(&name);
                return Ok(());
            }
            if stages.tries_everything(lane)? {
                fs::write(&record, &inputs)?;
            }
            Ok(())
        })
    }
}

/// A program that cargo has built, such as `andon` or `examples/points`.
pub(crate) fn built(name: &str) -> PathBuf {
    target_folder().join("debug").join(name)
}

/// A file, as a line of the inputs.
fn line(path: &Path) -> String {
    let known = fs::metadata(path).and_then(|file| Ok((file.len(), file.modified()?)));
    let known = known.ok().and_then(|(length, at)| Some((length, at.duration_since(UNIX_EPOCH).ok()?.as_nanos())));
    format!("{} {known:?}\n", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_depends_on_its_executable_or_on_all_source_and_always_on_other_files() {
        let inputs = Inputs { source: "source\n".to_owned(), others: "others\n".to_owned() };
        let missing = PathBuf::from("/nowhere/points");
        assert_eq!(inputs.of(&[]), "source\nothers\n");
        assert_eq!(inputs.of(std::slice::from_ref(&missing)), "/nowhere/points None\nothers\n");
    }

    #[test]
    fn a_file_that_was_written_again_is_another_input() -> std::io::Result<()> {
        let path = std::env::temp_dir().join(format!("andon-unchanged-{}", std::process::id()));
        fs::write(&path, "one")?;
        let before = line(&path);
        assert_eq!(line(&path), before);
        fs::write(&path, "more")?;
        assert_ne!(line(&path), before);
        fs::remove_file(&path)
    }
}
