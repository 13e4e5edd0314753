//! `andon runs`.

use andon_runtime::{Ending, RunFilter, RunInfo, RunState};
use serde_json::json;

use super::{nothing_recorded, write};
use crate::args::{RunsArgs, filters};
use crate::client::Target;
use crate::print::{Cell, Style, Table, columns, when, write_line};
use crate::show::{session_shown, time};

/// How much of an id a table shows at least: of our own ids, the time to the millisecond.
const SHORT_ID: usize = 13;
/// From this width on, there is room for how long each run took.
const ROOMY: usize = 100;

/// Lists runs.
pub(crate) async fn runs(args: &RunsArgs) -> anyhow::Result<()> {
    let db = Target::named(&args.target)?;
    let Some((mut found, is_left)) = list(&db, filter(args)).await? else {
        if !args.form.json {
            write(&format!("{}\n", nothing_recorded(&db)))?;
        }
        return Ok(());
    };
    let limit = args.form.limit();
    let has_more = limit.is_some_and(|limit| found.len() > limit);
    found.truncate(limit.unwrap_or(usize::MAX));
    if args.form.json {
        for run in &found {
            write_line(&as_json(run, is_left(run)).to_string())?;
        }
    } else if found.is_empty() {
        write(&empty(args, &db))?;
    } else {
        write(&table(&found, &is_left))?;
        if has_more {
            write("There are more. To see them, use --limit N.\n")?;
        }
        write(&hints(&found, &is_left, &db))?;
    }
    Ok(())
}

fn filter(args: &RunsArgs) -> RunFilter {
    let [app, user, session] = filters(args.session.as_ref(), args.app.as_ref(), args.user.as_ref());
    let settled = if args.open { Some(false) } else { args.settled.then_some(true) };
    // One extra shows whether there are more.
    let limit = args.form.limit().map(|limit| limit.saturating_add(1));
    RunFilter::new().app(app).user(user).session(session).settled(settled).limit(limit)
}

/// The runs, and which of them a dead program left in progress; `None` if nothing was ever recorded.
async fn list(
    target: &Target,
    which: RunFilter,
) -> anyhow::Result<Option<(Vec<RunInfo>, impl Fn(&RunInfo) -> bool + use<>)>> {
    // Checked before and after: a program that started or ended in between is not a dead one.
    let was_held = target.is_held();
    let found = match target {
        Target::Server(client) => client.list_runs(which).await?,
        Target::Database(db) => match db.open_to_read().await? {
            Some(runtime) => runtime.list_runs(which).await?,
            None => return Ok(None),
        },
    };
    let is_held = was_held || target.is_held();
    Ok(Some((found, move |run: &RunInfo| !is_held && is_in_progress(run.state))))
}

/// Whether a run in this state is lost if its program dies. One that is only waiting can go on.
pub(super) fn is_in_progress(state: RunState) -> bool {
    match state {
        RunState::Running | RunState::Cancelling => true,
        RunState::Queued | RunState::Waiting | RunState::Settled => false,
        #[cfg(not(andon_whole))]
        _ => false,
    }
}

fn empty(args: &RunsArgs, db: &Target) -> String {
    let is_filtered = args.session.is_some() || args.app.is_some() || args.user.is_some();
    match (is_filtered, args.open) {
        (false, false) if !args.settled => format!("{}\n", nothing_recorded(db)),
        (false, true) => "No run is open.\n".to_owned(),
        _ => format!("There is no such run. To list all of them: {}\n", db.command("runs")),
    }
}

fn table(runs: &[RunInfo], is_left: &impl Fn(&RunInfo) -> bool) -> String {
    let width = columns();
    let is_roomy = width.is_none_or(|width| width >= ROOMY);
    let mut heads = vec!["RUN", "STATE", if width.is_some() { "STARTED" } else { "STARTED (UTC)" }];
    heads.extend(is_roomy.then_some("TOOK"));
    heads.extend(["SESSION", "PROMPT"]);
    let mut table = Table::new(&heads);
    let length = if width.is_some() { id_length(runs) } else { usize::MAX };
    for run in runs {
        let began = if width.is_some() { when::ago(run.accepted_at) } else { when::utc(run.accepted_at) };
        let mut row: Vec<Cell> = vec![
            run.run.as_str().chars().take(length).collect::<String>().into(),
            state(run, is_left(run)),
            began.into(),
        ];
        let end = run.settled_at.or(run.ended_at);
        let took = || end.map_or(String::new(), |end| time(end.0.saturating_sub(run.accepted_at.0)));
        row.extend(is_roomy.then(|| took().into()));
        row.extend([session_shown(&run.session).into(), run.title.clone().into()]);
        table.row(row);
    }
    table.fit(width)
}

/// How many characters of each id tell these runs apart.
fn id_length(runs: &[RunInfo]) -> usize {
    let differ = |length: &usize| {
        let mut short: Vec<String> = runs.iter().map(|run| run.run.as_str().chars().take(*length).collect()).collect();
        short.sort_unstable();
        short.windows(2).all(|pair| pair.first() != pair.last())
    };
    (SHORT_ID..andon_runtime::core::id::MAX_ID_BYTES).find(differ).unwrap_or(usize::MAX)
}

fn state(run: &RunInfo, is_left: bool) -> Cell {
    if is_left {
        return Cell::styled("left open", Style::BAD);
    }
    match &run.ending {
        None => Cell::styled(run.state.as_str(), Style::TOOL),
        Some(ending) => {
            let style = match ending {
                Ending::Completed { .. } => Style::GOOD,
                Ending::Cancelled { .. } => Style::STOP,
                Ending::Failed(_) | Ending::Lost => Style::BAD,
                #[cfg(not(andon_whole))]
                _ => Style::BAD,
            };
            Cell::styled(ending.as_str(), style)
        }
    }
}

fn hints(runs: &[RunInfo], is_left: &impl Fn(&RunInfo) -> bool, db: &Target) -> String {
    let mut text = String::new();
    if runs.iter().any(is_left) {
        let next = db.command("chat --continue");
        text.push_str(&format!("\nThe next start settles the runs that were left open, for example `{next}`.\n"));
    }
    if runs.iter().any(|run| run.state == RunState::Waiting) && !db.is_held() {
        let talk = db.command("chat --session SESSION");
        text.push_str(&format!("\nA waiting run needs your approval. To decide: {talk}\n"));
    }
    text
}

fn as_json(run: &RunInfo, is_left: bool) -> serde_json::Value {
    json!({
        "run_id": run.run,
        "tenant": run.session.tenant,
        "app": run.session.app,
        "user": run.session.user,
        "session": run.session.session,
        "state": run.state,
        "left_open": is_left,
        "outcome": run.ending,
        "accepted_at": run.accepted_at,
        "ended_at": run.ended_at,
        "settled_at": run.settled_at,
        "title": run.title,
    })
}
