//! `andon sessions`.

use andon_runtime::{SessionFilter, SessionInfo};
use serde_json::json;

use super::{nothing_recorded, write};
use crate::args::SessionsArgs;
use crate::client::Target;
use crate::print::{Table, columns, when, write_line};
use crate::show::session_shown;

/// Lists sessions.
pub(crate) async fn sessions(args: &SessionsArgs) -> anyhow::Result<()> {
    let target = Target::named(&args.target)?;
    let limit = args.form.limit();
    // One extra shows whether there are more.
    let one_more = limit.map(|limit| limit.saturating_add(1));
    let which = SessionFilter::new().app(args.app.clone()).user(args.user.clone()).limit(one_more);
    let (mut found, is_recorded) = match &target {
        Target::Server(client) => (client.list_sessions(which).await?, true),
        Target::Database(db) => match db.open_to_read().await? {
            Some(runtime) => (runtime.list_sessions(which).await?, true),
            None => (Vec::new(), false),
        },
    };
    let has_more = limit.is_some_and(|limit| found.len() > limit);
    found.truncate(limit.unwrap_or(usize::MAX));
    if args.form.json {
        for session in &found {
            write_line(&as_json(session).to_string())?;
        }
    } else if !is_recorded || (found.is_empty() && args.app.is_none() && args.user.is_none()) {
        write(&format!("{}\n", nothing_recorded(&target)))?;
    } else if found.is_empty() {
        write(&format!("There is no such session. To list all of them: {}\n", target.command("sessions")))?;
    } else {
        write(&table(&found))?;
        if has_more {
            write("There are more. To see them, use --limit N.\n")?;
        }
    }
    Ok(())
}

/// Sessions as a table.
pub(crate) fn table(sessions: &[SessionInfo]) -> String {
    let width = columns();
    let time = |wall| if width.is_some() { when::ago(wall) } else { when::utc(wall) };
    let mut table =
        Table::new(&["SESSION", if width.is_some() { "USED" } else { "USED (UTC)" }, "RUNS", "FIRST PROMPT"]);
    for session in sessions {
        table.row(vec![
            session_shown(&session.key).into(),
            time(session.updated_at).into(),
            session.runs.to_string().into(),
            session.title.clone().unwrap_or_default().into(),
        ]);
    }
    table.fit(width)
}

fn as_json(session: &SessionInfo) -> serde_json::Value {
    json!({
        "tenant": session.key.tenant,
        "app": session.key.app,
        "user": session.key.user,
        "session": session.key.session,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "runs": session.runs,
        "title": session.title,
    })
}
