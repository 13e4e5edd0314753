//! `andon run`: one prompt, then exit.

use std::io::{IsTerminal, Read};

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::{Ending, Outcome, RunState};
use anyhow::{Context, bail};
use serde_json::json;
use tokio::time::timeout;

use super::conversation::Conversation;
use super::start::{Start, TalkRequest, start};
use crate::args::{self, RunArgs};
use crate::client::Target;
use crate::exit::Exit;
use crate::follow::{Approver, Listener, Subject, follow};
use crate::paste::quoted;
use crate::print::{Style, aside, write_line};
use crate::show::{JsonLines, Questions, Screen, Streams, receipt, recovered, session_shown};
use crate::terminal::input::Input;
use crate::terminal::interrupt::Interrupts;

/// How long to wait for better usage figures.
pub(crate) const LAST_WORD: Duration = Duration::from_secs(10);

/// Runs one prompt.
pub(crate) async fn run_once(args: &RunArgs) -> anyhow::Result<Exit> {
    // Read before signals are handled: there is no run yet, and Ctrl-C simply ends the program.
    let prompt = prompt(args)?;
    if prompt.trim().is_empty() {
        args::refuse("run", "the prompt is empty");
    }
    let wanted = TalkRequest {
        program: "andon run",
        args: &args.conversation,
        run_id: args.run_id.as_ref(),
        needs_a_server: args.detach.then_some("--detach").or(args.conversation.served.needs_a_server()),
    };
    let Start { conversation, target, recovered: found, .. } = start(&wanted).await?;
    for line in recovered(&found, Some(conversation.key()), &target) {
        aside(&format!("{line}\n"));
    }
    if args.detach {
        return detach(args, &prompt, &conversation, &target).await;
    }
    let mut interrupts = Interrupts::listen()?;
    let mut input = if std::io::stdin().is_terminal() { Some(Input::open()?) } else { None };
    let mut approver = match &mut input {
        _ if args.yes => Approver::Yes,
        Some(input) => Approver::Person(input),
        None => Approver::Nobody,
    };
    let mut output = if args.json { Output::Json(JsonLines) } else { Output::Text(Screen::new(Streams::Apart)) };
    if matches!(conversation, Conversation::Local(_)) {
        // On a server, --when-busy says what to do about a run in progress, which may be somebody else's.
        follow_earlier(&conversation, &target, &interrupts, &mut approver).await?;
    }
    let aim = |run: &Subject| interrupts.aim_at_first(run.target());
    let (run, aimed) = conversation.start(&prompt, args.run_id.clone(), aim).await?;
    let (outcome, shown) = follow(&run, output.listener(), &mut approver).await?;
    drop(aimed);
    let outcome = with_last_word(&run, outcome, &mut interrupts).await;
    // If the output was closed, only the exit code says how the run ended.
    let _ = shown.and_then(|()| output.account(&outcome, &conversation, &target));
    conversation.leave().await?;
    Ok(exit(&outcome))
}

/// Starts a run on a server, and leaves it there.
async fn detach(args: &RunArgs, prompt: &str, conversation: &Conversation, target: &Target) -> anyhow::Result<Exit> {
    let (run, ()) = conversation.start(prompt, args.run_id.clone(), |_| ()).await?;
    let (id, key) = (run.id(), conversation.key());
    if args.json {
        let told = json!({"run_id": id, "app": key.app, "user": key.user, "session": key.session});
        write_line(&told.to_string())?;
        return Ok(Exit::Completed);
    }
    write_line(id.as_str())?;
    let (dim, watch, stop) =
        (Style::DIM, target.command(&format!("watch {id}")), target.command(&format!("cancel {id}")));
    aside(&format!("{dim}It runs on {}, in session {}.{dim:#}\n", target.shown(), session_shown(key)));
    aside(&format!("{dim}To watch it: {watch}\nTo stop it:  {stop}{dim:#}\n"));
    Ok(Exit::Completed)
}

