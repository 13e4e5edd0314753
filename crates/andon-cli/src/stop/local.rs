//! `andon cancel` on a database of which no server is known.
//!
//! Nothing runs on a file that no server holds: runs that a dead program left open are settled, and waiting ones are cancelled. Others
//! may be running on a database that several programs share. There a request is left on record for each run, which the program that runs
//! it hears within a second.

use std::collections::BTreeSet;
use std::time::Duration;

use andon_runtime::core::id::LOCAL;
use andon_runtime::{Recovered, Reply, ReplyKind, RunFilter, RunId, RunState, Runtime, SessionFilter};
use anyhow::{anyhow, bail};

use super::aim;
use crate::args::CancelArgs;
use crate::client::Target;
use crate::client::calls::Selector;
use crate::client::forms::{Aim, Cancelled, CancelledMany};
use crate::db::{Db, OpenFor};
use crate::how::How;
use crate::print::{aside, plain};
use crate::records::{find, no_run};
use crate::show::recovered;

/// How often the record is asked whether a run has settled that another program is stopping.
const LOOK: Duration = Duration::from_millis(100);

/// Stops one run.
pub(super) async fn stop_one(db: &Db, run: &str, args: &CancelArgs, how: &How) -> anyhow::Result<Cancelled> {
    let unknown = || anyhow!("{}", no_run(&Target::Database(db.clone()), run));
    let runtime = open(db).await?.ok_or_else(unknown)?;
    if args.call.is_some() && db.is_shared() {
        bail!(
            "only the server that runs it can stop a single tool call: name that server with --server, or stop the whole run with `{}`",
            db.command(&format!("cancel {run}"))
        );
    }
    if args.call.is_some() {
        bail!(
            "no server is running, so no tool call is in progress: stop the whole run with `{}`",
            db.command(&format!("cancel {run}"))
        );
    }
    let found = find(&runtime, run).await?.ok_or_else(unknown)?;
    stop_run(&runtime, found.id(), how, args.wait).await
}

/// Stops all the runs that a selector names.
pub(super) async fn stop(db: &Db, which: Selector, how: &How, wait: bool) -> anyhow::Result<CancelledMany> {
    let looked_for = format!("{} in {}", aim::words(&which), db.shown_unserved());
    let names_something = which.app.is_some() || which.user.is_some() || which.session.is_some();
    let is_all = !names_something && which.tenant.is_none();
    let Some(runtime) = open(db).await? else {
        // Runs elsewhere are not known here, so the text says nothing about them.
        bail!(
            "{} {}, so nothing was stopped: name your server's database with --db, or the server with --server",
            if db.is_shared() { "nothing has been recorded in" } else { "there is no database at" },
            db.shown()
        );
    };
    if let Some(app) = &which.app {
        must_be_there(app, &runtime, db).await?;
    }
    let Selector { tenant, app, user, session } = which;
    // As on a server: names are of your own tenant, and all means every tenant.
    let tenant = tenant.or_else(|| names_something.then(|| LOCAL.to_owned()));
    let meant = RunFilter::new().tenant(tenant).app(app).user(user).session(session);
    let all = runtime.list_runs(RunFilter::new().settled(false)).await?.len();
    let mut runs = Vec::new();
    for run in runtime.list_runs(meant.clone().settled(false)).await? {
        runs.push(stop_run(&runtime, &run.run, how, false).await?);
    }
    if wait {
        for run in &mut runs {
            *run = until_settled(&runtime, run.clone()).await?;
        }
    }
    let one = meant.limit(1);
    let known = is_all || !runtime.list_runs(one).await?.is_empty();
    let settled = known && runs.iter().all(|run| run.state == RunState::Settled);
    let aim = Aim { looked_for, known, others: all.saturating_sub(runs.len()), ..Aim::default() };
    Ok(CancelledMany { cancelled: super::replies::stopped(&runs), settled, aim, runs })
}

/// Fails if the app is not on record, and names those that are.
async fn must_be_there(app: &str, runtime: &Runtime, db: &Db) -> anyhow::Result<()> {
    let sessions = runtime.list_sessions(SessionFilter::default()).await?;
    let apps: BTreeSet<String> = sessions.iter().map(|session| session.key.app.to_string()).collect();
    if apps.contains(app) {
        return Ok(());
    }
    let apps: Vec<String> = apps.iter().map(|app| plain(app)).collect();
    let those = match apps.as_slice() {
        [] => "nothing has been recorded in it".to_owned(),
        [only] => format!("there is {only}"),
        apps => format!("there are {}", apps.join(", ")),
    };
    bail!("there is no app {app} in {}: {those}", db.shown_unserved())
}

/// Opens a database, and settles the runs that a dead program left open if no other program can; `None` if there is no database.
async fn open(db: &Db) -> anyhow::Result<Option<Runtime>> {
    if db.is_kept() && db.open_to_read().await?.is_none() {
        return Ok(None);
    }
    let runtime = db.open("andon cancel", OpenFor::Changing).await?;
    if db.is_shared() {
        return Ok(Some(runtime));
    }
    let found: Vec<Recovered> = runtime.recover().await?;
    for line in recovered(&found, None, &Target::Database(db.clone())) {
        aside(&format!("{line}\n"));
    }
    Ok(Some(runtime))
}

async fn stop_run(runtime: &Runtime, id: &RunId, how: &How, wait: bool) -> anyhow::Result<Cancelled> {
    let reply = runtime.cancel(id, how.clone().cancel()).await?;
    reply.recorded().await?;
    let stopped = as_recorded(runtime, id, &reply).await?;
    if wait { until_settled(runtime, stopped).await } else { Ok(stopped) }
}

/// Waits for a run that another program is stopping.
async fn until_settled(runtime: &Runtime, stopped: Cancelled) -> anyhow::Result<Cancelled> {
    let mut stopped = stopped;
    while stopped.state != RunState::Settled {
        tokio::time::sleep(LOOK).await;
        let Some(receipt) = runtime.find(&stopped.run_id).await?.and_then(|run| run.receipt()) else { break };
        if let Some(outcome) = receipt.outcome.as_deref() {
            stopped.state = RunState::Settled;
            stopped.outcome = Some(outcome.clone());
            stopped.leaked = receipt.leaked.clone();
            stopped.receipt = Some(Box::new(receipt.into()));
        }
    }
    Ok(stopped)
}

async fn as_recorded(runtime: &Runtime, id: &RunId, reply: &Reply) -> anyhow::Result<Cancelled> {
    let run = runtime.find(id).await?;
    let receipt = run.as_ref().and_then(|run| run.receipt());
    let outcome = match reply.kind() {
        ReplyKind::TooLate { outcome } => Some((**outcome).clone()),
        _ => receipt.as_ref().and_then(|receipt| receipt.outcome.as_deref().cloned()),
    };
    Ok(Cancelled {
        run_id: id.clone(),
        reply: reply.kind().as_str().to_owned(),
        state: run.map_or(RunState::Settled, |run| run.state()),
        outcome,
        call: None,
        leaked: receipt.as_ref().map(|receipt| receipt.leaked.clone()).unwrap_or_default(),
        receipt: receipt.map(|receipt| Box::new(receipt.into())),
    })
}
