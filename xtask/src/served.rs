//! A server of ours that an example starts, and which prints its address as its first line.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// The server. It is killed when this is dropped.
pub(crate) struct Served {
    process: Child,
    pub(crate) url: String,
}

impl Served {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("the server cannot be started")?;
        let mut url = String::new();
        if let Some(stdout) = process.stdout.take() {
            BufReader::new(stdout).read_line(&mut url)?;
        }
        let server = Self { process, url: url.trim().to_owned() };
        if server.url.is_empty() {
            bail!("the server printed no address");
        }
        Ok(server)
    }

    /// Ends it by closing its input, and checks that it ends well.
    pub(crate) fn end(mut self) -> Result<()> {
        drop(self.process.stdin.take());
        let status = self.process.wait()?;
        if !status.success() {
            bail!("the server ended badly ({status})");
        }
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
