//! `andon import`.

use std::io::Read;
use std::path::Path;

use andon_runtime::{ImportError, Imported, JournalError};
use anyhow::{Context, anyhow, bail};

use super::write;
use crate::args::ImportArgs;
use crate::client::calls::runs_of;
use crate::db::{Db, OpenFor};
use crate::paste::quoted;
use crate::show::session_shown;

/// Imports an exported session.
///
/// No agent is built here, so a waiting run keeps waiting, for a program that can drive it.
pub(crate) async fn import(args: &ImportArgs) -> anyhow::Result<()> {
    let lines = read(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
    let db = Db::named(&args.db)?;
    if let Some(owner) = db.owner().filter(|owner| owner.address.is_some()) {
        bail!(
            "nothing was imported: {} is in use by {owner}, and a running server cannot import: shut it down, import, and start \
             it again, or import into another file with --db PATH",
            db.shown()
        );
    }
    let runtime = db.open("andon import", OpenFor::Changing).await?;
    let Imported { session, recovered, .. } = runtime.import(&lines).await.map_err(|error| explain(&error, &db))?;
    let runs = match runtime.list_runs(runs_of(&session)).await?.len() {
        1 => "1 run".to_owned(),
        runs => format!("{runs} runs"),
    };
    let name = session_shown(&session);
    let next = if name.contains('/') { "history " } else { "chat --session " };
    let next = db.command(&format!("{next}{}", quoted(&name)));
    write(&format!("Imported session {name}, with {runs}. To continue: {next}\n"))?;
    let left = "the session was imported, but the runs left open in this database could not be recovered yet";
    recovered.map(drop).context(left)
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    match file.to_str() {
        Some("-") => std::io::stdin().read_to_end(&mut bytes)?,
        _ => std::fs::File::open(file)?.read_to_end(&mut bytes)?,
    };
    String::from_utf8(bytes).map_err(|error| {
        let before = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        anyhow!("line {line} is not text, so `andon export` did not write this")
    })
}

/// What went wrong, and that nothing was changed.
fn explain(error: &ImportError, db: &Db) -> anyhow::Error {
    match error {
        ImportError::Journal(JournalError::SessionExists(_) | JournalError::RunExists(_)) => anyhow!(
            "nothing was imported: {error} (delete a session with `{}`, or import into {})",
            db.command("delete SESSION"),
            db.another()
        ),
        _ => anyhow!("nothing was imported: {error}"),
    }
}
