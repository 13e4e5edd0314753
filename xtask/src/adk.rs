//! `cargo xtask adk`: ADK's own client and its unmodified web page against a server of ours.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::page::ensure_browser;
use crate::python::{ensure_adk, target_folder};
use crate::stages::{Stages, build_example, example, on_this_machine, xtask};

/// The scripts of this stage.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/adk");

/// Runs ADK's client and its page; what the page looked like is left in `target/adk`.
pub(crate) fn adk() -> Result<()> {
    build_example("adk_house")?;
    let python = ensure_adk()?;
    ensure_browser()?;
    let page = page_of(&python)?;
    let mut house = House::start(&page)?;
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
    let pictures = pictures.to_str().context("the target folder's name is no text")?;
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

/// Where the page is in the package.
fn page_of(python: &Path) -> Result<PathBuf> {
    let words = "import pathlib, importlib.util as i; p = i.find_spec('google.adk').submodule_search_locations[0]; \
                 print(pathlib.Path(p, 'cli', 'browser'))";
    let output = Command::new(python).args(["-c", words]).output()?;
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// A server with the agent that does what it is told, until it is ended.
struct House {
    process: Child,
    url: String,
}

impl House {
    fn start(page: &Path) -> Result<Self> {
        let mut process = example("adk_house")
            .arg(page)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the server cannot be started")?;
        let mut url = String::new();
        if let Some(out) = process.stdout.take() {
            BufReader::new(out).read_line(&mut url)?;
        }
        let url = url.trim().to_owned();
        if url.is_empty() {
            bail!("the server did not begin ({})", process.wait()?);
        }
        Ok(Self { process, url })
    }

    /// It ends when its input does.
    fn end(&mut self) -> Result<()> {
        drop(self.process.stdin.take());
        let status = self.process.wait()?;
        if !status.success() {
            bail!("the server ended badly ({status})");
        }
        Ok(())
    }
}
