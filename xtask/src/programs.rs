//! Everything that `cargo xtask test` runs, built and linted by one cargo command, and the test programs among it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::stages::{Stages, log_of, on_this_machine, test_cargo};

/// A test program of one of the crates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// The crate, and the name of its target: `andon-server/explorer`.
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    /// The folder of its crate, in which cargo would run it.
    folder: PathBuf,
}

impl Program {
    /// The name of the stage that runs it.
    pub(crate) fn stage(&self) -> String {
        format!("tests of {}", self.name)
    }

    /// The command that runs it as cargo would.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        on_this_machine(&mut command).current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

/// Builds targets of the whole workspace, such as `--tests`, and lints each as it is compiled. Returns the test programs among
/// them.
pub(crate) fn build(stages: &mut Stages, name: &str, targets: &[&str]) -> Result<Vec<Program>> {
    let messages = log_of(name)?;
    let file = fs::File::create(&messages).with_context(|| format!("{} cannot be written", messages.display()))?;
    let words = ["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"];
    stages.run(name, test_cargo(&words).args(targets).stdout(file))?;
    Ok(fs::read_to_string(&messages)?.lines().filter_map(program).collect())
}

/// The test program that a message of cargo's is about, if it is about one.
fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    let executable = message.get("executable")?.as_str()?.into();
    let is_test = message.pointer("/profile/test")?.as_bool()?;
    if !is_test {
        return None;
    }
    let manifest = PathBuf::from(message.get("manifest_path")?.as_str()?);
    let folder = manifest.parent()?.to_path_buf();
    let name = format!("{}/{}", folder.file_name()?.to_str()?, message.pointer("/target/name")?.as_str()?);
    Some(Program { name, executable, folder })
}

/// Adds up the `test result:` lines of all test programs.
pub(crate) fn counted(printed: &str) -> String {
    let (mut passed, mut failed) = (0, 0);
    for line in printed.lines().filter(|line| line.starts_with("test result:")) {
        let before = |word: &str| -> usize {
            let words: Vec<&str> = line.split_whitespace().collect();
            let place = words.iter().position(|own| own.trim_end_matches(';') == word).unwrap_or_default();
            place.checked_sub(1).and_then(|place| words.get(place)?.parse().ok()).unwrap_or_default()
        };
        passed += before("passed");
        failed += before("failed");
    }
    format!("{passed} passed, {failed} failed")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tests_are_counted_over_all_programs() {
        let printed = "\
running 3 tests
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s
test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s";
        assert_eq!(counted(printed), "7 passed, 2 failed");
        assert_eq!(counted(""), "0 passed, 0 failed");
    }

    #[test]
    fn test_programs_are_found_among_the_messages_of_cargo() {
        let message = |test: bool| {
            let message = json!({
                "executable": "/t/debug/deps/fold-1",
                "profile": {"test": test},
                "target": {"name": "fold"},
                "manifest_path": "/w/crates/andon-core/Cargo.toml",
            });
            message.to_string()
        };
        let folder = PathBuf::from("/w/crates/andon-core");
        let fold = Program { name: "andon-core/fold".to_owned(), executable: "/t/debug/deps/fold-1".into(), folder };
        assert_eq!(program(&message(true)), Some(fold));
        assert_eq!(program(&message(false)), None);
        assert_eq!(program("no JSON"), None);
    }
}
