//! The components of the Rust toolchain that tests need.

use anyhow::{Result, bail};

use crate::debian::is_there;

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