/// Waits a little for late usage figures, which would be lost with the program. Any signal ends the wait.
///
/// A server waits for them itself, and adds them to its receipt.
async fn with_last_word(run: &Subject, outcome: Arc<Outcome>, interrupts: &mut Interrupts) -> Arc<Outcome> {
    let Subject::Local(run) = run else { return outcome };
    if let Some(awaited) = outcome.receipt.model_calls.iter().find_map(|call| call.pending) {
        let dim = Style::DIM;
        aside(&format!("{dim}{}; Ctrl-C skips this{dim:#}\n", receipt::pending_words(awaited)));
    }
    let learned = tokio::select! {
        biased;
        _ = interrupts.while_idle() => None,
        learned = timeout(LAST_WORD, run.last_word()) => learned.ok().flatten(),
    };
    match learned {
        Some(receipt) => Arc::new((*outcome).clone().with_receipt(receipt)),
        None => outcome,
    }
}

/// Follows the runs that a dead program left in this session: they come first, and only on standard error.
async fn follow_earlier(
    conversation: &Conversation,
    target: &Target,
    interrupts: &Interrupts,
    approver: &mut Approver<'_>,
) -> anyhow::Result<()> {
    while let Some(earlier) = conversation.current().await? {
        if matches!((&approver, earlier.state), (Approver::Nobody, RunState::Waiting)) {
            let session = &conversation.key().session;
            let talk = target.command(&format!("chat --session {}", quoted(session.as_str())));
            bail!("a run in session {session} needs approval: decide in `{talk}`, or use --yes");
        }
        let _aimed = interrupts.aim_at(earlier.run.target());
        let (outcome, shown) = follow(&earlier.run, &mut Questions, approver).await?;
        shown?;
        aside(&receipt::short(&outcome).to_string());
    }
    Ok(())
}

/// How a run is written.
pub(crate) enum Output {
    Text(Screen),
    Json(JsonLines),
}

impl Output {
    pub(crate) fn listener(&mut self) -> &mut dyn Listener {
        match self {
            Self::Text(screen) => screen,
            Self::Json(lines) => lines,
        }
    }

    /// Writes how it ended.
    pub(crate) fn end(&mut self, outcome: &Outcome) -> std::io::Result<()> {
        match self {
            Self::Text(screen) => screen.account(outcome, None),
            Self::Json(lines) => lines.receipt(&outcome.receipt),
        }
    }

    fn account(&mut self, outcome: &Outcome, conversation: &Conversation, target: &Target) -> std::io::Result<()> {
        self.end(outcome)?;
        match self {
            Self::Text(screen) if target.is_kept() => {
                let (dim, session) = (Style::DIM, session_shown(conversation.key()));
                screen.note(&format!("{dim}session {session}{dim:#}"))
            }
            Self::Text(_) | Self::Json(_) => Ok(()),
        }
    }
}

fn prompt(args: &RunArgs) -> anyhow::Result<String> {
    let words = args.prompt.join(" ");
    match words.as_str() {
        "-" => {}
        "" if args.prompt.is_empty() && !std::io::stdin().is_terminal() => {}
        "" if args.prompt.is_empty() => args::refuse("run", "there is no prompt"),
        _ => return Ok(words),
    }
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt).context("cannot read the prompt from standard input")?;
    // `echo` adds the end of the last line: it is not part of the prompt.
    prompt.truncate(prompt.trim_end_matches(['\n', '\r']).len());
    Ok(prompt)
}

/// The exit code that says how a run ended.
pub(crate) fn exit(outcome: &Outcome) -> Exit {
    match &*outcome.ending {
        Ending::Completed { .. } => Exit::Completed,
        Ending::Cancelled { .. } => Exit::Cancelled,
        Ending::Failed(_) | Ending::Lost => Exit::Failed,
        #[cfg(not(andon_whole))]
        _ => Exit::Failed,
    }
}
