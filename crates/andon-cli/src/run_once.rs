//! `andon run`: one prompt, then leave.

use std::io::{IsTerminal, Read};

use andon::{Ending, Outcome};
use anyhow::Context;

use crate::Exit;
use crate::agent::practice_agent;
use crate::args::RunArgs;
use crate::follow::{Approver, Listener, follow};
use crate::input::Input;
use crate::interrupt::Interrupts;
use crate::show::{JsonLines, Screen, Streams};

/// Runs one prompt.
pub(crate) async fn run_once(args: &RunArgs) -> anyhow::Result<Exit> {
    // Read before signals are heard: there is no run yet, and Ctrl-C simply ends the program.
    let prompt = prompt(args)?;
    let mut interrupts = Interrupts::listen()?;
    let agent = practice_agent(&args.options)?;
    let mut input = if std::io::stdin().is_terminal() { Some(Input::open()?) } else { None };
    let mut approver = match &mut input {
        _ if args.yes => Approver::Yes,
        Some(input) => Approver::Person(input),
        None => Approver::Nobody,
    };
    let mut output = if args.json { Output::Json(JsonLines) } else { Output::Text(Screen::new(Streams::Apart)) };
    let run = agent.start(prompt)?;
    let _aimed = interrupts.aim_at_first(run.cord());
    let (outcome, shown) = follow(&run, output.listener(), &mut approver).await;
    // Where the output was closed there is nobody to tell; the exit code says how the run ended.
    let _ = shown.and_then(|()| output.account(&outcome));
    Ok(exit(&outcome))
}

enum Output {
    Text(Screen),
    Json(JsonLines),
}

impl Output {
    fn listener(&mut self) -> &mut dyn Listener {
        match self {
            Self::Text(screen) => screen,
            Self::Json(lines) => lines,
        }
    }

    fn account(&mut self, outcome: &Outcome) -> std::io::Result<()> {
        match self {
            Self::Text(screen) => screen.account(outcome),
            Self::Json(lines) => lines.receipt(&outcome.receipt),
        }
    }
}

fn prompt(args: &RunArgs) -> anyhow::Result<String> {
    let words = args.prompt.join(" ");
    if words != "-" {
        return Ok(words);
    }
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt).context("the prompt cannot be read from standard input")?;
    Ok(prompt)
}

fn exit(outcome: &Outcome) -> Exit {
    match &*outcome.ending {
        Ending::Completed { .. } => Exit::Completed,
        Ending::Cancelled { .. } => Exit::Cancelled,
        Ending::Failed(_) | Ending::Lost => Exit::Failed,
    }
}
