//! The components of the Rust toolchain that tests need, and the programs for cargo that it does not have.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::debian::is_there;
use crate::stages::cargo;

/// Fails if a component is missing. None is installed here, because other projects use the same toolchain.
pub(crate) fn check_components() -> Result<()> {
    [("cargo-fmt", "rustfmt"), ("rustfmt", "rustfmt"), ("clippy-driver", "clippy")]
        .iter()
        .try_for_each(|(program, component)| check(program, component))
}

fn check(program: &str, component: &str) -> Result<()> {
    if is_there(program) {
        return Ok(());
    }
    bail!("tests need `{program}`, and it is missing: run `rustup component add {component}`")
}

/// The path of `cargo-NAME` in this version, which is installed below `target` if it is not there.
pub(crate) fn ensure_cargo_tool(name: &str, version: &str) -> Result<PathBuf> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools").join(name);
    let package = format!("cargo-{name}");
    let program = place.join("bin").join(&package);
    let known = Command::new(&program).args([name, "--version"]).output();
    if known.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim().ends_with(version)) {
        return Ok(program);
    }
    let mut install = cargo(&["install", "--quiet", &package, "--locked", "--version", version, "--root"]);
    if !install.arg(&place).status()?.success() {
        bail!("{package} could not be installed");
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_component_is_named_in_one_line_with_what_to_do() {
        let error = check("andon-no-such-driver", "clippy").unwrap_err();
        let expected = "tests need `andon-no-such-driver`, and it is missing: run `rustup component add clippy`";
        assert_eq!(format!("{error:#}"), expected);
        check_components().unwrap();
    }
}
