//! `andon receipt`.

use andon::{Run, RunFilter, RunId, Runtime};
use anyhow::{Context, bail};

use super::runs::{is_in_progress, word};
use super::write;
use crate::Exit;
use crate::args::ReceiptArgs;
use crate::db::Db;
use crate::show::{Style, receipt as show, write_line};

/// How many runs are named when more than one is meant.
const NAMED: usize = 5;

/// Tells all about one run.
pub(crate) async fn receipt(args: &ReceiptArgs) -> anyhow::Result<Exit> {
    let db = Db::named(&args.db)?;
    let unknown = || format!("there is no run {} in {}: `{}` lists them", args.run, db.shown(), db.command("runs"));
    let runtime = db.open_to_read()?.with_context(unknown)?;
    let run = find(&runtime, &args.run).await?.with_context(unknown)?;
    let receipt = run.receipt().with_context(|| format!("nothing is known of run {} yet", run.id()))?;
    if args.json {
        write_line(&serde_json::to_string(&receipt)?)?;
        return Ok(Exit::Completed);
    }
    let outcome = run.try_outcome();
    let answer = outcome.as_ref().and_then(|outcome| outcome.message.as_deref());
    write(&show::later(&receipt, answer, &open_words(&run, &db)))?;
    Ok(Exit::Completed)
}

/// The run of this id, or the one whose id begins so.
async fn find(runtime: &Runtime, text: &str) -> anyhow::Result<Option<Run>> {
    let Ok(id) = RunId::new(text) else { return Ok(None) };
    if let Some(run) = runtime.find(&id).await? {
        return Ok(Some(run));
    }
    let all = runtime.list_runs(RunFilter::default()).await?;
    let meant: Vec<&RunId> = all.iter().map(|run| &run.run).filter(|run| run.as_str().starts_with(text)).collect();
    match *meant {
        [] => Ok(None),
        [one] => Ok(runtime.find(one).await?),
        _ => {
            let named: Vec<&str> = meant.iter().take(NAMED).map(|run| run.as_str()).collect();
            let more =
                if meant.len() > NAMED { format!("\n  and {} more", meant.len() - NAMED) } else { String::new() };
            bail!("{} runs begin with {text}:\n  {}{more}", meant.len(), named.join("\n  "))
        }
    }
}

/// What is said of a run that has not settled.
fn open_words(run: &Run, db: &Db) -> String {
    let (bold, bad) = (Style::BOLD, Style::BAD);
    let state = run.state();
    if is_in_progress(state) && !db.is_held() {
        let next = db.command("chat --continue");
        return format!("{bad}Left open:{bad:#} its program ended; the next start settles it, such as `{next}`");
    }
    format!("{bold}Not settled:{bold:#} {}", word(state))
}
