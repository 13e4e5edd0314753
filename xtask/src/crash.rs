//! `cargo xtask crash`.

use anyhow::{Result, bail};

use crate::postgres::Server;
use crate::stages::{build_example, example};

/// Kills the runtime while it writes its journal: on SQLite or, with `--store postgres`, on a server that is started for it. The
/// harness prints the last line itself.
pub(crate) fn crash(words: &[&str]) -> Result<()> {
    build_example("crash")?;
    let mut command = example("crash");
    let server;
    match words {
        ["--store", "postgres", words @ ..] => {
            server = Server::start()?;
            server.to(command.args(words));
        }
        ["--store", "sqlite", words @ ..] | words => drop(command.args(words)),
    }
    if !command.status()?.success() {
        bail!("something was lost");
    }
    Ok(())
}
