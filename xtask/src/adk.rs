//! `cargo xtask adk`: ADK's own client and its unmodified web page against a server of ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::page::ensure_browser;
use crate::python::{ensure_adk, target_folder};
use crate::served::Served;
use crate::stages::{Stages, build_example, example, on_this_machine, xtask};

/// The scripts of this stage.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/adk");

/// Runs ADK's client and its page. Pictures of the page are left in `target/adk`.
pub(crate) fn adk() -> Result<()> {
    build_example("adk_house")?;
    let python = ensure_adk()?;
    ensure_browser()?;
    let page = page_of(&python)?;
    let house = Served::start(example("adk_house").arg(page))?;
    let outcome = client(&python, &house.url).and_then(|()| browser(&python, &house.url));
    house.end()?;
    outcome
}

/// The same, as a stage.
pub(crate) fn run(stages: &mut Stages) -> Result<()> {
    let name = "ADK's client and its page";
    match stages.needs(name, ensure_browser().and_then(|()| ensure_adk())) {
        Some(_) => stages.run(name, &mut xtask(&["adk"])?),
        None => Ok(()),
    }
}

fn client(python: &Path, url: &str) -> Result<()> {
    script(python, "client.py", &[url])
}

fn browser(python: &Path, url: &str) -> Result<()> {
    let pictures = target_folder().join("adk");
    let pictures = pictures.to_str().context("the target folder's name is not UTF-8")?;
    script(python, "page.py", &[url, pictures])
}

fn script(python: &Path, name: &str, words: &[&str]) -> Result<()> {
    let mut command = Command::new(python);
    let status = on_this_machine(&mut command).arg(Path::new(SCRIPTS).join(name)).args(words).status()?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    Ok(())
}

/// Where the package has the page.
fn page_of(python: &Path) -> Result<PathBuf> {
    let words = "import pathlib, importlib.util as i; p = i.find_spec('google.adk').submodule_search_locations[0]; \
                 print(pathlib.Path(p, 'cli', 'browser'))";
    let output = Command::new(python).args(["-c", words]).output()?;
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
