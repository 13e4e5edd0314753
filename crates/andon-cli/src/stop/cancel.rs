//! `andon cancel`.
//!
//! Where no server is, nothing runs: what a dead program left open is settled, and what waits is cancelled.

use andon::core::id::LOCAL;
use andon::{Recovered, ReplyKind, RunFilter, RunId, Runtime, SessionKey, State};
use anyhow::{anyhow, bail};
use serde_json::json;
use tokio::time::Instant;

use super::{told, waiting};
use crate::Exit;
use crate::args::{CancelArgs, SessionName};
use crate::client::calls::Selector;
use crate::client::forms::Cancelled;
use crate::client::{Client, ClientError, Place};
use crate::db::{Db, For};
use crate::how::How;
use crate::records::{find, no_run};
use crate::show::{aside, receipt, recovered, write, write_line};

/// Stops a run, a call, or all that is meant.
pub(crate) async fn cancel(args: &CancelArgs) -> anyhow::Result<Exit> {
    let place = Place::find(&args.place).await?;
    let how = How { grace: args.grace, ..How::asked(args.force(), args.note.clone()) };
    match &args.run {
        Some(run) => {
            let cancelled = match &place {
                Place::There(client) => one_there(client, run, args, &how).await?,
                Place::Here(db) => one_here(db, run, args, &how).await?,
            };
            tell_one(&cancelled, args)?;
        }
        None => {
            let (began, which) = (Instant::now(), selector(args));
            let runs = match &place {
                Place::There(client) => many_there(client, &which, args.wait, &how).await?,
                Place::Here(db) => many_here(db, which, &how).await?,
            };
            tell_many(&runs, args, waiting::micros(began.elapsed()))?;
        }
    }
    Ok(Exit::Completed)
}

fn selector(args: &CancelArgs) -> Selector {
    let (tenant, app, user) = (args.tenant.clone(), args.app.clone(), args.user.clone());
    match &args.session {
        None => Selector { tenant, app, user, session: None },
        Some(SessionName::Alone(session)) => Selector { tenant, app, user, session: Some(session.to_string()) },
        Some(SessionName::Whole(key)) => Selector {
            tenant,
            app: Some(key.app.to_string()),
            user: Some(key.user.to_string()),
            session: Some(key.session.to_string()),
        },
    }
}

async fn one_there(client: &Client, run: &str, args: &CancelArgs, how: &How) -> anyhow::Result<Cancelled> {
    let found = client.find(run).await?.map(|found| found.run_id);
    if let Some(call) = &args.call {
        // Of a run that is not there nothing is stopped: who means one call does not mean the run.
        let id = found.ok_or_else(|| anyhow!("{}", no_run(&Place::There(client.clone()), run)))?;
        return Ok(client.cancel_call(&id, call, how).await?);
    }
    // One that is not there yet is stopped when it comes: the server remembers.
    let id = match found {
        Some(id) => id,
        None => RunId::new(run).map_err(|error| anyhow!("{run:?} is no run: {error}"))?,
    };
    let stopping = client.cancel(&id, how, args.wait);
    let answer = if args.wait { waiting::while_waiting("Stopping", stopping).await } else { stopping.await };
    let mut cancelled = [answer.map_err(|error| unknown(&error, client, run))?];
    if args.wait {
        waiting::while_waiting("Stopping", waiting::until_settled(client, &mut cancelled)).await?;
    }
    let [cancelled] = cancelled;
    Ok(cancelled)
}

fn unknown(error: &ClientError, client: &Client, run: &str) -> anyhow::Error {
    match error.problem() {
        Some(problem) if problem.is("no-such-run") => {
            let remembered = problem.remembered_for_ms.map_or_else(String::new, |millis| {
                let time = humantime::format_duration(std::time::Duration::from_millis(millis));
                format!("; one of exactly this id that comes within {time} is stopped at once")
            });
            anyhow!("{}{remembered}", no_run(&Place::There(client.clone()), run))
        }
        _ => anyhow!("{error}"),
    }
}

async fn many_there(client: &Client, which: &Selector, wait: bool, how: &How) -> anyhow::Result<Vec<Cancelled>> {
    if !wait {
        return Ok(client.cancel_many(which, how, false).await?.runs);
    }
    let stopping = async {
        let mut stopped = client.cancel_many(which, how, true).await?;
        waiting::until_settled(client, &mut stopped.runs).await?;
        anyhow::Ok(stopped.runs)
    };
    waiting::while_waiting("Stopping", stopping).await
}

