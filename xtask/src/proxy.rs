//! `cargo xtask proxy`: the program behind a real nginx with TLS.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::debian;
use crate::programs::{self, Program};
use crate::python::target_folder;
use crate::stages::Stages;

/// Runs only the tests that need nginx.
pub(crate) fn proxy() -> Result<()> {
    let mut stages = Stages::default();
    let programs = programs::build(&mut stages, "tests of the program, built", &["--test", "program"])?;
    run(&mut stages, &programs)?;
    stages.finish()
}

/// Runs the tests that need nginx, as a stage.
pub(crate) fn run(stages: &mut Stages, programs: &[Program]) -> Result<()> {
    let name = "behind nginx, with TLS";
    let needed = debian::ensure_programs().and_then(|()| path_with_nginx());
    let Some(path) = stages.needs(name, needed) else { return Ok(()) };
    let program = programs.iter().find(|program| program.name == "andon-cli/program");
    let program = program.context("andon-cli has no test program of the name `program`")?;
    stages.run(name, program.command().args(["--ignored", "proxy::"]).env("PATH", path))
}

/// The PATH, with nginx on it. If nginx is not installed, its package is unpacked below `target`: installing it would start a web
/// server on this machine.
pub(crate) fn path_with_nginx() -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folder = target_folder().join("andon-nginx");
    let unpacked = folder.join("usr").join("sbin");
    let own = std::env::join_paths(std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), unpacked.clone()]))?;
    let is_there = |own: &OsString| debian::succeeds(Command::new("nginx").arg("-v").env("PATH", own));
    if !is_there(&own) {
        debian::unpack("nginx", &folder);
    }
    if !is_there(&own) {
        bail!("tests need nginx, and its package could not be unpacked (on Debian and Ubuntu: apt-get install nginx)");
    }
    Ok(own)
}
