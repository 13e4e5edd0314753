//! `andon cancel`.

use andon_runtime::RunId;
use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{aim, local, replies, waiting};
use crate::args::{CancelArgs, filters};
use crate::client::calls::Selector;
use crate::client::forms::{Cancelled, CancelledMany};
use crate::client::{Client, ClientError, Target};
use crate::exit::Exit;
use crate::how::How;
use crate::print::{write, write_line};
use crate::records::no_run;
use crate::show::receipt;

/// Stops a run, a call, or all runs that match. Stopping something unknown is an error: the name may be mistyped.
pub(crate) async fn cancel(args: &CancelArgs) -> anyhow::Result<Exit> {
    let target = Target::find(&args.target).await?;
    let grace_ms = args.grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
    let how = How { grace_ms, ..How::asked(args.force(), args.note.as_deref()) };
    match &args.run {
        Some(run) => {
            let cancelled = match &target {
                Target::Server(client) => one_remote(client, run, args, &how).await?,
                Target::Database(db) => {
                    waiting::while_waiting("Stopping", local::stop_one(db, run, args, &how)).await?
                }
            };
            tell_one(&cancelled, args)?;
            Ok(Exit::Completed)
        }
        None => {
            let (began, which) = (Instant::now(), selector(args));
            let stopped = match &target {
                Target::Server(client) => many_remote(client, &which, args.wait, &how).await?,
                Target::Database(db) => {
                    waiting::while_waiting("Stopping", local::stop(db, which, &how, args.wait)).await?
                }
            };
            tell_many(&stopped, args, waiting::micros(began.elapsed()), &target)?;
            let is_unknown = stopped.runs.is_empty() && !stopped.aim.known;
            Ok(if is_unknown { Exit::Failed } else { Exit::Completed })
        }
    }
}

fn selector(args: &CancelArgs) -> Selector {
    let [app, user, session] = filters(args.session.as_ref(), args.app.as_ref(), args.user.as_ref());
    Selector { tenant: args.tenant.clone(), app, user, session }
}

async fn one_remote(client: &Client, run: &str, args: &CancelArgs, how: &How) -> anyhow::Result<Cancelled> {
    let found = match client.find(run).await {
        // A server that refuses other requests because it is too busy still takes a cancel, but it needs the whole id.
        Err(error) if is_crowded(&error) => None,
        found => found?.map(|found| found.run_id),
    };
    if let Some(call) = &args.call {
        // Unlike a run, a call of an unknown run is not remembered: whoever stops one call does not mean the run.
        let id = found.ok_or_else(|| anyhow!("{}", no_run(&Target::Server(client.clone()), run)))?;
        return Ok(client.cancel_call(&id, call, how).await?);
    }
    // The server remembers the cancel of a run that does not exist yet, and stops it when it comes.
    let id = match found {
        Some(id) => id,
        None => RunId::new(run).map_err(|error| anyhow!("{run:?} is not a run id: {error}"))?,
    };
    let stopping = client.cancel(&id, how, args.wait);
    let answer = if args.wait { waiting::while_waiting("Stopping", stopping).await } else { stopping.await };
    let mut cancelled = [answer.map_err(|error| unknown(&error, client, run))?];
    if args.wait {
        let settling = waiting::until_settled(client, &mut cancelled);
        let settled = waiting::while_waiting("Stopping", settling).await;
        settled.with_context(|| format!("run {id} is being stopped, but it is not known whether it has settled"))?;
    }
    let [cancelled] = cancelled;
    Ok(cancelled)
}

fn is_crowded(error: &anyhow::Error) -> bool {
    let problem = error.downcast_ref().and_then(ClientError::problem);
    problem.is_some_and(|problem| problem.is("too-many-connections"))
}

fn unknown(error: &ClientError, client: &Client, run: &str) -> anyhow::Error {
    match error.problem() {
        Some(problem) if problem.is("no-such-run") => {
            let remembered = problem.remembered_for_ms.map_or_else(String::new, |millis| {
                let time = humantime::format_duration(std::time::Duration::from_millis(millis));
                format!("; if a run with exactly this id starts within {time}, it is stopped at once")
            });
            // Somebody else's run looks like one that does not exist, so the key may be the reason.
            let given = client.given_key().map_or_else(String::new, |given| {
                let way_out = given.way_out().map_or_else(String::new, |way_out| format!(": {way_out}"));
                format!("; the key from {} may not be allowed to reach it{way_out}", given.source)
            });
            anyhow!("{}{remembered}{given}", no_run(&Target::Server(client.clone()), run))
        }
        _ => anyhow!("{error}"),
    }
}

async fn many_remote(client: &Client, which: &Selector, wait: bool, how: &How) -> anyhow::Result<CancelledMany> {
    if !wait {
        return Ok(client.cancel_many(which, how, false).await?);
    }
    let stopping = async {
        let mut stopped = client.cancel_many(which, how, true).await?;
        waiting::until_settled(client, &mut stopped.runs).await?;
        stopped.waited();
        anyhow::Ok(stopped)
    };
    waiting::while_waiting("Stopping", stopping).await
}

fn tell_one(cancelled: &Cancelled, args: &CancelArgs) -> anyhow::Result<()> {
    if args.json {
        let receipt = cancelled.receipt.clone().filter(|_| args.wait);
        return Ok(write_line(&serde_json::to_string(&Cancelled { receipt, ..cancelled.clone() })?)?);
    }
    write(&format!("{}\n", replies::one(cancelled)))?;
    if let Some(told) = cancelled.receipt.as_deref().filter(|_| args.wait) {
        write(&receipt::later(&told.receipt, told.cost.as_ref(), None, ""))?;
    }
    Ok(())
}

fn tell_many(stopped: &CancelledMany, args: &CancelArgs, took: u64, target: &Target) -> anyhow::Result<()> {
    let CancelledMany { settled, aim, runs, .. } = stopped;
    if !args.json {
        let given = match target {
            Target::Server(client) => client.given_key(),
            Target::Database(_) => None,
        };
        write(&replies::many(runs, args.wait.then_some(took)))?;
        return Ok(write(&aim::text(aim, !runs.is_empty(), given))?);
    }
    for run in runs {
        write_line(&serde_json::to_string(&Cancelled { receipt: None, ..run.clone() })?)?;
    }
    let mut summary = json!({"cancelled": replies::stopped(runs), "settled": settled, "took_us": took});
    if let (Value::Object(summary), Value::Object(aim)) = (&mut summary, serde_json::to_value(aim)?) {
        summary.extend(aim);
    }
    Ok(write_line(&summary.to_string())?)
}
