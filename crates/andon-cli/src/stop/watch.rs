//! `andon watch`.

use andon_runtime::RunState;
use anyhow::{Context, bail};

use crate::args::WatchArgs;
use crate::client::{Client, RemoteRun, Target};
use crate::db::Db;
use crate::exit::Exit;
use crate::follow::{Subject, watch as follow};
use crate::print::Style;
use crate::records::{find, no_run};
use crate::show::{JsonLines, Screen, Streams};
use crate::talk::{Output, exit};
use crate::terminal::interrupt::Interrupts;

/// Shows a run as it happens; does nothing to it.
pub(crate) async fn watch(args: &WatchArgs) -> anyhow::Result<Exit> {
    let target = Target::find(&args.target).await?;
    let run = match &target {
        Target::Server(client) => find_remote(client, &args.run).await?,
        Target::Database(db) => find_local(db, &args.run).await?,
    };
    let run = run.with_context(|| no_run(&target, &args.run))?;
    let mut interrupts = Interrupts::listen()?;
    let (dim, stop) = (Style::DIM, target.command(&format!("cancel {}", run.id())));
    interrupts.leave_with(format!("{dim}The run goes on. To stop it: {stop}{dim:#}"));
    let mut output = if args.json { Output::Json(JsonLines) } else { Output::Text(Screen::new(Streams::Apart)) };
    let approve = target.command(&format!("approve {}", run.id()));
    let outcome = follow(&run, args.after.unwrap_or_default(), output.listener(), approve).await?;
    output.end(&outcome)?;
    Ok(exit(&outcome))
}

async fn find_remote(client: &Client, text: &str) -> anyhow::Result<Option<Subject>> {
    let found = client.find(text).await?;
    Ok(found.map(|run| Subject::Remote(RemoteRun::new(client, run.run_id))))
}

/// A run in a database, of which no server is known. It can be shown only if it has settled.
async fn find_local(db: &Db, text: &str) -> anyhow::Result<Option<Subject>> {
    let Some(runtime) = db.open_to_read().await? else { return Ok(None) };
    let Some(run) = find(&runtime, text).await? else { return Ok(None) };
    if run.state() == RunState::Settled {
        return Ok(Some(Subject::Local(run)));
    }
    let id = run.id();
    match db.owner() {
        Some(owner) => {
            bail!("run {id} belongs to {owner}, which is not a server: only runs on a server can be watched")
        }
        None if db.is_shared() => {
            bail!("run {id} has not settled, and only the server that runs it can show it: name that one with --server")
        }
        None => bail!(
            "run {id} was left open by a program that ended, and nothing drives it: settle it with `{}`",
            db.command(&format!("cancel {id}"))
        ),
    }
}
