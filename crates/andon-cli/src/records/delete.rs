//! `andon delete`.

use std::io::{BufRead, IsTerminal, Write};

use andon::{Cancel, Runtime, SessionKey};
use anyhow::bail;

use super::{open_session, runs_of, write};
use crate::Exit;
use crate::args::DeleteArgs;
use crate::db::For;
use crate::interrupt::who;
use crate::show::session_shown;

/// Deletes a session.
pub(crate) async fn delete(args: &DeleteArgs) -> anyhow::Result<Exit> {
    let key = args.session.key()?;
    let name = session_shown(&key);
    let (db, reader) = open_session(&args.db, &key).await?;
    if !args.yes && !is_meant(&reader, &key).await? {
        write("Nothing was deleted.\n")?;
        return Ok(Exit::Completed);
    }
    drop(reader);
    let runtime = db.open("andon delete", For::Changing)?;
    // No agent is here: a run that a dead program left open is settled, and one that waits can be cancelled.
    runtime.recover().await?;
    let cancel = Cancel::now().by(who()).note("its session was deleted");
    match runtime.delete_session(&key, cancel).await? {
        true => write(&format!("Session {name} is deleted; nothing of it remains.\n"))?,
        false => bail!("session {name} was deleted meanwhile"),
    }
    Ok(Exit::Completed)
}

/// Asks the person at the terminal.
async fn is_meant(runtime: &Runtime, key: &SessionKey) -> anyhow::Result<bool> {
    let name = session_shown(key);
    if !std::io::stdin().is_terminal() {
        bail!("nobody can be asked here whether to delete session {name}: say --yes");
    }
    let runs = runtime.list_runs(runs_of(key)).await?;
    let first = runs.last().map_or_else(String::new, |run| format!(" (“{}”)", run.title));
    let mut out = anstream::stdout();
    let count = if runs.len() == 1 { "its run".to_owned() } else { format!("its {} runs", runs.len()) };
    write!(out, "Delete session {name}{first} and {count} for ever? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
