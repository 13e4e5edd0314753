//! `andon receipt`.

use std::sync::Arc;

use andon_runtime::{Message, Run, RunFilter, RunId, RunState, Runtime};
use andon_server::{Prices, priced};
use anyhow::Context;

use super::runs::is_in_progress;
use super::{where_it_is, write};
use crate::args::ReceiptArgs;
use crate::client::calls::the_one;
use crate::client::forms::ServerReceipt;
use crate::client::{Client, RemoteRun, Target};
use crate::db::Db;
use crate::print::{Style, write_line};
use crate::show::receipt as show;

/// Shows the receipt of a run.
pub(crate) async fn receipt(args: &ReceiptArgs) -> anyhow::Result<()> {
    let target = Target::named(&args.target)?;
    let FoundReceipt { told, answer, state } = match &target {
        Target::Server(client) => find_remote(client, args).await?,
        Target::Database(db) => find_local(db, &args.run).await?,
    }
    .with_context(|| no_run(&target, &args.run))?;
    if args.json {
        return Ok(write_line(&serde_json::to_string(&told)?)?);
    }
    Ok(write(&show::later(&told.receipt, told.cost.as_ref(), answer.as_deref(), &open_words(state, &target)))?)
}

/// The error for a run that does not exist.
pub(crate) fn no_run(target: &Target, run: &str) -> String {
    format!("there is no run {run} {}: list them with `{}`", where_it_is(target), target.command("runs"))
}

struct FoundReceipt {
    told: ServerReceipt,
    /// The last answer, if it is known.
    answer: Option<Arc<Message>>,
    state: RunState,
}

async fn find_local(db: &Db, text: &str) -> anyhow::Result<Option<FoundReceipt>> {
    let Some(runtime) = db.open_to_read().await? else { return Ok(None) };
    let Some(run) = find(&runtime, text).await? else { return Ok(None) };
    let receipt = run.receipt().with_context(|| format!("nothing is known about run {} yet", run.id()))?;
    // The server of this database left its prices there, so both show the same cost.
    let prices = Prices::kept(runtime.shelf()).await?;
    let told = ServerReceipt::try_from(serde_json::to_value(priced(prices.as_ref(), receipt))?)?;
    let answer = run.try_outcome().and_then(|outcome| outcome.message.clone());
    Ok(Some(FoundReceipt { told, answer, state: run.state() }))
}

async fn find_remote(client: &Client, args: &ReceiptArgs) -> anyhow::Result<Option<FoundReceipt>> {
    let Some(run) = client.find(&args.run).await? else { return Ok(None) };
    let told = client.receipt(&run.run_id).await?;
    let is_cut = told.receipt.outcome.as_ref().is_some_and(|ending| ending.is_cancelled());
    let answer = match is_cut && !args.json {
        // Only the feed says how much of the answer was kept.
        true => RemoteRun::new(client, run.run_id).whole_outcome().await?.message.clone(),
        false => None,
    };
    Ok(Some(FoundReceipt { told, answer, state: run.state }))
}

/// The run with this id, or the one whose id begins like this.
pub(crate) async fn find(runtime: &Runtime, text: &str) -> anyhow::Result<Option<Run>> {
    let Ok(id) = RunId::new(text) else { return Ok(None) };
    if let Some(run) = runtime.find(&id).await? {
        return Ok(Some(run));
    }
    match the_one(text, runtime.list_runs(RunFilter::default()).await?)? {
        Some(run) => Ok(runtime.find(&run).await?),
        None => Ok(None),
    }
}

/// The text for a run that has not settled.
fn open_words(state: RunState, target: &Target) -> String {
    let (bold, bad) = (Style::BOLD, Style::BAD);
    if is_in_progress(state) && !target.is_held() {
        let next = target.command("chat --continue");
        return format!("{bad}Left open:{bad:#} its program ended; the next start settles it, for example `{next}`");
    }
    format!("{bold}Not settled:{bold:#} {}", state.as_str())
}
