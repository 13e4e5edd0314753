//! Programs that tests need and Debian packages.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

/// The programs that the guides show and that their tests run, each in a package of its own name.
const PROGRAMS: [&str; 2] = ["curl", "jq"];

/// Installs what is missing, where that is permitted.
pub(crate) fn ensure_programs() -> Result<()> {
    PROGRAMS.iter().try_for_each(|program| ensure(program, program))
}

/// Installs a program from its package if it is missing, where that is permitted.
pub(crate) fn ensure(program: &str, package: &str) -> Result<()> {
    if is_there(program) || (install(package) && is_there(program)) {
        return Ok(());
    }
    bail!("tests need `{program}`, and it could not be installed (on Debian and Ubuntu: apt-get install {package})")
}

fn is_there(program: &str) -> bool {
    succeeds(Command::new(program).arg("--version"))
}

/// Installs a package; says whether that worked. A machine that is new may not know what there is.
pub(crate) fn install(package: &str) -> bool {
    let apt = |words: &[&str]| succeeds(Command::new("apt-get").args(words).env("DEBIAN_FRONTEND", "noninteractive"));
    let words = ["install", "--yes", "--quiet", package];
    apt(&words) || (apt(&["update", "--quiet"]) && apt(&words))
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}
