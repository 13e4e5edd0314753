//! `andon line`.

use std::io;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{aim, replies, server, waiting};
use crate::args::{HoldArgs, LineArgs, LineCommand, LineScope, LineStatus};
use crate::client::Client;
use crate::client::forms::{Hold, LineView};
use crate::print::{Style, plain_line, when, write, write_line};

/// Holds the line, opens it, or shows what is held.
pub(crate) async fn line(args: &LineArgs) -> anyhow::Result<()> {
    match &args.command {
        LineCommand::Hold(args) => hold(args).await,
        LineCommand::Open(scope) => {
            let client = server(&scope.status.target).await?;
            let line = client.change_line(&body("open", scope)).await?;
            tell(&line, &scope.status, &client)?;
            Ok(tell_still_held(&line, scope, &client)?)
        }
        LineCommand::Status(status) => {
            let client = server(&status.target).await?;
            Ok(tell(&client.line().await?, status, &client)?)
        }
    }
}

async fn hold(args: &HoldArgs) -> anyhow::Result<()> {
    let scope = &args.scope;
    let client = server(&scope.status.target).await?;
    let mut body = body("held", scope);
    if let Some(reason) = &args.reason {
        body.insert("reason".to_owned(), json!(reason));
    }
    if args.cancel {
        body.insert("cancel".to_owned(), json!(true));
        body.insert("force".to_owned(), json!(if args.now { "now" } else { "graceful" }));
        body.insert("wait".to_owned(), json!(args.wait));
    }
    let began = Instant::now();
    let holding = async {
        let mut line = client.change_line(&body).await?;
        if let Some(stopped) = line.stopped.as_mut().filter(|_| args.wait) {
            waiting::until_settled(&client, &mut stopped.runs).await?;
            stopped.waited();
        }
        anyhow::Ok(line)
    };
    let line = if args.wait { waiting::while_waiting("Stopping", holding).await? } else { holding.await? };
    let took = args.wait.then(|| waiting::micros(began.elapsed()));
    let given = client.given_key();
    if let Some(stopped) = line.stopped.as_ref().filter(|_| !scope.status.json) {
        write(&replies::many(&stopped.runs, took))?;
        write(&aim::text(&stopped.aim, !stopped.runs.is_empty(), given))?;
    }
    tell(&line, &scope.status, &client)?;
    if let Some(aim) = line.aim.as_ref().filter(|_| !scope.status.json) {
        write(&aim::of_hold(aim, given))?;
    }
    Ok(())
}

fn body(state: &str, scope: &LineScope) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("state".to_owned(), json!(state));
    for (name, value) in [("tenant", &scope.tenant), ("app", &scope.app), ("user", &scope.user)] {
        if let Some(value) = value {
            body.insert(name.to_owned(), json!(value));
        }
    }
    body
}

fn tell(line: &LineView, status: &LineStatus, client: &Client) -> io::Result<()> {
    if status.json {
        return write_line(&serde_json::to_string(line)?);
    }
    let good = Style::GOOD;
    let mut text = String::new();
    if line.holds.is_empty() {
        text.push_str(&format!("{good}●{good:#} The line is open: {} takes new runs.\n", client.shown()));
    }
    for hold in &line.holds {
        text.push_str(&format!("{}\n", words(hold)));
    }
    if !line.holds.is_empty() && line.state == "open" {
        text.push_str(&format!("{good}●{good:#} The line is open for everything else.\n"));
    }
    write(&text)
}

/// Warns if a hold on everything still blocks what was opened.
fn tell_still_held(line: &LineView, scope: &LineScope, client: &Client) -> io::Result<()> {
    let what = match (&scope.app, &scope.user) {
        (Some(app), _) => format!("the app {app}"),
        (None, Some(user)) => format!("the user {user}"),
        (None, None) => return Ok(()),
    };
    if line.state == "held" && !scope.status.json {
        let open = client.command("line open");
        write(&format!("No new run starts for {what} yet: the whole line is still held. Open it with `{open}`.\n"))?;
    }
    Ok(())
}

fn words(hold: &Hold) -> String {
    let stop = Style::STOP;
    let why = hold.reason.as_ref().map_or_else(String::new, |reason| format!(": {}", plain_line(reason)));
    let (on, by, since) = (plain_line(&hold.words()), plain_line(&hold.by), when::ago(hold.since));
    format!("{stop}■{stop:#} The line is held {on} (by {by}, {since}){why}")
}
