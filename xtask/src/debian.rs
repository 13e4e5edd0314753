//! Programs that tests need and Debian packages.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

/// A new machine installs its updates by itself: apt waits for other installations for at most this many seconds.
const LOCKED: &str = "DPkg::Lock::Timeout=600";

/// The programs that the guides show and that their tests run, each in a package of its own name.
const PROGRAMS: [&str; 3] = ["curl", "jq", "openssl"];

/// Installs the programs that are missing, where that is permitted.
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

/// Whether a program can be run.
pub(crate) fn is_there(program: &str) -> bool {
    // OpenSSL has no such flag.
    let word = if program == "openssl" { "version" } else { "--version" };
    succeeds(Command::new(program).arg(word))
}

/// Installs a package, and returns whether that worked. A new machine may have to update its list of packages first.
pub(crate) fn install(package: &str) -> bool {
    let apt = |words: &[&str]| succeeds(Command::new("apt-get").args(words).env("DEBIAN_FRONTEND", "noninteractive"));
    let words = ["install", "--yes", "--quiet", "-o", LOCKED, package];
    apt(&words) || (apt(&["update", "--quiet", "-o", LOCKED]) && apt(&words))
}

/// Unpacks a package into a folder, and returns whether that worked. Nothing is installed or started.
pub(crate) fn unpack(package: &str, folder: &Path) -> bool {
    if std::fs::create_dir_all(folder).is_err() {
        return false;
    }
    let apt = |words: &[&str]| succeeds(Command::new("apt-get").args(words).current_dir(folder));
    let download = ["download", "--quiet", package];
    let is_here = apt(&download) || (apt(&["update", "--quiet", "-o", LOCKED]) && apt(&download));
    if !is_here {
        return false;
    }
    let Ok(files) = std::fs::read_dir(folder) else { return false };
    let mut packages =
        files.flatten().map(|file| file.path()).filter(|file| file.extension().is_some_and(|end| end == "deb"));
    packages.any(|file| succeeds(Command::new("dpkg-deb").arg("--extract").arg(file).arg(folder)))
}

/// Runs a command without showing its output, and returns whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}
