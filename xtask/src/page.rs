//! `cargo xtask page`: the program's own page, in a real browser, against the real program.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::debian;
use crate::python::target_folder;
use crate::stages::{Stages, build_example, on_this_machine, test_cargo, xtask};

/// The scripts of this stage.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
/// Where the pictures of the docs are.
const PICTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/pictures");

/// Runs every case, or those whose name contains a word. Pictures of the page are left in `target/page`; `--pictures` also renews
/// those of the docs.
pub(crate) fn page(words: &[&str]) -> Result<()> {
    let folder = target_folder().join("page");
    let mut arguments = Vec::new();
    for word in words {
        match *word {
            "--pictures" => arguments.extend(["--pictures", PICTURES]),
            case => arguments.push(case),
        }
    }
    script("main.py", &program()?, &folder, &arguments)
}

/// Runs every case as a stage, with the program that was built with everything else.
pub(crate) fn run(stages: &mut Stages) -> Result<()> {
    let name = "the page, in a browser";
    if stages.needs(name, ensure_browser()).is_none() {
        return Ok(());
    }
    let mut command = xtask(&["page"])?;
    stages.run(name, command.env("ANDON_PROGRAM", target_folder().join("debug").join("andon")))
}

/// Installs a browser, its driver, and Python, if they are missing.
pub(crate) fn ensure_browser() -> Result<()> {
    debian::ensure("python3", "python3")?;
    debian::ensure("chromium", "chromium")?;
    debian::ensure("chromedriver", "chromium-driver")
}

/// What the page costs a browser: bytes, time, frames. The program itself is not measured, so it is the one that tests use.
pub(crate) fn bench(words: &[&str]) -> Result<()> {
    script("bench.py", &program()?, &target_folder().join("page"), words)
}

/// Builds the program, and returns its path. `ANDON_PROGRAM` names another one.
fn program() -> Result<PathBuf> {
    if let Some(own) = std::env::var_os("ANDON_PROGRAM") {
        return Ok(own.into());
    }
    // As the tests build it, with the features of the whole workspace, so that nothing is built twice.
    let mut build = test_cargo(&["test", "--quiet", "--workspace", "--test", "program", "--no-run"]);
    if !build.status().context("cargo cannot be started")?.success() {
        bail!("the program could not be built");
    }
    // The other program that cases need.
    build_example("mounted")?;
    Ok(target_folder().join("debug").join("andon"))
}

fn script(name: &str, program: &Path, folder: &Path, words: &[&str]) -> Result<()> {
    ensure_browser()?;
    std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    let mut command = Command::new("python3");
    on_this_machine(&mut command).env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg(Path::new(SCRIPTS).join(name)).arg(program).arg(folder).args(words);
    let status = command.status().with_context(|| format!("{name} cannot be started"))?;
    if !status.success() {
        bail!("{name} failed ({status}); pictures of the page are in {}", folder.display());
    }
    Ok(())
}
