//! Writes a database in the file format of this version, as a process that was killed leaves it.
//!
//! `cargo run -p andon-store --example format_file -- FILE.db.gz` makes the file that `tests/formats` keeps for each format;
//! see the README there. It starts itself again as a child, which fills a database and kills itself with `kill -9` while
//! runs are waiting, answering and calling tools.

mod hooks;
mod life;
mod model;

use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use rusqlite::Connection;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--live", database] => life::live(Path::new(database)),
        [file] => make(Path::new(file)),
        _ => anyhow::bail!("usage: format_file FILE.db.gz"),
    }
}

fn make(file: &Path) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let database = folder.path().join("andon.db");
    let died = Command::new(std::env::current_exe()?).arg("--live").arg(&database).status()?;
    ensure!(died.code().is_none(), "the child ended by itself instead of being killed: {died}");
    // The write-ahead log is brought into the database, so that one file holds everything.
    Connection::open(&database)?.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    let mut packed = GzEncoder::new(File::create(file)?, Compression::best());
    std::io::copy(&mut File::open(&database)?, &mut packed)?;
    packed.finish().with_context(|| file.display().to_string())?;
    Ok(())
}
