//! `andon export`.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;

use super::open_session;
use crate::args::ExportArgs;
use crate::db::Db;
use crate::print::aside;
use crate::print::out::write_lines;
use crate::show::session_shown;

/// Exports a session as JSON Lines.
pub(crate) async fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let key = args.session.key()?;
    let runtime = open_session(&Db::named(&args.db)?, &key).await?;
    let lines = runtime.export(&key).await?.context("the session has been deleted in the meantime")?;
    match &args.out {
        None => write_lines(&lines)?,
        Some(path) => {
            write_whole(path, &lines).with_context(|| format!("cannot write {}", path.display()))?;
            let count = lines.lines().count();
            aside(&format!("Wrote session {} to {}: {count} lines.\n", session_shown(&key), path.display()));
        }
    }
    Ok(())
}

/// Writes a file whole or not at all. Like the database, only its owner can read it.
fn write_whole(path: &Path, text: &str) -> anyhow::Result<()> {
    if path.exists() && !path.is_file() {
        // A pipe or a device cannot be replaced.
        return Ok(File::options().write(true).open(path)?.write_all(text.as_bytes())?);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