async fn one_here(db: &Db, run: &str, args: &CancelArgs, how: &How) -> anyhow::Result<Cancelled> {
    let unknown = || anyhow!("{}", no_run(&Place::Here(db.clone()), run));
    let runtime = open(db).await?.ok_or_else(unknown)?;
    if args.call.is_some() {
        bail!("no server is here, so no call runs: `{}` stops the whole run", db.command(&format!("cancel {run}")));
    }
    let found = find(&runtime, run).await?.ok_or_else(unknown)?;
    stop_here(&runtime, found.id(), how).await
}

async fn many_here(db: &Db, which: Selector, how: &How) -> anyhow::Result<Vec<Cancelled>> {
    let Some(runtime) = open(db).await? else { return Ok(Vec::new()) };
    let Selector { tenant, app, user, session } = which;
    // As a server takes it: what is named is of the own tenant, and all are all.
    let names_something = app.is_some() || user.is_some() || session.is_some();
    let tenant = tenant.or_else(|| names_something.then(|| LOCAL.to_owned()));
    let open = RunFilter { tenant, app, user, session, settled: Some(false), ..RunFilter::default() };
    let mut stopped = Vec::new();
    for run in runtime.list_runs(open).await? {
        stopped.push(stop_here(&runtime, &run.run, how).await?);
    }
    Ok(stopped)
}

/// Opens a database that nobody holds, and settles what a dead program left open in it; nothing if there is none.
async fn open(db: &Db) -> anyhow::Result<Option<Runtime>> {
    if db.is_kept() && db.open_to_read()?.is_none() {
        return Ok(None);
    }
    let runtime = db.open("andon cancel", For::Changing)?;
    let found: Vec<Recovered> = runtime.recover().await?;
    let nowhere = SessionKey::new("andon", "andon", "cancel")?;
    for line in recovered(&found, &nowhere, &Place::Here(db.clone())) {
        aside(&format!("{line}\n"));
    }
    Ok(Some(runtime))
}

async fn stop_here(runtime: &Runtime, id: &RunId, how: &How) -> anyhow::Result<Cancelled> {
    let reply = runtime.cancel(id, how.cancel()).await?;
    reply.recorded().await?;
    let run = runtime.find(id).await?;
    let receipt = run.as_ref().and_then(|run| run.receipt());
    let outcome = match reply.kind() {
        ReplyKind::TooLate { outcome } => Some((**outcome).clone()),
        _ => receipt.as_ref().and_then(|receipt| receipt.outcome.as_deref().cloned()),
    };
    Ok(Cancelled {
        run_id: id.clone(),
        reply: reply.kind().as_str().to_owned(),
        state: run.map_or(State::Settled, |run| run.state()),
        outcome,
        call: None,
        leaked: receipt.as_ref().map(|receipt| receipt.leaked.clone()).unwrap_or_default(),
        receipt: receipt.map(|receipt| Box::new(receipt.into())),
    })
}

fn tell_one(cancelled: &Cancelled, args: &CancelArgs) -> anyhow::Result<()> {
    if args.json {
        let receipt = cancelled.receipt.clone().filter(|_| args.wait);
        return Ok(write_line(&serde_json::to_string(&Cancelled { receipt, ..cancelled.clone() })?)?);
    }
    write(&format!("{}\n", told::one(cancelled)))?;
    if let Some(told) = cancelled.receipt.as_deref().filter(|_| args.wait) {
        write(&receipt::later(&told.receipt, told.cost.as_ref(), None, ""))?;
    }
    Ok(())
}

fn tell_many(runs: &[Cancelled], args: &CancelArgs, took: u64) -> anyhow::Result<()> {
    if !args.json {
        return Ok(write(&told::many(runs, args.wait.then_some(took)))?);
    }
    for run in runs {
        write_line(&serde_json::to_string(&Cancelled { receipt: None, ..run.clone() })?)?;
    }
    let settled = runs.iter().all(|run| run.state == State::Settled);
    write_line(&json!({"cancelled": told::stopped(runs), "settled": settled, "took_us": took}).to_string())?;
    Ok(())
}
