//! The virtual environments with the Python packages that tests need: the official MCP SDK, as a server to test against, and
//! schemathesis, which fuzzes ours; and ADK, in one of its own because it is large and needs other versions.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::debian;
use crate::stages::quietly;

/// What is installed, in exact versions, so that it behaves the same tomorrow and on every machine.
struct Packages {
    wanted: &'static [&'static str],
    /// The file with the versions of all their dependencies.
    constraints: &'static str,
}

const TESTS: Packages = Packages {
    wanted: &["mcp==2.3.0", "schemathesis==4.32.5", "hypothesis==6.170.15"],
    constraints: concat!(env!("CARGO_MANIFEST_DIR"), "/python/tests.txt"),
};

/// ADK, whose client and page are tested against our server, and whose server is measured next to ours.
const ADK: Packages =
    Packages { wanted: &["google-adk==2.13.0"], constraints: concat!(env!("CARGO_MANIFEST_DIR"), "/python/adk.txt") };

/// Checks that Python is new enough for the packages.
const NEW_ENOUGH: &str = "import sys; sys.exit(sys.version_info < (3, 10))";

/// The Python of the virtual environment, which is created if it is missing.
pub(crate) fn ensure_venv() -> Result<PathBuf> {
    ensure("andon-venv", &TESTS)
}

/// The Python of the virtual environment with ADK.
pub(crate) fn ensure_adk() -> Result<PathBuf> {
    ensure("andon-adk-venv", &ADK)
}

fn ensure(name: &str, packages: &Packages) -> Result<PathBuf> {
    let folder = target_folder().join(name);
    let python = folder.join("bin").join("python");
    let done = folder.join("installed");
    let constraints = std::fs::read_to_string(packages.constraints)
        .with_context(|| format!("{} cannot be read", packages.constraints))?;
    let wanted = format!("{}\n{constraints}", packages.wanted.join("\n"));
    if python.exists() && std::fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    make(&folder)?;
    let mut install = Command::new(&python);
    install
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--timeout", "120", "--retries", "5"])
        .args(["--constraint", packages.constraints])
        .args(packages.wanted);
    let words = "the Python packages for the tests could not be installed; is there a network?";
    quietly(&mut install).with_context(|| format!("{words} ({})", packages.wanted.join(", ")))?;
    std::fs::write(&done, wanted).with_context(|| format!("{} cannot be written", done.display()))?;
    Ok(python)
}

/// The folder in which everything is built.
pub(crate) fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => std::path::absolute(&folder).unwrap_or_else(|_| folder.into()),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
    }
}

/// Creates the environment. Debian has `venv` in a package of its own, which is installed where that is permitted.
fn make(folder: &Path) -> Result<()> {
    let venv = || {
        let mut command = Command::new("python3");
        command.args(["-m", "venv", "--clear"]).arg(folder);
        command
    };
    let needed = "tests need Python 3.10 or newer with its module `venv` (on Debian and Ubuntu: python3-venv)";
    let Err(missing) = quietly(&mut venv()) else { return check_version(folder).context(needed) };
    if !debian::install("python3-venv") {
        return Err(missing.context(needed));
    }
    quietly(&mut venv())?;
    check_version(folder).context(needed)
}

fn check_version(folder: &Path) -> Result<()> {
    quietly(Command::new(folder.join("bin").join("python")).args(["-c", NEW_ENOUGH]))
}
