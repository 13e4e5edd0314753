//! `andon approve`.
//!
//! # Invariants
//!
//! 1. An approval is for exactly the arguments that were shown: their digest goes with it.

use std::io::{BufRead, IsTerminal, stdin};

use andon_runtime::RunState;
use anyhow::{Context, bail};
use serde_json::json;

use super::server;
use crate::args::ApproveArgs;
use crate::client::forms::{PendingCall, RunView};
use crate::client::{Client, Target};
use crate::print::out::write_beside;
use crate::print::{Style, aside, plain_line, write, write_line};
use crate::records::no_run;
use crate::show::session_shown;

/// Approves or denies a call.
pub(crate) async fn approve(args: &ApproveArgs) -> anyhow::Result<()> {
    let client = server(&args.target).await?;
    let run = client.find(&args.run).await?;
    let run = run.with_context(|| no_run(&Target::Server(client.clone()), &args.run))?;
    let call = choose(&client, &run, args.call.as_deref())?;
    show(&run, call, !args.yes && !args.deny)?;
    let is_yes = match (args.yes, args.deny) {
        // A denial wins.
        (_, true) => false,
        (true, _) => true,
        _ => ask(call)?,
    };
    match is_yes {
        true => client.approve(&run.run_id, &call.call, call.digest).await?,
        false => client.deny(&run.run_id, &call.call, args.why.as_deref()).await?,
    }
    let (decision, word) = if is_yes { ("approve", "approved") } else { ("deny", "denied") };
    Ok(match args.json {
        true => write_line(&json!({"run_id": run.run_id, "call": call.call, "decision": decision}).to_string()),
        false => write(&format!("Call {} of run {} was {word}.\n", plain_line(call.call.as_str()), run.run_id)),
    }?)
}

/// The call to decide on.
fn choose<'a>(client: &Client, run: &'a RunView, named: Option<&str>) -> anyhow::Result<&'a PendingCall> {
    let (id, waiting) = (&run.run_id, &run.approvals);
    let listed: Vec<&str> = waiting.iter().map(|call| call.call.as_str()).collect();
    match (named, waiting.as_slice()) {
        (_, []) if run.state == RunState::Settled => bail!("run {id} has ended: none of its calls needs approval"),
        (_, []) => {
            bail!("no call of run {id} needs approval: watch it with `{}`", client.command(&format!("watch {id}")))
        }
        (None, [only]) => Ok(only),
        (None, _) => bail!("{} calls of run {id} need approval: name one of {}", waiting.len(), listed.join(", ")),
        (Some(named), _) => waiting.iter().find(|call| call.call.as_str() == named).with_context(|| {
            format!("run {id} has no call {named} that needs approval; these do: {}", listed.join(", "))
        }),
    }
}

/// Shows the call, so that whoever decides has seen it (invariant 1).
fn show(run: &RunView, call: &PendingCall, is_asked: bool) -> std::io::Result<()> {
    let (tool, dim) = (Style::TOOL, Style::DIM);
    let session = format!(", session {}", plain_line(&session_shown(&run.key)));
    let title = format!("{dim}run {}{session}: “{}”{dim:#}", run.run_id, plain_line(&run.title));
    let call = format!("{tool}→ {}{tool:#} {}", plain_line(&call.tool), plain_line(&call.arguments));
    // If a person is asked, a failure to show it is an error.
    let text = format!("{title}\n{call}\n");
    match is_asked {
        true => write_beside(&text),
        false => {
            aside(&text);
            Ok(())
        }
    }
}

fn ask(call: &PendingCall) -> anyhow::Result<bool> {
    if !stdin().is_terminal() {
        bail!("standard input is not a terminal, so nobody can be asked: use --yes or --deny");
    }
    let stop = Style::STOP;
    loop {
        write_beside(&format!("{stop}?{stop:#} May {} run? [y/n] ", plain_line(&call.tool)))?;
        let mut answer = String::new();
        if stdin().lock().read_line(&mut answer)? == 0 {
            bail!("nothing was decided: the call still needs approval");
        }
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => {}
        }
    }
}
