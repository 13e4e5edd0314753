//! `andon delete`.

use std::io::{BufRead, IsTerminal};
use std::time::Duration;

use andon_runtime::{Cancel, JournalError, RunInfo, Runtime, SessionKey};
use anyhow::{bail, ensure};
use tokio::time::Instant;

use super::{no_session, open_session, write};
use crate::args::DeleteArgs;
use crate::client::Target;
use crate::client::calls::runs_of;
use crate::db::{Db, OpenFor};
use crate::how::who;
use crate::print::plain_line;
use crate::show::session_shown;

/// How long to wait for another program to stop the session's runs, or for the end of its lease if it is dead.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often to try meanwhile.
const LOOK: Duration = Duration::from_millis(200);

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
    let runtime = db.open("andon delete", OpenFor::Changing).await?;
    let cancel = Cancel::now().by(who()).note("its session was deleted");
    if db.is_shared() {
        return delete_shared(&runtime, key, &cancel).await;
    }
    // There is no agent here: runs that a dead program left open are settled, and waiting ones can be cancelled.
    runtime.recover().await?;
    Ok(runtime.delete_session(key, cancel).await?)
}

/// Deletes a session whose runs may be those of other programs, which stop them as they are asked to.
async fn delete_shared(runtime: &Runtime, key: &SessionKey, cancel: &Cancel) -> anyhow::Result<bool> {
    let began = Instant::now();
    loop {
        match runtime.delete_session(key, cancel.clone()).await {
            Err(JournalError::SessionBusy { .. }) if began.elapsed() < PATIENCE => tokio::time::sleep(LOOK).await,
            Err(JournalError::SessionBusy { run, .. }) => bail!(
                "session {} was not deleted: run {run} of it is being stopped, and has not settled yet. Try again when it has",
                session_shown(key)
            ),
            other => return Ok(other?),
        }
    }
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
