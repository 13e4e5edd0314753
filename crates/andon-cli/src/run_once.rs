//! `andon run`: one prompt, then leave.

use std::io::{IsTerminal, Read};

use std::sync::Arc;
use std::time::Duration;

use andon::{Agent, Ending, Outcome, Run, State};
use anyhow::{Context, bail};
use tokio::time::timeout;

use crate::Exit;
use crate::args::{self, RunArgs};
use crate::db::{Db, quoted};
use crate::follow::{Approver, Listener, follow};
use crate::input::Input;
use crate::interrupt::Interrupts;
use crate::show::{JsonLines, Questions, Screen, Streams, Style, receipt, recovered};
use crate::start::{Start, start, stop_the_rest};

/// How long the program waits for a better figure of what was used.
pub(crate) const LAST_WORD: Duration = Duration::from_secs(10);

/// Runs one prompt.
pub(crate) async fn run_once(args: &RunArgs) -> anyhow::Result<Exit> {
    // Read before signals are heard: there is no run yet, and Ctrl-C simply ends the program.
    let prompt = prompt(args)?;
    if prompt.trim().is_empty() {
        args::refuse("run", "the prompt is empty: say what to ask");
    }
    let Start { agent, db, recovered: found, .. } = start("andon run", &args.options, &args.talk, &args.db).await?;
    for line in recovered(&found, agent.session_key(), &db) {
        anstream::eprintln!("{line}");
    }
    let mut interrupts = Interrupts::listen()?;
    let mut input = if std::io::stdin().is_terminal() { Some(Input::open()?) } else { None };
    let mut approver = match &mut input {
        _ if args.yes => Approver::Yes,
        Some(input) => Approver::Person(input),
        None => Approver::Nobody,
    };
    let mut output = if args.json { Output::Json(JsonLines) } else { Output::Text(Screen::new(Streams::Apart)) };
    follow_earlier(&agent, &db, &interrupts, &mut approver).await?;
    let run = agent.start(prompt)?;
    let aimed = interrupts.aim_at_first(run.cord());
    let (outcome, shown) = follow(&run, output.listener(), &mut approver).await;
    drop(aimed);
    let outcome = with_last_word(&run, outcome, &mut interrupts).await;
    // Where the output was closed there is nobody to tell; the exit code says how the run ended.
    let _ = shown.and_then(|()| output.account(&outcome, &agent, &db));
    stop_the_rest(agent.runtime()).await?;
    Ok(exit(&outcome))
}

/// Waits a little for what is still being learnt of what was used: the program's end would be its end. Any signal ends the
/// wait, and the account is given as it is.
async fn with_last_word(run: &Run, outcome: Arc<Outcome>, interrupts: &mut Interrupts) -> Arc<Outcome> {
    if let Some(awaited) = outcome.receipt.model_calls.iter().find_map(|call| call.pending) {
        let dim = Style::DIM;
        anstream::eprintln!("{dim}{}; Ctrl-C does not wait for it{dim:#}", receipt::pending_words(awaited));
    }
    let learnt = tokio::select! {
        biased;
        _ = interrupts.while_idle() => None,
        learnt = timeout(LAST_WORD, run.last_word()) => learnt.ok().flatten(),
    };
    match learnt {
        Some(receipt) => Arc::new(Outcome { usage: receipt.usage, receipt, ..(*outcome).clone() }),
        None => outcome,
    }
}

/// Follows what a dead program left waiting in this session: it comes first, and beside the output of this run.
async fn follow_earlier(
    agent: &Agent,
    db: &Db,
    interrupts: &Interrupts,
    approver: &mut Approver<'_>,
) -> anyhow::Result<()> {
    while let Some(earlier) = agent.current() {
        if matches!((&approver, earlier.state()), (Approver::Nobody, State::Waiting)) {
            let session = &agent.session_key().session;
            let talk = db.command(&format!("chat --session {}", quoted(session.as_str())));
            bail!("a run in session {session} waits for a person's yes: answer it in `{talk}`, or say --yes");
        }
        let _aimed = interrupts.aim_at(earlier.cord());
        let (outcome, shown) = follow(&earlier, &mut Questions, approver).await;
        shown?;
        anstream::eprint!("{}", receipt::short(&outcome));
    }
    Ok(())
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

    fn account(&mut self, outcome: &Outcome, agent: &Agent, db: &Db) -> std::io::Result<()> {
        match self {
            Self::Text(screen) => {
                screen.account(outcome)?;
                let (dim, session) = (Style::DIM, &agent.session_key().session);
                if db.is_kept() { screen.note(&format!("{dim}session {session}{dim:#}")) } else { Ok(()) }
            }
            Self::Json(lines) => lines.receipt(&outcome.receipt),
        }
    }
}

fn prompt(args: &RunArgs) -> anyhow::Result<String> {
    let words = args.prompt.join(" ");
    match words.as_str() {
        "-" => {}
        "" if args.prompt.is_empty() && !std::io::stdin().is_terminal() => {}
        "" if args.prompt.is_empty() => args::refuse("run", "there is no prompt: say what to ask"),
        _ => return Ok(words),
    }
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt).context("the prompt cannot be read from standard input")?;
    // The end of the last line is `echo`'s, and not a part of what is asked.
    prompt.truncate(prompt.trim_end_matches(['\n', '\r']).len());
    Ok(prompt)
}

fn exit(outcome: &Outcome) -> Exit {
    match &*outcome.ending {
        Ending::Completed { .. } => Exit::Completed,
        Ending::Cancelled { .. } => Exit::Cancelled,
        Ending::Failed(_) | Ending::Lost => Exit::Failed,
    }
}
