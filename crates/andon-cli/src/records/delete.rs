//! `andon delete`.

use std::io::{BufRead, IsTerminal};

use andon_runtime::{Cancel, RunInfo, SessionKey};
use anyhow::{bail, ensure};

use super::{no_session, open_session, write};
use crate::args::DeleteArgs;
use crate::client::Target;
use crate::client::calls::runs_of;
use crate::db::{Db, OpenFor};
use crate::how::who;
use crate::print::plain_line;
use crate::show::session_shown;

/// Deletes a session.
pub(crate) async fn delete(args: &DeleteArgs) -> anyhow::Result<()> {
    let key = args.session.key()?;
    let name = session_shown(&key);
    let target = Target::find(&args.target).await?;
    let runs = match &target {
        Target::Server(client) if !client.has_session(&key).await? => return Err(no_session(&target, &key)),
        Target::Server(client) => client.list_runs(runs_of(&key)).await?,
        Target::Database(db) => open_session(db, &key).await?.list_runs(runs_of(&key)).await?,
    };
    if !args.yes && !is_meant(&runs, &key)? {
        return Ok(write("Nothing was deleted.\n")?);
    }
    let was_there = match &target {
        Target::Server(client) => client.delete(&key).await?,
        Target::Database(db) => delete_local(db, &key).await?,
    };
    ensure!(was_there, "session {name} has been deleted in the meantime");
    Ok(write(&format!("Session {name} was deleted, with everything recorded in it.\n"))?)
}

async fn delete_local(db: &Db, key: &SessionKey) -> anyhow::Result<bool> {
    let runtime = db.open("andon delete", OpenFor::Changing)?;
    // There is no agent here: runs that a dead program left open are settled, and waiting ones can be cancelled.
    runtime.recover().await?;
    let cancel = Cancel::now().by(who()).note("its session was deleted");
    Ok(runtime.delete_session(key, cancel).await?)
}

/// Asks the person at the terminal.
fn is_meant(runs: &[RunInfo], key: &SessionKey) -> anyhow::Result<bool> {
    let name = session_shown(key);
    if !std::io::stdin().is_terminal() {
        bail!("standard input is not a terminal, so nobody can confirm: to delete session {name}, use --yes");
    }
    let first = runs.last().map_or_else(String::new, |run| format!(" (“{}”)", plain_line(&run.title)));
    let count = if runs.len() == 1 { "its run".to_owned() } else { format!("its {} runs", runs.len()) };
    write(&format!("Delete session {name}{first} and {count}? This cannot be undone. [y/N] "))?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
