//! The documentation's own tests and its lints, in one pass.
//!
//! `cargo doc` would compile every dependency once more, as metadata only. `cargo test --doc` uses what is built, so here cargo takes
//! this program for rustdoc: it calls the real one twice, first as cargo asks, and then without `--test`, for the lints.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::python::target_folder;
use crate::stages::test_cargo;

/// Set while this program stands in for rustdoc.
const AS_RUSTDOC: &str = "ANDON_AS_RUSTDOC";

/// The command that tests and lints the documentation of every library.
pub(crate) fn command() -> Result<Command> {
    let itself = std::env::current_exe().context("this program has no name")?;
    let mut command = test_cargo(&["test", "--workspace", "--doc"]);
    command.env("RUSTDOC", itself).env(AS_RUSTDOC, "1");
    Ok(command)
}

/// Whether cargo takes this program for rustdoc.
pub(crate) fn is_rustdoc() -> bool {
    std::env::var_os(AS_RUSTDOC).is_some()
}

/// Runs rustdoc as cargo asks and, if that is for tests, once more for the lints.
pub(crate) fn rustdoc(arguments: &[String]) -> Result<ExitCode> {
    let rustdoc = |arguments: &[String]| Command::new("rustdoc").args(arguments).status().context("rustdoc");
    let mut passed = rustdoc(arguments)?.success();
    if arguments.iter().any(|argument| argument == "--test") {
        let output = format!("--output={}", target_folder().join("doc").display());
        let lints = [without_tests(arguments), vec!["-Dwarnings".to_owned(), output]].concat();
        passed &= rustdoc(&lints)?.success();
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is left of rustdoc's arguments if nothing is tested.
fn without_tests(arguments: &[String]) -> Vec<String> {
    let is_for_tests = |argument: &String| {
        ["--test-run-directory", "--test-args", "--test-builder", "--test-runtool", "--nocapture", "--no-capture"]
            .iter()
            .any(|option| argument.starts_with(option))
            || argument == "--test"
    };
    let (mut left, mut arguments) = (Vec::new(), arguments.iter());
    while let Some(argument) = arguments.next() {
        if !is_for_tests(argument) {
            left.push(argument.clone());
        } else if argument.starts_with("--test-") && !argument.contains('=') {
            // Its value follows.
            arguments.next();
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_tests_is_left_out_with_its_value() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let asked = "--crate-name a --test src/lib.rs --test-run-directory /w --extern b=c --test-args=x --nocapture";
        assert_eq!(without_tests(&words(asked)), words("--crate-name a src/lib.rs --extern b=c"));
    }
}
